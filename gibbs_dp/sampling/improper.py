"""Posteriors that cannot be normalized: rays along which the density does not decay.

A ray test can prove a posterior improper, never proper. It must not take numbers for more than
they are: where curvature or slope is rounding, so are directions found from them, and a ray that
follows one far leaves it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gibbs_dp._jaxlib.linalg import eigh, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.sampling.kernels.base import Potential
from gibbs_dp.sampling.target import Target, Terms

# In standard deviations of the Gaussian fitted at the mode: where a loss of up to 1e9 nats has
# reached its ceiling, if it has one.
NEAR, FAR = 1e5, 1e7
# Of a density that decays as slowly as 1 / t, over a ray of a thousand of its units: 6.9 nats.
LEAST_RISE = math.log(1e3)
# Nats, two standard deviations along a ray.
LEAST_PROMISE = 2.0


class _Rays(NamedTuple):
    """Directions from the mode, in flat coordinates, one unit of the posterior's scale long.

    Where ``is_resolved`` is false the scale is not known: the ray is as long as can be followed.
    """

    vectors: Float[Array, "rays dim"]
    is_resolved: Bool[Array, " rays"]


def is_improper(
    target: Target,
    mode: Float[Array, " dim"],
    reference: Terms,
    hessian: Float[Array, "dim dim"],
    scale: Float[Array, "dim dim"],
    is_curved: Bool[Array, ""],
) -> Bool[Array, ""]:
    """Whether the potential fails to rise along some ray from the mode.

    For priors flat on an unbounded support, rays both ways along: every eigenvector of the Hessian
    in units of each coordinate's own curvature; the direction of the mode itself (where a search
    that found no mode has been heading); and, unless the Hessian is positive definite, the
    direction that the examples' gradients see least (more coefficients than examples under a loss
    without curvature). A density that decays no faster than ``1 / t`` has no finite integral along
    the ray. For priors flat on a bounded support: see :func:`_is_pinned`.

    Parameters
    ----------
    target
        The posterior.
    mode, reference, hessian
        Where the search ended, its energy terms, and the Hessian of the potential there.
    scale, is_curved
        Of the Gaussian fitted there, whether there is one.

    Returns
    -------
    Bool[Array, ""]
        Whether such a ray was found.
    """
    potential = target.relative_to(reference)
    found = jnp.zeros((), bool)
    prior = target.posterior.prior
    if prior.is_flat:
        rays = _rays(target, mode, hessian)
        # Where the Hessian in flat coordinates is rounding that of the fit need not be: what rises
        # half as much as that promises rises. A fit to rounding promises nothing.
        promised = 0.5 * jnp.sum(solve_lower(scale, rays.vectors.T) ** 2, axis=0)
        is_known = is_curved & ~rays.is_resolved & (promised > LEAST_PROMISE)
        least = jnp.where(is_known, jnp.minimum(0.5 * promised, LEAST_RISE), LEAST_RISE)
        found |= _fails_to_rise(potential, mode, rays, least)
    if any(prior.is_bounded_flat):
        found |= _is_pinned(potential, mode, jnp.asarray(prior.is_bounded_flat))
    return found


def _rays(target: Target, mode: Float[Array, " dim"], hessian: Float[Array, "dim dim"]) -> _Rays:
    dim, dtype = mode.shape[0], mode.dtype
    eps, tiny = jnp.finfo(dtype).eps, jnp.finfo(dtype).tiny * 1e6
    slopes = target.gamma * jax.jacfwd(lambda u: target.terms(u).losses)(mode)
    # Units in which every coordinate has curvature 1; where a loss has none, slope 1.
    curve, slope = jnp.sqrt(jnp.abs(jnp.diagonal(hessian))), jnp.linalg.norm(slopes, axis=0)
    unit = jnp.where(curve > eps * slope + tiny, curve, slope)
    unit = jnp.where(unit > tiny, unit, 1.0)
    standard = hessian / unit / unit[:, None]
    values, vectors = eigh(standard)
    top = jnp.maximum(jnp.max(jnp.abs(values)), jnp.where(jnp.any(curve > 0), 0.0, 1.0))
    top = jnp.where(top > 0, top, 1.0)
    # Rounding of a Hessian's entries; of its eigenvectors it is as much, over the gap.
    noise = 64 * eps * dim * top
    # So far, a direction that is off by its rounding gains 0.005 nats where it should gain none.
    longest = 0.1 / (8 * eps * jnp.sqrt(top))

    heading = unit * mode
    heading = heading / (jnp.linalg.norm(heading) + tiny)
    axes = jnp.concatenate([vectors.T, heading[None]])
    curvature = jnp.append(values, jnp.sum(heading * matmul(standard, heading)))
    is_resolved = curvature > noise
    lengths = jnp.where(is_resolved, jax.lax.rsqrt(jnp.maximum(curvature, tiny)), longest)

    seen, directions = eigh(matmul((slopes / unit).T, slopes / unit))
    least = jnp.where(seen[0] > 64 * eps * dim * seen[-1], 1e3 / jnp.sqrt(seen[0] + tiny), longest)
    is_needed = ~jnp.all(values > noise)
    axes = jnp.concatenate([axes, jnp.where(is_needed, directions[:, :1].T, 0.0)])
    lengths = jnp.append(lengths, jnp.minimum(least, longest))
    vectors = lengths[:, None] * axes / unit
    both = jnp.concatenate([vectors, -vectors])
    return _Rays(both, jnp.tile(jnp.append(is_resolved, False), 2))


def _fails_to_rise(
    potential: Potential, mode: Float[Array, " dim"], rays: _Rays, least: Float[Array, " rays"]
) -> Bool[Array, ""]:
    """Look at two points of each ray; at the one that can be reached where it is not resolved."""
    factor = jnp.where(rays.is_resolved, NEAR, 1.0)
    near = jax.vmap(lambda v, t: potential(mode + t * v))(rays.vectors, factor)
    far = jax.vmap(lambda v: potential(mode + FAR * v))(rays.vectors)
    # At its ceiling a loss neither rises nor falls; the difference of large numbers is rounding.
    rounding = 64 * jnp.finfo(near.dtype).eps * jnp.abs(far)
    stays_low = _is_low(near, least)
    stays_flat = _is_low(jnp.abs(far - near), math.log(FAR / NEAR) + rounding)
    exists = jnp.sum(rays.vectors**2, axis=1) > 0
    return jnp.any(exists & (stays_low | (rays.is_resolved & stays_flat)))


# Flat coordinates at which an end of a bounded support is near: to 6e-3 and 3e-7, which single
# precision tells from any end; to 1e-9 and 2e-33, which it tells from an end that is 0.
AT_ANY_END, AT_ZERO = (2.5, 5.0), (6.0, 12.0)


def _is_pinned(
    potential: Potential, mode: Float[Array, " dim"], is_bounded: Bool[Array, " dim"]
) -> Bool[Array, ""]:
    """Whether a density grows so fast towards an end of a bounded support that it has no integral.

    Flat coordinates are a standard normal's there (`gibbs_dp.model.charts`): the potential of what
    is integrable, however singular, rises quadratically in them, and ``1 / (theta - end)`` falls.
    """
    axes = jnp.eye(mode.shape[0], dtype=mode.dtype)

    def at(where: float) -> Float[Array, " rays"]:
        points = [mode + (end - mode[:, None]) * axes for end in (where, -where)]
        return jax.vmap(potential)(jnp.concatenate(points))

    far, near = (at(outer) - at(inner) for inner, outer in (AT_ZERO, AT_ANY_END))
    falls = jnp.where(jnp.isfinite(far), far < 0, _is_low(near, 0.0))
    return jnp.any(falls & jnp.tile(is_bounded, 2))


def _is_low(x: Float[Array, "*b"], least: Float[Array, "*b"] | float) -> Bool[Array, "*b"]:
    """Below ``least``; what is no number, where a loss overflowed, proves nothing."""
    return jnp.isfinite(x) & (x < least)
