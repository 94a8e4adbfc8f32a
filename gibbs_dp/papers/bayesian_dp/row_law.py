"""What the lemmas on Bayesian DP need of a law of dependent rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from gibbs_dp.papers.bayesian_dp.factors import Factor

NodeSet = frozenset[int]


class RowLaw(ABC):
    """A law of ``length`` rows whose Markov quilts are known."""

    if TYPE_CHECKING:  # a field of some, computed by others

        @property
        def length(self) -> int:
            """Number of rows."""

    @abstractmethod
    def blanket(self, row: int) -> NodeSet:
        """Markov blanket of a row."""

    @abstractmethod
    def quilts(self, row: int) -> dict[NodeSet, NodeSet]:
        """Quilts of a row and their nearby sets, the trivial one (empty quilt) among them."""

    @abstractmethod
    def joint(self) -> Float[np.ndarray, ...]:
        """Law of all rows, an axis each, by enumeration."""


class FactorLaw(RowLaw):
    """A product of tables over few rows each."""

    @cached_property
    @abstractmethod
    def factors(self) -> list[Factor]:
        """Tables whose product is the law, up to a constant; none inside another."""


class ChainLaw(RowLaw):
    """A homogeneous Markov chain on a few states."""

    @property
    @abstractmethod
    def matrix(self) -> Float[np.ndarray, "states states"]:
        """Transition matrix."""

    @property
    @abstractmethod
    def num_states(self) -> int:
        """Number of states."""

    @property
    @abstractmethod
    def stationary(self) -> Float[np.ndarray, " states"]:
        """The law that a step leaves unchanged."""

    @property
    @abstractmethod
    def is_stationary(self) -> bool:
        """Whether every row has the stationary law."""

    @property
    @abstractmethod
    def absolute_gap(self) -> float:
        """Absolute spectral gap, of a reversible chain."""

    @abstractmethod
    def marginal(self, row: int) -> Float[np.ndarray, " states"]:
        """Law of a row."""
