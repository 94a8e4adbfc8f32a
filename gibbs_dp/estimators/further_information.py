"""Bounds of Sibson's alpha-mutual information and of maximal leakage, from densities of draws."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gibbs_dp.estimators.average import Average, is_tame
from gibbs_dp.estimators.jackknife import Columns, Grouped, Groups, Out, groups_of, left_out
from gibbs_dp.estimators.on_average_kl import MAX_EXPONENT, centred

# A logarithm this large is of a mean that draws do not determine; it only has to stay finite.
_LARGEST_ALPHA_LOG = 100.0


def alpha_information_lower(sums: Grouped, alpha: float) -> Average:
    """Lower bound in mean of ``I_alpha(theta; Z)``, or of maximal leakage: that of M datasets.

    ``exp((alpha - 1) / alpha I_alpha)`` is the integral over theta of ``(E p(theta|Z)^alpha)^(1 /
    alpha)`` (Sibson 1969), concave in the law of ``Z``. With the law that puts ``1 / M`` on each
    of the datasets it is therefore too small on average (Jensen), and so is its logarithm. The
    integral is a mean over draws of the datasets, which are draws of the mixture. For ``alpha =
    inf``, maximal leakage (Issa, Wagner & Kamath 2020, Theorem 1), fewer datasets have a smaller
    maximum.
    """
    factor = 1.0 if math.isinf(alpha) else alpha / (alpha - 1.0)
    found = factor * np.log(sums.mean(_ratio_to_mixture(sums, alpha, None)))
    return left_out(found, sums.num_datasets)


def _ratio_to_mixture(sums: Grouped, alpha: float, half: int | None) -> Out:
    """Power mean of the densities over their mean, at draws of the datasets that both are of."""
    size = sums.size(half)
    mean = np.logaddexp(sums.log_sum(1.0, half), 0.0) - np.log(size)
    others = sums.log_sum(alpha, half)
    if math.isinf(alpha):
        return np.exp(np.maximum(others, 0.0) - mean)
    return np.exp((np.logaddexp(others, 0.0) - np.log(size)) / alpha - mean)


def alpha_information_upper(sums: Grouped, alpha: float) -> Average | None:
    """Upper bound in mean of ``I_alpha(theta; Z)``: the divergence from one half's best guess.

    ``I_alpha`` is the least ``D_alpha(P_{theta Z} || q x P_Z)`` over densities ``q`` (Sibson 1969;
    Verdú 2015, equation 23). Here ``q`` is the power mean of one half's densities, normalized
    with that half's draws, and the divergence is that of the other half's datasets, an integral
    that their draws find; both ways, averaged. Logarithms of means are bounded by ``x / c - 1 +
    log c``, ``c`` the other way's mean: what noise would take from a logarithm it adds.

    None where its error is as large as the bound itself: datasets are too few for the information.
    """
    powers, norms = [], []
    for half in (0, 1):
        size, is_mine = sums.size(half), (sums.own_fold == half).astype(np.float64)
        mixture = np.logaddexp(sums.log_sum(1.0, half), 0.0) - np.log(size)
        mine = np.logaddexp(sums.log_sum(alpha, half), 0.0) - np.log(size)
        guess = (sums.log_sum(alpha, 1 - half) - np.log(sums.size(1 - half))) / alpha
        log_ratio = mine - (alpha - 1.0) * guess - mixture
        if np.max(log_ratio[is_mine > 0, 0]) > _LARGEST_ALPHA_LOG:
            return None
        log_ratio = np.minimum(log_ratio, _LARGEST_ALPHA_LOG)
        powers.append(sums.mean(np.exp(log_ratio), is_mine))
        norms.append(sums.mean(_ratio_to_mixture(sums, alpha, half), is_mine))
    found = left_out(_above_log(*powers) / (alpha - 1.0) + _above_log(*norms), sums.num_datasets)
    return found if found.se < found.value else None


def _above_log(one: Columns, two: Columns) -> Columns:
    """Average of two logarithms of means, each from above, with the other as where to touch."""
    touch = 0.5 * (one / two + two / one) - 1.0
    return np.asarray(touch + 0.5 * (np.log(one) + np.log(two)))


# Bounds of the T-information between dataset and draw, from densities of draws.


_LARGEST_LOG = 300.0


def t_information_upper(sums: Grouped) -> Average:
    """Upper bound in mean of ``T(theta; Z)``, the total variation from the product of the laws.

    ``T = E (1 - p(theta) / p(theta|Z))_+``, convex in the marginal density, in whose place is the
    mean of the other datasets' densities: unbiased, so that the bound is too large on average
    (Jensen). That ratio less one has mean zero and is the control variate, with half as
    coefficient: ``abs(1 - p(theta) / p(theta|Z)) / 2``; left out where it has heavy tails.
    """
    log_ratio = sums.log_sum(1.0) - np.log(sums.size() - 1.0)
    control = np.expm1(np.minimum(log_ratio, _LARGEST_LOG))
    values = np.maximum(-control, 0.0)
    if is_tame(log_ratio[:, 0]):
        values = values + 0.5 * control
    return left_out(sums.mean(values), sums.num_datasets)


def t_information_lower(sums: Grouped) -> Average:
    """Lower bound in mean of ``T(theta; Z)``: how well one half's test works on the other half.

    The test says that a draw belongs to a dataset where the dataset's posterior is denser than
    the mean of the other half's posteriors. Its advantage, right where it does belong less wrong
    where it does not, is at most ``T``, whatever the test. Draws of a half's ``K`` datasets are
    draws of their mixture ``q``, under which the advantage is the mean over these datasets of
    ``(p(theta|Z_k) / q - 1)`` where the test says yes, times ``K / (K - 1)`` for ``theta`` that
    was drawn for ``Z_k`` itself. The test is nearly the best one, so that what the other half's
    luck does to the advantage is of second order, and not in the error.
    """
    found = []
    for half in (0, 1):
        is_mine = (sums.own_fold == half).astype(np.float64)
        size, fold = sums.size(half), sums.groups.fold(half)
        log_mixture = np.logaddexp(sums.log_sum(1.0, half), 0.0) - np.log(size)
        mean = sums.log_sum(1.0, 1 - half)[:, :1] - np.log(sums.size(1 - half)[0])
        own = (mean < 0.0).astype(np.float64)
        with np.errstate(divide="ignore"):
            hit = np.logaddexp(
                sums.top[:, half, None] + np.log(sums.hit_density @ fold), np.log(own)
            )
        gained = np.exp(hit - log_mixture) - (sums.hits @ fold + own)
        found.append(sums.mean(gained, is_mine) / (size - 1.0))
    return left_out(0.5 * (found[0] + found[1]), sums.num_datasets)


# Membership of one example from one draw, the other examples unknown: an attack and its bounds.


# Examples of other datasets that each draw is asked about.
NON_MEMBERS = 64
# Of sums of products that underflow: less than any that decides something.
_LEAST = 1e-290


class Membership(NamedTuple):
    """What one draw says about one example being among the data."""

    # True less false positives of the attack; in mean a lower bound of the best advantage.
    advantage: Average
    auc: Average  # of the attack's score; in mean a lower bound of the best area
    # Lower bound in mean of ``I(theta; U | z_0, z_1)`` in nats: which of two examples, a fair
    # coin ``U`` says, was among the data.
    pair_information: Average
    advantage_upper: Average  # upper bound of the best advantage


class MembershipScores:
    """Accumulates log odds of membership, a block of draws at a time.

    For a draw ``theta`` and an example ``z`` the score is ``log mean_k p(theta | Z_k with z as its
    first example) / mean_k p(theta | Z_k)``, an estimate of ``log p(theta | z_i = z) / p(theta)``
    (Yeom et al. 2018 have the setting). Draw and example are of one half of the datasets, ``Z_k``
    of the other: whatever these and their normalizers are, the score is a rule found without them.
    So what is measured of it, at a threshold of 0 that was set beforehand, bounds
    the best attacker from below on average. What the rule's own luck does to it is of second
    order, as the rule is nearly the best, and not in the errors.

    A draw is asked about its own dataset's first example and about those of some other datasets.
    Given all these datasets it could have been drawn for any of them, so each counts as the member
    with its posterior's share of their mixture: the same mean as of the own example alone, with
    less noise.
    """

    def __init__(self, gain: Float[np.ndarray, "owners datasets"]) -> None:
        count = gain.shape[0]
        self.groups: Groups = groups_of(count)
        self._count = count
        # Even: the example's dataset is in the half of the draw's.
        asked = min(NON_MEMBERS, count // 2 - 1)
        shifts = 2 + 2 * (np.arange(asked) * (count // 2 - 1) // asked)
        self._shifts = np.concatenate([[0], shifts])
        self._gain = np.asarray(gain, np.float64)
        self._rows: list[_Scored] = []

    def add(
        self,
        log_density: Float[np.ndarray, "rows datasets"],
        log_likelihood: Float[np.ndarray, "rows datasets"],
        owner: Int[np.ndarray, " rows"],
    ) -> None:
        """Add draws."""
        x, each = (np.asarray(a, np.float64) for a in (log_density, log_likelihood))
        for half in (0, 1):
            mine = owner % 2 == half
            if mine.any():
                self._rows.append(self._scored(x[mine], each[mine], owner[mine], half))

    def _scored(
        self,
        x: Float[np.ndarray, "rows datasets"],
        each: Float[np.ndarray, "rows datasets"],
        owner: Int[np.ndarray, " rows"],
        half: int,
    ) -> _Scored:
        """Score draws of one half by the datasets of the other."""
        rows, away = np.arange(owner.size), slice(1 - half, None, 2)
        x = x - x[rows, owner][:, None]
        after = log_product((x - each)[:, away], -self._gain[half::2, away].T) + each[:, half::2]
        before = np.logaddexp.reduce(x[:, away], axis=1)
        score = after - before[:, None]
        asked = self._asked(owner)
        of = asked // 2, rows[:, None]
        mixture = np.logaddexp.reduce(x[:, half::2], axis=1)
        size = x[0, half::2].size / x[0, away].size
        seen = score[of[1], of[0]]
        moved = np.abs(np.expm1(np.minimum(seen, _LARGEST_LOG)))
        moved *= 0.5 * size * np.exp(before - mixture)[:, None]
        return _Scored(owner, asked, x[of[1], asked], seen, moved)

    def _asked(self, owner: Int[np.ndarray, " rows"]) -> Int[np.ndarray, "rows asked"]:
        """Datasets whose examples a draw is asked about: its own, and others of its half."""
        fold = owner[:, None] % 2
        size = (self._count + 1 - fold) // 2
        return np.asarray(2 * ((owner[:, None] + self._shifts) // 2 % size) + fold)

    def result(self) -> Membership:
        """Rates of the attack, over draws and examples of all datasets, with their errors."""
        owner, asked, log_density, score, moved = (
            np.concatenate(part) for part in zip(*self._rows, strict=True)
        )
        keep, of = self.groups.keep, self.groups.of
        rows, group = keep[of[owner]], of[asked]
        size = asked.shape[1]
        # Of a draw's own example, the rate at which its dataset is drawn from the half's.
        share = np.full(size, (1.0 - 2.0 / self._count) / (size - 1))
        share[0] = 2.0 / self._count
        density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        pairs = _PairSums(density, score, group, self.groups.count)
        order = _Order(score)
        curves = np.empty((4, rows.shape[1]))
        for c in range(rows.shape[1]):
            there = keep[group, c]
            row = rows[:, c] / np.sum(rows[:, c])
            count = np.sum(there, axis=1, keepdims=True)
            member = _shares(density * there) * row[:, None]
            anyone = there / count * row[:, None]
            # Anyone of so many may be the member.
            own = float(np.sum(row * (1.0 / count[:, 0])))
            curves[0, c] = np.sum((member - anyone)[score > 0]) / (1.0 - own)
            curves[1, c] = (order.area(member, anyone) - 0.5 * own) / (1.0 - own)
            curves[2, c] = np.sum(row * pairs.mean(c - 1))
            curves[3, c] = np.sum(row * np.sum(_shares(there * share) * moved, axis=1))
        return Membership(*(left_out(curve, self._count) for curve in curves))


class _Scored(NamedTuple):
    """Draws and the examples that each is asked about, the first of them its own."""

    owner: Int[np.ndarray, " rows"]
    asked: Int[np.ndarray, "rows asked"]
    log_density: Float[np.ndarray, "rows asked"]  # of the draw under their datasets
    score: Float[np.ndarray, "rows asked"]
    moved: Float[np.ndarray, "rows asked"]  # half the distance of densities, over the mixture's


def _shares(weights: Float[np.ndarray, "rows asked"]) -> Float[np.ndarray, "rows asked"]:
    total = np.sum(weights, axis=1, keepdims=True)
    return weights / np.where(total > 0, total, 1.0)


class _Order:
    """Scores in order, for areas under curves."""

    def __init__(self, score: Float[np.ndarray, "rows asked"]) -> None:
        flat = score.ravel()
        self._order = np.argsort(flat)
        ends = [np.searchsorted(flat[self._order], flat, side=s) for s in ("left", "right")]
        self._below, self._upto = ends

    def area(
        self, member: Float[np.ndarray, "rows asked"], other: Float[np.ndarray, "rows asked"]
    ) -> float:
        """Chance that a member's score is above another's, ties counted half."""
        sums = np.concatenate([[0.0], np.cumsum(other.ravel()[self._order])])
        half = 0.5 * (sums[self._below] + sums[self._upto])
        return float(np.sum(member.ravel() * half) / (np.sum(member) * sums[-1]))


class _PairSums:
    """``log 2 - log(1 + exp(score of another - score of a member))``, averaged over pairs.

    Either may be left out by its group: sums over pairs are kept by the group of the member, of
    the other, and of both where it is the same.
    """

    def __init__(
        self,
        density: Float[np.ndarray, "rows asked"],
        score: Float[np.ndarray, "rows asked"],
        group: Int[np.ndarray, "rows asked"],
        count: int,
    ) -> None:
        size = score.shape[1]
        as_member, as_other, both = (np.zeros((score.shape[0], count)) for _ in range(3))
        rows = np.arange(score.shape[0])
        for k in range(size):
            value = np.log(2.0) - np.logaddexp(0.0, score - score[:, k, None])
            value[:, k] = 0.0
            value *= density[:, k, None]
            as_member[rows, group[:, k]] += value.sum(axis=1)
            is_same = group == group[:, k, None]
            both[rows, group[:, k]] += np.sum(value * is_same, axis=1)
            for j in range(size):
                as_other[rows, group[:, j]] += value[:, j]
        self._total = as_member.sum(axis=1)
        self._without = as_member + as_other - both
        self._density, self._group = density, group

    def mean(self, left_out: int) -> Float[np.ndarray, " rows"]:
        """Of every row, over pairs none of which is in a group; -1: over all."""
        there = self._group != left_out
        total = self._total if left_out < 0 else self._total - self._without[:, left_out]
        weight = np.sum(self._density * there, axis=1) * (np.sum(there, axis=1) - 1.0)
        return total / np.where(weight > 0, weight, 1.0)


def log_product(
    a: Float[np.ndarray, "rows terms"], b: Float[np.ndarray, "terms columns"]
) -> Float[np.ndarray, "rows columns"]:
    """``log sum_t exp(a_rt + b_tc)``; sums that underflow stay finite."""
    top_a, top_b = a.max(axis=1, keepdims=True), b.max(axis=0, keepdims=True)
    sums = np.exp(a - top_a) @ np.exp(b - top_b)
    return np.asarray(np.log(np.maximum(sums, _LEAST)) + top_a + top_b)


# Mean Jensen-Shannon divergence between posteriors with one example replaced.


# Examples and ghosts whose pairs are looked at: with more, nearly all of the variance is the
# datasets'.
PAIRS = (16, 8)


def mean_jensen_shannon(
    train: Float[Array, "chains draws n"],
    ghost: Float[Array, "chains draws ghosts"],
    weight: Float[Array, "chains draws"],
    gamma: Float[Array, ""],
) -> Float[Array, ""]:
    """``(KL(p || m) + KL(p' || m)) / 2``, ``m = (p + p') / 2``, averaged over pairs, in nats.

    With ``delta = gamma (loss(theta, z'_j) - loss(theta, z_i))`` and ``r = exp(-delta) / E_p
    exp(-delta) = p' / p`` the first half is ``log 2 - E_p log(1 + r)``. Dataset and fresh example
    are exchangeable, so that both halves have the same mean over datasets, and one is enough.
    Draws of a chain depend on each other and chains may share random numbers; the bias that this
    and the normalizer's noise cause is removed to second order, see :func:`of_pairs`.
    """
    x = gamma * centred(train[..., : PAIRS[0]], weight)
    y = gamma * centred(ghost[..., : PAIRS[1]], weight)
    delta = y[..., None, :] - x[..., :, None]
    return of_pairs(delta.reshape(*delta.shape[:2], -1), weight)


def of_pairs(
    delta: Float[Array, "chains draws pairs"], weight: Float[Array, "chains draws"]
) -> Float[Array, ""]:
    """Estimate the same from log ratios ``delta = log p / p'`` up to a constant, a column per pair.

    The plug-in is ``f(N) = -E log((1 + r / N) / 2)`` with both means over the same draws, ``N`` the
    noisy mean of ``r``. Its bias to second order is ``Cov(mean a, mean r) - (E a + E a (1 - a)) Var
    (mean r) / 2`` with ``a = r / (1 + r)``; variances of means are those of a two-way layout of
    chains and steps.
    """
    delta = centred(delta[..., : PAIRS[0] * PAIRS[1]], weight)
    share = (weight / weight.shape[0])[..., None]
    ratio = jnp.expm1(-jnp.clip(delta, -MAX_EXPONENT, MAX_EXPONENT))
    mean = jnp.sum(share * ratio, axis=(0, 1))
    excess = (ratio - mean) / (1.0 + mean)  # of r over one
    # What is left of log1p beyond its mean zero part does not cancel where r is near one.
    half = 0.5 * excess
    plug_in = -jnp.sum(share * (jnp.log1p(half) - half), axis=(0, 1))
    if weight.shape[0] == 1:
        return jnp.mean(plug_in)
    left = (1.0 + excess) / (2.0 + excess)
    level = jnp.sum(share * left, axis=(0, 1))
    bend = jnp.sum(share * left * (1.0 - left), axis=(0, 1))
    scaled = weight[..., None] * weight.shape[1]
    noise, common = (
        _covariance_of_means(scaled * part, scaled * excess) for part in (excess, left - level)
    )
    return jnp.mean(plug_in - common + 0.5 * (level + bend) * noise)


def _covariance_of_means(
    one: Float[Array, "chains draws pairs"], two: Float[Array, "chains draws pairs"]
) -> Float[Array, " pairs"]:
    """Of centred numbers in a layout of chains and steps, by analysis of variance."""
    chains, draws = one.shape[:2]
    of_chains = [jnp.mean(a, axis=1) for a in (one, two)]
    found = jnp.sum(of_chains[0] * of_chains[1], axis=0) / (chains * (chains - 1))
    if draws == 1:
        return found
    of_steps = [jnp.mean(a, axis=0) for a in (one, two)]
    rest = [
        a - c[:, None] - s[None] for a, c, s in zip((one, two), of_chains, of_steps, strict=True)
    ]
    residual = jnp.sum(rest[0] * rest[1], axis=(0, 1)) / ((chains - 1) * (draws - 1))
    of_steps_alone = jnp.sum(of_steps[0] * of_steps[1], axis=0) / (draws * (draws - 1))
    return found + of_steps_alone - residual / (chains * draws)
