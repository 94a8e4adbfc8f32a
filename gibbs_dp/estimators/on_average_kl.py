"""On-average KL of one dataset's draws: of one side, by ghosts, of both sides, by variances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp._jaxlib.compile import in_memory
from gibbs_dp._jaxlib.devices import is_accelerator, target_platform
from gibbs_dp._jaxlib.precision import expm1_and_exp, matmul, total
from gibbs_dp.information.checks import whole_arrays

# The direct (one-sided) estimator: normalizer ratios from the same draws.

# exp(40)^2 still fits in a float32; pairs beyond are reported as heavy-tailed anyway.
_CLIP = 40.0
# Of a single ratio.
MAX_EXPONENT = 2 * _CLIP
# Pairs of one dataset. Beyond some thousands, further ones share all their examples with others
# and add nothing.
_MAX_PAIRS = 2048
# Largest exp(-delta) - 1, 20 nats: its fourth power still fits in a float32, and no one-sided
# estimate of that size is right.
LARGEST_EXCESS = 1e9
# Half variances of a log ratio, of the products and of a single ratio, above which a sum over
# weighted points has not the range to say a pair's KL.
MOST_NATS_OF_PRODUCTS, _MOST_NATS = 15.0, 60.0
# Examples and ghosts whose pairs are jackknifed: the correction is a few percent of the KL.
_JACKKNIFED = (16, 8)
# And whose pairs are summed term by term, where products may have clipped what counts.
_SUMMED = (4, 4)


class DirectKL(NamedTuple):
    """One dataset's estimate of ``KL(p || p')``, averaged over pairs."""

    # Jackknifed over chains and draws (the plug-in value when there is one chain), in nats.
    value: Float[Array, ""]
    plug_in: Float[Array, ""]  # before the jackknife: biased downwards by ``O(1 / draws)``
    # Mean over pairs of ``correction^2 / KL``. Divided by the mean KL it is the mean square of the
    # jackknife's relative correction, with pairs weighted by their KL: it reveals a few pairs whose
    # draws cannot determine their KL, which the mean correction hardly does.
    tail: Float[Array, ""]
    # What is expected to be missing from ``value``, mean over pairs in nats, by half the variance
    # of every pair's log ratio: rare pairs of many nats, which ``tail`` need not have met.
    lost: Float[Array, ""]


def out_of_reach(kl: Float[Array, "*pairs"]) -> Float[Array, "*pairs"]:
    """How many nats of a pair's KL one side's draws are expected to miss, given about its KL.

    A log-mean of ``exp(-delta)`` over draws cannot exceed what the most extreme of them says, and
    the jackknife sees nothing of it. Fitted to Gaussian log ratios: of a KL of 2, 5, 15, 60 and 415
    nats 64 draws miss 0.5, 7, 24, 53 and 81 percent; 512 draws 0.2, 3, 18, 47 and 81 percent.
    """
    return kl * (kl / (kl + 47.0)) * (kl**2 / (kl**2 + 15.0))


def _correction(
    excess: Float[Array, "chains draws *pairs"],
    mean: Float[Array, "*pairs"],
    weight: Float[Array, "chains draws"],
) -> Array:
    """Bias that the two-way jackknife removes from ``log1p(mean)``, per pair.

    Draws of a chain depend on each other, and chains may share the noise of their steps
    (:func:`gibbs_dp.sampling.noise.spread_radii`). In a two-way layout the variance of a mean
    is that of chains' means plus that of steps' means minus that of independent draws; leaving out
    chains, steps and single draws estimates these three.
    """
    num_chains, num_draws = excess.shape[:2]
    if num_chains == 1:
        return jnp.zeros_like(mean)
    share = jnp.sum(weight, axis=1) / num_chains
    chains = _leave_one_out(jnp.mean(excess, axis=1), mean, share)
    if num_draws == 1:
        return chains
    alike = jnp.full((num_draws,), 1.0 / num_draws, mean.dtype)
    draws = _leave_one_out(
        jnp.einsum("c,cd...->d...", share, excess, precision="highest"), mean, alike
    )
    # Each is one of many, so second order is enough.
    total = num_chains * num_draws
    # Divided before squaring: no draw exceeds the sum of all draws, which fits in a float32.
    apart = ((excess - mean) / (1.0 + mean)) ** 2
    square = jnp.einsum("c,cd...->...", num_chains * share, apart, precision="highest")
    singles = 0.5 * square / (total * (total - 1))
    c, t = num_chains - 1, num_draws - 1
    return chains * num_draws / t + draws * num_chains / c - singles * (total - 1) / (c * t)


def _leave_one_out(
    excess: Float[Array, "groups ..."], mean: Float[Array, "*pairs"], share: Float[Array, " groups"]
) -> Array:
    """Bias that leaving groups of draws out removes from ``log1p(mean)``, per pair.

    Leaving out group g of G divides ``1 + mean`` by ``1 + r_g``, ``r_g = (mean - mean_g) G s_g /
    ((G - 1)(1 + mean))``, with ``s_g`` its share of the weight, 1 / G where all weigh alike. Where
    they do not, this is the influence of the group: what leaving it out does to the others'
    weights is left aside, which would be mostly noise.
    """
    num = excess.shape[0]
    change = (mean - excess) / ((num - 1) * (1.0 + mean))
    r = num * share.reshape(-1, *[1] * mean.ndim) * change
    return -(num - 1) / num * jnp.sum(jnp.log1p(bounded(r)), axis=0)


def bounded(mean: Array) -> Array:
    """Keep a mean of ``exp(...) - 1`` above minus one, so that its logarithm is finite.

    At minus one all draws, or all but one chain's, underflowed: the KL is far beyond this
    estimator, which the distance between plug-in and jackknife shows.
    """
    return jnp.maximum(mean, jnp.finfo(mean.dtype).eps - 1.0)


def _mean_over_draws(
    excess: Float[Array, "chains draws *pairs"], weight: Float[Array, "chains draws"]
) -> Float[Array, "*pairs"]:
    """Weighted mean of the draws' ``exp(-delta) - 1``, per pair."""
    share = weight.reshape(*weight.shape, *[1] * (excess.ndim - 2)) / weight.shape[0]
    return bounded(jnp.sum(excess * share, axis=(0, 1)))


def centred(
    losses: Float[Array, "chains draws items"], weight: Float[Array, "chains draws"]
) -> Float[Array, "chains draws items"]:
    """Subtract the weighted mean over all draws from losses."""
    mean = jnp.einsum("cd,cdi->i", weight, losses, precision="highest") / weight.shape[0]
    return losses - mean


def group_sums(
    losses: Float[Array, "chains draws items"], size: int
) -> Float[Array, "chains draws groups"]:
    """Sum over consecutive groups of ``size`` items; a remainder is dropped."""
    if size == 1:
        return losses
    count = losses.shape[-1] // size
    trimmed = losses[..., : count * size]
    return jnp.sum(trimmed.reshape(*losses.shape[:-1], count, size), axis=-1)


def half_square(
    delta: Float[Array, "chains draws pairs"], share: Float[Array, "chains draws"]
) -> Float[Array, " pairs"]:
    """Half the weighted mean square over draws of every column."""
    return 0.5 * jnp.einsum("cd,cdi->i", share, delta**2, precision="highest")


def pair_parts(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
    group_size: int,
) -> tuple[Float[Array, "chains draws groups"], Float[Array, "chains draws others"]]:
    """Log ratios of all pairs, ``delta = y_j - x_i``, without what a draw's losses share."""
    x = gamma * centred(group_sums(train, group_size), weight)
    y = gamma * centred(group_sums(ghost, group_size), weight)
    shared = 0.5 * (total(x) / x.shape[-1] + total(y) / y.shape[-1])[..., None]
    return x - shared, y - shared


@whole_arrays
def direct_kl(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
    group_size: int = 1,
) -> DirectKL:
    """``KL(p || p')`` of one dataset, averaged over all (training group, ghost group) pairs.

    With ``delta = gamma (loss(theta, z'_j) - loss(theta, z_i))``,
    ``KL = E_p[delta] + log E_p[exp(-delta)]`` (theory: definition of ``p'``; no use of the
    identity ``eps_KL = gamma gen``). ``exp(-delta)`` is a factor of ``z_i`` times one of ``z'_j``,
    so all pairs are one matrix product, of ``expm1`` of centred factors: the value is right in
    float32 even when the KL is 1e-6. Of many thousands of pairs a part is used, with every ghost
    and (but for a remainder) every example in it.
    """
    x, y = pair_parts(train, ghost, weight, gamma, group_size)
    half = _half_squares(x, y, weight)
    is_sum = x.shape[0] == 1
    lost = jnp.mean(_beyond(half, MOST_NATS_OF_PRODUCTS) if is_sum else out_of_reach(half))
    first, some = x[..., 0], y[..., None, : _SUMMED[1]] - x[..., : _SUMMED[0], None]
    x, y = jnp.clip(x, -_CLIP, _CLIP), jnp.clip(y, -_CLIP, _CLIP)
    is_large = jnp.maximum(jnp.max(jnp.abs(x)), jnp.max(jnp.abs(y))) > 1.0
    draws = in_memory(gamma >= 0, lambda: _factors(x, y, weight, is_large))
    # A draw of which one loss is no number has none that is (`pair_parts`).
    plug_in = _unless_broken(first, _mean_log1p(bounded(_all_pairs(draws))))
    few = _each_draw(draws, _SUMMED if is_sum else _JACKKNIFED)
    mean = _mean_over_draws(few, weight)
    if is_sum:
        told = jnp.log1p(jnp.minimum(mean, LARGEST_EXCESS))
        lost = jnp.maximum(lost, _missed(some, weight, told))
        return DirectKL(plug_in, plug_in, jnp.zeros_like(plug_in), lost)
    correction = _correction(few, mean, weight)
    tail = _tail(jnp.log1p(mean) + correction, correction)
    return DirectKL(plug_in + jnp.mean(correction), plug_in, tail, lost)


def _half_squares(
    x: Float[Array, "chains draws n"],
    y: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
) -> Float[Array, "groups members others"]:
    """Half the variances of the log ratios of the pairs of :func:`_all_pairs`."""
    share = weight.reshape(-1) / weight.shape[0]
    a, b = in_groups(x, y)
    cross = jnp.einsum("t,tgi,tgj->gij", share, a, b, precision="highest")
    alone = [0.5 * jnp.einsum("t,tgi->gi", share, c**2, precision="highest") for c in (a, b)]
    half = alone[0][..., :, None] + alone[1][..., None, :] - cross
    return jnp.maximum(half, 0.0)


def _beyond(half: Float[Array, "*pairs"], most: float) -> Float[Array, "*pairs"]:
    """Nats of pairs that a sum has not the range for."""
    return jnp.where(half > most, half, 0.0)


def _missed(
    delta: Float[Array, "1 points *pairs"],
    weight: Float[Array, "1 points"],
    kl: Float[Array, "*pairs"],
) -> Float[Array, ""]:
    """Nats that clips leave out of some pairs' KL: their sums are taken again, term by term.

    Half a variance tells nothing of a log ratio that changes where hardly any of the weight is, as
    those of absolute losses do. Below a nat it is rounding.
    """
    share = weight.reshape(-1, *[1] * kl.ndim)
    whole = jax.nn.logsumexp(jnp.log(share) - delta[0], axis=0)
    return jnp.mean(jnp.where(whole > 1.0, jnp.maximum(whole - kl, 0.0), 0.0))


def _unless_broken(ratios: Float[Array, "*some"], kl: Float[Array, ""]) -> Float[Array, ""]:
    """Return NaN where log ratios are no numbers: clips and bounds make a wrong one of these."""
    return jnp.where(jnp.all(jnp.isfinite(ratios)), kl, jnp.nan)


def _tail(kl: Float[Array, "*pairs"], correction: Float[Array, "*pairs"]) -> Float[Array, ""]:
    return jnp.mean(correction**2 / jnp.maximum(kl, jnp.finfo(kl.dtype).eps))


class Factors(NamedTuple):
    """Factors of the draws' ``exp(-delta) - 1``, one per example."""

    train: Float[Array, "chains draws n"]
    ghost: Float[Array, "chains draws ghosts"]
    weight: Float[Array, "chains draws"]
    is_large: Bool[Array, ""]  # factors are exponentials, else exponentials minus one


def _factors(
    x: Float[Array, "chains draws n"],
    y: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    is_large: Bool[Array, ""],
) -> Factors:
    """Factors of ``exp(x - y)``.

    ``exp(x - y) - 1 = (a + 1)(b + 1) - 1 = ab + a + b`` with ``a = expm1(x)``, ``b = expm1(-y)``:
    exact for small arguments. For large ones those terms cancel; plain exponentials do not.
    """
    (a, exp_a), (b, exp_b) = expm1_and_exp(x), expm1_and_exp(-y)
    return Factors(jnp.where(is_large, exp_a, a), jnp.where(is_large, exp_b, b), weight, is_large)


def _all_pairs(f: Factors) -> Float[Array, "groups members ghosts"]:
    """Mean of ``exp(-delta) - 1`` over all draws, for pairs within groups of examples and ghosts.

    One group, hence all pairs, unless there are more than ``_MAX_PAIRS``. Examples and ghosts are
    in one group each, a remainder of the examples in none.
    """
    share = f.weight / f.weight.shape[0]
    a, b = in_groups(f.train * share[..., None], f.ghost)
    return jax.vmap(_excess, in_axes=(1, 1, None, None))(a, b, share.reshape(-1), f.is_large)


def in_groups(
    train: Float[Array, "chains draws n"], ghost: Float[Array, "chains draws ghosts"]
) -> tuple[Float[Array, "points groups members"], Float[Array, "points groups others"]]:
    """Examples and ghosts in the groups within which they are paired."""
    n, num_ghosts = train.shape[-1], ghost.shape[-1]
    most = max(1, min(n, num_ghosts, n * num_ghosts // _MAX_PAIRS))
    groups = max(k for k in range(1, most + 1) if num_ghosts % k == 0)
    size, count = n // groups, train.shape[0] * train.shape[1]
    a = train[..., : groups * size].reshape(count, groups, size)
    return a, ghost.reshape(count, groups, num_ghosts // groups)


def _each_draw(f: Factors, sizes: tuple[int, int]) -> Float[Array, "chains draws few fewer"]:
    """Each draw's ``exp(-delta) - 1`` for the first examples and ghosts."""
    a, b = f.train[..., : sizes[0], None], f.ghost[..., None, : sizes[1]]
    return a * b + jnp.where(f.is_large, -1.0, a + b)


def _excess(
    train: Float[Array, "points members"],
    ghost: Float[Array, "points others"],
    weight: Float[Array, " points"],
    is_large: Bool[Array, ""],
) -> Float[Array, "members others"]:
    """Sum over points of ``exp(-delta) - 1``, per pair; see :class:`Factors`.

    The factors of the examples are weighted already.
    """
    cross = jnp.einsum("ti,tj->ij", train, ghost, precision="highest")
    alone = jnp.sum(train, axis=0)[:, None] + matmul(weight, ghost)[None]
    return cross + jnp.where(is_large, -1.0, alone)


def _mean_log1p(x: Float[Array, "*pairs"]) -> Float[Array, ""]:
    """Mean of ``log1p``, with one logarithm per product of four: they are most of the cost."""
    flat = jnp.ravel(jnp.minimum(x, LARGEST_EXCESS))
    four = jnp.pad(flat, (0, -flat.size % 4)).reshape(4, -1)
    product = four[0]  # of (1 + x), minus one
    for more in four[1:]:
        product = product + more + product * more
    return jnp.sum(jnp.log1p(bounded(product))) / flat.size


def log_mean_ratio(
    delta: Float[Array, "chains draws pairs"], corrections: float = 1.0
) -> Float[Array, " pairs"]:
    """``log E_p[exp(-delta)]`` per pair, jackknifed: a log ratio of normalizers.

    The logarithm of a mean of variance ``v``, relative to its square, is ``v / 2`` too small on
    average, which the correction adds. With two ``corrections`` what has no such bias is
    ``exp(-value)``, by which a density is divided: its mean is a factor ``1 + v`` too large.
    """
    center = jnp.mean(delta, axis=(0, 1))
    weight = jnp.full(delta.shape[:2], 1.0 / delta.shape[1], delta.dtype)
    excess = _excess_of(delta - center)
    mean = _mean_over_draws(excess, weight)
    return jnp.log1p(mean) + corrections * _correction(excess, mean, weight) - center


def _excess_of(centred: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``exp(-delta) - 1``."""
    # XLA keeps its own expm1 in memory; arithmetic would be repeated by everything that reads it.
    return jnp.expm1(-jnp.clip(centred, -MAX_EXPONENT, MAX_EXPONENT))


@whole_arrays
def direct_kl_of_pairs(
    delta: Float[Array, "chains draws pairs"], weight: Float[Array, "chains draws"]
) -> DirectKL:
    """Estimate the same from log ratios ``delta = log p / p'`` up to a constant, a column per pair.

    For structured losses, where ``delta = gamma (L(theta, Z~) - L(theta, Z))``. Since ``delta`` is
    centred, ``log1p`` of the mean is the plug-in KL; the first pairs are jackknifed for all.
    """
    delta = centred(delta, weight)
    half = half_square(delta, weight / weight.shape[0])
    is_sum = delta.shape[0] == 1
    lost = jnp.mean(_beyond(half, _MOST_NATS) if is_sum else out_of_reach(half))
    excess = _excess_of(delta)
    mean = _mean_over_draws(excess, weight)
    plug_in = jnp.log1p(mean)
    few = slice(_JACKKNIFED[0])
    if is_sum:
        lost = jnp.maximum(lost, _missed(delta[..., few], weight, plug_in[few]))
    correction = _correction(excess[..., few], mean[few], weight)
    tail = _tail(plug_in[few] + correction, correction)
    plain = _unless_broken(delta[0, 0], jnp.mean(plug_in))
    return DirectKL(plain + jnp.mean(correction), plain, tail, lost)


# The logarithm of a mean ratio from few draws, for CPUs: one loop over pairs, all draws in it.


# Draws that are written out in a program; compile time is proportional to them.
MAX_UNROLLED = 64


def log_mean_ratio_of_few(
    delta: Float[Array, "chains draws pairs"], corrections: float = 1.0
) -> Float[Array, " pairs"]:
    """Do as :func:`~gibbs_dp.estimators.on_average_kl.log_mean_ratio`, in half the time on CPUs.

    There XLA reads an array of exponentials once for each of the sums over chains, draws and
    squares, or makes it again; written out draw by draw all sums are in one loop.
    """
    num_chains, num_draws, num_pairs = delta.shape
    total = num_chains * num_draws
    if is_accelerator(target_platform()) or not 1 < total <= MAX_UNROLLED:
        return log_mean_ratio(delta, corrections)
    flat = delta.reshape(total, num_pairs)
    center = matmul(jnp.full((total,), 1.0 / total, delta.dtype), flat)
    excess = [
        expm1_and_exp(-jnp.clip(flat[t] - center, -MAX_EXPONENT, MAX_EXPONENT))[0]
        for t in range(total)
    ]
    chains = [
        _sum(excess[c * num_draws : (c + 1) * num_draws]) / num_draws for c in range(num_chains)
    ]
    mean = bounded(_sum(chains) / num_chains)
    value = jnp.log1p(mean) - center
    if num_chains == 1:
        return value
    if num_draws == 1:
        return value + corrections * _leave_groups_out(chains, mean)
    draws = [_sum(excess[t::num_draws]) / num_chains for t in range(num_draws)]
    scale = 1.0 / (1.0 + mean)
    square = _sum(((e - mean) * scale) ** 2 for e in excess)
    c, t = num_chains - 1, num_draws - 1
    return value + corrections * (
        _leave_groups_out(chains, mean) * (num_draws / t)
        + _leave_groups_out(draws, mean) * (num_chains / c)
        - square * (0.5 / (total * c * t))
    )


def _sum(terms: Iterable[Float[Array, " pairs"]]) -> Float[Array, " pairs"]:
    """Sum pairwise."""
    left = list(terms)
    while len(left) > 1:
        odd = left[len(left) // 2 * 2 :]
        left = [a + b for a, b in zip(left[::2], left[1::2], strict=False)] + odd
    return left[0]


def _leave_groups_out(
    groups: list[Float[Array, " pairs"]], mean: Float[Array, " pairs"]
) -> Float[Array, " pairs"]:
    """Bias that leaving groups of draws out removes, with one logarithm of a product.

    At most one factor is near zero, as they are one on average.
    """
    num = len(groups)
    scale = 1.0 / ((num - 1) * (1.0 + mean))
    product = (mean - groups[0]) * scale
    for group in groups[1:]:
        rest = (mean - group) * scale
        product = product + rest * (1.0 + product)
    return jnp.log1p(bounded(product)) * (-(num - 1) / num)


# Ghosts.


@whole_arrays
def risk(
    losses: Float[Array, "chains draws examples"], weight: Float[Array, "chains draws"]
) -> Float[Array, ""]:
    """Posterior mean of the average loss over examples; ``weight`` sums to the number of chains."""
    mean = total(losses) / losses.shape[-1]
    return jnp.mean(jnp.sum(mean * weight, axis=-1))


@whole_arrays
def gap(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
) -> Float[Array, ""]:
    """Ghost estimate of the generalization error.

    ``E_theta[mean_j loss(theta, z'_j) - mean_i loss(theta, z_i)]``: unbiased for
    ``gen = E[R(theta) - Rhat(theta, Z)]``.
    """
    return risk(ghost, weight) - risk(train, weight)


@whole_arrays
def reference_gap(train: Float[Array, " n"], ghost: Float[Array, " ghosts"]) -> Float[Array, ""]:
    """Return a control variate for :func:`gap`: the same difference at a fixed parameter.

    It has mean zero **because that parameter does not depend on this dataset or its ghosts**.
    Where posteriors are close to the parameter, subtracting it removes most of the variance.
    """
    return jnp.mean(ghost) - jnp.mean(train)


# The two-sided estimator of on-average KL: draws of the posterior and of the replaced one.


@whole_arrays
def two_sided_kl(
    delta: Float[Array, "chains draws pairs"],
    delta_replaced: Float[Array, "chains draws pairs"],
    weight: Float[Array, "chains draws"],
    weight_replaced: Float[Array, "chains draws"] | None = None,
) -> Float[Array, ""]:
    """Half the symmetrized KL, ``(E_p[delta] - E_p'[delta]) / 2``, averaged over pairs.

    ``delta = log p - log p'`` up to a constant, at draws of ``p`` and at draws of ``p'``. The
    normalizers cancel in ``KL(p || p') + KL(p' || p)``, so nothing has heavy tails and nothing
    is biased, however large the KL. ``(Z, Z')`` and ``(Z', Z)`` have the same law, so both
    directions have the same mean over datasets and half their sum estimates ``eps_KL``
    (Definition 2). One pair's value is a symmetrized KL, not ``KL(p || p')``.

    The same symmetry proves ``eps_KL = gamma gen``: unlike the one-sided estimator, this one is not
    an independent check of that identity, and does not detect draws from a wrong law.

    Drawing ``p`` and ``p'`` with the same random numbers couples the chains and makes the
    difference far less noisy than either mean.
    """
    other = weight if weight_replaced is None else weight_replaced
    difference = jnp.sum(delta * weight[..., None] - delta_replaced * other[..., None], axis=1)
    return 0.5 * jnp.mean(difference)


# Half the variance of the log ratio: a pair's KL to second order, cheap for all pairs.


class PairVariance(NamedTuple):
    """``Var_p(delta) / 2`` (nats), with ``delta = log p - log p'`` up to a constant.

    Examples and ghosts are exchangeable, so every pair's has the same mean over datasets: the
    difference between pairs chosen at random and all is a control variate of mean zero.
    """

    chosen: Float[Array, " pairs"]  # for the pairs that were asked for
    mean: Float[Array, ""]  # mean over all pairs of an example and a ghost


@whole_arrays
def pair_variance(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
    group_size: int,
    old: Int[Array, " pairs"],
    new: Int[Array, " pairs"],
) -> PairVariance:
    """Compute it from losses of draws: ``delta = gamma (loss(theta, z'_j) - loss(theta, z_i))``.

    All pairs cost no more than all losses: the mean of ``Var(y_j - x_i)`` over ``i`` and ``j`` is
    the mean variance of ``x_i`` plus that of ``y_j``, less twice the covariance of their means.
    """
    x, y = pair_parts(train, ghost, weight, gamma, group_size)
    share = weight / weight.shape[0]
    alone = total(x**2) / x.shape[-1] + total(y**2) / y.shape[-1]
    mixed = (total(x) / x.shape[-1]) * (total(y) / y.shape[-1])
    return PairVariance(
        chosen=half_square(y[..., new] - x[..., old], share),
        mean=0.5 * jnp.sum(share * (alone - 2.0 * mixed)),
    )


def group_variances(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
    group_size: int,
) -> tuple[Float[Array, " groups"], Float[Array, " others"]]:
    """Variances of every training group's and every ghost group's part of the log ratios.

    Their sum bounds that of a pair: ``Var(y - x) / 2 <= Var(x) + Var(y)``. Where it is large the
    pair's KL may be.
    """
    x, y = pair_parts(train, ghost, weight, gamma, group_size)
    share = weight / weight.shape[0]
    return 2.0 * half_square(x, share), 2.0 * half_square(y, share)


@whole_arrays
def pair_variance_of_pairs(
    delta: Float[Array, "chains draws pairs"],
    weight: Float[Array, "chains draws"],
    chosen: Int[Array, " chosen"],
) -> PairVariance:
    """Compute it from log ratios, one column per pair, for structured losses."""
    each = variance_of_pairs(delta, weight)
    return PairVariance(chosen=each[chosen], mean=jnp.mean(each))


def variance_of_pairs(
    delta: Float[Array, "chains draws pairs"], weight: Float[Array, "chains draws"]
) -> Float[Array, " pairs"]:
    """``Var_p(delta) / 2`` of every column."""
    return half_square(centred(delta, weight), weight / weight.shape[0])
