"""A sum over rows of few values, with Laplace noise: what every adversary learns, exactly.

Yang, Sato & Nakagawa (2015) perturb sums of rows that depend on each other. Here the law of the
rows is any that can be enumerated, a Markov chain or a network. Given ``x_i`` and ``x_K`` the sum
has finitely many values, and between two of them its density with the noise is a mixture of
``e^{y/b}`` and ``e^{-y/b}``. The ratio of two such densities is monotone there and constant beyond
the ends, so that its supremum is at a value of the sum: no output is left out.

That privacy is poorest for who knows least, as for Gaussian rows that attract each other, is not so
here: what is known may hold others in a balance in which they follow row ``i`` more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks
from gibbs_dp.papers.bayesian_dp.row_law import (
    NodeSet,
    RowLaw,
    adversaries,
    grouped,
    worst_ratio,
)


class WorstLeak(NamedTuple):
    """The adversary to whom a noisy sum says most."""

    # Nats.
    value: float
    row: int
    known: NodeSet


@dataclass(frozen=True, eq=False)
class DiscreteSum:
    """The sum of a number for each row, under a law of the rows.

    Parameters
    ----------
    model
        A `MarkovChain`, a `BayesianNetwork` or a `MarkovNetwork`, of at most 10 rows.
    values
        For each row the numbers that its values stand for, ``[rows][values]``; their indices 0, 1,
        ... by default.

    Raises
    ------
    ValueError
        If the numbers do not fit or are not finite, or there are too many datasets or sums.

    References
    ----------
    Yang, Sato & Nakagawa (2015), for rows that are not Gaussian.

    Examples
    --------
    >>> from gibbs_dp.papers.bayesian_dp import MarkovChain
    >>> total = DiscreteSum(MarkovChain([[0.8, 0.2], [0.2, 0.8]], 5))
    >>> wide, narrow = total.leakage(2.0), total.leakage(0.5)
    >>> round(wide.value, 4), sorted(wide.known)
    (1.4239, [])
    >>> round(narrow.value, 4), sorted(narrow.known)
    (4.5153, [4])
    """

    model: RowLaw
    values: Sequence[ArrayLike] | None = None

    def __post_init__(self) -> None:
        _ = self._by_sum

    def leakage(self, scale: float) -> WorstLeak:
        """Bayesian DP of the sum with ``Lap(scale)``, against every adversary ``(i, K)``.

        Parameters
        ----------
        scale
            Of the noise, in the unit of the sum.

        Returns
        -------
        WorstLeak
            ``sup log P(y | x_i, x_K) / P(y | x_i', x_K)``, nats, and an adversary who sees it.

        Raises
        ------
        ValueError
            If the scale is not positive.
        """
        found = (
            WorstLeak(self.leakage_to(scale, row, known), row, known)
            for row, known in adversaries(self.model.length)
        )
        return max(found, key=lambda leak: leak.value)

    def leakage_to(self, scale: float, row: int, known: Iterable[int]) -> float:
        """Leakage about one row to one who knows others, nats.

        Parameters
        ----------
        scale
            Of the noise.
        row
            ``i``, counted from 0.
        known
            ``K``.

        Returns
        -------
        float
            The supremum over outputs and values.

        Raises
        ------
        ValueError
            If the scale is not positive, or a row is out of range or known itself.
        """
        checks.positive("scale", scale)
        told, n = frozenset(known), self.model.length
        if row in told or not told | {row} <= set(range(n)):
            raise ValueError(
                f"row and known must be different rows in 0..{n - 1}, got {row} and {sorted(told)}."
            )
        laws = grouped(self._by_sum, row, told, frozenset({n}))  # [x_K, x_i, sum]
        total = laws.sum(axis=2, keepdims=True)
        with np.errstate(divide="ignore"):
            logs = np.log(laws) - np.log(np.where(total > 0, total, 1.0))
        return worst_ratio(self._log_density(logs, scale), total[:, :, 0] > 0)

    def noise_scale(self, epsilon: float) -> float:
        """Least scale at which the noisy sum is ``epsilon``-Bayesian DP.

        More noise tells less: ``Lap(b')`` is ``Lap(b)`` plus, with probability
        ``1 - (b / b')^2``, ``Lap(b')``.

        Parameters
        ----------
        epsilon
            Nats.

        Returns
        -------
        float
            The scale, in the unit of the sum; 0 if the sum says nothing about any row.

        Raises
        ------
        ValueError
            If epsilon is not positive.
        """
        checks.positive("epsilon", epsilon)
        spans = [float(np.ptp(numbers)) for numbers in self._numbers]
        high = self.model.length * max(spans) / epsilon  # all rows as one
        if high == 0:
            return 0.0
        low = high = high * (1 + 1e-9)  # where rounding cannot exceed epsilon
        while self.leakage(low).value <= epsilon:
            low /= 2
            if low < 1e-9 * high:
                return 0.0

        def excess(log_scale: float) -> float:
            return self.leakage(math.exp(log_scale)).value - epsilon

        end = math.log(min(high, 2 * low))
        return math.exp(float(brentq(excess, math.log(low), end, xtol=1e-12, rtol=1e-12)))

    @cached_property
    def _numbers(self) -> list[Float[np.ndarray, " values"]]:
        shape = self.model.joint().shape
        given = [np.arange(size) for size in shape] if self.values is None else self.values
        found = [np.asarray(numbers, dtype=np.float64) for numbers in given]
        is_bad = any(not np.isfinite(numbers).all() for numbers in found)
        if is_bad or [numbers.shape for numbers in found] != [(size,) for size in shape]:
            raise ValueError(
                f"values must be finite numbers, one for each value of each row ({list(shape)}), "
                f"got shapes {[list(numbers.shape) for numbers in found]}."
            )
        return found

    @cached_property
    def _sums(self) -> tuple[Float[np.ndarray, " sums"], np.ndarray]:
        """Values of the sum, ascending, and which of them every dataset has."""
        total = sum(np.ix_(*self._numbers), start=np.zeros(()))
        return np.unique(total, return_inverse=True)

    @cached_property
    def _by_sum(self) -> Float[np.ndarray, ...]:
        """Law of all rows, an axis each, and of their sum along the last axis."""
        joint = self.model.joint()
        places, home = self._sums
        require_cells("datasets x sums", joint.size * places.size)
        found = np.zeros((joint.size, places.size))
        found[np.arange(joint.size), home.ravel()] = joint.ravel()
        return found.reshape(*joint.shape, places.size)

    def _log_density(
        self, logs: Float[np.ndarray, "known row sums"], scale: float
    ) -> Float[np.ndarray, "known row sums"]:
        """Log density of the noisy sum at every value of the sum, without ``log(1 / 2b)``."""
        at = (self._sums[0] - self._sums[0].mean()) / scale
        to_here = np.logaddexp.accumulate(logs + at, axis=2) - at
        beyond = np.full(logs.shape, -np.inf)
        beyond[:, :, :-1] = np.logaddexp.accumulate((logs - at)[:, :, :0:-1], axis=2)[:, :, ::-1]
        return np.asarray(np.logaddexp(to_here, beyond + at))
