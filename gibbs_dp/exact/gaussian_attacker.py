"""The attacker of the Gaussian mean: closed forms with Student's t, quadrature over a chi."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import betainc, log_ndtr, ndtr, ndtri

from gibbs_dp.exact.attacker import Attacker, PairLaws
from gibbs_dp.information import checks

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
Values = Float[np.ndarray, " nodes"]


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
    """Attack figures of the Gaussian mean of `closed_form.gaussian_mean`, for Gaussian examples.

    The two posteriors are Gaussians of one covariance at Mahalanobis distance ``mu = s chi_d``,
    ``s^2 = 2 gamma^2 v / P`` with ``P = n gamma + 1/t^2``; ``m`` draws make it ``m s^2``. With
    ``F_k`` the law of Student's t,

    - ``E TV = 2 F_d(s sqrt(d)/2) - 1``, ``E AUC = F_d(s sqrt(d/2))``, pooled
      ``AUC = F_{2d}(s sqrt(d/2))``;
    - ``E D_a = a d s^2 / 2``, and pooled ``-d log(1 - a (a - 1) s^2) / (2 (a - 1))``, finite while
      ``a (a - 1) s^2 < 1``;
    - the profile is the mean over ``mu`` of
      ``Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)`` (Balle & Wang 2018, Thm 8).

    Parameters
    ----------
    gamma
        Inverse temperature, positive, of the total loss ``sum_i |theta - z_i|^2 / 2``.
    n, dim
        Dataset size and dimension ``d``.
    data_variance
        ``v``, of every coordinate of an example.
    prior_variance
        ``t^2``; ``inf``, the default, is the flat prior.
    num_draws
        Independent draws ``m`` that the attacker sees; default 1.

    Returns
    -------
    Attacker
        Closed forms, and quadrature to about 1e-12 for the profile and the ROC.

    Raises
    ------
    ValueError
        If a variance or gamma is not positive, or a count is not a positive integer.

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
    """Pairs of Gaussian laws of one covariance, ``mu = s chi_d`` apart.

    Parameters
    ----------
    scale
        ``s``, positive.
    dim
        ``d``, degrees of freedom of the chi.
    """

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
        chi = (edges[:-1, None] + half * (1 + _NODES)).ravel()
        log_density = (self.dim - 1) * np.log(chi) - chi**2 / 2
        # Dividing by the sum is more exact than the gamma function of a large dimension.
        weight = np.exp(log_density - log_density.max()) * (half * _WEIGHTS).ravel()
        return float(weight @ function(self.scale * chi) / weight.sum())
