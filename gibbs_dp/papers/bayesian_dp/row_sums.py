"""Sums of rows that depend on each other, with Laplace noise: what every adversary learns, exactly.

Yang, Sato & Nakagawa (2015) perturb such sums; here rows are jointly Gaussian, or have few values.

Of Gaussian rows they conclude that privacy is poorest for an adversary who knows least. Derived
here for any precision: that is so where rows attract each other, and not in general. Given ``x_i``
and ``x_K``, the sum ``a.x`` is Gaussian with a mean that moves by
``c = a_i - a_U' P_UU^{-1} P_Ui`` per unit of ``x_i`` (``U`` the rows in neither, ``P`` the
precision) and a variance that does not depend on it. A Gaussian plus ``Lap(b)`` has a log density
of slope at most ``1/b``, reached in its tails: the adversary ``(i, K)`` tells ``x_i`` from ``x_i'``
by exactly ``|c| |x_i - x_i'| / b``. Gaussian rows have no largest difference, so that the figures
are for values of row ``i`` at most a **declared difference** apart; all other rows range over the
whole line.

Rows of few values have any law that can be enumerated, a Markov chain or a network. Given ``x_i``
and ``x_K`` their sum has finitely many values, and between two of them its density with the noise
is a mixture of ``e^{y/b}`` and ``e^{-y/b}``. The ratio of two such densities is monotone there and
constant beyond the ends, so that its supremum is at a value of the sum: no output is left out. What
is known may hold others in a balance in which they follow row ``i`` more: privacy is not poorest
for who knows least.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.optimize import brentq

from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks
from gibbs_dp.papers.bayesian_dp.row_law import NodeSet, RowLaw, adversaries, grouped, worst_ratio
from gibbs_dp.privacy.noise import exact_product, laplace_release

# Rows up to which every adversary is tried: 12 x 2^11 of them.
MAX_ENUMERATED = 12


class WorstAdversary(NamedTuple):
    """The adversary to whom a sum says most about one row."""

    # ``|c|`` of a sum of Gaussian rows; of any other the leakage, nats.
    value: float
    row: int
    # None: not known, of a value that is a bound.
    known: NodeSet | None
    is_exact: bool = True


@dataclass(frozen=True, eq=False)
class GaussianField:
    """Rows that are jointly Gaussian; a Gaussian Markov random field where the precision is sparse.

    Parameters
    ----------
    precision
        Inverse covariance, symmetric and positive definite, ``[rows, rows]``; an entry is 0 where
        two rows are independent given all others. Means do not matter.

    Raises
    ------
    ValueError
        If the precision is not symmetric and positive definite.

    Examples
    --------
    >>> field = GaussianField.from_covariance([[1.0, 0.5], [0.5, 1.0]])
    >>> round(field.response([1.0, 1.0], 0, known=[]), 6), field.response([1.0, 1.0], 0, known=[1])
    (1.5, 1.0)
    """

    precision: ArrayLike

    def __post_init__(self) -> None:
        _require_definite("precision", np.asarray(self.precision, dtype=np.float64))

    @classmethod
    def from_covariance(cls, covariance: ArrayLike) -> GaussianField:
        """Make a field from its covariance.

        Raises
        ------
        ValueError
            If it is not symmetric and positive definite.
        """
        table = np.asarray(covariance, dtype=np.float64)
        _require_definite("covariance", table)
        found = linalg.inv(table)
        return cls((found + found.T) / 2)

    @cached_property
    def matrix(self) -> Float[np.ndarray, "rows rows"]:
        """Precision."""
        table = np.asarray(self.precision, dtype=np.float64)
        return np.asarray((table + table.T) / 2)

    @property
    def length(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    def response(self, weights: ArrayLike, row: int, known: Iterable[int]) -> float:
        """How far the sum's mean moves per unit of one row, for one who knows others.

        Parameters
        ----------
        weights
            ``a`` of the sum ``a.x``.
        row
            ``i``, counted from 0.
        known
            ``K``.

        Returns
        -------
        float
            ``c``.

        Raises
        ------
        ValueError
            If the weights do not fit, or a row is out of range or known itself.
        """
        a = self._weights(weights)
        told = frozenset(known)
        if row in told or not told | {row} <= set(range(self.length)):
            raise ValueError(
                f"row and known must be different rows in 0..{self.length - 1}, got {row} and "
                f"{sorted(told)}."
            )
        return self._response(a, row, [v for v in range(self.length) if v != row and v not in told])

    def worst_response(self, weights: ArrayLike) -> WorstAdversary:
        """Find the largest ``|c|`` over all rows and all that an adversary may know.

        Exact where no weight is negative and no precision off the diagonal is positive: then one
        who knows nothing learns most, since ``P_UU^{-1} >= 0`` grows with ``U``, as Yang et al.
        conclude. Exact by enumeration up to 12 rows. Otherwise a bound, by the comparison matrix
        ``M`` (absolute diagonal, minus absolute values off it): ``|P_UU^{-1}| <= M_UU^{-1}``
        (Ostrowski) wherever ``M`` is positive definite, as for trees and diagonal dominance.

        Parameters
        ----------
        weights
            ``a`` of the sum ``a.x``.

        Returns
        -------
        WorstAdversary
            The value, the adversary, and whether it is exact.

        Raises
        ------
        ValueError
            If the weights do not fit, or nothing here bounds a field of these rows.
        """
        a, n = self._weights(weights), self.length
        away = self.matrix[~np.eye(n, dtype=bool)]
        if np.all(a >= 0) and np.all(away <= 0):
            return self._without_knowledge(self.matrix, a, is_exact=True)
        if n <= MAX_ENUMERATED:
            return self.every_adversary(a)
        comparison = -np.abs(self.matrix)
        np.fill_diagonal(comparison, np.diag(self.matrix))
        if not _is_definite(comparison):
            raise ValueError(
                "precision: correlations of mixed signs are too strong for the bound for more than "
                f"{MAX_ENUMERATED} rows (the comparison matrix is not positive definite); split "
                "the rows."
            )
        return self._without_knowledge(comparison, np.abs(a), is_exact=False)

    def leakage(self, weights: ArrayLike, scale: float, difference: float) -> float:
        """Bayesian DP of ``a.x + Lap(scale)``, nats; exact where `worst_response` is.

        Parameters
        ----------
        weights
            ``a``.
        scale
            Of the noise.
        difference
            Largest ``|x_i - x_i'|`` that is to be hidden; declared, since Gaussian rows have none.

        Returns
        -------
        float
            ``difference * max |c| / scale``.

        Raises
        ------
        ValueError
            As in `worst_response`, or if a number is not positive.
        """
        checks.positive("scale", scale)
        return (
            checks.positive("difference", difference) * self.worst_response(weights).value / scale
        )

    def every_adversary(self, weights: ArrayLike) -> WorstAdversary:
        """Find the largest ``|c|`` by trying every row and all that an adversary may know.

        Parameters
        ----------
        weights
            ``a`` of the sum ``a.x``.

        Returns
        -------
        WorstAdversary
            Exact.

        Raises
        ------
        ValueError
            If the weights do not fit, or there are more than 12 rows.
        """
        a = self._weights(weights)
        if self.length > MAX_ENUMERATED:
            raise ValueError(
                f"precision: {self.length} rows have too many adversaries to try; at most "
                f"{MAX_ENUMERATED}."
            )
        best = (-math.inf, 0, frozenset[int]())
        for row in range(self.length):
            others = [v for v in range(self.length) if v != row]
            for size in range(len(others) + 1):
                for unknown in combinations(others, size):
                    value = abs(self._response(a, row, list(unknown)))
                    if value > best[0]:
                        best = (value, row, frozenset(others) - frozenset(unknown))
        return WorstAdversary(*best)

    def _response(self, a: Float[np.ndarray, " rows"], row: int, unknown: list[int]) -> float:
        inner = self.matrix[np.ix_(unknown, unknown)]
        if not unknown:
            return float(a[row])
        return float(a[row] - a[unknown] @ np.linalg.solve(inner, self.matrix[unknown, row]))

    def _without_knowledge(
        self,
        precision: Float[np.ndarray, "rows rows"],
        a: Float[np.ndarray, " rows"],
        is_exact: bool,
    ) -> WorstAdversary:
        """``c`` of every row for an adversary with an empty ``K``: ``(S a)_i / S_ii``."""
        covariance = linalg.inv(precision)
        values = covariance @ a / np.diag(covariance)
        row = int(np.argmax(values))
        known: NodeSet | None = frozenset() if is_exact else None
        return WorstAdversary(float(values[row]), row, known, is_exact)

    def _weights(self, weights: ArrayLike) -> Float[np.ndarray, " rows"]:
        a = np.asarray(weights, dtype=np.float64)
        if a.shape != (self.length,) or not np.all(np.isfinite(a)):
            raise ValueError(
                f"weights must be {self.length} finite numbers, one per row, got shape "
                f"{list(a.shape)}."
            )
        return a


def _require_definite(name: str, table: Float[np.ndarray, ...]) -> None:
    is_square = table.ndim == 2 and table.shape[0] == table.shape[1] and table.size > 0
    if not is_square or not np.all(np.isfinite(table)):
        raise ValueError(
            f"{name} must be a finite square matrix, [rows, rows], got shape {list(table.shape)}."
        )
    if not np.allclose(table, table.T, rtol=1e-9, atol=0) or not _is_definite(table):
        raise ValueError(f"{name} must be symmetric and positive definite; make it so.")


def _is_definite(table: Float[np.ndarray, "rows rows"]) -> bool:
    try:
        linalg.cholesky(table)
    except linalg.LinAlgError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class GaussianFieldMechanism:
    """Laplace noise for a weighted sum of Gaussian rows: scale ``difference max |c| / epsilon``.

    ``epsilon``-Bayesian DP against every adversary ``(i, K)``, for values of a row at most
    ``difference`` apart, under the declared law (Yang, Sato & Nakagawa 2015). Releases do not
    compose in it.

    Parameters
    ----------
    field
        Law of the rows.
    epsilon
        Nats.
    difference
        Largest ``|x_i - x_i'|`` that is to be hidden; declared.
    weights
        Of the sum; all 1 by default.

    Raises
    ------
    ValueError
        If a number is not positive, or as in `GaussianField.worst_response`.

    Examples
    --------
    >>> field = GaussianField.from_covariance([[1.0, 0.5], [0.5, 1.0]])
    >>> mechanism = GaussianFieldMechanism(field, 0.5, 2.0)
    >>> round(mechanism.scale, 6), mechanism.worst.is_exact  # independent rows: 4
    (6.0, True)
    """

    field: GaussianField
    epsilon: float
    difference: float
    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon)
        checks.positive("difference", self.difference)
        if not self.worst.value > 0:
            raise ValueError("weights: some must differ from 0; give a sum to release.")

    @cached_property
    def coefficients(self) -> Float[np.ndarray, " rows"]:
        """Weights of the sum."""
        found = np.ones(self.field.length) if self.weights is None else self.weights
        return np.asarray(found, dtype=np.float64)

    @cached_property
    def worst(self) -> WorstAdversary:
        """Whom the noise is for."""
        return self.field.worst_response(self.coefficients)

    @property
    def scale(self) -> float:
        """Scale of the noise, in the unit of the sum."""
        return self.difference * self.worst.value / self.epsilon

    def release(self, rows: Float[np.ndarray, " rows"]) -> float:
        """Sum the rows without rounding and add secret noise, drawn exactly."""
        checks.refuse_masked("rows", rows, is_private=True)
        if rows.shape != (self.field.length,):
            raise ValueError(
                f"rows must be {self.field.length} numbers, got shape {list(rows.shape)}."
            )
        return float(laplace_release(exact_product(self.coefficients[None], rows), self.scale)[0])


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

    def leakage(self, scale: float) -> WorstAdversary:
        """Bayesian DP of the sum with ``Lap(scale)``, against every adversary ``(i, K)``.

        Parameters
        ----------
        scale
            Of the noise, in the unit of the sum.

        Returns
        -------
        WorstAdversary
            ``sup log P(y | x_i, x_K) / P(y | x_i', x_K)``, nats, and an adversary who sees it.

        Raises
        ------
        ValueError
            If the scale is not positive.
        """
        found = (
            WorstAdversary(self.leakage_to(scale, row, known), row, known)
            for row, known in adversaries(self.model.length)
        )
        return max(found, key=lambda adversary: adversary.value)

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
