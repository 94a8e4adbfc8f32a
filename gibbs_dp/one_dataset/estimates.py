"""On-average and per-example figures of one posterior, by weights that remove an example."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from gibbs_dp.estimators.average import LIMIT_Z, mean_interval
from gibbs_dp.estimators.pareto import pareto_smooth

OfDraws = Float[np.ndarray, "examples draws"]
OfSelections = Float[np.ndarray, "examples selections"]
Chunk = Float[np.ndarray, "chunk draws"]

# Pieces that a jackknife has at least, and where their draws suffice.
FEWEST, MANY, MOST = 8, 16, 32
DRAWS_FOR_MANY = 100


class Pieces(NamedTuple):
    """Where the pieces begin in the draws of all chains, and the selections of them."""

    # starts, sizes: of each piece
    starts: Int[np.ndarray, " pieces"]
    sizes: Int[np.ndarray, " pieces"]
    # Selections: all pieces, and all but one of them each.
    kept: Bool[np.ndarray, "selections pieces"]

    @property
    def halfway(self) -> int:
        """Draws of the first half: whole pieces, as equal as may be."""
        ends = np.cumsum(self.sizes)
        return int(ends[np.argmin(np.abs(ends - ends[-1] / 2))])

    @property
    def num_draws(self) -> Float[np.ndarray, " selections"]:
        """Draws of each selection."""
        return np.asarray(self.kept @ self.sizes.astype(np.float64))

    @property
    def is_kept(self) -> Float[np.ndarray, "selections draws"]:
        """1 for each draw of a selection, else 0."""
        return np.repeat(self.kept.astype(np.float64), self.sizes, axis=1)

    def slices(self) -> list[slice]:
        """Draws of each piece."""
        return [slice(a, a + size) for a, size in zip(self.starts, self.sizes, strict=True)]


def whole(num_draws: int) -> Pieces:
    """Make one piece of all draws: for estimates that need no error."""
    return Pieces(np.zeros(1, int), np.array([num_draws]), np.ones((1, 1), bool))


def split(num_chains: int, num_samples: int) -> Pieces:
    """Split chains into pieces: chains alone where there are enough, else parts of chains."""
    total = num_chains * num_samples
    if num_chains >= FEWEST:
        chains = np.array_split(np.arange(num_chains), min(num_chains, MOST))
        sizes = np.array([num_samples * part.size for part in chains])
    else:
        wanted = MANY if total >= MANY * DRAWS_FOR_MANY else FEWEST
        parts = min(-(-wanted // num_chains), num_samples)
        one = [part.size for part in np.array_split(np.arange(num_samples), parts)]
        sizes = np.array(one * num_chains)
    count = sizes.size
    kept = np.concatenate([np.ones((1, count), bool), ~np.eye(count, dtype=bool)])
    return Pieces(np.cumsum(sizes) - sizes, sizes, kept)


class Jackknifed(NamedTuple):
    """Estimates without their bias of order one over draws, and their Monte Carlo errors."""

    value: Float[np.ndarray, "*shape"]
    mcse: Float[np.ndarray, "*shape"]


def jackknife(estimates: Float[np.ndarray, "*shape selections"], pieces: Pieces) -> Jackknifed:
    """Correct estimates by leaving out pieces, which may differ in length.

    Busing, Meijer & van der Leeden (1999, *Statistics and Computing* 9).
    """
    share = pieces.sizes / pieces.sizes.sum()
    count = share.size
    full, without = estimates[..., 0], estimates[..., 1:]
    value = count * full - np.sum((1 - share) * without, axis=-1)
    pseudo = full[..., None] / share - (1 / share - 1) * without
    squares = (pseudo - value[..., None]) ** 2 / (1 / share - 1)
    return Jackknifed(value, np.sqrt(np.mean(squares, axis=-1)))


# Passes over a table of log-likelihoods, a few examples at a time.

# Numbers of a chunk in double precision: 16 MB, and some arrays like it.
CHUNK = 2_000_000
# Examples that any chunk has: partners for the advantage are within it.
LEAST_CHUNK = 64
# Partners of an example, and pairs of all examples, that an advantage is averaged over.
PARTNERS, MOST_PAIRS = 32, 20_000

LogLikelihoods = Float[np.ndarray, "draws examples"]


# Of the largest weight, whose logarithm is 0; its inverse is still a number.
LEAST_LOG_WEIGHT = -650.0


class Centre(NamedTuple):
    """What all examples have in common."""

    # Of ``-gamma`` times the log-likelihood over draws, an example each.
    means: Float[np.ndarray, " examples"]
    mean_excess: Float[np.ndarray, " draws"]  # mean over examples of what exceeds that, a draw each


class Removed(NamedTuple):
    """The posterior without an example, for every selection of draws.

    With ``x`` for an example's ``-gamma log-likelihood`` less its mean, and ``p_-i`` for the
    posterior without example ``i``, whose weights are ``e^x_i``.
    """

    log_mean: OfSelections  # ``log E_p e^x_i``
    # own, common: ``E_-i x_i``, and ``E_-i`` of the mean of all examples' ``x``
    own: OfSelections
    common: OfSelections
    mean_own: OfSelections  # ``E_p x_i``
    # Total variation distance of ``p`` and ``p_-i``.
    advantage: OfSelections
    # Of ``p_-i`` and ``p_-j``, a mean over partners ``j``.
    pair_advantage: OfSelections
    # Variance of ``x_i`` less the mean of all examples.
    pair_variance: OfSelections


class Heavier(NamedTuple):
    """The posterior without an example, by all draws, if its weights have heavier tails."""

    # log_mean, own, common, mean_own: as of `Removed`. The draws of a tail are moved to where their
    # weights say that they are.
    log_mean: Float[np.ndarray, "examples 1"]
    own: Float[np.ndarray, "examples 1"]
    common: Float[np.ndarray, "examples 1"]
    mean_own: Float[np.ndarray, "examples 1"]
    sums: Float[np.ndarray, "1 draws"]  # over examples, of normalized weights

    def fill(
        self,
        place: Int[np.ndarray, " chunk"],
        x: Chunk,
        moved: Chunk,
        log_weights: Chunk,
        mean_excess: Float[np.ndarray, " draws"],
    ) -> None:
        """Fill in a chunk, whose draws are to be moved so far."""
        weights = np.exp(np.maximum(log_weights, LEAST_LOG_WEIGHT))
        total = weights.sum(axis=1)
        self.log_mean[place, 0] = np.log(total / x.shape[1]) + x.max(axis=1)
        weights /= total[:, None]
        self.sums[0] += weights.sum(axis=0)
        there = x + moved
        self.own[place, 0] = (weights * there).sum(axis=1)
        self.common[place, 0] = weights @ mean_excess
        self.mean_own[place, 0] = there.mean(axis=1)


class Scores(NamedTuple):
    """Predictive scores of examples (nats, not tempered), and the shapes of their weights."""

    elpd_loo: Float[np.ndarray, " examples"]
    p_loo: Float[np.ndarray, " examples"]
    p_waic: Float[np.ndarray, " examples"]
    k_hat: Float[np.ndarray, " examples"]


def chunks(table: LogLikelihoods) -> list[Int[np.ndarray, " chunk"]]:
    """Divide the examples; a fixed shuffle makes those of a chunk like any others."""
    draws, examples = table.shape
    size = max(LEAST_CHUNK, CHUNK // draws)
    count = max(1, examples // size)
    order = np.arange(examples)
    if count > 1:
        order = np.random.default_rng(0).permutation(examples)
    return [np.sort(part) for part in np.array_split(order, count)]


def centre(table: LogLikelihoods, gamma: float) -> Centre:
    """Take the means over draws and over examples."""
    draws, examples = table.shape
    means = np.empty(examples)
    common = np.zeros(draws)
    for place in chunks(table):
        x = -gamma * np.asarray(table[:, place], np.float64)
        means[place] = x.mean(axis=0)
        common += (x - means[place]).sum(axis=1)
    return Centre(means, common / examples)


def excess(
    table: LogLikelihoods, gamma: float, about: Centre
) -> Iterator[tuple[Int[np.ndarray, " chunk"], Chunk]]:
    """Go through the examples: their places, and ``x`` of every draw."""
    for place in chunks(table):
        x = -gamma * np.asarray(table[:, place].T, np.float64)
        yield place, np.subtract(x, about.means[place, None], order="C")


def remove_each(
    table: LogLikelihoods,
    gamma: float,
    about: Centre,
    pieces: Pieces,
    relative_efficiency: float,
    most_partners: int = PARTNERS,
) -> tuple[Removed, Scores, Float[np.ndarray, "selections draws"], Heavier]:
    """Weigh the draws for the posterior without each example."""
    draws, examples = table.shape
    shape = (examples, len(pieces.kept))
    found = Removed(*(np.empty(shape) for _ in Removed._fields))
    scores = Scores(*(np.empty(examples) for _ in Scores._fields))
    sums = np.zeros((len(pieces.kept), draws))
    columns = [np.zeros((examples, 1)) for _ in range(4)]
    heavier = Heavier(columns[0], columns[1], columns[2], columns[3], np.zeros((1, draws)))
    num_partners = min(most_partners, max(1, MOST_PAIRS // examples))
    for place, x in excess(table, gamma, about):
        top = x.max(axis=1)
        log_weights, scores.k_hat[place], log_heavier = pareto_smooth(x, relative_efficiency)
        moved = log_heavier - log_weights
        heavier.fill(place, x, moved, log_heavier, about.mean_excess)
        _score(scores, place, x, log_weights, about.means[place], gamma)
        # A piece without the draws that count most must not be left without weight.
        weights = np.exp(np.maximum(log_weights, LEAST_LOG_WEIGHT))
        total = _selected(weights, pieces)
        sums += (1.0 / total).T @ weights
        found.log_mean[place] = np.log(total / pieces.num_draws) + top[:, None]
        found.own[place] = _selected(weights * x, pieces) / total
        common = _matched(weights, about.mean_excess, pieces)
        found.common[place] = common / total
        found.mean_own[place] = _selected(x, pieces) / pieces.num_draws
        y = x - about.mean_excess
        found.pair_variance[place] = _variance(y, pieces)
        mean = total / pieces.num_draws
        weights /= mean[:, :1]
        slack = mean / mean[:, :1] - 1.0
        ones, none = np.ones((1, draws)), np.zeros((1, len(pieces.kept)))
        found.advantage[place] = _distance(weights, ones, slack, none, pieces)
        found.pair_advantage[place] = _partners(weights, slack, pieces, num_partners)
    return found, scores, sums * pieces.is_kept, heavier


def sums_over_removed(
    table: LogLikelihoods, gamma: float, about: Centre, sums: Float[np.ndarray, "selections draws"]
) -> OfSelections:
    """Return the sum over examples ``i`` of ``E_-i x_j``, for every example ``j``."""
    found = np.empty((table.shape[1], len(sums)))
    for place, x in excess(table, gamma, about):
        found[place] = x @ sums.T
    return found


def _selected(values: OfDraws, pieces: Pieces) -> OfSelections:
    """Sum over the draws of every selection."""
    return np.asarray(np.add.reduceat(values, pieces.starts, axis=1) @ pieces.kept.T)


def _matched(weights: OfDraws, values: Float[np.ndarray, " draws"], pieces: Pieces) -> OfSelections:
    """Sum weights times values over the draws of every selection."""
    sums = np.stack([weights[:, at] @ values[at] for at in pieces.slices()], axis=1)
    return np.asarray(sums @ pieces.kept.T)


def _variance(values: OfDraws, pieces: Pieces) -> OfSelections:
    """Variance over the draws of every selection; their mean over all draws is zero."""
    count = pieces.num_draws
    squares, sums = _selected(values**2, pieces), _selected(values, pieces)
    return np.asarray((squares - sums**2 / count) / (count - 1))


def _distance(
    a: OfDraws,
    b: Float[np.ndarray, "others draws"],
    slack_a: OfSelections,
    slack_b: Float[np.ndarray, "others selections"],
    pieces: Pieces,
) -> OfSelections:
    """Half the mean of ``|a - b|``, of weights whose mean over all draws is one.

    Over the draws of a selection their means are off by ``slack``, which is corrected to first
    order: the sign of ``a - b`` changes where it is zero.
    """
    gap = a - b
    plain = _selected(np.abs(gap), pieces) / pieces.num_draws
    sign = np.sign(gap)
    slope_a = np.mean(sign * a, axis=1, keepdims=True)
    slope_b = np.mean(sign * b, axis=1, keepdims=True)
    return np.asarray(0.5 * (plain - slope_a * slack_a + slope_b * slack_b))


def _partners(weights: OfDraws, slack: OfSelections, pieces: Pieces, most: int) -> OfSelections:
    """Mean distance of each example's weights from those of partners, by circular shifts."""
    size = len(weights)
    count = min(most, size - 1)
    shifts = np.unique(np.linspace(1, size - 1, count).round().astype(int))
    found = np.zeros(slack.shape)
    for shift in shifts:
        other = np.roll(np.arange(size), -shift)
        found += _distance(weights, weights[other], slack, slack[other], pieces)
    return found / shifts.size


def _score(
    scores: Scores,
    place: Int[np.ndarray, " chunk"],
    x: Chunk,
    log_weights: Chunk,
    means: Float[np.ndarray, " chunk"],
    gamma: float,
) -> None:
    """Fill in the scores of a chunk."""
    log_likelihood = -(x + means[:, None]) / gamma
    lppd = _log_mean(log_likelihood)
    scores.elpd_loo[place] = _log_mean(log_weights + log_likelihood) - _log_mean(log_weights)
    scores.p_loo[place] = lppd - scores.elpd_loo[place]
    scores.p_waic[place] = np.var(log_likelihood, axis=1, ddof=1)


def _log_mean(values: OfDraws) -> Float[np.ndarray, " examples"]:
    top = values.max(axis=1)
    return np.asarray(top + np.log(np.mean(np.exp(values - top[:, None]), axis=1)))


PerExample = Float[np.ndarray, " examples"]
Selected = Float[np.ndarray, "examples _selections"]


class Examples(NamedTuple):
    """What is learnt of every example; divergences in nats, ``_mcse`` Monte Carlo errors."""

    # Mean over the others ``i`` of ``KL(p_-i || p_-j)``: what a draw tells of example ``j`` against
    # the same dataset with another example in its place.
    exposure: PerExample
    exposure_mcse: PerExample
    # remove_one_kl, add_one_kl: ``KL(p || p_-j)`` and ``KL(p_-j || p)``
    remove_one_kl: PerExample
    remove_one_kl_mcse: PerExample
    add_one_kl: PerExample
    add_one_kl_mcse: PerExample
    # Mean over partners of the total variation distance of ``p_-i`` and ``p_-j``.
    advantage: PerExample
    remove_one_advantage: PerExample  # total variation distance of ``p`` and ``p_-j``
    # first_half, second_half: the exposure by half of the draws each
    first_half: PerExample
    second_half: PerExample
    contribution: PerExample  # to on-average KL, which is the mean of these


class Mean(NamedTuple):
    """A mean over examples, with its standard error and its Monte Carlo error."""

    value: float
    se: float  # of the spread over examples and of Monte Carlo together
    mcse: float


class Estimates(NamedTuple):
    """Everything that the log-likelihoods of one posterior's draws tell."""

    on_average_kl: Mean
    # Ends of a 95% interval of on-average KL over examples and Monte Carlo together, which allows
    # for the skewness of the examples.
    interval: tuple[float, float]
    shortcut: Mean  # on-average KL of ``n`` examples to second order in gamma
    route_gap: Mean  # shortcut less on-average KL, both for ``n - 1`` examples
    remove_one_kl: Mean
    add_one_kl: Mean
    advantage: Mean
    remove_one_advantage: Mean
    examples: Examples
    scores: Scores


def estimate(
    table: LogLikelihoods, gamma: float, num_chains: int, relative_efficiency: float = 1.0
) -> Estimates:
    """Estimate what one example changes, on average and for each, from one posterior's draws.

    Let ``x_i`` be ``-gamma`` times the log-likelihood of example ``i``, and ``p_-i`` the posterior
    without it, whose weights over draws of ``p`` are ``e^x_i``, Pareto-smoothed. On the dataset of
    ``n - 1`` examples with another one in the place of one, the mean of ``KL(p_-j || p_-i)`` over
    ordered pairs is exactly ``n / (n - 1)`` times the mean over ``j`` of ``E_-j [x_j - xbar]``,
    ``xbar`` being the mean over all examples: normalizers cancel.
    """
    n = table.shape[1]
    pieces = split(num_chains, table.shape[0] // num_chains)
    about = centre(table, gamma)
    removed, scores, sums, heavier = remove_each(table, gamma, about, pieces, relative_efficiency)
    shortcut = removed.pair_variance.sum(axis=0) / (n - 1)
    by_draws = _divergences(removed, sums_over_removed(table, gamma, about, sums))
    tails = _divergences(heavier, sums_over_removed(table, gamma, about, heavier.sums))
    # What heavier tails would change, which no jackknife sees.
    missed = Divergences(*(b - a[:, :1] for a, b in zip(by_draws, tails, strict=True)))
    contribution = by_draws.contribution
    kl = contribution.mean(axis=0)

    def of(values: Selected, tail: Selected | None = None, times: float = 1.0) -> Mean:
        """Mean over examples; the spread counts ``times``."""
        spread = times * float(jackknife(values, pieces).value.std(ddof=1)) / math.sqrt(n)
        found = plain(values.mean(axis=0), None if tail is None else tail.mean(axis=0))
        return Mean(found.value, math.hypot(spread, found.mcse), found.mcse)

    def plain(values: Float[np.ndarray, " selections"], tail: np.ndarray | None = None) -> Mean:
        found = jackknife(values, pieces)
        mcse = math.hypot(found.mcse, 0.0 if tail is None else tail.item())
        return Mean(float(found.value), mcse, mcse)

    def each(values: Selected, tail: Selected) -> Jackknifed:
        found = jackknife(values, pieces)
        return Jackknifed(found.value, np.hypot(found.mcse, tail[:, 0]))

    exposed, removing, adding = (
        each(getattr(by_draws, name), getattr(missed, name))
        for name in ("exposure", "remove", "add")
    )
    examples = Examples(
        exposure=exposed.value,
        exposure_mcse=exposed.mcse,
        remove_one_kl=removing.value,
        remove_one_kl_mcse=removing.mcse,
        add_one_kl=adding.value,
        add_one_kl_mcse=adding.mcse,
        advantage=jackknife(removed.pair_advantage, pieces).value,
        remove_one_advantage=jackknife(removed.advantage, pieces).value,
        first_half=_exposure_alone(table[: pieces.halfway], gamma, relative_efficiency),
        second_half=_exposure_alone(table[pieces.halfway :], gamma, relative_efficiency),
        contribution=jackknife(contribution, pieces).value,
    )
    average = of(contribution, missed.contribution)
    return Estimates(
        on_average_kl=average,
        interval=_interval(examples.contribution, average),
        shortcut=plain(shortcut),
        route_gap=plain(n / (n - 1) * shortcut - kl, missed.contribution.mean(axis=0)),
        remove_one_kl=of(by_draws.remove, missed.remove),
        add_one_kl=of(by_draws.add, missed.add),
        # Each example is in its own pairs and in those of its partners.
        advantage=of(removed.pair_advantage, times=2.0),
        remove_one_advantage=of(removed.advantage),
        examples=examples,
        scores=scores,
    )


def _interval(contribution: PerExample, average: Mean) -> tuple[float, float]:
    """Add Monte Carlo error to the ends of an interval over examples."""
    ends = mean_interval(contribution)
    error = LIMIT_Z * average.mcse
    low = average.value - math.hypot(average.value - ends.low, error)
    return low, average.value + math.hypot(ends.high - average.value, error)


def _exposure_alone(table: LogLikelihoods, gamma: float, relative_efficiency: float) -> PerExample:
    """Exposure by some of the draws, of which the others know nothing."""
    about, every = centre(table, gamma), whole(len(table))
    removed, _, sums, _ = remove_each(table, gamma, about, every, relative_efficiency, 1)
    return _divergences(removed, sums_over_removed(table, gamma, about, sums)).exposure[:, 0]


class Divergences(NamedTuple):
    """Of every example, for selections of draws: contributions to on-average KL, and KLs."""

    contribution: Selected
    exposure: Selected
    remove: Selected
    add: Selected


def _divergences(removed: Removed | Heavier, all_others: Selected) -> Divergences:
    """Make divergences of means; exposure: over ``i != j`` of ``E_-i [x_i - x_j] - A_i + A_j``."""
    n = len(all_others)
    add = removed.own - removed.log_mean
    others = (add.sum(axis=0) - add) / (n - 1)
    seen = (all_others - removed.own) / (n - 1)
    return Divergences(
        # Of x less its mean over draws: E_p [x_j - xbar], which has mean zero over j, is taken
        # away, and with it most of the noise.
        contribution=n / (n - 1) * (removed.own - removed.common),
        exposure=others + removed.log_mean - seen,
        remove=removed.log_mean - removed.mean_own,
        add=add,
    )
