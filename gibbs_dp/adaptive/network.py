"""Rows that form a Bayesian network: moral graph, separation, and the joint law of a small one."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp._extras import require
from gibbs_dp.adaptive.bdp import QuiltProfile, quilt_profile
from gibbs_dp.adaptive.row_law import NodeSet, RowLaw
from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks


@dataclass(frozen=True, eq=False)
class BayesianNetwork(RowLaw):
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
        nx = require("networkx", extra="adaptive")
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

    @property
    def nodes(self) -> tuple[Hashable, ...]:
        """Nodes; row ``i`` is ``nodes[i]``."""
        return tuple(self.graph.nodes)

    @property
    def length(self) -> int:
        """Number of rows."""
        return len(self.nodes)

    @cached_property
    def _moral(self) -> Any:
        """Parents joined and arrows dropped, on row numbers."""
        nx = require("networkx", extra="adaptive")
        numbers = {node: i for i, node in enumerate(self.nodes)}
        return nx.relabel_nodes(nx.moral_graph(self.graph), numbers)

    def blanket(self, row: int) -> NodeSet:
        """Markov blanket: neighbours in the moral graph."""
        self._require_row(row)
        return frozenset(self._moral.neighbors(row))

    def nearby(self, row: int, quilt: Iterable[int]) -> NodeSet:
        """Rows that the quilt leaves connected to ``row`` in the moral graph, ``row`` not counted.

        Given the quilt, all rows outside are independent of ``row`` and these together.

        Raises
        ------
        ValueError
            If ``row`` is in the quilt.
        """
        self._require_row(row)
        nx = require("networkx", extra="adaptive")
        members = frozenset(quilt)
        if row in members:
            raise ValueError(f"quilt: row {row} cannot be in its own quilt; leave it out.")
        rest = self._moral.subgraph(set(self._moral.nodes) - members)
        return frozenset(nx.node_connected_component(rest, row)) - {row}

    def quilts(self, row: int, max_size: int | None = None) -> dict[NodeSet, NodeSet]:
        """Every Markov quilt of a row and its nearby set, the trivial one (empty quilt) first.

        Sets that separate no more than a smaller one are left out.

        Parameters
        ----------
        row
            Counted from 0.
        max_size
            Largest quilt; all sizes by default. Any subset of quilts is valid.

        Returns
        -------
        dict
            From each quilt to its nearby set.
        """
        others = [i for i in range(self.length) if i != row]
        limit = len(others) if max_size is None else min(max_size, len(others))
        found: dict[NodeSet, NodeSet] = {}
        for size in range(limit + 1):
            require_cells("quilts of one row", len(found) + len(others) ** min(size, 2))
            for members in itertools.combinations(others, size):
                quilt = frozenset(members)
                near = self.nearby(row, quilt)
                # A node with no neighbour on the near side adds nothing to the separation.
                edge = set().union(*(self._moral.neighbors(v) for v in near | {row}))
                if quilt <= edge:
                    found[quilt] = near
        return found

    def joint(self) -> Float[np.ndarray, ...]:
        """Law of all rows, an axis each, by enumeration.

        Raises
        ------
        ValueError
            If there are too many datasets.
        """
        sizes = [self._table(node).shape[-1] for node in self.nodes]
        require_cells("datasets", int(np.prod([float(s) for s in sizes])))
        numbers = {node: i for i, node in enumerate(self.nodes)}
        operands: list[Any] = []
        for node in self.nodes:
            parents = [numbers[parent] for parent in self.graph.predecessors(node)]
            operands += [self._table(node), [*parents, numbers[node]]]
        found = np.einsum(*operands, list(range(self.length)), optimize=self.length > 2)
        return np.asarray(found / found.sum())

    @cached_property
    def _quilt_profile(self) -> QuiltProfile:
        return quilt_profile(self)

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Bayesian DP, on these ``n`` rows, of a ``dp_epsilon``-DP (replace-one) mechanism.

        As `gibbs_dp.adaptive.bdp_epsilon`, by Lemma 2. For ``rows=`` of
        `gibbs_dp.privacy.account`.

        Raises
        ------
        ValueError
            If ``n`` is not the number of these rows, or they are too many to enumerate.
        """
        if n != self.length:
            raise ValueError(
                f"rows: the network has {self.length} rows and the dataset {n}; give one of the "
                "dataset's length."
            )
        return self._quilt_profile.bdp_epsilon(dp_epsilon)

    def _table(self, node: Hashable) -> Float[np.ndarray, ...]:
        return np.asarray(self.tables[node], dtype=np.float64)

    def _require_row(self, row: int) -> None:
        if not 0 <= row < self.length:
            raise ValueError(f"row must lie in 0..{self.length - 1}, got {row}.")
