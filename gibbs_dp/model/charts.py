"""The Euclidean ball: its chart, and normal laws cut off at its edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from math import prod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree
from numpyro.distributions import constraints
from numpyro.distributions.transforms import ParameterFreeTransform, biject_to
from scipy import special


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


class BallChart(ParameterFreeTransform):  # type: ignore[misc]
    """Radial map ``u -> radius F(|u|)^(1/d) u / |u|``, ``F`` the law of a normal's length."""

    domain = constraints.real_vector

    def __init__(self, radius: float) -> None:
        self.radius = radius

    @property
    def codomain(self) -> L2Ball:
        """The ball."""
        return L2Ball(self.radius)

    def __call__(self, u: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        """Map onto the ball."""
        stretch = _stretch(jnp.sum(u**2, axis=-1), u.shape[-1])
        return self.radius * stretch[..., None] * u

    def _inverse(self, theta: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        scaled = theta / self.radius
        square = _square_of_length(jnp.sum(scaled**2, axis=-1), theta.shape[-1])
        return scaled / _stretch(square, theta.shape[-1])[..., None]

    def log_abs_det_jacobian(
        self, u: Float[Array, "*b d"], theta: Float[Array, "*b d"], intermediates: Any = None
    ) -> Float[Array, "*b"]:
        """Log normal density plus log volume."""
        del theta, intermediates
        d = u.shape[-1]
        log_normal = -0.5 * (jnp.sum(u**2, axis=-1) + d * np.log(2.0 * np.pi))
        log_volume = 0.5 * d * np.log(np.pi) - special.gammaln(0.5 * d + 1.0)
        return log_normal + log_volume + d * np.log(self.radius)


biject_to.register(L2Ball)(lambda c: BallChart(c.radius))


def longest_square(dim: int) -> float:
    """Square of a length that no normal vector exceeds, to double precision."""
    return float((np.sqrt(dim) + 9.0) ** 2)


@cache
def _stretch_table(dim: int) -> tuple[float, Float[np.ndarray, "cells 6"]]:
    """``F(r)^(1/dim) / r`` as a function of ``s = r^2``: cells of equal width, a quintic in each.

    Analytic in ``s`` down to 0, the mode of a flat posterior; in ``r`` it is not. Cells are narrow
    compared with the law of ``s``.
    """
    from scipy.interpolate import PPoly, make_interp_spline  # slow to import

    end = longest_square(dim)
    num_cells = int(np.ceil(end / (max(1.0, np.sqrt(dim)) / 24.0)))
    s = np.linspace(0.0, end, num_cells + 1)
    spline = make_interp_spline(s, np.exp(log_stretch(s, dim)), k=5)
    pieces = PPoly.from_spline(spline)  # type: ignore[arg-type]  # its stub forgets splines
    powers = [pieces(s[:-1], nu=k) / special.factorial(k) for k in range(6)]
    return end / num_cells, np.stack(powers, axis=1)


def log_stretch(s: Float[np.ndarray, " points"], dim: int) -> Float[np.ndarray, " points"]:
    """Logarithm of ``F(r)^(1/dim) / r`` with ``s = r^2``."""
    a, x = 0.5 * dim, 0.5 * s
    # F = x^a e^-x M / Gamma(a + 1), and so F / r^dim, with no 0 / 0, near the center.
    is_near = x < a
    near = special.hyp1f1(1.0, a + 1.0, np.where(is_near, x, 0.0))
    log_near = np.log(near) - x - special.gammaln(a + 1.0) - a * np.log(2.0)
    far = np.where(is_near, a, x)
    log_far = np.log(special.gammainc(a, far)) - a * np.log(2.0 * far)
    return np.where(is_near, log_near, log_far) / dim


def _cell(
    s: Float[Array, "*b"], dim: int
) -> tuple[Int[Array, "*b"], Float[Array, "*b"], Float[Array, "cells 6"]]:
    """Cell of each point, how far into it the point is, and the table."""
    width, rows = _stretch_table(dim)
    index = jnp.clip((s / width).astype(jnp.int32), 0, rows.shape[0] - 1)
    return index, s - index.astype(s.dtype) * width, jnp.asarray(rows, s.dtype)


def _quintic(rows: Float[Array, "*b 6"], t: Float[Array, "*b"]) -> Float[Array, "*b"]:
    value = rows[..., 5]
    for k in range(4, -1, -1):
        value = value * t + rows[..., k]
    return value


def _stretch(s: Float[Array, "*b"], dim: int) -> Float[Array, "*b"]:
    """``F(r)^(1/dim) / r`` with ``s = r^2``, so that points stay inside the unit ball."""
    index, into, rows = _cell(jnp.minimum(s, longest_square(dim)), dim)
    inside = 1.0 - (4.0 + np.sqrt(dim)) * jnp.finfo(s.dtype).eps
    return jnp.minimum(_quintic(rows[index], into), inside * jax.lax.rsqrt(jnp.maximum(s, 1.0)))


def _square_of_length(y: Float[Array, "*b"], dim: int) -> Float[Array, "*b"]:
    """Solve ``s stretch(s)^2 = y`` for ``s``: bisection, then a Newton step to differentiate by."""
    y = jnp.clip(y, 0.0, 1.0 - 2.0 * jnp.finfo(y.dtype).eps)

    def image(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return s * _stretch(s, dim) ** 2

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        is_low = image(middle) <= y
        return jnp.where(is_low, middle, low), jnp.where(is_low, high, middle)

    ends = jnp.zeros_like(y), jnp.full_like(y, longest_square(dim))
    num_halvings = 2 + jnp.finfo(y.dtype).nmant + 12
    low, high = jax.lax.fori_loop(0, num_halvings, halve, jax.lax.stop_gradient(ends))
    s = jax.lax.stop_gradient(0.5 * (low + high))
    value, slope = jax.jvp(image, (s,), (jnp.ones_like(s),))
    # As close to the surface as numbers go, the map is flat to rounding; keep the bisection.
    is_flat = slope < jnp.finfo(y.dtype).eps
    return s + jnp.where(is_flat, 0.0, (y - value) / jnp.where(is_flat, 1.0, slope))


# A centred Gaussian law truncated to a ball.

NUM_QUANTILES = 4096


class NormalInBall(dist.Distribution):  # type: ignore[misc]
    """``N(0, scale^2 I)`` of ``dim`` coordinates, given that the length is below ``radius``.

    As a prior it is as strongly log-concave as the Gaussian, and bounds the parameter, so that
    losses have constants which they lack on all of space.

    >>> law = NormalInBall(2, radius=1.0, scale=1.0)
    >>> round(float(law.log_prob(jnp.zeros(2))), 4)      # -log(2 pi (1 - exp(-1/2)))
    -0.9051
    """

    pytree_aux_fields = ("dim", "radius", "scale")
    reparametrized_params: ClassVar[list[str]] = []

    def __init__(self, dim: int, radius: float, scale: float, *, validate_args: Any = None) -> None:
        if not (isinstance(dim, (int, np.integer)) and dim >= 1):
            raise ValueError(f"dim: give a number of coordinates of at least 1, got {dim!r}.")
        for name, value in (("radius", radius), ("scale", scale)):
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name}: must be positive and finite, got {value}.")
        self.dim, self.radius, self.scale = int(dim), float(radius), float(scale)
        super().__init__((), (self.dim,), validate_args=validate_args)

    @property
    def support(self) -> L2Ball:
        """The ball."""
        return L2Ball(self.radius)

    @property
    def _log_inside(self) -> float:
        """Log probability of the ball before truncation."""
        return float(_log_law(np.array([self.radius / self.scale]), self.dim)[0])

    def log_prob(
        self, value: Float[Array, "*b d"], intermediates: Any = None
    ) -> Float[Array, "*b"]:
        """Log density inside the ball."""
        del intermediates
        normalizer = 0.5 * self.dim * math.log(2 * math.pi * self.scale**2) + self._log_inside
        return -0.5 * jnp.sum((value / self.scale) ** 2, axis=-1) - normalizer

    def sample(self, key: PRNGKeyArray, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw a direction, and a length by inverting its law."""
        way, far = jax.random.split(key)
        normal = jax.random.normal(way, (*sample_shape, self.dim))
        unit = normal / jnp.linalg.norm(normal, axis=-1, keepdims=True)
        share = jax.random.uniform(far, sample_shape) ** (1 / self.dim)
        roots, lengths = _quantiles(self.dim, self.radius / self.scale)
        length = self.scale * jnp.interp(share, jnp.asarray(roots), jnp.asarray(lengths))
        return jnp.minimum(length, self.radius * (1 - 1e-6))[..., None] * unit


def _log_law(length: Float[np.ndarray, " points"], dim: int) -> Float[np.ndarray, " points"]:
    """Log probability that a standard normal vector is shorter, also where it underflows."""
    square = length**2
    is_far = square > longest_square(dim)
    inside = dim * (log_stretch(np.where(is_far, 1.0, square), dim) + np.log(length))
    return np.where(is_far, 0.0, inside)


@lru_cache(maxsize=64)
def _quantiles(
    dim: int, longest: float
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Lengths, and the ``dim``-th roots of the shares of draws that are shorter."""
    lengths = longest * np.linspace(0.0, 1.0, NUM_QUANTILES + 1)[1:]
    log_shares = _log_law(lengths, dim)
    roots = np.exp((log_shares - log_shares[-1]) / dim)
    return np.append(0.0, roots), np.append(0.0, lengths)


# Charts of bounded supports: bijections under which the flat law is a standard normal.
#
# A posterior with a flat prior is then exactly Gaussian without data and nearly so with few, which
# suits samplers best. Each chart inverts a distribution function: entry by entry on a box, stick by
# stick on a simplex, by the length on a ball (`gibbs_dp.model.charts`).


_LOG_ROOT = 0.5 * np.log(2.0 * np.pi)  # log normalizer of the standard normal, per coordinate


def _log_normal(u: Float[Array, "*b"]) -> Float[Array, "*b"]:
    return -0.5 * u**2 - _LOG_ROOT


class BoxChart(ParameterFreeTransform):  # type: ignore[misc]
    """Entry by entry ``u -> low + (high - low) Phi(u)``, precise relative to either end."""

    domain = constraints.real

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high

    @property
    def codomain(self) -> Any:
        """The interval."""
        return constraints.interval(self.low, self.high)

    def __call__(self, u: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """Map onto the box."""
        is_low = u < 0
        # Beyond 5, 1 - Phi has no digits left in float32; measured from the nearer end it does.
        tail = 0.5 * jax.scipy.special.erfc(jnp.where(is_low, -1.0, 1.0) * np.sqrt(0.5) * u)
        # Bounds may differ in type from u; the parameter takes that of u.
        low, width = jnp.asarray(self.low, u.dtype), jnp.asarray(self.high - self.low, u.dtype)
        high = jnp.asarray(self.high, u.dtype)
        theta = jnp.where(is_low, low + width * tail, high - width * tail)
        return jnp.clip(theta, low, high)

    def _inverse(self, theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        low, high = jnp.asarray(self.low, theta.dtype), jnp.asarray(self.high, theta.dtype)
        below, above = (
            jax.scipy.special.ndtri(jnp.clip(x / (high - low), 0.0, 0.5))  # the ends are infinite
            for x in (theta - low, high - theta)
        )
        return jnp.where(theta - low < high - theta, below, -above)

    def log_abs_det_jacobian(
        self, u: Float[Array, "*b"], theta: Float[Array, "*b"], intermediates: Any = None
    ) -> Float[Array, "*b"]:
        """Log normal density plus log width, entry by entry."""
        del theta, intermediates
        return _log_normal(u) + jnp.log(jnp.asarray(self.high - self.low, u.dtype))


class SimplexChart(ParameterFreeTransform):  # type: ignore[misc]
    """Stick breaking: with ``m`` pieces to come, one takes ``1 - Phi(-u)^(1/m)`` of the rest."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __call__(self, u: Float[Array, "*b d"]) -> Float[Array, "*b e"]:
        """Map onto the simplex, which has one more entry."""
        log_left = jax.scipy.special.log_ndtr(-u) / _pieces(u.shape[-1], u.dtype)
        left = jnp.exp(jnp.cumsum(log_left, axis=-1))
        before = jnp.concatenate([jnp.ones_like(left[..., :1]), left[..., :-1]], axis=-1)
        taken = before * -jnp.expm1(log_left)
        return jnp.concatenate([taken, left[..., -1:]], axis=-1)

    def _inverse(self, theta: Float[Array, "*b e"]) -> Float[Array, "*b d"]:
        tiny = jnp.finfo(theta.dtype).tiny
        # Summed from the end: 1 minus a sum from the front loses its digits.
        left = jnp.flip(jnp.cumsum(jnp.flip(theta, -1), axis=-1), -1)
        share_left = left[..., 1:] / jnp.maximum(left[..., :-1], tiny)
        share_left = jnp.clip(share_left, tiny, 1.0)
        share_taken = jnp.clip(theta[..., :-1] / jnp.maximum(left[..., :-1], tiny), 0.0, 1.0)
        # log(1 - taken), from whichever expression is precise.
        log_left = jnp.where(share_taken < 0.5, jnp.log1p(-share_taken), jnp.log(share_left))
        log_tail = _pieces(theta.shape[-1] - 1, theta.dtype) * log_left
        below = jax.scipy.special.ndtri(jnp.clip(-jnp.expm1(log_tail), tiny, 0.5))
        above = jax.scipy.special.ndtri(jnp.clip(jnp.exp(log_tail), tiny, 0.5))
        return jnp.where(log_tail > -np.log(2.0), below, -above)

    def log_abs_det_jacobian(
        self, u: Float[Array, "*b d"], theta: Float[Array, "*b e"], intermediates: Any = None
    ) -> Float[Array, "*b"]:
        """Log normal density plus log volume, in all entries but the last."""
        del theta, intermediates
        return jnp.sum(_log_normal(u), axis=-1) - special.gammaln(u.shape[-1] + 1.0)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Add one entry."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Remove one entry."""
        if len(shape) < 1:
            raise ValueError("a simplex needs at least one axis.")
        return (*shape[:-1], shape[-1] - 1)


def _pieces(num_sticks: int, dtype: Any) -> Float[Array, " sticks"]:
    return jnp.arange(num_sticks, 0, -1).astype(dtype)


_INTERVALS = (
    type(constraints.interval(0.0, 1.0)),
    type(constraints.open_interval(0.0, 1.0)),
    type(constraints.unit_interval),
)


def chart_of(constraint: Any) -> Any:
    """Return the chart of a box, simplex or ball, ``to_event`` or not; None for others.

    >>> chart_of(constraints.real) is None
    True
    """
    c = constraint
    while hasattr(c, "base_constraint"):
        c = c.base_constraint
    if isinstance(c, L2Ball):
        return BallChart(c.radius)
    if type(c) is type(constraints.simplex):
        return SimplexChart()
    if type(c) in _INTERVALS:
        low, high = np.asarray(c.lower_bound), np.asarray(c.upper_bound)
        if np.isfinite(low).all() and np.isfinite(high).all():
            return BoxChart(low, high)
    return None


# Parameters as points of flat Euclidean space, by the bijections of a prior's supports.

Scalar = Float[Array, ""]


class UnconstrainedTarget(NamedTuple):
    """A posterior on flat Euclidean space, for use in any sampler."""

    # Unnormalized log density of the flat vector ``u [dim]``, Jacobian included.
    log_density: Callable[[Float[Array, " dim"]], Scalar]
    constrain: Callable[[Float[Array, " dim"]], PyTree]  # maps ``u [dim]`` to theta
    unconstrain: Callable[[PyTree], Float[Array, " dim"]]  # maps theta to ``u [dim]``
    dim: int  # length of ``u``


class FlatCoordinates:
    """What has a prior, seen through its flat coordinates."""

    prior: Any

    @property
    def dim(self) -> int:
        """Number of unconstrained coordinates."""
        return sum(prod(s.unconstrained_shape) for s in self.prior.supports)

    def split(self, u: Float[Array, " dim"]) -> list[Array]:
        """Cut flat coordinates into those of the prior's parts, in their shapes."""
        parts, start = [], 0
        for s in self.prior.supports:
            size = prod(s.unconstrained_shape)
            parts.append(u[start : start + size].reshape(s.unconstrained_shape))
            start += size
        return parts

    def _parts(self, u: Float[Array, " dim"] | list[Array]) -> list[Array]:
        return u if isinstance(u, list) else self.split(u)

    def constrain(self, u: Float[Array, " dim"] | list[Array]) -> PyTree:
        """Map flat unconstrained coordinates, or their parts, to theta."""
        leaves = []
        for support, part in zip(self.prior.supports, self._parts(u), strict=True):
            leaves.append(support.constrain(part))
        return self.prior.treedef.unflatten(leaves)

    def unconstrain(self, theta: PyTree) -> Float[Array, " dim"]:
        """Map theta (inside the support) to flat unconstrained coordinates."""
        values = self.prior.treedef.flatten_up_to(theta)
        pairs = zip(self.prior.supports, values, strict=True)
        return ravel_pytree([s.unconstrain(jnp.asarray(x)) for s, x in pairs])[0]

    def log_prior_unconstrained(self, u: Float[Array, " dim"] | list[Array]) -> Scalar:
        """Log prior density of flat coordinates, or their parts: log prior plus log Jacobian."""
        log_dets = []
        for support, part in zip(self.prior.supports, self._parts(u), strict=True):
            log_dets.append(support.log_det(part))
        return self.prior.log_prob(self.constrain(u)) + jnp.sum(jnp.stack(log_dets))

    def initial(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """Draw an overdispersed start in flat coordinates."""
        return self.unconstrain(self.prior.initial(key))


# Arrays that are spread over several devices, perhaps of several processes.


def is_spread(leaf: Any) -> bool:
    """Whether an array lies on several devices."""
    return (
        isinstance(leaf, jax.Array)
        and not isinstance(leaf, jax.core.Tracer)
        and len(leaf.sharding.device_set) > 1
    )


def on_every_device(values: PyTree, data: PyTree) -> PyTree:
    """Copy results to every device that holds a part of the data, if these are spread."""
    first = jax.tree.leaves(data)[0]
    if not is_spread(first) or not isinstance(first.sharding, NamedSharding):
        return values
    whole = NamedSharding(first.sharding.mesh, PartitionSpec())
    return jax.jit(_identity, out_shardings=whole)(values)


def distinct_values(values: Any, limit: int) -> np.ndarray:
    """Return distinct values in order; of a spread array only the first ``limit``."""
    if not is_spread(values):
        return np.unique(np.asarray(values))
    found = jnp.unique(values, size=limit, fill_value=values[0])
    return np.unique(np.asarray(on_every_device(found, values)))


def _identity(values: Any) -> Any:
    return values
