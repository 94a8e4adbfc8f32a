"""Declared bounds on examples and parameters, and the loss constants that follow from them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from gibbs_dp.information.checks import refuse_masked


@dataclass(frozen=True)
class Domain:
    """Bounds that every example and every parameter is promised to satisfy.

    Worst-case privacy is a statement about *all* examples of this domain, which must therefore be
    declared; it is never estimated from data.

    Parameters
    ----------
    x_bound
        Largest Euclidean norm of a feature vector (or of the whole example when there is no
        label).
    y_range
        Smallest and largest label.
    theta_bound
        Largest Euclidean norm of the parameter. By default that of the prior's
        support, where bounded.
    num_parameters
        Number of parameters, where constants are sharper for one; by default the prior's.

    Raises
    ------
    ValueError
        If a bound is negative, NaN, or the label range is empty.

    Examples
    --------
    >>> from gibbs_dp import losses
    >>> losses.squared.constants(Domain(x_bound=1.0, y_range=(-2.0, 2.0), theta_bound=2.0)).range
    (0.0, 16.0)
    """

    x_bound: float = np.inf
    y_range: tuple[float, float] = (-np.inf, np.inf)
    theta_bound: float | None = None
    num_parameters: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_number("x_bound", self.x_bound)
        _check_pair("y_range", self.y_range)
        _check_number("theta_bound", 0.0 if self.theta_bound is None else self.theta_bound)
        if not self.x_bound >= 0:
            raise ValueError(f"Domain(x_bound) must be at least 0, got {self.x_bound}.")
        low, high = self.y_range
        if not low <= high:
            raise ValueError(f"Domain(y_range) must be (low, high), got {self.y_range}.")
        if self.theta_bound is not None and not self.theta_bound >= 0:
            raise ValueError(f"Domain(theta_bound) must be at least 0, got {self.theta_bound}.")

    @property
    def y_bound(self) -> float:
        """Largest absolute label."""
        return max(abs(self.y_range[0]), abs(self.y_range[1]))

    @property
    def prediction_bound(self) -> float:
        """Largest ``|x·theta|``: infinite until both norms are bounded."""
        theta = np.inf if self.theta_bound is None else self.theta_bound
        return product(self.x_bound, theta)

    def clip(self, data: Any) -> Any:
        """Project every example onto the domain, each independently of the others.

        Feature vectors longer than ``x_bound`` are shortened to it, labels clipped to
        ``y_range``; values that are not finite become 0 first. Lengths end a millionth below the
        bound, so that they respect it after rounding to float32.

        Parameters
        ----------
        data
            Examples ``(x [n, d], y [n])``, a dict of the two by these names, or one array ``[n]``
            or ``[n, d]`` bounded by ``x_bound``.

        Returns
        -------
        same structure as ``data``
            Examples inside the domain.

        Raises
        ------
        ValueError
            For any other structure, which the bounds of this class do not describe.

        Examples
        --------
        >>> Domain(x_bound=1.0, y_range=(0.0, 1.0)).clip(([[3.0, 4.0]], [7.0]))[1]
        array([1.])
        """
        if _is_named(data):
            return dict(zip("xy", self.clip((data["x"], data["y"])), strict=True))
        x, y, is_flat = _split(data)
        moved = _shorten(_finite(x), self.x_bound)
        if y is not None:
            return moved, _numpy_of(y).clip(_finite(y), *self.y_range)
        return moved[:, 0] if is_flat else moved

    def is_outside(self, data: Any) -> Bool[np.ndarray, " n"]:
        """Whether each example breaks a bound by more than rounding, or is not finite.

        A bound may be exceeded by a hundred-thousandth of it, as rows are that float32 scaled to
        length ``x_bound``.

        Parameters
        ----------
        data
            Examples as :meth:`clip` takes them.

        Returns
        -------
        Bool[np.ndarray, " n"]
            One answer an example.

        Raises
        ------
        ValueError
            For any other structure.

        Examples
        --------
        >>> Domain(x_bound=1.0).is_outside(np.array([0.5, -1.0000001, 3.0]))
        array([False, False,  True])
        """
        x, y, _ = _split((data["x"], data["y"]) if _is_named(data) else data)
        x = np.asarray(x, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            is_inside = np.linalg.norm(x, axis=1) <= self.x_bound * (1 + OUTSIDE_MARGIN)
        is_inside &= np.isfinite(x).all(axis=1)
        if y is not None:
            y, (low, high) = np.asarray(y, np.float64), self.y_range
            margin = OUTSIDE_MARGIN * max(
                (abs(b) for b in self.y_range if np.isfinite(b)), default=0
            )
            is_inside &= np.isfinite(y) & (low - margin <= y) & (y <= high + margin)
        return ~is_inside


def _is_named(data: Any) -> bool:
    """Whether these are features and labels by name, as a model's arguments."""
    return isinstance(data, dict) and set(data) == {"x", "y"}


def _split(data: Any) -> tuple[Any, Any, bool]:
    """Features ``[n, d]``, labels ``[n]`` if there are any, and whether features were ``[n]``."""
    refuse_masked("data", data, is_private=True)
    if isinstance(data, (tuple, list)) and len(data) == 2:
        x, y = (_numpy_of(part).asarray(part) for part in data)
        if x.ndim == 2 and y.ndim == 1:
            return x, y, False
    elif not isinstance(data, (tuple, list, dict)):
        z = _numpy_of(data).asarray(data)
        if z.ndim in (1, 2):
            return (z[:, None] if z.ndim == 1 else z), None, z.ndim == 1
    raise ValueError(
        "data: a Domain can clip (x [n, d], y [n]), also as a dict of 'x' and 'y', or one array "
        "[n] or [n, d]; arrange the examples so, or clip them in the loss."
    )


def _check_number(name: str, value: Any) -> None:
    if np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "fiu":
        raise ValueError(f"Domain({name}) must be one number, got {value!r}.")


def _check_pair(name: str, value: Any) -> None:
    if np.shape(value) != (2,) or np.asarray(value).dtype.kind not in "fiu":
        raise ValueError(f"Domain({name}) must be two numbers, (low, high), got {value!r}.")


# Relative gap left below a bound, larger than the rounding of a norm in float32.
CLIP_MARGIN = 1e-6
# Relative excess over a bound that is taken for the rounding of rows scaled to it.
OUTSIDE_MARGIN = 1e-5


def _numpy_of(values: Any) -> Any:
    """NumPy, in whose doubles data are clipped; JAX's inside its programs, which simulate data."""
    jax = sys.modules.get("jax")  # help and ledgers do without it
    return np if jax is None or not isinstance(values, jax.core.Tracer) else jax.numpy


def _finite(values: Any) -> Any:
    xp = _numpy_of(values)
    dtype = np.float64 if xp is np else xp.zeros(()).dtype
    return xp.nan_to_num(xp.asarray(values, dtype=dtype), posinf=0.0, neginf=0.0)


def _shorten(rows: Any, bound: float) -> Any:
    limit, xp = bound * (1 - CLIP_MARGIN), _numpy_of(rows)
    if limit == np.inf:
        return rows
    largest = xp.max(xp.abs(rows), axis=1, keepdims=True, initial=0.0)
    safe = xp.where(largest > 0, largest, 1.0)  # the square of a huge entry would overflow
    unit = rows / safe
    length = xp.linalg.norm(unit, axis=1, keepdims=True)
    with np.errstate(over="ignore"):  # an infinite length is above the limit
        is_long = safe * length > limit
    return xp.where(is_long, unit * (limit / xp.where(length > 0, length, 1.0)), rows)


class LossConstants(NamedTuple):
    """What a loss guarantees on a domain; infinite where nothing finite holds.

    Attributes
    ----------
    range
        Smallest and largest loss over the domain.
    oscillation
        ``sup_z (sup_theta - inf_theta) loss(theta, z)``. Between neighbours the log ratio of two
        Gibbs posteriors has range at most ``gamma * oscillation`` (add/remove) and at most
        ``2 gamma * oscillation`` (replace-one).
    lipschitz
        Largest Euclidean norm of the gradient in theta.
    smoothness
        Largest eigenvalue of the Hessian in theta.
    strong_convexity
        Smallest eigenvalue of the Hessian in theta, for every example: 0 for a convex loss,
        ``-inf`` where convexity is not known.
    exchange_range
        ``sup_{z, z'}`` of the oscillation over theta of ``loss(theta, z) - loss(theta, z')``; at
        most ``2 oscillation``.
    exchange_lipschitz
        Largest norm of ``grad loss(theta, z) - grad loss(theta, z')``; at most ``2 lipschitz``.
    """

    range: tuple[float, float]
    oscillation: float
    lipschitz: float
    smoothness: float
    strong_convexity: float
    exchange_range: float
    exchange_lipschitz: float

    @classmethod
    def of(
        cls,
        range: tuple[float, float],
        oscillation: float,
        lipschitz: float,
        smoothness: float,
        strong_convexity: float = 0.0,
        exchange_lipschitz: float = np.inf,
    ) -> LossConstants:
        """Fill in twice the constants of one example for an exchange, where that is less."""
        exchange = 2 * oscillation, min(2 * lipschitz, exchange_lipschitz)
        return cls(range, oscillation, lipschitz, smoothness, strong_convexity, *exchange)


def product(*factors: float) -> float:
    """Multiply bounds; zero wins over infinity.

    >>> product(0.0, float("inf"), 2.0)
    0.0
    """
    return 0.0 if 0.0 in factors else float(np.prod(factors))
