"""What a guarantee allows attackers, and what they have shown: bounds from above and from below.

From above, the trade-off between true and false positives. From below, confidence bounds on epsilon
of many runs or of one: they take scores, so that they work for any mechanism, and fail with a
probability of at most ``1 - confidence`` whatever the scores are: bad ones give 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom, norm

from gibbs_dp.information import checks
from gibbs_dp.model.check import positive_count
from gibbs_dp.privacy.figures import least_epsilon
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.routes import GaussianDP, epsilon_at

# Orders at which the Rényi curve of zero-concentrated DP is used; any of them give a bound.
ORDERS = 1.0 + np.geomspace(1e-3, 1e4, 81)
BISECTIONS = 60
# Exponentials overflow far above it, and it allows everything but 1e-260.
LARGEST_EPSILON = 600.0

Rates = Float[np.ndarray, " rates"]


def largest_tpr(guarantee: Guarantee, fpr: ArrayLike | float | Sequence[float]) -> Rates:
    """Bound the true positive rate of every attacker, at given false positive rates.

    The attacker tells two neighbouring datasets apart from everything that the guarantee covers;
    the smallest of the bounds of its currencies:

    - ``(epsilon, delta)`` and pure DP: ``min(e^eps a + delta, 1 - e^-eps (1 - delta - a))`` at the
      rate ``a`` (Kairouz, Oh & Viswanath 2015);
    - Gaussian DP: ``Phi(Phi^-1(a) + mu)`` (Dong, Roth & Su 2022);
    - draws near exact ones: that of the exact ones at ``a + T``, plus ``T``, the distance;
    - Rényi and zero-concentrated DP: the largest rate whose Rényi divergences from ``a``, as of
      two coins and both ways, keep within the curve (data processing).

    Parameters
    ----------
    guarantee
        Of a release.
    fpr
        False positive rates in ``[0, 1]``.

    Returns
    -------
    array
        One rate each.

    Raises
    ------
    ValueError
        If a rate is outside ``[0, 1]``.

    Examples
    --------
    >>> g = Guarantee("replace-one", "exact draw", 1, 1.0, epsilon=1.0, delta=0.0, pure_epsilon=1.0)
    >>> largest_tpr(g, [0.01, 0.5]).round(4).tolist()
    [0.0272, 0.8161]
    """
    rates = np.atleast_1d(np.asarray(fpr, np.float64))
    if rates.ndim != 1 or not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError("fpr: rates must be a vector of numbers in [0, 1].")
    found = [np.ones_like(rates)]
    for epsilon, delta in _pairs(guarantee):
        above = 1.0 - math.exp(-epsilon) * (1.0 - delta - rates)
        found += [math.exp(epsilon) * rates + delta, above]
    if guarantee.gdp is not None:
        found.append(ndtr(ndtri(rates) + guarantee.gdp))
    for order, value in _curve(guarantee):
        low, high = rates, np.ones_like(rates)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            both = [_renyi_of_coins(middle, rates, order), _renyi_of_coins(rates, middle, order)]
            is_allowed = np.maximum(*both) <= value
            low, high = np.where(is_allowed, middle, low), np.where(is_allowed, high, middle)
        found.append(high)
    if guarantee.exact is not None:  # both laws are within the distance of those of exact draws
        far = guarantee.distance
        found.append(largest_tpr(guarantee.exact, np.minimum(rates + far, 1.0)) + far)
    return np.maximum(np.min(found, axis=0), rates)


def largest_advantage(guarantee: Guarantee) -> float:
    """Bound the advantage of every attacker: true minus false positive rate.

    ``(e^eps - 1 + 2 delta) / (e^eps + 1)``, ``2 Phi(mu/2) - 1``, and of a Rényi curve the largest
    ``t`` for which coins of ``(1 + t) / 2`` and ``(1 - t) / 2`` keep within it: bounds that hold
    both ways are symmetric, and largest there. The sources are those of `largest_tpr`.

    Parameters
    ----------
    guarantee
        Of a release.

    Returns
    -------
    float
        In ``[0, 1]``; 1 where nothing is promised.

    Examples
    --------
    >>> g = Guarantee("replace-one", "exact draw", 1, 1.0, epsilon=1.0, delta=0.0, pure_epsilon=1.0)
    >>> round(largest_advantage(g), 4)                                      # tanh(1/2)
    0.4621
    """
    found = [1.0]
    for epsilon, delta in _pairs(guarantee):
        half = math.tanh(epsilon / 2)
        found.append(half + delta * (1.0 - half))
    if guarantee.gdp is not None:
        found.append(2.0 * float(ndtr(guarantee.gdp / 2)) - 1.0)
    for order, value in _curve(guarantee):
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            coins = np.array([0.5 + 0.5 * middle]), np.array([0.5 - 0.5 * middle])
            is_allowed = float(_renyi_of_coins(*coins, order)[0]) <= value
            low, high = (middle, high) if is_allowed else (low, middle)
        found.append(high)
    if guarantee.exact is not None:
        found.append(largest_advantage(guarantee.exact) + 2.0 * guarantee.distance)
    return min(found)


def as_replace_one(guarantee: Guarantee) -> Guarantee:
    """Turn a guarantee for added or removed examples into one for replaced ones.

    Replacing is removing and adding: twice the pure epsilon and mu, four times rho, and
    ``(2 epsilon, (1 + e^epsilon) delta)`` (group privacy; Dwork & Roth 2014, Bun & Steinke 2016,
    Dong, Roth & Su 2022), or what the others imply at that delta where it is less. A Rényi curve
    and Bayesian DP are lost.
    """
    g = guarantee
    if g.adjacency == "replace-one":
        return g
    delta = min(1.0, (1.0 + math.exp(min(g.epsilon, LARGEST_EPSILON))) * g.delta)
    is_void = not delta < 1.0  # a guarantee with delta = 1 cannot be written
    delta = 0.0 if is_void else delta
    pure = None if g.pure_epsilon is None else 2 * g.pure_epsilon
    zcdp = None if g.zcdp is None else 4 * g.zcdp
    gdp = None if g.gdp is None else 2 * g.gdp
    epsilon = math.inf if is_void else 2 * g.epsilon
    return replace(
        g,
        adjacency="replace-one",
        epsilon=least_epsilon(epsilon, delta, pure_epsilon=pure, zcdp=zcdp, gdp=gdp),
        delta=delta,
        pure_epsilon=pure,
        zcdp=zcdp,
        gdp=gdp,
        renyi=(),
        bayesian_epsilon=None,
        exact=None if g.exact is None or is_void else as_replace_one(g.exact),
    )


def _pairs(guarantee: Guarantee) -> Iterator[tuple[float, float]]:
    if guarantee.epsilon < LARGEST_EPSILON:
        yield guarantee.epsilon, guarantee.delta
    if guarantee.pure_epsilon is not None and guarantee.pure_epsilon < LARGEST_EPSILON:
        yield guarantee.pure_epsilon, 0.0


def _curve(guarantee: Guarantee) -> Iterator[tuple[float, float]]:
    """Orders above 1 and bounds of the divergence, nats."""
    yield from ((a, v) for a, v in guarantee.renyi if 1 < a < math.inf and v < math.inf)
    if guarantee.zcdp is not None:
        yield from ((float(a), float(a) * guarantee.zcdp) for a in ORDERS)


def _renyi_of_coins(p: Rates, q: Rates, order: float) -> Rates:
    """Rényi divergence between coins, nats; infinite where one side is impossible."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = [
            np.where(a > 0, order * np.log(a) + (1.0 - order) * np.log(b), -np.inf)
            for a, b in ((p, q), (1.0 - p, 1.0 - q))
        ]
    total: Rates = np.logaddexp(*sides) / (order - 1.0)
    return total


Scores = Float[np.ndarray, " trials"]
Others = Float[np.ndarray, " others"]
Bounds = Float[np.ndarray, " cuts"]
# Of an event's probabilities, of the likelier law from below and of the other from above.
Bound = Callable[[Bounds, Bounds], Bounds]

# Share of the trials that choose an event, and the most thresholds that are tried.
CHOOSING, NUM_CUTS = 0.25, 400
# No bound of so many trials comes near it.
LARGEST_SHOWN_EPSILON, LARGEST_SHOWN_MU = 60.0, 20.0

# Many runs: probabilities of an event on two neighbours.


@dataclass(frozen=True)
class ShownEpsilon:
    """What scores of many runs on two neighbours show.

    Parameters
    ----------
    epsilon
        Lower bound on epsilon at ``delta``, of any mechanism.
    mu
        Lower bound on mu of Gaussian DP. Each of the two bounds holds with ``confidence``.
    delta, confidence
        As asked for.
    """

    epsilon: float
    mu: float
    delta: float
    confidence: float

    @property
    def gaussian_epsilon(self) -> float:
        """Epsilon at ``delta`` of Gaussian DP with ``mu``; infinite at delta 0 unless mu is 0.

        A lower bound where the mechanism's trade-off is Gaussian, as of the Gaussian mechanism, and
        then closer than ``epsilon`` (Nasr et al. 2023); of other mechanisms it is none.
        """
        if self.mu == 0:
            return 0.0
        return math.inf if self.delta == 0 else epsilon_at(GaussianDP(self.mu), self.delta, 1)


def epsilon_shown(
    first: ArrayLike,
    second: ArrayLike,
    delta: float = 0.0,
    *,
    confidence: float = 0.95,
    choosing: tuple[ArrayLike, ArrayLike] | None = None,
) -> ShownEpsilon:
    """Bound epsilon and mu from below by scores of independent runs on two neighbours.

    Of every event, ``P(event | first) <= e^epsilon P(event | second) + delta``, and the other way
    round. An event, the scores above or below a threshold, is chosen on some of the runs; its
    probabilities on the two neighbours are bounded on the others (Clopper & Pearson 1934), each
    with half of the error. Under Gaussian DP, ``Phi^-1 P(event | first) - Phi^-1 P(event | second)
    <= mu`` (Dong, Roth & Su 2022), which bounds mu by an event chosen for it.

    The neighbours may differ from run to run, and the scores be made with all knowledge of them:
    both inequalities outlast averages over pairs, as trade-off functions are convex.

    Parameters
    ----------
    first, second
        One number a run ``[runs]``, in an order that says nothing of it; at least 4 of each.
    delta
        At which epsilon is asked for.
    confidence
        Probability with which each bound holds.
    choosing
        Scores of other runs, of both neighbours, that choose the events. None: the first quarter
        of the runs, which are not counted then.

    Returns
    -------
    ShownEpsilon
        Both bounds, at least 0.

    Raises
    ------
    ValueError
        If scores are not finite numbers or too few, or ``delta`` or ``confidence`` makes no sense.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shown = epsilon_shown(rng.laplace(1.0, size=4000), rng.laplace(0.0, size=4000))
    >>> 0.7 < shown.epsilon < 1.0                                   # the truth is 1
    True
    """
    a, b = _scores("first", first), _scores("second", second)
    delta = checks.unit_interval("delta", delta)
    level = 0.5 * (1.0 - _confidence(confidence))
    if choosing is None:
        heads = [math.ceil(CHOOSING * v.size) for v in (a, b)]
        early, (a, b) = (a[: heads[0]], b[: heads[1]]), (a[heads[0] :], b[heads[1] :])
    else:
        early = _scores("choosing", choosing[0]), _scores("choosing", choosing[1])
    bounds: list[Bound] = [lambda p, q: log_ratio(p, q, delta), normal_distance]
    found = []
    for bound, event in zip(bounds, best_events(*early, level, bounds), strict=True):
        found.append(max(0.0, float(bound(*event.limits(a, b, level))[0])))
    return ShownEpsilon(found[0], found[1], delta, confidence)


class Event(NamedTuple):
    """Scores times ``sign`` of at least ``cut`` times it; likelier of the second where swapped."""

    value: float  # of the bound that chose it
    sign: int
    cut: float
    is_swapped: bool

    def limits(self, first: Scores, second: Others, level: float) -> tuple[Bounds, Bounds]:
        """Bound its probabilities, of the likelier law from below and of the other from above."""
        pair = (second, first) if self.is_swapped else (first, second)
        cuts = np.array([self.sign * self.cut])
        return event_limits(self.sign * pair[0], self.sign * pair[1], cuts, level)


def best_events(
    first: Scores, second: Others, level: float, bounds: Sequence[Bound]
) -> list[Event]:
    """Find the event with the largest value of each bound."""
    cuts = np.unique(
        np.quantile(np.concatenate([first, second]), np.linspace(0.0005, 0.9995, NUM_CUTS))
    )
    best = [Event(-math.inf, 1, math.inf, False)] * len(bounds)
    for p, q, is_swapped in ((first, second, False), (second, first, True)):
        for sign in (1, -1):
            limits = event_limits(sign * p, sign * q, sign * cuts, level)
            for k, bound in enumerate(bounds):
                values = bound(*limits)
                top = int(np.argmax(values))
                if values[top] > best[k].value:
                    best[k] = Event(float(values[top]), sign, float(cuts[top]), is_swapped)
    return best


def event_limits(
    first: Scores, second: Others, cuts: Float[np.ndarray, " cuts"], level: float
) -> tuple[Bounds, Bounds]:
    """Bound probabilities of ``score >= cut``, below of the first law and above of the second.

    >>> low, high = event_limits(np.ones(10), np.zeros(10), np.array([0.5]), 0.025)
    >>> [round(float(p), 12) for p in (low[0] ** 10, (1 - high[0]) ** 10)]
    [0.025, 0.025]
    """
    sizes = first.size, second.size
    hits, false = (
        size - np.searchsorted(np.sort(v), cuts)
        for v, size in zip((first, second), sizes, strict=True)
    )
    least = np.where(hits > 0, beta.ppf(level, np.maximum(hits, 1), sizes[0] - hits + 1), 0.0)
    most = np.where(
        false < sizes[1], beta.ppf(1 - level, false + 1, np.maximum(sizes[1] - false, 1)), 1.0
    )
    return least, most


def log_ratio(least: Bounds, most: Bounds, delta: float) -> Bounds:
    """Epsilon that two probabilities of an event need."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(least - delta, 0.0)) - np.log(most))


def normal_distance(least: Bounds, most: Bounds) -> Bounds:
    """Mu of Gaussian DP that two probabilities of an event need."""
    return np.asarray(norm.ppf(least) - norm.ppf(most))


# One run: guesses of many coins.


@dataclass(frozen=True)
class OneRunEpsilon(ShownEpsilon):
    """What guesses of one run's coins show.

    Parameters
    ----------
    epsilon, mu, delta, confidence
        As of `ShownEpsilon`.
    num_guesses, num_right
        Of the number of guesses that showed most of epsilon.
    """

    num_guesses: int
    num_right: int


def epsilon_of_one_run(
    scores: ArrayLike,
    coins: ArrayLike,
    delta: float = 0.0,
    *,
    confidence: float = 0.95,
    num_guesses: int | None = None,
) -> OneRunEpsilon:
    """Bound epsilon from below by one run of a mechanism on data that coins have chosen.

    Each of ``m`` canaries is put in or left out, or one of two examples taken, as a fair coin of
    its own says, and the mechanism is run **once**. The auditor, who sees its output, scores all
    canaries, guesses 1 for the largest ``r/2`` scores and 0 for the smallest, and abstains from the
    others. Steinke, Nasr & Jagielski (2023): if the mechanism is ``(epsilon, delta)``-DP where one
    coin turns, the probability of ``v`` right guesses or more is at most ``P(W >= v) + 2 m delta
    max_i P(v > W >= v - i) / i``, for ``W`` binomial with ``r`` trials of ``1 / (1 + e^-epsilon)``.
    (At delta 0: given the output and the other coins, a coin's odds are at most ``e^epsilon``.)
    Epsilons for which that is too small are refuted. Of Gaussian DP no theorem of epsilons is
    needed: `least_mass` (Mahloujifar, Melis & Chaudhuri 2025).

    Coins that choose between two examples audit replace-one neighbours; those that put in or leave
    out audit added and removed ones. The guesses of one run disturb each other: even the best falls
    short of the truth, the more so with few canaries and large epsilon.

    Parameters
    ----------
    scores
        Larger where the coin seems to be 1, ``[canaries]``, from the output alone.
    coins
        What the coins were, ``[canaries]``, 0 and 1, drawn before the run with probability 1/2.
    delta
        At which epsilon is asked for.
    confidence
        Probability with which each of the two bounds holds.
    num_guesses
        ``r``, named before the run. None: all, a half, a quarter and so on down to 8 are tried,
        each with its share of the error.

    Returns
    -------
    OneRunEpsilon
        The largest of the bounds on epsilon, and on mu.

    Raises
    ------
    ValueError
        If lengths differ, scores are not finite, coins are not 0 and 1, or a number makes no sense.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> coins = rng.random(2000) < 0.5
    >>> told = coins ^ (rng.random(2000) > 1 / (1 + np.exp(-1.0)))  # randomized response
    >>> 0.7 < epsilon_of_one_run(told, coins).epsilon < 1.0
    True
    """
    values, count = _scores("scores", scores), np.size(coins)
    held = np.asarray(coins).ravel()
    if values.size != count or not np.isin(held, (0, 1)).all():
        raise ValueError(
            f"coins: give 0 or 1 for each of the {values.size} scores, got {count} values."
        )
    delta = checks.unit_interval("delta", delta)
    error = 1.0 - _confidence(confidence)
    if num_guesses is None:
        # Halved as long as guesses can show anything.
        tried = [count >> k for k in range(count.bit_length()) if count >> k >= 8] or [count]
    else:
        tried = [positive_count("num_guesses", num_guesses)]
        if tried[0] > count:
            raise ValueError(f"num_guesses: there are {count} canaries, got {num_guesses} guesses.")
    is_one: Bool[np.ndarray, " canaries"] = held.astype(bool)[np.argsort(values, kind="stable")]
    best, mu = (0.0, tried[0], 0), 0.0
    for guesses in tried:
        low = guesses // 2
        right = int(np.sum(is_one[count - (guesses - low) :]) + np.sum(~is_one[:low]))
        level = error / len(tried)
        best = max(best, (_refuted(count, guesses, right, delta, level), guesses, right))
        mu = max(mu, _refuted_mu(count, guesses, right, level))
    return OneRunEpsilon(best[0], mu, delta, confidence, *best[1:])


def chance_of_guesses(
    num_canaries: int, num_guesses: int, num_right: int, epsilon: float, delta: float
) -> float:
    """Bound the probability of so many right guesses under ``(epsilon, delta)``-DP.

    >>> round(chance_of_guesses(1000, 100, 75, 0.673, 1e-4), 3)     # Steinke et al., Appendix D
    0.05
    """
    share = 1.0 / (1.0 + math.exp(-epsilon))
    chance = float(binom.sf(num_right - 1, num_guesses, share))
    if delta > 0 and num_right > 0:
        below = np.cumsum(binom.pmf(np.arange(num_right - 1, -1, -1), num_guesses, share))
        steepest = float(np.max(below / np.arange(1, num_right + 1)))
        chance += 2 * num_canaries * delta * steepest
    return min(1.0, chance)


def _refuted(count: int, guesses: int, right: int, delta: float, error: float) -> float:
    """Return the largest epsilon that is refuted; 0 where none is."""

    def excess(epsilon: float) -> float:
        return chance_of_guesses(count, guesses, right, epsilon, delta) - error

    if excess(0.0) >= 0:
        return 0.0
    root = float(brentq(excess, 0.0, LARGEST_SHOWN_EPSILON, xtol=1e-9))
    return max(0.0, root - 1e-8)


def least_mass(
    num_canaries: int, num_guesses: int, num_right: int, tail: float, mu: float
) -> float:
    """Bound from below what all numbers of right guesses have to weigh; above 1 is impossible.

    Let ``p_i`` be the probability that ``i`` of ``r`` guesses are right. Given the other coins, a
    coin that is 1 or 0 makes two laws whose events fulfil ``P <= Phi(Phi^-1(Q) + mu)``. Take as
    event that it is guessed, and that ``i - 1`` of the other guesses are right for some ``i >= u``:
    the guess is right under one law and wrong under the other. On average over ``m`` coins, by
    concavity, ``sum_{i >= u} i p_i / m <= Phi(Phi^-1(sum_{i >= u} (r - i + 1) p_{i-1} / m) + mu)``
    for every ``u`` (Mahloujifar, Melis & Chaudhuri 2025). So a tail of ``num_right`` or more that
    weighs ``tail`` needs more and more below it. The least is found downwards, with what each step
    needs and no more: additions at a step ``u`` or above change ``(H, M)``, both sums over ``i >=
    u``, the first of ``i p_i / m``, by ``(dH, dM)`` with ``m dH >= u dM >= 0``, and all later steps
    keep such changes so, whence ``M`` at the end is larger.

    >>> round(least_mass(1, 1, 1, 0.691462461, 1.0), 6)         # Phi(mu / 2) of a single coin
    1.0
    """
    m, r = num_canaries, num_guesses
    hit, missed, mass = tail * num_right / m, tail * (r - num_right) / m, tail
    for i in range(num_right - 1, -1, -1):
        needed = float(ndtr(ndtri(hit) - mu))
        if needed > missed:
            more = (needed - missed) * m / (r - i)
            missed, hit, mass = needed, hit + i * more / m, mass + more
        if mass > 1:
            break
    return mass


def _refuted_mu(count: int, guesses: int, right: int, error: float) -> float:
    """Return the largest mu that is refuted, from below; 0 where none is."""
    low, high = 0.0, LARGEST_SHOWN_MU
    if 2 * right <= guesses or least_mass(count, guesses, right, error, low) <= 1:
        return 0.0
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        if least_mass(count, guesses, right, error, middle) > 1:
            low = middle
        else:
            high = middle
    return low


def _scores(name: str, values: ArrayLike) -> Scores:
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or found.size < 4 or not np.isfinite(found).all():
        raise ValueError(f"{name}: give a vector of at least 4 finite numbers.")
    return found


def _confidence(value: float) -> float:
    value = float(value)
    if not 0.5 <= value < 1:
        raise ValueError(f"confidence: must be in [0.5, 1), such as 0.95, got {value:g}.")
    return value
