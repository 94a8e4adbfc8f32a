"""Attackers of the Laplace mechanism, of the private mean and of a Gaussian mean; its members."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import betainc, erf, log_ndtr, ndtr, ndtri

from gibbs_dp.exact.attacker import Attacker, Membership, PairLaws
from gibbs_dp.information import checks
from gibbs_dp.information.divergences.continuous import laplace_renyi, quadratic_tail

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_CHI_NODES, _CHI_WEIGHTS = np.polynomial.legendre.leggauss(16)
Values = Float[np.ndarray, " nodes"]


def laplace_attacker(distance: float) -> Attacker:
    """Attack figures of one pair of Laplace laws of one scale, ``distance`` scales apart.

    ``TV = 1 - e^{-D/2}``, ``H = (1 - e^{(eps - D)/2})_+``, ``AUC = 1 - e^{-D} (2 + D) / 4``; the
    privacy loss has atoms at ``D`` and ``-D``, where the ROC is straight.
    """
    return Attacker.of(_OnePair(checks.nonnegative("distance", distance)))


def private_mean_attacker(gamma: float, n: int, bound: float = 2.0) -> Attacker:
    """Attack figures of the private mean, Figure 2a of Wang, Lei & Fienberg (2016).

    The posterior of ``|zbar - theta|`` is a Laplace law about the mean of ``n`` normals truncated
    to ``[-bound, bound]``: pairs are ``D = gamma |z - z'| / n`` apart. Means over ``D`` are
    integrals, and pooled ``AUC = 1 - E e^{-(D + D')/2} (2 + min(D, D')) / 4`` for two independent
    distances.
    """
    rate = checks.positive("gamma", gamma) / checks.count("n", n)
    return Attacker.of(_PrivateMeanPairs(rate, checks.positive("bound", bound)))


class _LaplacePairs(PairLaws):
    """Pairs of Laplace laws of one scale, a random ``D`` scales apart."""

    @abc.abstractmethod
    def mean(self, function: Callable[[Values], Values], turn: float = 0.0) -> float:
        """Mean of a function of ``D``, which may have a kink at ``turn``."""

    def kl(self) -> float:
        return self.renyi(1.0)

    def total_variation(self) -> float:
        return self.hockey_stick(0.0)

    def auc_per_pair(self) -> float:
        return 1 - self.mean(lambda d: np.exp(-d) * (2 + d)) / 4

    def renyi(self, order: float) -> float:
        # Rounding leaves a tiny negative number of two laws that hardly differ.
        return max(
            0.0,
            self.mean(
                lambda d: np.array([laplace_renyi(0.0, float(x), 1.0, order) for x in d.ravel()])
            ),
        )

    def pooled_renyi(self, order: float) -> float:
        if order == 1:
            return self.kl()

        def exponent(d: Values) -> Values:
            each = (laplace_renyi(0.0, float(x), 1.0, order) for x in d.ravel())
            return (order - 1) * np.array(list(each))

        top = (order - 1) * laplace_renyi(0.0, self.farthest, 1.0, order)
        if top < 1:  # nothing overflows, and small values keep their digits
            return math.log1p(self.mean(lambda d: np.expm1(exponent(d)))) / (order - 1)
        total = self.mean(lambda d: np.exp(exponent(d) - top))
        return (top + math.log(total)) / (order - 1)

    @property
    @abc.abstractmethod
    def farthest(self) -> float:
        """Largest ``D``."""

    def hockey_stick(self, epsilon: float) -> float:
        def excess(d: Values) -> Values:
            inside = -np.expm1(np.minimum((epsilon - d) / 2, 0.0)) + 0.0
            below = -math.expm1(min(epsilon, 0.0))
            return np.asarray(np.where(epsilon < -d, below, inside))

        return self.mean(excess, abs(epsilon))

    def vertical_true_positive_rate(self, false_positive_rate: float) -> float:
        rate = false_positive_rate
        if rate == 0:
            return 0.0

        def best(d: Values) -> Values:
            tail = np.exp(-d)
            with np.errstate(over="ignore"):
                steep = rate * np.exp(np.minimum(d, 700.0))
            middle = 1 - tail / (4 * rate)
            flat = 1 - tail * (1 - rate)
            rest = flat if rate >= 0.5 else middle
            return np.asarray(np.where(rate <= tail / 2, steep, rest))

        return self.mean(best, max(0.0, -math.log(2 * rate)))


class _OnePair(_LaplacePairs):
    """One distance."""

    def __init__(self, distance: float) -> None:
        self.distance = distance

    @property
    def farthest(self) -> float:
        return self.distance

    def mean(self, function: Callable[[Values], Values], turn: float = 0.0) -> float:
        return float(function(np.array([self.distance]))[0])

    def auc(self) -> float:
        return self.auc_per_pair()

    def true_positive_rate(self, false_positive_rate: float) -> float:
        return self.vertical_true_positive_rate(false_positive_rate)


class _PrivateMeanPairs(_LaplacePairs):
    """``D = rate |z - z'|`` of two truncated normals."""

    def __init__(self, rate: float, bound: float) -> None:
        self.rate, self.bound = rate, bound

    @property
    def farthest(self) -> float:
        return 2 * self.bound * self.rate

    def mean(self, function: Callable[[Values], Values], turn: float = 0.0) -> float:
        d, weight = self._quadrature(0.0, turn)
        return float(weight @ function(d))

    def _panels(self, low: float, turn: float) -> tuple[Values, Values]:
        """Nodes in ``(low, farthest)``, finer by the ends and ``turn``, and their widths."""
        near = 2.0 ** np.arange(-3, 60)
        edges = np.concatenate(
            [
                [low, turn],
                np.linspace(0, self.farthest, 17),
                *(start + near for start in (low, turn)),
                self.farthest - near,  # where high Renyi orders have their weight
            ]
        )
        edges = np.unique(np.clip(edges, min(low, self.farthest), self.farthest))
        half = np.diff(edges)[:, None] / 2
        return (edges[:-1, None] + half * (1 + _NODES)).ravel(), (half * _WEIGHTS).ravel()

    def _quadrature(self, low: float, turn: float = 0.0) -> tuple[Values, Values]:
        """Nodes ``D > low``, and weights that sum to the probability of it."""
        d, width = self._panels(low, turn)
        u = d / self.rate
        mass = float(ndtr(self.bound) - ndtr(-self.bound))
        density = np.exp(-(u**2) / 4) / math.sqrt(math.pi) * erf(self.bound - u / 2) / mass**2
        return d, density * width / self.rate

    def _reach(self, level: float) -> float:
        """``E[e^{-D/2}; D > level]``."""
        d, weight = self._quadrature(level)
        return float(weight @ np.exp(-d / 2))

    def auc(self) -> float:
        # E e^{-(D + D')/2} min(D, D') is the integral over t of the square of E[e^{-D/2}; D > t].
        t, width = self._panels(0.0, 0.0)
        shared = float(width @ np.array([self._reach(float(level)) for level in t]) ** 2)
        return 1 - self._reach(0.0) ** 2 / 2 - shared / 4

    def _alarms(self, level: float) -> tuple[float, float]:
        """Return false and true positive rate of the threshold ``L > level``."""
        far = abs(level)
        d, weight = self._quadrature(far)
        # Pairs closer than the level never raise an alarm, or always.
        always = 1 - float(weight.sum()) if level < 0 else 0.0
        false = float(weight @ np.exp(-(d + level) / 2)) / 2
        true = float(weight @ (1 - np.exp(-(d - level) / 2) / 2))
        return always + false, always + true

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Pooled ROC; over random distances the atoms of the pairs make no jump."""
        if false_positive_rate in (0.0, 1.0):
            return false_positive_rate
        level = brentq(
            lambda x: self._alarms(x)[0] - false_positive_rate,
            -self.farthest,
            self.farthest,
            xtol=1e-14 * self.farthest,
        )
        return min(1.0, self._alarms(float(level))[1])


# Membership from one draw of the Gaussian mean, the rest of the dataset unknown.


def gaussian_mean_membership(
    gamma: float, n: int, dim: int, data_variance: float, prior_variance: float = math.inf
) -> Membership:
    """Membership figures of the Gaussian mean of `closed_forms.gaussian_mean`.

    Draw and example are Gaussians of squared correlation ``rho^2 = (gamma^2 v / P^2) / V`` in every
    coordinate, ``V = n gamma^2 v / P^2 + 1 / P`` the variance of the draw and
    ``P = n gamma + 1/t^2``. So ``I(W; Z_i) = -(d/2) log(1 - rho^2)``, and ``Lambda`` is a
    difference of two chi-squares: ``rho/2 (A - B)`` for members and
    ``rho/2 (A / (1 + rho) - B / (1 - rho))`` for others, plus ``I(W; Z_i)``.
    """
    precision = posterior_precision(gamma, n, data_variance, prior_variance)
    one = gamma**2 * data_variance / precision**2
    square = one / (n * one + 1 / precision)
    rho, size = math.sqrt(square), checks.count("dim", dim)
    information = -0.5 * size * math.log1p(-square)
    ones = np.ones(size)
    member = np.concatenate([ones, -ones]) * rho / 2
    other = np.concatenate([ones / (1 + rho), -ones / (1 - rho)]) * rho / 2

    def alarms(coefficients: Float[np.ndarray, " d"], level: float) -> float:
        return quadratic_tail(coefficients, np.zeros(coefficients.size), information, level)

    def rate(fpr: float) -> float:
        if fpr in (0.0, 1.0):
            return fpr
        reach = rho * size
        while alarms(other, reach) > fpr or alarms(other, -reach) < fpr:
            reach *= 2
        level = brentq(lambda x: alarms(other, x) - fpr, -reach, reach, xtol=1e-12 * reach)
        return alarms(member, float(level))

    difference = np.concatenate([member, -other])
    return Membership(
        advantage=alarms(member, 0.0) - alarms(other, 0.0),
        attack_auc=quadratic_tail(difference, np.zeros(difference.size), 0.0, 0.0),
        attack_tpr_1pct=rate(0.01),
        attack_tpr_01pct=rate(0.001),
        individual_information=information,
        lautum_information=size * square / (1 - square) - information,
        rate=rate,
    )


# The attacker of the Gaussian mean: closed forms with Student's t, quadrature over a chi.


def posterior_precision(gamma: float, n: int, data_variance: float, prior_variance: float) -> float:
    """Check the parameters of a Gaussian mean, and return the precision of its posterior."""
    checks.positive("gamma", gamma)
    checks.positive("data_variance", data_variance)
    if math.isnan(prior_variance) or prior_variance <= 0:
        raise ValueError(f"prior_variance must be positive or inf, got {prior_variance}.")
    return checks.count("n", n) * gamma + 1 / prior_variance


def gaussian_mean_attacker(
    gamma: float,
    n: int,
    dim: int,
    data_variance: float,
    prior_variance: float = math.inf,
    num_draws: int = 1,
) -> Attacker:
    """Attack figures of the Gaussian mean of `closed_forms.gaussian_mean`, for Gaussian examples.

    The two posteriors are Gaussians of one covariance at Mahalanobis distance ``mu = s chi_d``,
    ``s^2 = 2 gamma^2 v / P`` with ``P = n gamma + 1/t^2``; ``m`` draws make it ``m s^2``. With
    ``F_k`` the law of Student's t,

    - ``E TV = 2 F_d(s sqrt(d)/2) - 1``, ``E AUC = F_d(s sqrt(d/2))``, pooled
      ``AUC = F_{2d}(s sqrt(d/2))``;
    - ``E D_a = a d s^2 / 2``, and pooled ``-d log(1 - a (a - 1) s^2) / (2 (a - 1))``, finite while
      ``a (a - 1) s^2 < 1``;
    - the profile is the mean over ``mu`` of
      ``Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)`` (Balle & Wang 2018, Thm 8).

    Examples
    --------
    >>> attacker = gaussian_mean_attacker(gamma=20.0, n=30, dim=1, data_variance=1.0)
    >>> round(attacker.on_average_tv, 6), round(attacker.attack_auc, 6)
    (0.333333, 0.75)
    """
    precision = posterior_precision(gamma, n, data_variance, prior_variance)
    one = gamma * math.sqrt(2 * data_variance / precision)
    scale = one * math.sqrt(checks.count("num_draws", num_draws))
    return Attacker.of(GaussianPairs(scale, checks.count("dim", dim)))


class GaussianPairs(PairLaws):
    """Pairs of Gaussian laws of one covariance, ``mu = scale chi_dim`` apart."""

    def __init__(self, scale: float, dim: int) -> None:
        self.scale, self.dim = scale, dim

    def _central_t(self, t: float, degrees: int) -> float:
        """``P(|T| <= t)`` of Student's t, to a relative accuracy."""
        return float(betainc(0.5, degrees / 2, t * t / (degrees + t * t)))

    def kl(self) -> float:
        """``d s^2 / 2``."""
        return self.renyi(1.0)

    def total_variation(self) -> float:
        """``2 F_d(s sqrt(d) / 2) - 1``."""
        return self._central_t(self.scale * math.sqrt(self.dim) / 2, self.dim)

    def auc(self) -> float:
        """``F_{2d}(s sqrt(d / 2))``."""
        return 0.5 + self._central_t(self.scale * math.sqrt(self.dim / 2), 2 * self.dim) / 2

    def auc_per_pair(self) -> float:
        """``F_d(s sqrt(d / 2))``."""
        return 0.5 + self._central_t(self.scale * math.sqrt(self.dim / 2), self.dim) / 2

    def renyi(self, order: float) -> float:
        """``order d s^2 / 2``."""
        return order * self.dim * self.scale**2 / 2

    def pooled_renyi(self, order: float) -> float:
        """``-d log(1 - a (a - 1) s^2) / (2 (a - 1))``."""
        if order == 1:
            return self.kl()
        growth = order * (order - 1) * self.scale**2
        if growth >= 1:
            return math.inf
        return -self.dim * math.log1p(-growth) / (2 * (order - 1))

    def hockey_stick(self, epsilon: float) -> float:
        """Mean over ``mu`` of the hockey stick of two Gaussians."""

        def excess(mu: Values) -> Values:
            level = epsilon / mu
            return np.asarray(
                ndtr(mu / 2 - level) - np.exp(epsilon + log_ndtr(-mu / 2 - level)), dtype=float
            )

        return max(0.0, self._mean(excess, epsilon))

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Pooled ROC: the threshold on ``L`` by bisection, its rates by quadrature."""
        if false_positive_rate in (0.0, 1.0):
            return false_positive_rate

        def alarms(level: float, shift: float) -> float:
            return self._mean(lambda mu: np.asarray(ndtr(-level / mu + shift * mu)), level)

        def too_many(level: float) -> float:
            return math.log(max(alarms(level, -0.5), 1e-300) / false_positive_rate)

        reach = self.scale * math.sqrt(self.dim)
        while too_many(reach) > 0 or too_many(-reach) < 0:
            reach *= 2
        level = brentq(too_many, -reach, reach, xtol=1e-14 * reach)
        return min(1.0, alarms(float(level), 0.5))

    def vertical_true_positive_rate(self, false_positive_rate: float) -> float:
        """Mean over ``mu`` of ``Phi(Phi^{-1}(a) + mu)``."""
        start = float(ndtri(false_positive_rate))
        return self._mean(lambda mu: np.asarray(ndtr(start + mu)), start**2 / 2)

    def _mean(self, function: Callable[[Values], Values], level: float) -> float:
        """Mean over ``mu`` of a function that turns near 0 and near ``sqrt(2 |level|)``."""
        middle = math.sqrt(self.dim)
        low, high = max(0.0, middle - 12), middle + 12
        turn = math.sqrt(2 * min(abs(level), 1e300))
        edges = np.concatenate(
            [
                [low],
                high * 2.0 ** np.arange(-60, 1),
                np.arange(low, high),
                (turn + np.arange(-10, 11)) / self.scale,
            ]
        )
        edges = np.unique(np.clip(edges, low, high))
        half = np.diff(edges)[:, None] / 2
        chi = (edges[:-1, None] + half * (1 + _CHI_NODES)).ravel()
        log_density = (self.dim - 1) * np.log(chi) - chi**2 / 2
        # Dividing by the sum is more exact than the gamma function of a large dimension.
        weight = np.exp(log_density - log_density.max()) * (half * _CHI_WEIGHTS).ravel()
        return float(weight @ function(self.scale * chi) / weight.sum())
