"""The Markov quilt mechanism (Song, Wang & Chaudhuri 2017) on networks of correlated rows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike

from gibbs_dp._extras import require
from gibbs_dp.information import checks
from gibbs_dp.papers.bayesian_dp.bdp import REACH, quilt_profile
from gibbs_dp.papers.bayesian_dp.chain_influence import Form
from gibbs_dp.papers.bayesian_dp.factors import Factor
from gibbs_dp.papers.bayesian_dp.graph_law import GraphLaw
from gibbs_dp.papers.bayesian_dp.row_law import RowLaw
from gibbs_dp.privacy.noise import laplace_release


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

    def simulate(self, key: PRNGKeyArray, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Add noise of JAX's generator: the law of a release, for vmapped simulation only."""
        return values + self.scale * jax.random.laplace(key, values.shape, values.dtype)

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
                tuple(numbers[v] for v in (*self.graph.predecessors(node), node)),
                self._table(node),
            )
            for node in self.nodes
        ]

    def _table(self, node: Hashable) -> Float[np.ndarray, ...]:
        return np.asarray(self.tables[node], dtype=np.float64)
