"""Rows that depend along a graph: Markov and Bayesian networks, the Markov quilt mechanism."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp._extras import require
from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks
from gibbs_dp.papers.bayesian_dp.bdp import REACH, Form, QuiltedRows, quilt_profile
from gibbs_dp.papers.bayesian_dp.row_law import (
    Factor,
    FactorLaw,
    NodeSet,
    RowLaw,
    absorbed,
    eliminate,
)
from gibbs_dp.privacy.noise import laplace_release


class GraphLaw(QuiltedRows, FactorLaw):
    """What Bayesian and Markov networks share, on a graph in which sets separate.

    That graph joins all rows that a factor has: the moral graph of a Bayesian network, the graph
    itself of a Markov network.
    """

    _kind = "network"
    graph: Any

    @cached_property
    @abstractmethod
    def _separating(self) -> Any:
        """Undirected graph on row numbers."""

    @abstractmethod
    def _own_factors(self) -> list[Factor]:
        """Tables as they were given."""

    @cached_property
    def factors(self) -> list[Factor]:
        """Tables whose product is the law, up to a constant; none inside another."""
        return absorbed(self._own_factors())

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each row."""
        found = {v: s for f in self.factors for v, s in zip(f.scope, f.table.shape, strict=True)}
        return tuple(found[v] for v in range(self.length))

    @cached_property
    def nodes(self) -> tuple[Hashable, ...]:
        """Nodes; row ``i`` is ``nodes[i]``."""
        return tuple(self.graph.nodes)

    @property
    def length(self) -> int:
        """Number of rows."""
        return len(self.nodes)

    def blanket(self, row: int) -> NodeSet:
        """Markov blanket: neighbours in the graph that separates."""
        self._require_row(row)
        return frozenset(self._separating.neighbors(row))

    def nearby(self, row: int, quilt: Iterable[int]) -> NodeSet:
        """Rows that the quilt leaves connected to ``row``, ``row`` not counted.

        Given the quilt, all rows outside are independent of ``row`` and these together.
        """
        self._require_row(row)
        nx = require("networkx")
        members = frozenset(quilt)
        if row in members:
            raise ValueError(f"quilt: row {row} cannot be in its own quilt; leave it out.")
        rest = self._separating.subgraph(set(self._separating.nodes) - members)
        return frozenset(nx.node_connected_component(rest, row)) - {row}

    def quilts(self, row: int, max_size: int | None = None) -> dict[NodeSet, NodeSet]:
        """Every Markov quilt of a row and its nearby set, the trivial one (empty quilt) first.

        Sets that separate no more than a smaller one are left out.
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
                edge = set().union(*(self._separating.neighbors(v) for v in near | {row}))
                if quilt <= edge:
                    found[quilt] = near
        return found

    def sphere_quilt(self, row: int, radius: int) -> NodeSet:
        """Rows at this distance that lead further: a quilt of networks of any size.

        Empty where nothing is further away. Its nearby set is `nearby`.
        """
        self._require_row(row)
        nx = require("networkx")
        away = nx.single_source_shortest_path_length(self._separating, row, cutoff=radius + 1)
        return frozenset(
            v
            for v, far in away.items()
            if far == radius and any(away[u] > radius for u in self._separating.neighbors(v))
        )

    def law(
        self, rows: Sequence[int], known: Mapping[int, int] | None = None
    ) -> Float[np.ndarray, ...]:
        """Law of some rows given values of others, by variable elimination."""
        given = dict(known or {})
        wanted = list(rows)
        for row in (*wanted, *given):
            self._require_row(row)
        if len(set(wanted)) != len(wanted) or set(wanted) & set(given):
            raise ValueError("rows and known must be different rows; name each once.")
        for row, value in given.items():
            if not 0 <= value < self.sizes[row]:
                raise ValueError(
                    f"known: row {row} has values 0..{self.sizes[row] - 1}, got {value}."
                )
        return eliminate([f.given(given) for f in self.factors], wanted)

    def joint(self) -> Float[np.ndarray, ...]:
        """Law of all rows, an axis each: small networks only."""
        require_cells("datasets", int(np.prod([float(s) for s in self.sizes])))
        return eliminate(self.factors, range(self.length))

    def _require_row(self, row: int) -> None:
        if not 0 <= row < self.length:
            raise ValueError(f"row must lie in 0..{self.length - 1}, got {row}.")


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


@dataclass(frozen=True, eq=False)
class MarkovQuiltMechanism:
    """Laplace noise of scale ``L max_i min_quilts (|N| + 1)/(epsilon - influence)``.

    ``epsilon``-Pufferfish: for an adversary who knows the model and nothing else, no pair of
    values of one row is told apart by more than ``epsilon``. One who knows other rows is another
    matter (`bdp_epsilon`), and releases do not compose as DP's do (only with one fixed choice of
    quilts, as the paper shows).

    Parameters
    ----------
    model
        A `MarkovChain`, a `BayesianNetwork` or a `MarkovNetwork`.
    epsilon
        Nats.
    lipschitz
        ``L``: how far changing one row moves the query (L1, for vectors).
    form
        How influences are found, as in `bdp_epsilon`.
    reach
        Largest distance of a quilt in chains and large networks; a larger one can only need less
        noise.

    Raises
    ------
    ValueError
        If an argument is out of range, or the form is not for this model.

    Examples
    --------
    >>> from gibbs_dp.papers.bayesian_dp.markov_chain import MarkovChain
    >>> chain = MarkovChain([[0.7, 0.3], [0.3, 0.7]], 100)
    >>> exact = MarkovQuiltMechanism(chain, 1.0)
    >>> spectral = MarkovQuiltMechanism(chain, 1.0, form="spectral")
    >>> round(exact.scale, 4), round(spectral.scale, 4), 100.0  # the last: all rows as one
    (6.7236, 14.081, 100.0)
    """

    model: RowLaw
    epsilon: float
    lipschitz: float = 1.0
    form: Form | None = None
    reach: int = REACH

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon)
        checks.positive("lipschitz", self.lipschitz)
        if not math.isfinite(self.scale):
            raise ValueError("epsilon: no quilt needs finite noise; raise epsilon.")

    @cached_property
    def scale(self) -> float:
        """Scale of the noise, in the unit of the query."""
        profile = quilt_profile(self.model, form=self.form, reach=self.reach, knows_others=False)
        return self.lipschitz * profile.noise_scale(self.epsilon)

    def release(self, values: Float[np.ndarray, " values"]) -> Float[np.ndarray, " values"]:
        """Add secret noise, drawn exactly (`gibbs_dp.privacy.noise`)."""
        return laplace_release(values, self.scale)


# Rows that form a Bayesian network: its tables, and the moral graph in which sets separate.


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
                tuple(numbers[v] for v in (*self.graph.predecessors(node), node)), self._table(node)
            )
            for node in self.nodes
        ]

    def _table(self, node: Hashable) -> Float[np.ndarray, ...]:
        return np.asarray(self.tables[node], dtype=np.float64)
