"""Where a parameter may live, and the bijection from flat Euclidean space onto it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpyro.distributions import constraints
from numpyro.distributions.transforms import ParameterFreeTransform, biject_to


@dataclass(frozen=True, eq=False)
class Support:
    """One array's support: a constraint, a shape, and the bijection onto it.

    Parameters
    ----------
    constraint
        A NumPyro constraint that ``biject_to`` knows (``real``, ``positive``,
        ``interval(a, b)``, ``simplex``, ...) or one of this module's own.
    shape
        The shape of the array, batch and event dimensions together.
    """

    constraint: Any
    shape: tuple[int, ...] = ()

    @property
    def bijector(self) -> Any:
        """NumPyro's transform from the unconstrained array onto the support."""
        return biject_to(self.constraint)

    @property
    def unconstrained_shape(self) -> tuple[int, ...]:
        """Shape of the unconstrained array (one less per simplex, for example)."""
        return tuple(self.bijector.inverse_shape(self.shape))

    def constrain(self, u: Float[Array, ...]) -> Float[Array, ...]:
        """Map an unconstrained array onto the support."""
        return self.bijector(u)

    def unconstrain(self, theta: Float[Array, ...]) -> Float[Array, ...]:
        """Map a point of the support (interior) to its unconstrained array."""
        return self.bijector.inv(theta)

    def log_det(self, u: Float[Array, ...]) -> Float[Array, ""]:
        """Log absolute Jacobian determinant of ``constrain`` at ``u``, summed to a scalar."""
        return jnp.sum(self.bijector.log_abs_det_jacobian(u, self.bijector(u)))

    def contains(self, theta: Float[Array, ...]) -> Bool[Array, ""]:
        """Whether every entry satisfies the constraint."""
        return jnp.all(self.constraint(theta))

    def _elementwise(self) -> Any:
        """Return the constraint without the ``to_event`` around it."""
        c = self.constraint
        while hasattr(c, "base_constraint"):
            c = c.base_constraint
        return c

    @property
    def is_real(self) -> bool:
        """Whether this is all of Euclidean space, mapped by the identity."""
        return isinstance(self._elementwise(), type(constraints.real))

    def bounds(self) -> tuple[float, float]:
        """Return the smallest and largest value any entry may take (infinite when unbounded)."""
        c = self._elementwise()
        if isinstance(c, L2Ball):
            return -c.radius, c.radius
        low = getattr(c, "lower_bound", None)
        high = getattr(c, "upper_bound", None)
        if type(c) is type(constraints.simplex):
            low, high = 0.0, 1.0
        return (
            -np.inf if low is None else float(np.min(np.asarray(low))),
            np.inf if high is None else float(np.max(np.asarray(high))),
        )

    def l2_bound(self) -> float:
        """Largest Euclidean norm on the support (infinite when unbounded)."""
        c = self._elementwise()
        if isinstance(c, L2Ball):
            return float(c.radius * np.sqrt(np.prod(self.shape[:-1])))
        if type(c) is type(constraints.simplex):
            return float(np.sqrt(np.prod(self.shape[:-1])))
        low = getattr(c, "lower_bound", None)
        high = getattr(c, "upper_bound", None)
        if low is None or high is None:
            return np.inf
        far = np.maximum(np.abs(np.asarray(low)), np.abs(np.asarray(high)))
        return float(np.linalg.norm(np.broadcast_to(far, self.shape)))


class L2Ball(constraints.Constraint):  # type: ignore[misc]
    """The open Euclidean ball of a given radius, for the last axis."""

    event_dim = 1

    def __init__(self, radius: float) -> None:
        self.radius = float(radius)

    def __call__(self, x: Float[Array, "*b d"]) -> Bool[Array, "*b"]:
        """Whether each vector lies inside the ball."""
        return jnp.sum(x**2, axis=-1) < self.radius**2

    def feasible_like(self, prototype: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        """Return the centre of the ball."""
        return jnp.zeros_like(prototype)

    def tree_flatten(self) -> tuple[tuple[()], tuple[tuple[()], dict[str, float]]]:
        """Flatten without array leaves: the radius is static."""
        return (), ((), {"radius": self.radius})


# tanh(r) / r as a polynomial in r ** 2, highest power first.
_TANH_RATIO = (21844 / 6081075, -1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3, 1.0)


class L2BallTransform(ParameterFreeTransform):  # type: ignore[misc]
    """Radial map ``u -> radius tanh(|u|) u / |u|`` from Euclidean space onto the ball."""

    domain = constraints.real_vector

    def __init__(self, radius: float) -> None:
        self.radius = radius

    @property
    def codomain(self) -> L2Ball:
        """The ball."""
        return L2Ball(self.radius)

    @staticmethod
    def _radial(u: Float[Array, "*b d"]) -> tuple[Float[Array, "*b"], Float[Array, "*b"]]:
        """Return ``tanh(r) / r`` and ``log cosh(r)`` for ``r = |u|``, smooth at 0.

        Near 0 both go through ``s = r ** 2``: derivatives through ``r`` lose every digit there,
        and that is where a flat posterior has its mode.
        """
        square = jnp.sum(u**2, axis=-1)
        is_small = square < 0.01
        s = jnp.where(is_small, square, 0.0)
        series = jnp.polyval(jnp.asarray(_TANH_RATIO, u.dtype), s)
        r = jnp.sqrt(jnp.where(is_small, 1.0, square))
        inside = 1.0 - 4.0 * jnp.finfo(u.dtype).eps  # tanh rounds to 1, which is not in the ball
        ratio = jnp.where(is_small, series, jnp.minimum(jnp.tanh(r), inside) / r)
        near = -0.5 * jnp.log1p(-s * series**2)  # 1 / cosh^2 = 1 - tanh^2
        log_cosh = jnp.where(is_small, near, r + jax.nn.softplus(-2.0 * r) - jnp.log(2.0))
        return ratio, log_cosh

    def __call__(self, u: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        """Map onto the ball."""
        return self.radius * self._radial(u)[0][..., None] * u

    def _inverse(self, theta: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        r = jnp.sqrt(jnp.sum((theta / self.radius) ** 2, axis=-1))
        inside = jnp.clip(r, jnp.finfo(theta.dtype).eps, 1.0 - 4.0 * jnp.finfo(theta.dtype).eps)
        return (jnp.arctanh(inside) / inside)[..., None] * theta / self.radius

    def log_abs_det_jacobian(
        self, u: Float[Array, "*b d"], theta: Float[Array, "*b d"], intermediates: Any = None
    ) -> Float[Array, "*b"]:
        """Radial derivative once, tangential stretch ``d - 1`` times."""
        del theta, intermediates
        ratio, log_cosh = self._radial(u)
        d = u.shape[-1]
        return d * jnp.log(self.radius) - 2.0 * log_cosh + (d - 1) * jnp.log(ratio)


biject_to.register(L2Ball)(lambda c: L2BallTransform(c.radius))


def as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Turn an integer or a sequence into a shape.

    Raises
    ------
    ValueError
        If an entry is not a positive integer.
    """
    out = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(isinstance(k, (int, np.integer)) and k > 0 for k in out):
        raise ValueError(f"shape: must be positive integers, got {shape}.")
    return tuple(int(k) for k in out)


def real(shape: int | Sequence[int] = ()) -> Support:
    """All of Euclidean space.

    >>> real(3).unconstrained_shape
    (3,)
    """
    return Support(constraints.real, as_shape(shape))


def positive(shape: int | Sequence[int] = ()) -> Support:
    """Positive numbers, through the exponential."""
    return Support(constraints.positive, as_shape(shape))


def box(low: float, high: float, shape: int | Sequence[int] = ()) -> Support:
    """Every entry in ``[low, high]``, through a scaled logistic function.

    Raises
    ------
    ValueError
        If ``low >= high`` or either is not finite.
    """
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"box(low, high) needs finite low < high, got low={low}, high={high}.")
    return Support(constraints.interval(float(low), float(high)), as_shape(shape))


def simplex(dim: int) -> Support:
    """Probability vectors of length ``dim >= 2``, by stick breaking."""
    if dim < 2:
        raise ValueError(f"simplex(dim) needs dim >= 2, got {dim}.")
    return Support(constraints.simplex, (dim,))


def l2_ball(dim: int | Sequence[int], radius: float = 1.0) -> Support:
    """Vectors of length ``dim`` with Euclidean norm below ``radius``; a shape: a ball per row.

    >>> l2_ball((3, 2), 1.0).l2_bound()                              # of all three vectors together
    1.7320508075688772

    Raises
    ------
    ValueError
        If ``radius`` is not positive and finite.
    """
    if not (np.isfinite(radius) and radius > 0):
        raise ValueError(f"l2_ball(radius) needs a positive finite radius, got {radius}.")
    return Support(L2Ball(radius), as_shape(dim))
