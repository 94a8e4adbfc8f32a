"""Log normalizers of posteriors by bridge sampling."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from gibbs_dp.information.checks import whole_arrays

NEWTON_STEPS = 12
# Worth of an evenly spread point on the line, in random points; in dim coordinates a dim-th of it.
# Against quadrature in one and two dimensions it reduces the errors of normalizers from 64 draws
# from 0.01-0.05 nats to 0.001-0.005; larger worths gain nothing.
POINT_WORTH = 16.0
# Longest Newton step in nats: where the two laws hardly overlap, the equation is flat.
_LONGEST_STEP = 4.0


class Normalizer(NamedTuple):
    """One dataset's log normalizer.

    Attributes
    ----------
    value
        ``log`` of the integral of the unnormalized density (nats).
    se
        Its standard error: between chains for the draws, between points for the proposal.
    overlap
        In (0, 1]: 1 where proposal and posterior are the same law, near 0 where they hardly overlap
        (several modes, a bad Gaussian fit) and the value cannot be trusted.
    """

    value: Float[Array, "*b"]
    se: Float[Array, "*b"]
    overlap: Float[Array, "*b"]


@lru_cache(maxsize=8)
def quasi_normals(num_points: int, dim: int) -> Float[np.ndarray, "points dim"]:
    """Evenly spread standard normal points in antithetic pairs, the same at every call.

    All datasets share them, so their error is nearly the same for every dataset, and an error
    common to all normalizers cancels in every information estimate.

    Returns
    -------
    array
        One point per row.

    Raises
    ------
    ValueError
        If ``num_points`` is not twice a power of two.
    """
    half = num_points // 2
    if 2 * half != num_points or half & (half - 1) or half == 0:
        raise ValueError(f"num_points: must be twice a power of two, got {num_points}.")
    from scipy.stats import qmc  # slow to import

    uniforms = qmc.Sobol(dim, scramble=True, rng=0).random(half)
    points = special.ndtri(np.clip(uniforms, 1e-10, 1 - 1e-10))
    return np.concatenate([points, -points])


def point_worth(dim: int) -> float:
    """Worth of one of `quasi_normals`' points in ``dim`` coordinates, for `bridge`."""
    return max(1.0, POINT_WORTH / dim)


@whole_arrays
def bridge(
    at_draws: Float[Array, "chains draws"],
    at_proposals: Float[Array, " proposals"],
    worth: float = 1.0,
) -> Normalizer:
    """Log normalizer from draws of the posterior and of a normalized proposal density ``q``.

    Solves ``sum_proposals s(l - r) = sum_draws s(r - l)`` for ``r``, with ``s`` the logistic
    function, ``l = log(unnormalized density / q)`` and the logarithm of the ratio of the sample
    sizes added to ``l - r``: the asymptotically best bridge (Meng & Wong 1996, section 3; Bennett
    1976). Unlike importance sampling it has finite variance whichever tail is heavier.

    Parameters
    ----------
    at_draws
        ``l`` at draws of the posterior.
    at_proposals
        ``l`` at points of ``q``.
    worth
        Random points that one point of ``q`` is worth: 1 if random, `point_worth` if evenly
        spread.

    Returns
    -------
    Normalizer
        With standard error and overlap.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> found = bridge(jnp.full((2, 4), 1.5), jnp.full((8,), 1.5))  # q is the posterior
    >>> round(float(found.value), 4), round(float(found.overlap), 4)
    (1.5, 1.0)
    """
    num_chains = at_draws.shape[0]
    num_proposals = worth * at_proposals.size
    offset = jnp.log(at_draws.size / num_proposals)
    largest = at_draws.size * num_proposals / (at_draws.size + num_proposals)

    def sides(r: Float[Array, ""]) -> tuple[Array, Array, Array]:
        forward = jax.nn.sigmoid(at_proposals - r + offset)
        backward = jax.nn.sigmoid(r - at_draws - offset)
        slope = worth * jnp.sum(forward * (1.0 - forward))
        return forward, backward, slope + jnp.sum(backward * (1.0 - backward))

    def newton(_: Array, r: Float[Array, ""]) -> Float[Array, ""]:
        forward, backward, slope = sides(r)
        excess = worth * jnp.sum(forward) - jnp.sum(backward)
        step = excess / jnp.maximum(slope, 1e-6 * largest)
        return r + jnp.clip(step, -_LONGEST_STEP, _LONGEST_STEP)

    # Importance sampling from either side is a bound in expectation: start half way.
    size = jnp.log(at_proposals.size)
    start = 0.5 * (
        jax.scipy.special.logsumexp(at_proposals) - size
        - (jax.scipy.special.logsumexp(-at_draws) - jnp.log(at_draws.size))
    )  # fmt: skip
    value = jax.lax.fori_loop(0, NEWTON_STEPS, newton, start)
    forward, backward, slope = sides(value)
    # Chains, not draws, are independent.
    spread = num_chains * jnp.var(jnp.sum(backward, axis=1), ddof=1)
    spread += num_proposals * jnp.var(forward)
    return Normalizer(
        value=value,
        se=jnp.sqrt(spread) / jnp.maximum(slope, 1e-6 * largest),
        overlap=slope / largest,
    )
