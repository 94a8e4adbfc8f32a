"""Supports of parameters, and bijections from flat Euclidean space onto them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from gibbs_dp.model.charts import L2Ball, chart_of

# By exact type: a subclass may be a different set.
CONVEX = frozenset(
    kind if isinstance(kind, type) else type(kind)
    for kind in (
        L2Ball,
        constraints.real,
        constraints.positive,
        constraints.nonnegative,
        constraints.softplus_positive,
        constraints.greater_than,
        constraints.greater_than_eq,
        constraints.less_than,
        constraints.less_than_eq,
        constraints.interval,
        constraints.open_interval,
        constraints.unit_interval,
        constraints.simplex,
        constraints.ordered_vector,
        constraints.positive_ordered_vector,
        constraints.positive_definite,
        constraints.lower_cholesky,
        constraints.l1_ball,
    )
)


@dataclass(frozen=True, eq=False)
class Support:
    """The support of one array: a constraint, a shape, and the bijection onto it.

    Parameters
    ----------
    constraint
        A NumPyro constraint that ``biject_to`` knows (``real``, ``positive``,
        ``interval(a, b)``, ``simplex``, ...) or one of this module's own.
    shape
        The shape of the array, batch and event dimensions together.
    is_flat
        Whether the law on it is flat. Boxes, simplexes and balls are then mapped by the chart
        under which that law is a standard normal (`gibbs_dp.model.charts`).
    """

    constraint: Any
    shape: tuple[int, ...] = ()
    is_flat: bool = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it without what was computed from it: equal audits are then equal bytes."""
        return type(self), (self.constraint, self.shape, self.is_flat)

    @cached_property
    def _chart(self) -> Any:
        return chart_of(self.constraint) if self.is_flat else None

    @property
    def bijector(self) -> Any:
        """Transform from the unconstrained array onto the support: a chart, or NumPyro's own."""
        return biject_to(self.constraint) if self._chart is None else self._chart

    @cached_property
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

    @property
    def is_convex(self) -> bool:
        """Whether this is known to be a convex set.

        Half-lines, intervals, balls, cones and simplexes are, and products of convex sets; a sphere
        and the Cholesky factors of correlation matrices are not.
        """
        return type(self._elementwise()) in CONVEX

    def _limits(self) -> tuple[Any, Any]:
        """Return lower and upper bounds of the entries, infinite if there are none."""
        c = self._elementwise()
        if isinstance(c, L2Ball):
            return -c.radius, c.radius
        if type(c) is type(constraints.simplex):
            return 0.0, 1.0
        return getattr(c, "lower_bound", -np.inf), getattr(c, "upper_bound", np.inf)

    def ends(self) -> tuple[Any, Any]:
        """Return the bounds that single entries are held by, infinite if there are none.

        Numbers or arrays; unlike those of :meth:`bounds` they are where the support ends, which is
        not where any one coordinate of a ball does.
        """
        is_ball = isinstance(self._elementwise(), L2Ball)
        return (-np.inf, np.inf) if is_ball else self._limits()

    def bounds(self) -> tuple[float, float]:
        """Return the smallest and largest value any entry may take (infinite when unbounded)."""
        low, high = self._limits()
        return float(np.min(np.asarray(low))), float(np.max(np.asarray(high)))

    def l2_bound(self) -> float:
        """Largest Euclidean norm on the support (infinite when unbounded)."""
        c = self._elementwise()
        if isinstance(c, L2Ball):
            return float(c.radius * np.sqrt(np.prod(self.shape[:-1])))
        if type(c) is type(constraints.simplex):
            return float(np.sqrt(np.prod(self.shape[:-1])))
        far = np.maximum(*(np.abs(np.asarray(limit)) for limit in self._limits()))
        return float(np.linalg.norm(np.broadcast_to(far, self.shape)))

    def diameter(self) -> float:
        """Largest Euclidean distance of two points of the support (infinite when unbounded)."""
        c = self._elementwise()
        if isinstance(c, L2Ball):
            return 2 * self.l2_bound()
        if type(c) is type(constraints.simplex):
            return float(np.sqrt(2.0) * self.l2_bound())
        low, high = (np.asarray(limit, np.float64) for limit in self._limits())
        return float(np.linalg.norm(np.broadcast_to(high - low, self.shape)))


def as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Turn an integer or a sequence into a shape."""
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
    """Every entry in ``[low, high]``, through the normal distribution function.

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
    """Vectors of length ``dim`` with Euclidean norm below ``radius``; for a shape, a ball per row.

    >>> l2_ball((3, 2), 1.0).l2_bound()                              # of all three vectors together
    1.7320508075688772
    """
    if not (np.isfinite(radius) and radius > 0):
        raise ValueError(f"l2_ball(radius) needs a positive finite radius, got {radius}.")
    return Support(L2Ball(radius), as_shape(dim))
