"""Charts of bounded supports: bijections under which the flat law is a standard normal.

A posterior with a flat prior is then exactly Gaussian without data and nearly so with few, which
suits samplers best. Each chart inverts a distribution function: entry by entry on a box, stick by
stick on a simplex, by the length on a ball (`gibbs_dp.model.ball`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpyro.distributions import constraints
from numpyro.distributions.transforms import ParameterFreeTransform
from scipy import special

from gibbs_dp.model.ball import BallChart, L2Ball

_LOG_ROOT = 0.5 * np.log(2.0 * np.pi)  # log normalizer of the standard normal, per coordinate


def _log_normal(u: Float[Array, "*b"]) -> Float[Array, "*b"]:
    return -0.5 * u**2 - _LOG_ROOT


class BoxChart(ParameterFreeTransform):  # type: ignore[misc]
    """Entry by entry ``u -> low + (high - low) Phi(u)``, precise relative to either end.

    Parameters
    ----------
    low, high
        Finite bounds, arrays or numbers.
    """

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
    """Stick breaking: with ``m`` pieces to come, the next takes ``1 - Phi(-u)^(1/m)`` of the rest.

    That share has the Beta(1, m) law of the pieces of a uniform point.
    """

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
    """A posterior on flat Euclidean space, for use in any sampler.

    Attributes
    ----------
    log_density
        Unnormalized log density of the flat vector ``u [dim]``, Jacobian included.
    constrain
        Maps ``u [dim]`` to theta.
    unconstrain
        Maps theta to ``u [dim]``.
    dim
        Length of ``u``.
    """

    log_density: Callable[[Float[Array, " dim"]], Scalar]
    constrain: Callable[[Float[Array, " dim"]], PyTree]
    unconstrain: Callable[[PyTree], Float[Array, " dim"]]
    dim: int


class FlatCoordinates:
    """What has a prior, seen through its flat coordinates."""

    prior: Any

    @property
    def dim(self) -> int:
        """Number of unconstrained coordinates."""
        return sum(prod(s.unconstrained_shape) for s in self.prior.supports)

    def _split(self, u: Float[Array, " dim"]) -> list[Array]:
        parts, start = [], 0
        for s in self.prior.supports:
            size = prod(s.unconstrained_shape)
            parts.append(u[start : start + size].reshape(s.unconstrained_shape))
            start += size
        return parts

    def constrain(self, u: Float[Array, " dim"]) -> PyTree:
        """Map flat unconstrained coordinates to theta."""
        leaves = []
        for support, part in zip(self.prior.supports, self._split(u), strict=True):
            leaves.append(support.constrain(part))
        return self.prior.treedef.unflatten(leaves)

    def unconstrain(self, theta: PyTree) -> Float[Array, " dim"]:
        """Map theta (inside the support) to flat unconstrained coordinates."""
        values = self.prior.treedef.flatten_up_to(theta)
        pairs = zip(self.prior.supports, values, strict=True)
        return ravel_pytree([s.unconstrain(jnp.asarray(x)) for s, x in pairs])[0]

    def log_prior_unconstrained(self, u: Float[Array, " dim"]) -> Scalar:
        """Log prior density of the flat coordinates: log prior plus log Jacobian."""
        log_dets = []
        for support, part in zip(self.prior.supports, self._split(u), strict=True):
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
    """Copy results to every device that holds a part of the data, so that each process has them.

    Values stay as they are where the data are not spread.
    """
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
