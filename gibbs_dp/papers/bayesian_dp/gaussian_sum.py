"""A weighted sum of Gaussian rows with the Laplace noise that its Bayesian DP needs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import linalg

from gibbs_dp.information import checks
from gibbs_dp.papers.bayesian_dp.row_law import NodeSet
from gibbs_dp.privacy.noise import exact_product, laplace_release

# Bayesian DP of a noisy weighted sum of rows that are jointly Gaussian, exactly.
#
# Yang, Sato & Nakagawa 2015 study perturbed queries under Gaussian Markov random fields, and
# conclude that privacy is poorest for an adversary who knows least. Derived here for any precision:
# that is so where rows attract each other, and not in general.
#
# Given ``x_i`` and ``x_K``, the sum ``a.x`` is Gaussian with a mean that moves by
# ``c = a_i - a_U' P_UU^{-1} P_Ui`` per unit of ``x_i`` (``U`` the rows in neither, ``P`` the
# precision) and a variance that does not depend on it. A Gaussian plus ``Lap(b)`` has a log density
# of slope at most ``1/b``, reached in its tails: the adversary ``(i, K)`` tells ``x_i`` from
# ``x_i'`` by exactly ``|c| |x_i - x_i'| / b``. Gaussian rows have no largest difference, so that
# the figures here are for values of row ``i`` at most a **declared difference** apart; all other
# rows range over the whole line.

# Rows up to which every adversary is tried: 12 x 2^11 of them.
MAX_ENUMERATED = 12


@dataclass(frozen=True)
class WorstResponse:
    """The adversary to whom a sum says most about one row."""

    value: float
    row: int
    known: NodeSet | None
    is_exact: bool


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

    def worst_response(self, weights: ArrayLike) -> WorstResponse:
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
        WorstResponse
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

    def every_adversary(self, weights: ArrayLike) -> WorstResponse:
        """Find the largest ``|c|`` by trying every row and all that an adversary may know.

        Parameters
        ----------
        weights
            ``a`` of the sum ``a.x``.

        Returns
        -------
        WorstResponse
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
        return WorstResponse(*best, is_exact=True)

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
    ) -> WorstResponse:
        """``c`` of every row for an adversary with an empty ``K``: ``(S a)_i / S_ii``."""
        covariance = linalg.inv(precision)
        values = covariance @ a / np.diag(covariance)
        row = int(np.argmax(values))
        known: NodeSet | None = frozenset() if is_exact else None
        return WorstResponse(float(values[row]), row, known, is_exact)

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
    def worst(self) -> WorstResponse:
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
