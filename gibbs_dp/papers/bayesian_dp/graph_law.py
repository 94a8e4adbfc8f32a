"""Rows that form a network, directed or not: separation, quilts, and laws by elimination."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from gibbs_dp._extras import require
from gibbs_dp.exact.types import require_cells
from gibbs_dp.papers.bayesian_dp.bdp import QuiltProfile, quilt_profile
from gibbs_dp.papers.bayesian_dp.factors import Factor, absorbed, eliminate
from gibbs_dp.papers.bayesian_dp.row_law import FactorLaw, NodeSet


class GraphLaw(FactorLaw):
    """What Bayesian and Markov networks share, on a graph in which sets separate.

    That graph joins all rows that a factor has: the moral graph of a Bayesian network, the graph
    itself of a Markov network.
    """

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

        Raises
        ------
        ValueError
            If ``row`` is in the quilt.
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
                edge = set().union(*(self._separating.neighbors(v) for v in near | {row}))
                if quilt <= edge:
                    found[quilt] = near
        return found

    def sphere_quilt(self, row: int, radius: int) -> NodeSet:
        """Rows at this distance that lead further: a quilt of networks of any size.

        Empty where nothing is further away. Its nearby set is `nearby`.

        Parameters
        ----------
        row
            Counted from 0.
        radius
            Distance from it in the graph that separates, from 1.

        Returns
        -------
        frozenset
            The quilt.
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
        """Law of some rows given values of others, by variable elimination.

        Parameters
        ----------
        rows
            Rows, in the order of the result's axes.
        known
            From rows to values, counted from 0.

        Returns
        -------
        array
            An axis for each of ``rows``; sums to 1.

        Raises
        ------
        ValueError
            If rows repeat, or are known, a table on the way is too large, or what is known has
            probability 0.
        """
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
        """Law of all rows, an axis each: small networks only.

        Raises
        ------
        ValueError
            If there are too many datasets.
        """
        require_cells("datasets", int(np.prod([float(s) for s in self.sizes])))
        return eliminate(self.factors, range(self.length))

    @cached_property
    def _quilt_profile(self) -> QuiltProfile:
        return quilt_profile(self)

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Bayesian DP, on these ``n`` rows, of a ``dp_epsilon``-DP (replace-one) mechanism.

        As `gibbs_dp.papers.bayesian_dp.bdp_epsilon`, by Lemma 2. For ``rows=`` of
        `gibbs_dp.privacy.account`.

        Raises
        ------
        ValueError
            If ``n`` is not the number of these rows.
        """
        if n != self.length:
            raise ValueError(
                f"rows: the network has {self.length} rows and the dataset {n}; give one of the "
                "dataset's length."
            )
        return self._quilt_profile.bdp_epsilon(dp_epsilon)

    def _require_row(self, row: int) -> None:
        if not 0 <= row < self.length:
            raise ValueError(f"row must lie in 0..{self.length - 1}, got {row}.")
