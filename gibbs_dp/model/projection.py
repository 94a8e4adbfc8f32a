"""Parameters in their own coordinates, and the nearest point of a prior's support."""

from __future__ import annotations

from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.distributions import constraints

from gibbs_dp.model.charts import L2Ball
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat, Prior
from gibbs_dp.model.supports import Support, real

_INTERVALS = (type(constraints.interval(0.0, 1.0)), type(constraints.unit_interval))


def is_projectable(prior: Prior) -> bool:
    """Whether every part lives on a box, on a ball or on all of Euclidean space.

    >>> import gibbs_dp as gdp
    >>> [is_projectable(Prior(Flat(s))) for s in (gdp.supports.l2_ball(2), gdp.supports.simplex(2))]
    [True, False]
    """
    return all(s.is_real or _kind(s) in (L2Ball, *_INTERVALS) for s in prior.supports)


def in_theta(posterior: GibbsPosterior) -> GibbsPosterior:
    """Return the same losses with flat coordinates that are theta's own, whatever its support.

    Of the prior only the shapes are kept. Where the support is all of Euclidean space, this is the
    posterior itself.
    """
    if posterior.prior.is_euclidean:
        return posterior
    shapes = [Flat(real(s.shape)) for s in posterior.prior.supports]
    return GibbsPosterior(posterior.loss, posterior.prior.treedef.unflatten(shapes))


def project(prior: Prior, theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Nearest point of the support's closure: entry by entry in a box, along the ray in a ball."""
    if prior.is_euclidean:
        return theta
    parts, start = [], 0
    for support in prior.supports:
        size = prod(support.shape)
        part = theta[start : start + size].reshape(support.shape)
        parts.append(_nearest(support, part).reshape(-1))
        start += size
    return jnp.concatenate(parts)


def _kind(support: Support) -> type[Any]:
    return type(_bare(support))


def _bare(support: Support) -> Any:
    """Return the constraint without the ``to_event`` around it."""
    found = support.constraint
    while hasattr(found, "base_constraint"):
        found = found.base_constraint
    return found


def _nearest(support: Support, part: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    found = _bare(support)
    if isinstance(found, L2Ball):
        lengths = jnp.linalg.norm(part, axis=-1, keepdims=True)
        return part * (found.radius / jnp.maximum(lengths, found.radius))
    if support.is_real:
        return part
    low, high = (np.asarray(end, part.dtype) for end in (found.lower_bound, found.upper_bound))
    return jnp.clip(part, low, high)
