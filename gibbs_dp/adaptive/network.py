"""Rows that form a Bayesian network: its tables, and the moral graph in which sets separate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp._extras import require
from gibbs_dp.adaptive.factors import Factor
from gibbs_dp.adaptive.graph_law import GraphLaw
from gibbs_dp.information import checks


@dataclass(frozen=True, eq=False)
class BayesianNetwork(GraphLaw):
    """A directed acyclic graph with a table per node; each node is a row.

    Needs networkx (extra ``adaptive``).

    Parameters
    ----------
    graph
        A ``networkx.DiGraph``; rows are its nodes in the order of ``graph.nodes``.
    tables
        Per node ``P(node | parents)``, ``[values of parent 1, ..., values of node]`` with parents
        in the order of ``graph.predecessors``; each last axis is a law.

    Raises
    ------
    ValueError
        If there is a cycle, or a table is missing, has another shape or is not a law.

    Examples
    --------
    >>> import networkx as nx
    >>> collider = BayesianNetwork(
    ...     nx.DiGraph([("a", "c"), ("b", "c")]),
    ...     {"a": [0.5, 0.5], "b": [0.5, 0.5],
    ...      "c": [[[0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]]]})
    >>> collider.nodes, collider.joint().shape, sorted(collider.blanket(0))
    (('a', 'c', 'b'), (2, 2, 2), [1, 2])
    """

    graph: Any
    tables: Mapping[Hashable, ArrayLike]

    def __post_init__(self) -> None:
        nx = require("networkx")
        if not isinstance(self.graph, nx.DiGraph) or self.graph.number_of_nodes() == 0:
            raise ValueError("graph must be a networkx.DiGraph with at least one node; pass one.")
        if not nx.is_directed_acyclic_graph(self.graph):
            raise ValueError("graph: it has a cycle, so it is no Bayesian network; break it.")
        if set(self.tables) != set(self.graph.nodes):
            raise ValueError("tables must have one entry for each node of the graph, and no other.")
        for node in self.graph.nodes:
            table = self._table(node)
            sizes = [self._table(parent).shape[-1] for parent in self.graph.predecessors(node)]
            if table.ndim != len(sizes) + 1 or list(table.shape[:-1]) != sizes:
                raise ValueError(
                    f"tables[{node!r}] must have shape {[*sizes, 'values']} (parents first), got "
                    f"{list(table.shape)}."
                )
            for law in table.reshape(-1, table.shape[-1]):
                checks.law(f"tables[{node!r}]: each last axis", law)

    @cached_property
    def _separating(self) -> Any:
        """Moral graph, parents joined and arrows dropped, on row numbers."""
        nx = require("networkx")
        numbers = {node: i for i, node in enumerate(self.nodes)}
        return nx.relabel_nodes(nx.moral_graph(self.graph), numbers)

    def _own_factors(self) -> list[Factor]:
        numbers = {node: i for i, node in enumerate(self.nodes)}
        return [
            Factor(
                tuple(numbers[v] for v in (*self.graph.predecessors(node), node)),
                self._table(node),
            )
            for node in self.nodes
        ]

    def _table(self, node: Hashable) -> Float[np.ndarray, ...]:
        return np.asarray(self.tables[node], dtype=np.float64)
