"""The law of the privacy loss ``L = log p(theta)/p'(theta)`` of pairs of posteriors, from draws.

Of a pair ``p, p'`` (a dataset, and the same with a group replaced), whoever knows both and sees a
draw is told by ``L`` all there is to know (Neyman & Pearson 1933). It needs the ratio of the two
normalizers, which comes first here: bridge sampling, Bennett, thermodynamic integration.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy import special

from gibbs_dp._jaxlib.precision import expm1_and_exp, horner, matmul
from gibbs_dp.estimators.jackknife import LeavingOut
from gibbs_dp.estimators.on_average_kl import MAX_EXPONENT, bounded
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


# Decades where thresholds begin and where they are closer, how many there are to one before and
# after, and how many in all but 0. Curves are smooth between them, but where losses have few values
# they have corners: with eight to a decade everywhere 6% of a true positive rate was lost there.
FIRST_DECADE, CLOSE_DECADE, PER_DECADE, PER_CLOSE = -4, -1, 8, 32
NUM_COARSE, NUM_CLOSE = PER_DECADE * (CLOSE_DECADE - FIRST_DECADE), 77
EPSILONS: Float[np.ndarray, " bins"] = np.concatenate(
    [
        [0.0],
        10.0 ** (FIRST_DECADE + np.arange(NUM_COARSE) / PER_DECADE),
        10.0 ** (CLOSE_DECADE + np.arange(NUM_CLOSE) / PER_CLOSE),
    ]
)
"""Nats at which tails are known: 0, eight to a decade from 1e-4, and 32 to one from 0.1 to 24."""

ORDERS = (2.0, 8.0)
"""Rényi orders."""

_BEYOND = np.triu(np.ones((EPSILONS.size, EPSILONS.size + 1), np.float32), 1)


class LossTails(NamedTuple):
    """What one dataset's draws say of the privacy loss, averaged over its pairs."""

    # ``P_p(L > eps)`` at :data:`EPSILONS`: true positives of the test with that threshold.
    above: Float[Any, "*b bins"]
    # ``E_p[(1 - e^-L) 1(L > eps)]`` there: true positives less false ones; at 0, total variation.
    excess: Float[Any, "*b bins"]
    auc: Float[Any, "*b"]  # area under the ROC of each pair, a mean over pairs
    renyi: Float[Any, "*b orders"]  # ``D_a(p || p')`` of :data:`ORDERS`, a mean over pairs, nats
    # Largest share of one draw in ``E_p e^((a - 1) L)``, of these orders, or share of that mean in
    # points of a sum beyond which there may be more: a mean over pairs, that count by their
    # divergence where they are of one posterior.
    weight: Float[Any, "*b orders"]
    # How slowly ``P_p(L > t)`` falls: what losses beyond a point in their upper tail exceed it by,
    # on average, in nats; the largest of the pairs. One over the rate of an exponential tail, whose
    # Rényi divergence of order ``a`` is infinite where ``(a - 1) tail >= 1``.
    tail: Float[Any, "*b"]


def mean_excess(
    loss: Float[Array, "*lead draws"], share: Float[Array, " draws"]
) -> Float[Array, "*lead"]:
    """Mean excess of losses over a point that some fifth to sixth of them exceed.

    The mean plus 0.84 standard deviations, beyond which are 20% of Gaussian losses and 16% of
    exponential ones; no order is needed.
    """
    mean = jnp.sum(share * loss, axis=-1, keepdims=True)
    above = loss - mean
    above = above - 0.84 * jnp.sqrt(jnp.sum(share * above**2, axis=-1, keepdims=True))
    beyond = jnp.where(above > 0, share, 0.0)
    mass = jnp.sum(beyond, axis=-1)
    return jnp.sum(beyond * above, axis=-1) / jnp.where(mass > 0, mass, 1.0)


def released(
    loss: Float[Array, "*lead draws"],
    share: Float[Array, "*lead draws"],
    shape: tuple[int, int],
    num_releases: int,
) -> tuple[Float[Array, "*lead draws"], Float[Array, "*lead draws"]]:
    """Loss of several draws together, each of another chain and step than the others."""
    if num_releases == 1:
        return loss, share
    square = [a.reshape(*a.shape[:-1], *shape) for a in (loss, share)]
    total, product = square
    for k in range(1, num_releases):
        moved = [jnp.roll(a, (k, k), axis=(-2, -1)) for a in square]
        total, product = total + moved[0], product * moved[1]
    product = product / jnp.sum(product, axis=(-2, -1), keepdims=True)
    return total.reshape(loss.shape), product.reshape(share.shape)


def between(
    loss: Float[Array, " draws"], weight: Float[Array, " draws"], excess: Float[Array, " draws"]
) -> Float[Array, "intervals 2"]:
    """Sum two weights over the draws whose loss is between two of :data:`EPSILONS`, or outside."""
    blank = jnp.zeros(EPSILONS.size + 1, weight.dtype)
    # Scatters would compute them one by one, with a call for every logarithm.
    place, weight, excess = jax.lax.optimization_barrier((_bin_of(loss), weight, excess))
    # Each by itself: on CPUs sums of pairs take four times as long.
    return jnp.stack([blank.at[place].add(weight), blank.at[place].add(excess)], axis=1)


def tails(
    held: Float[Array, "intervals 2"],
) -> tuple[Float[Array, " bins"], Float[Array, " bins"]]:
    """Sum what is beyond each of :data:`EPSILONS`."""
    # Compiles in less time than a cumulative sum.
    beyond = matmul(jnp.asarray(_BEYOND, held.dtype), held)
    return beyond[:, 0], beyond[:, 1]


def _bin_of(loss: Float[Array, " draws"]) -> Int[Array, " draws"]:
    """How many of :data:`EPSILONS` a loss exceeds."""
    decade = jnp.log10(jnp.maximum(loss, 1e-30))
    close = NUM_COARSE + PER_CLOSE * (decade - CLOSE_DECADE)
    steps = jnp.where(decade > CLOSE_DECADE, close, PER_DECADE * (decade - FIRST_DECADE))
    beyond = jnp.clip(jnp.ceil(steps), 0, NUM_COARSE + NUM_CLOSE) + 1
    return jnp.where(loss > 0, beyond, 0).astype(jnp.int32)


# The law of the privacy loss from draws of one posterior, which tell the other's level too.

# Pairs whose losses make the tails, and (they cost more) ranks; and the first of them, on which
# groups of draws are left out to find the bias of all.
MOST_LOSSES, RANKED, LEFT_OUT = 32, 8, 2
# Draws that are ranked: two of them at a time. Points up to which a sort takes longer than that.
MOST_RANKED, MOST_COMPARED = 256, 1024


def one_sided_loss(
    delta: Float[Array, "pairs chains draws"],
    weight: Float[Array, "chains draws"],
    num_releases: int = 1,
) -> LossTails:
    """Estimate from draws of one posterior, jackknifed."""
    num_pairs, *shape = delta.shape
    share = weight.reshape(-1) / jnp.sum(weight)
    flat = delta.reshape(num_pairs, -1)
    flat = flat - matmul(flat, share)[:, None]
    flat = jnp.clip(flat, -MAX_EXPONENT, MAX_EXPONENT)
    small, _ = expm1_and_exp(-flat)
    level = jnp.log1p(bounded(matmul(small, share)))

    left = LeavingOut.of(*shape)
    few = slice(min(LEFT_OUT, num_pairs))
    kept = left.kept * share  # [selections, draws]
    kept = kept / jnp.sum(kept, axis=1, keepdims=True)
    levels = jnp.log1p(bounded(matmul(kept, small[few].T)))  # [selections, pairs]

    def together(loss: Array, shares: Array) -> tuple[Array, Array]:
        return released(loss, shares, (shape[0], shape[1]), num_releases)

    whole = together(flat + level[:, None], jnp.broadcast_to(share, flat.shape))
    parts = together(
        flat[few] + levels[..., None],
        jnp.broadcast_to(kept[:, None], (*levels.shape, share.size)),
    )
    fewer = (whole[0][few], whole[1][few])
    count = fewer[0].shape[0]
    above, excess = _tails(
        (whole[0], whole[1] / num_pairs),
        (fewer[0], fewer[1] * (left.whole / count)),
        (parts[0], parts[1] * (left.parts[:, None, None] / count)),
    )

    auc = _auc_of_pairs(whole, parts, left, is_exact=shape[0] == 1)
    is_sum = shape[0] == 1
    renyi, largest = _renyi(flat, level, share, is_sum)
    correction = [
        left.whole * jnp.mean(of_few) + matmul(left.parts, jnp.mean(of_parts, axis=-1))
        for of_few, of_parts in zip(
            _renyi(flat[few], level[few], share)[0],
            _renyi(flat[few], levels, kept[:, None])[0],
            strict=True,
        )
    ]
    means = jnp.stack([jnp.mean(r) + c for r, c in zip(renyi, correction, strict=True)])
    # Pairs count by their divergence: means are made of few pairs where data are skewed.
    part = jnp.maximum(jnp.stack(renyi), jnp.finfo(level.dtype).tiny)
    heavy = jnp.sum((part / jnp.sum(part, axis=1, keepdims=True)) * largest, axis=1)
    tail = jnp.zeros_like(auc) if is_sum else jnp.max(mean_excess(flat, share))
    return LossTails(above, excess, auc, num_releases * means, heavy, tail)


def _tails(*parts: tuple[Array, Array]) -> tuple[Float[Array, " bins"], Float[Array, " bins"]]:
    """Tails of losses with weights, added up."""
    held = jnp.zeros((EPSILONS.size + 1, 2), parts[0][0].dtype)
    for loss, weight in parts:  # together they would take longer
        flat, share = jnp.ravel(loss), jnp.ravel(weight)
        lost, _ = expm1_and_exp(-jnp.clip(flat, 0.0, MAX_EXPONENT))
        held = held + between(flat, share, -lost * share)
    return tails(held)


def _auc_of_pairs(
    whole: tuple[Float[Array, "pairs draws"], Float[Array, "pairs draws"]],
    parts: tuple[Float[Array, "selections few draws"], Float[Array, "selections few draws"]],
    left: LeavingOut,
    is_exact: bool,
) -> Float[Array, ""]:
    """``1/2 + E abs(r - r~)/4`` with ``r = e^-L``, a mean over pairs, jackknifed.

    Over two different draws; or over two points of an exact sum, which may be the same. Losses of
    selections differ by constants from those of all.
    """
    thin = slice(None) if is_exact else slice(None, None, -(-whole[0].shape[-1] // MOST_RANKED))
    loss, share = (a[:RANKED, thin] for a in whole)
    share = share / jnp.sum(share, axis=-1, keepdims=True)
    # In memory: every comparison would take its exponentials again.
    ratio, share = jax.lax.optimization_barrier((jnp.exp(-loss), share))

    def spread(r: Float[Array, " draws"], w: Float[Array, " draws"]) -> Float[Array, ""]:
        if r.size <= MOST_COMPARED:
            return jnp.sum(w * matmul(jnp.abs(r[:, None] - r), w))
        # Points of an exact sum: there may be many.
        order = jnp.argsort(r)
        r, w = r[order], w[order]
        below = jnp.cumsum(w) - w
        return 2.0 * jnp.sum(w * r * (2.0 * below + w - jnp.sum(w)))

    def auc(distance: Array, shares: Array) -> Array:
        same = 0.0 if is_exact else jnp.sum(shares**2, axis=-1)
        return 0.5 + 0.25 * distance / (1.0 - same)

    distance = jax.lax.map(lambda pair: spread(*pair), (ratio, share))
    found = auc(distance, share)
    count = parts[0].shape[1]
    if not parts[0].shape[0]:
        return jnp.mean(found)
    shares = parts[1][..., thin]
    shares = shares / jnp.sum(shares, axis=-1, keepdims=True)
    apart = jnp.abs(ratio[:count, :, None] - ratio[:count, None])
    between = jnp.einsum("gps,pst,gpt->gp", shares, apart, shares, precision="highest")
    change = jnp.exp(whole[0][:count, 0] - parts[0][..., 0])
    of_parts = jnp.mean(auc(change * between, shares), axis=-1)
    return jnp.mean(found) + left.whole * jnp.mean(found[:count]) + matmul(left.parts, of_parts)


def _renyi(
    delta: Float[Array, "pairs draws"],
    level: Float[Array, "*lead pairs"],
    share: Float[Array, "*lead #pairs draws"] | Float[Array, " draws"],
    is_sum: bool = False,
) -> tuple[list[Float[Array, "*lead pairs"]], Float[Array, "orders *lead pairs"]]:
    """``D_a(p || p') = log E_p e^((a-1) L) / (a-1)``, and what it hangs on: see `LossTails`."""
    top = jnp.max(jnp.where(share > 0, delta, -jnp.inf), axis=-1)
    # Of all orders: they are whole. Where there is no weight, the exponential may overflow.
    unit = jnp.where(share > 0, jnp.exp(delta - top[..., None]), 0.0)
    less_one, _ = expm1_and_exp(jnp.clip(delta, -MAX_EXPONENT, NEAR_ONE))
    found, largest = [], []
    for a in ORDERS:
        k = int(a) - 1
        part = share * unit**k
        whole = jnp.sum(part, axis=-1)
        # (1 + x)^k - 1
        binomial = tuple(float(math.comb(k, j)) for j in range(k, 0, -1))
        power_less_one = less_one * horner(binomial, less_one)
        near = jnp.log1p(bounded(jnp.sum(share * power_less_one, axis=-1)))
        total = jnp.where(k * jnp.max(delta, axis=-1) < NEAR_ONE, near, k * top + jnp.log(whole))
        found.append(total / k + level)
        part = part / whole[..., None]
        largest.append(_at_ends(part, share) if is_sum else jnp.max(part, axis=-1))
    return found, jnp.stack(largest)


# Points of a sum at either end, and weights over the least normal number, up to which another point
# might have been one of those that count. Share of one point from which on its neighbours, between
# which are others, have none.
ENDS, LEAST_WEIGHT, ALONE = 2, 1e4, 0.99


def _at_ends(
    part: Float[Array, "pairs points"], share: Float[Array, " points"]
) -> Float[Array, " pairs"]:
    """Share of a mean in points where a sum ends; all of it where there is only one."""
    place = np.arange(share.size)
    is_last = np.minimum(place, place[::-1]) < ENDS
    is_end = is_last | (share < LEAST_WEIGHT * jnp.finfo(share.dtype).tiny)
    is_alone = jnp.max(part, axis=-1) > ALONE
    return jnp.where(is_alone, 1.0, jnp.sum(jnp.where(is_end, part, 0.0), axis=-1))


# Exponents up to which means of exponentials are held against 1, so that a divergence far below
# single precision's rounding of 1 is more than that rounding.
NEAR_ONE = 1.0


def _near_one(
    power: Float[Array, "*lead draws"],
) -> tuple[Float[Array, "*lead draws"], Float[Array, "*lead draws"], Bool[Array, "*lead"]]:
    """Exponentials less one, and whole; and where all exponents are so small that these serve."""
    less_one, whole = expm1_and_exp(jnp.clip(power, -MAX_EXPONENT, NEAR_ONE))
    return less_one, whole, jnp.max(power, axis=-1) < NEAR_ONE


# The law of the privacy loss from draws of both posteriors, however far apart they are.


def two_sided_loss(
    delta: Float[Array, "chains draws"],
    delta_replaced: Float[Array, "chains draws"],
    weight: Float[Array, "chains draws"],
    weight_replaced: Float[Array, "chains draws"],
    num_releases: int = 1,
) -> LossTails:
    """Estimate of one pair, from draws of both posteriors, however far apart they are.

    With ``m = (p + p')/2`` and ``w = sigmoid(L)``, ``p = 2 w m`` and ``p' = 2 (1 - w) m``; the mean
    over both directions of the pair, whose laws are one (Definition 2).
    """
    shape = (delta.shape[0], delta.shape[1])
    shares = [w.reshape(1, -1) / jnp.sum(w) for w in (weight, weight_replaced)]
    deltas = [d.reshape(1, -1) for d in (delta, delta_replaced)]
    level = log_normalizer_ratio(deltas[0][0], deltas[1][0], shares[0][0], shares[1][0])
    at, share = zip(
        *(released(d + level, s, shape, num_releases) for d, s in zip(deltas, shares, strict=True)),
        strict=True,
    )
    loss, half = jnp.concatenate(at, axis=1)[0], 0.5 * jnp.concatenate(share, axis=1)[0]
    size = jnp.abs(loss)
    half_sigmoid, half_tanh = half * jax.nn.sigmoid(size), half * jnp.tanh(0.5 * size)
    above, excess = tails(between(size, half_sigmoid, half_tanh))
    thin = slice(None, None, -(-at[0].shape[1] // MOST_RANKED))
    compared = jnp.asarray(_compared(*shape, num_releases)[thin, thin], loss.dtype)
    own, other = ((a[0, thin], s[0, thin]) for a, s in zip(at, share, strict=True))
    auc = 0.5 + _win(own, other, compared)
    renyi, largest = [], []
    for a in ORDERS:
        both = []
        for toward in (loss, -loss):
            less_one, whole, is_near = _near_one((a - 1.0) * toward)
            # ``p = (1 + tanh(L / 2)) m``.
            near = jnp.sum(half * (less_one + jnp.tanh(0.5 * toward) * whole))
            power = (a - 1.0) * toward + jax.nn.log_sigmoid(toward) + jnp.log(2.0 * half)
            far = jax.nn.logsumexp(power)
            both.append(jnp.where(is_near, jnp.log1p(bounded(near)), far))
            largest.append(jnp.max(jax.nn.softmax(power)))
        renyi.append(0.5 * (both[0] + both[1]) / (a - 1.0))
    weights = jnp.stack(largest).reshape(len(ORDERS), 2)
    tail = mean_excess(deltas[0][0], shares[0][0])
    return LossTails(above, excess, auc, jnp.stack(renyi), jnp.mean(weights, axis=1), tail)


def _win(
    own: tuple[Float[Array, " draws"], Float[Array, " draws"]],
    other: tuple[Float[Array, " draws"], Float[Array, " draws"]],
    compared: Float[Array, "draws draws"],
) -> Float[Array, ""]:
    """``P(L_p > L_p') - 1/2``, ties counting half, over the draws that are compared."""
    (loss, share), (other_loss, other_share) = own, other
    weight = share[:, None] * compared * other_share
    won = jnp.sum(weight * jnp.sign(loss[:, None] - other_loss))
    return 0.5 * won / jnp.sum(weight)


@cache
def _compared(num_chains: int, num_draws: int, num_releases: int) -> Bool[np.ndarray, "all all"]:
    """Which draws of ``p`` are compared with which of ``p'``: those that are independent.

    The chains of both are moved by one noise, which brings draws of one chain together, and where
    chains share the noise of their steps also those of one step. What there is too little of to be
    that choosy, one chain, one draw of each, or nearly as many releases as chains, still leaves out
    what was moved alike.
    """
    chain, step = np.divmod(np.arange(num_chains * num_draws), num_draws)
    together = range(1 - num_releases, num_releases)

    def near(index: np.ndarray, count: int, k: int) -> np.ndarray:
        apart: np.ndarray = (index[:, None] - index - k) % count
        return apart == 0

    same_chain, same_step = (
        np.any([near(index, count, k) for k in together], axis=0)
        for index, count in ((chain, num_chains), (step, num_draws))
    )
    moved_alike = np.any(
        [near(chain, num_chains, k) & near(step, num_draws, k) for k in together], axis=0
    )
    for excluded in (same_chain | same_step, same_chain, moved_alike):
        if not excluded.all(axis=1).any():
            return ~excluded
    return np.ones_like(moved_alike)
