"""Log normalizers of posteriors: bridge sampling, Bennett, and thermodynamic integration."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from gibbs_dp.information.checks import whole_arrays

# The ratio of two posteriors' normalizers from draws of both.

# Newton's steps are kept inside a bracket that shrinks, so that these are more than enough.
NUM_STEPS = 32


@whole_arrays
def log_normalizer_ratio(
    delta: Float[Array, " draws"],
    delta_replaced: Float[Array, " others"],
    share: Float[Array, " draws"] | None = None,
    share_replaced: Float[Array, " others"] | None = None,
) -> Float[Array, ""]:
    """Log of ``C' / C`` by Bennett's acceptance ratio, nats.

    ``p = e^{-U} / C`` and ``p' = e^{-U'} / C'`` with ``delta = U' - U``, so that ``log p / p' =
    delta + log(C' / C)``. It solves ``mean_p sigmoid(-L) = mean_p' sigmoid(L)`` for the ratio in
    ``L``, both sides of which estimate the integral of ``p p' / (p + p')``: the asymptotically
    best bridge for equally many draws of both (Bennett 1976; Meng & Wong 1996, section 3). Its
    variance is finite whichever tail is heavier, unlike that of ``mean_p e^{-delta}``.

    >>> import jax.numpy as jnp
    >>> round(float(log_normalizer_ratio(jnp.full(8, 1.5), jnp.full(4, 1.5))), 4)  # the same law
    -1.5
    """
    own = jnp.full_like(delta, 1.0 / delta.size) if share is None else share
    other = share_replaced
    if other is None:
        other = jnp.full_like(delta_replaced, 1.0 / delta_replaced.size)
    smallest = jnp.minimum(delta.min(), delta_replaced.min())
    largest = jnp.maximum(delta.max(), delta_replaced.max())

    def newton(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, ratio = state
        forward = jax.nn.sigmoid(-(delta + ratio))
        backward = jax.nn.sigmoid(delta_replaced + ratio)
        excess = jnp.sum(own * forward) - jnp.sum(other * backward)  # falls with the ratio
        slope = jnp.sum(own * forward * (1.0 - forward)) + jnp.sum(
            other * backward * (1.0 - backward)
        )
        low, high = jnp.where(excess > 0, ratio, low), jnp.where(excess > 0, high, ratio)
        step = ratio + excess / jnp.maximum(slope, jnp.finfo(slope.dtype).tiny)
        inside = (step >= low) & (step <= high)
        return low, high, jnp.where(inside, step, 0.5 * (low + high))

    middle = -0.5 * (jnp.sum(own * delta) + jnp.sum(other * delta_replaced))
    start = -largest, -smallest, middle
    return jax.lax.fori_loop(0, NUM_STEPS, newton, start)[2]


NEWTON_STEPS = 12
# Worth of an evenly spread point on the line, in random points; in dim coordinates a dim-th of it.
# Against quadrature in one and two dimensions it reduces the errors of normalizers from 64 draws
# from 0.01-0.05 nats to 0.001-0.005; larger worths gain nothing.
POINT_WORTH = 16.0
# Longest Newton step in nats: where the two laws hardly overlap, the equation is flat.
_LONGEST_STEP = 4.0


class Normalizer(NamedTuple):
    """One dataset's log normalizer."""

    value: Float[Array, "*b"]  # ``log`` of the integral of the unnormalized density (nats)
    # Its standard error: between chains for the draws, between points for the proposal.
    se: Float[Array, "*b"]
    # In (0, 1]: 1 where proposal and posterior are the same law, near 0 where they hardly
    # overlap (several modes, a bad Gaussian fit) and the value cannot be trusted.
    overlap: Float[Array, "*b"]


@lru_cache(maxsize=8)
def quasi_normals(num_points: int, dim: int) -> Float[np.ndarray, "points dim"]:
    """Evenly spread standard normal points in antithetic pairs, the same at every call.

    All datasets share them, so their error is nearly the same for every dataset, and an error
    common to all normalizers cancels in every information estimate.
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


# Log normalizers along a grid of gammas by thermodynamic integration.


class Integral(NamedTuple):
    """Increments of the log normalizer from one gamma to the next, one row per dataset."""

    value: Float[np.ndarray, "datasets intervals"]  # ``log C(gamma_j+1) - log C(gamma_j)``
    # Difference to a coarser rule: the possible error from the spacing of the grid.
    quadrature_error: Float[np.ndarray, "datasets intervals"]


@whole_arrays
def integrate_mean_loss(
    gammas: Float[np.ndarray, " gammas"],
    mean_loss: Float[np.ndarray, "datasets gammas"],
    loss_variance: Float[np.ndarray, "datasets gammas"],
) -> Integral:
    """Integrate ``d log C / d gamma = -E_gamma[L]`` between neighbouring gammas.

    With ``s = log gamma`` the integrand ``gamma E_gamma[L]`` is matched in value and slope
    (``dE/dgamma = -Var_gamma(L)``) at both ends by a combination of ``1, gamma, s, s gamma``: exact
    for a Gaussian posterior under a flat prior, where it is ``a gamma + d / 2``. The coarser rule
    matches the values alone, by ``1`` and ``gamma``. An interval that begins at gamma = 0 uses
    powers of gamma instead.

    >>> gammas = np.array([0.1, 1.0, 10.0])
    >>> loss = 3.0 + 0.5 / gammas  # one Gaussian coordinate: log C = -3 gamma - log(gamma) / 2
    >>> found = integrate_mean_loss(gammas, loss[None], 0.5 / gammas[None] ** 2)
    >>> bool(np.allclose(found.value, -3.0 * np.diff(gammas) - 0.5 * np.log(10.0)))
    True
    """
    fine, coarse = [], []
    for j, (low, high) in enumerate(pairwise(gammas)):
        ends = slice(j, j + 2)
        rule = _from_zero if low == 0 else _from_positive
        both = rule(float(low), float(high), mean_loss[:, ends], loss_variance[:, ends])
        fine.append(both[0])
        coarse.append(both[1])
    value = -np.stack(fine, axis=1)
    return Integral(value, np.abs(value + np.stack(coarse, axis=1)))


Pair = Float[np.ndarray, "datasets 2"]
Column = Float[np.ndarray, " datasets"]


def _from_positive(low: float, high: float, mean: Pair, variance: Pair) -> tuple[Column, Column]:
    gamma, ratio = np.array([low, high]), high / low
    integrand = gamma * mean
    slope = integrand - gamma**2 * variance
    # Basis 1, e^t, t, t e^t with t = log(gamma / low) in [0, log ratio].
    t, e = np.array([0.0, np.log(ratio)]), np.array([1.0, ratio])
    values = np.stack([np.ones(2), e, t, t * e], axis=1)
    slopes = np.stack([np.zeros(2), e, np.ones(2), (1 + t) * e], axis=1)
    wanted = np.concatenate([integrand, slope], axis=1)
    coefficients = np.linalg.solve(np.concatenate([values, slopes]), wanted.T)
    length = t[1]
    weights = np.array([length, ratio - 1.0, length**2 / 2, (length - 1.0) * ratio + 1.0])
    two = np.linalg.solve(values[:, :2], integrand.T)
    return weights @ coefficients, weights[:2] @ two


def _from_zero(low: float, high: float, mean: Pair, variance: Pair) -> tuple[Column, Column]:
    width = high - low
    trapezoid = width * mean.mean(axis=1)
    return trapezoid + width**2 / 12.0 * (variance[:, 1] - variance[:, 0]), trapezoid
