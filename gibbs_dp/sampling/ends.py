"""Draws as near an end of their support as numbers go: what lies beyond is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from gibbs_dp.model.supports import Support

# Gaps between neighbouring numbers.
NEAR = 4.0


def share_at_ends(
    supports: Sequence[Support], leaves: Sequence[Float[Array, "dataset chain draw ..."]]
) -> float:
    """Largest share of a coordinate's draws within four roundings of an end of its support.

    An end at zero is none: there numbers are as close as a density may ask for.

    Parameters
    ----------
    supports
        Of the parameter's parts.
    leaves
        Draws of these parts.

    Returns
    -------
    float
        The share, of the coordinate and dataset that has most.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> draws = jnp.array([0.0, 0.5, 0.9, 1.0]).reshape(1, 1, 4)
    >>> share_at_ends([gdp.supports.box(0.0, 1.0)], [draws])
    0.25
    """
    shares = [0.0]
    for support, leaf in zip(supports, leaves, strict=True):
        shares += [_share(leaf, end) for end in support.ends()]
    return max(shares)


def _share(leaf: Float[Array, "dataset chain draw ..."], end: Any) -> float:
    end = jnp.asarray(end, leaf.dtype)
    gap = NEAR * jnp.finfo(leaf.dtype).eps * jnp.abs(end)
    is_near = (jnp.abs(leaf - end) <= gap) & (end != 0) & jnp.isfinite(end)
    return float(jnp.mean(is_near, axis=(1, 2)).max(initial=0.0))
