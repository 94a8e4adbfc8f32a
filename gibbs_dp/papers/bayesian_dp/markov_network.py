"""Rows that form a Markov network: potentials on cliques of an undirected graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp._extras import require
from gibbs_dp.information import checks
from gibbs_dp.papers.bayesian_dp.factors import Factor, eliminate
from gibbs_dp.papers.bayesian_dp.graph_law import GraphLaw


@dataclass(frozen=True, eq=False)
class MarkovNetwork(GraphLaw):
    """An undirected graph with weights on cliques; each node is a row.

    ``P(x)`` is proportional to the product of all potentials, and sets separate in the graph
    itself (Zhao 2019, where both kinds of network have quilts). Needs networkx (extra
    ``adaptive``).

    Parameters
    ----------
    graph
        A ``networkx.Graph``; rows are its nodes in the order of ``graph.nodes``.
    potentials
        From tuples of nodes that are pairwise joined, ``(a,)``, ``(a, b)`` or more, to tables of
        nonnegative weights, an axis for each node of the tuple. Every node is in one at least.

    Raises
    ------
    ValueError
        If a tuple is no clique, a table has another shape or a negative weight, or no dataset has
        positive weight.

    Examples
    --------
    >>> import networkx as nx
    >>> square = MarkovNetwork.ising(nx.grid_2d_graph(2, 2), 0.5)
    >>> square.nodes, sorted(square.blanket(0)), square.nearby(0, {1, 2})
    (((0, 0), (0, 1), (1, 0), (1, 1)), [1, 2], frozenset())
    """

    graph: Any
    potentials: Mapping[Any, ArrayLike]

    def __post_init__(self) -> None:
        nx = require("networkx")
        is_graph = isinstance(self.graph, nx.Graph) and not self.graph.is_directed()
        if not is_graph or self.graph.is_multigraph() or self.graph.number_of_nodes() == 0:
            raise ValueError("graph must be a networkx.Graph with at least one node; pass one.")
        if any(nx.selfloop_edges(self.graph)):
            raise ValueError("graph: a node is joined to itself; remove that edge.")
        sizes: dict[Hashable, int] = {}
        for clique, given in self.potentials.items():
            _require_clique(self.graph, clique)
            table = np.asarray(given, dtype=np.float64)
            if table.ndim != len(clique) or 0 in table.shape:
                raise ValueError(
                    f"potentials[{clique!r}] must have an axis for each of its {len(clique)} "
                    f"nodes, got shape {list(table.shape)}."
                )
            if not np.all(np.isfinite(table)) or np.any(table < 0):
                raise ValueError(
                    f"potentials[{clique!r}] must be finite and >= 0; give weights, not their logs."
                )
            for node, size in zip(clique, table.shape, strict=True):
                if sizes.setdefault(node, size) != size:
                    raise ValueError(
                        f"potentials: node {node!r} has {sizes[node]} values in one table and "
                        f"{size} in another; give it the same in all."
                    )
        if set(sizes) != set(self.graph.nodes):
            raise ValueError(
                "potentials: some node of the graph is in none; give it (node,): weights."
            )
        if any(np.any(factor.table == 0) for factor in self.factors):
            eliminate(self.factors, [])  # says so where no dataset is possible

    @classmethod
    def ising(
        cls, graph: Any, coupling: float, field: float | Mapping[Hashable, float] = 0.0
    ) -> MarkovNetwork:
        """Rows of two values, drawn to those that they are joined to.

        ``P(x)`` is proportional to ``exp(coupling sum s_u s_v + sum field_v s_v)`` with ``s = -1``
        for value 0 and ``+1`` for value 1.

        Parameters
        ----------
        graph
            A ``networkx.Graph``.
        coupling
            Positive: neighbours agree; negative: they differ.
        field
            Of all nodes, or of each.

        Returns
        -------
        MarkovNetwork
            With a table for each edge and node.

        Raises
        ------
        ValueError
            If an argument is not finite, or a node has no field.
        """
        sign = np.array([-1.0, 1.0])
        pair = np.exp(checks.real("coupling", coupling) * sign[:, None] * sign)
        potentials: dict[tuple[Hashable, ...], Float[np.ndarray, ...]] = {}
        for u, v in graph.edges:
            potentials[u, v] = pair
        for v in graph.nodes:
            if isinstance(field, Mapping) and v not in field:
                raise ValueError(f"field: node {v!r} has none; give one for each node.")
            own = field[v] if isinstance(field, Mapping) else field
            potentials[(v,)] = np.exp(checks.real("field", own) * sign)
        return cls(graph, potentials)

    @cached_property
    def _separating(self) -> Any:
        nx = require("networkx")
        numbers = {node: i for i, node in enumerate(self.nodes)}
        return nx.relabel_nodes(self.graph, numbers)

    def _own_factors(self) -> list[Factor]:
        numbers = {node: i for i, node in enumerate(self.nodes)}
        return [
            Factor(tuple(numbers[v] for v in clique), np.asarray(table, dtype=np.float64))
            for clique, table in self.potentials.items()
        ]


def _require_clique(graph: Any, clique: Any) -> None:
    if not isinstance(clique, tuple) or not clique or not all(v in graph for v in clique):
        raise ValueError(
            f"potentials: keys are tuples of nodes of the graph, such as (a,) or (a, b), got "
            f"{clique!r}."
        )
    if not all(graph.has_edge(u, v) for u, v in combinations(clique, 2)):
        raise ValueError(
            f"potentials: the nodes of {clique!r} are not joined pairwise; add edges to the graph."
        )
