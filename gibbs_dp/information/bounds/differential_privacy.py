"""Differential privacy: of a draw whose loss has bounded range, composed, and of approximate draws.

``R = sup_{z,z'} [sup - inf]_theta (loss(theta, z) - loss(theta, z'))``; ``eta = gamma R`` bounds
the range of the log-ratio between neighbours (Durfee & Rogers 2019; Dong, Durfee & Rogers 2020).
Everything is in nats.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gibbs_dp.information import checks


class ApproximateDP(NamedTuple):
    """A pair ``(epsilon, delta)``, for the adjacency of what it is computed from."""

    epsilon: float
    delta: float


def advanced_composition(
    num_releases: int, epsilon: float, delta: float = 0.0, *, delta_slack: float
) -> ApproximateDP:
    """``k`` adaptive ``(epsilon, delta)`` releases (Dwork, Rothblum & Vadhan 2010).

    ``epsilon sqrt(2 k ln(1/delta')) + k epsilon (e^epsilon - 1)`` at ``k delta + delta'``.

    Parameters
    ----------
    num_releases
        ``k``.
    epsilon, delta
        Of each release.
    delta_slack
        ``delta'``, in ``(0, 1)``.

    Returns
    -------
    ApproximateDP
        Guarantee of all releases together.

    Examples
    --------
    >>> round(advanced_composition(100, 0.1, delta_slack=1e-5).epsilon, 6)
    5.850235
    """
    k = checks.count("num_releases", num_releases)
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    checks.unit_interval("delta_slack", delta_slack, open_left=True)
    total = math.sqrt(2 * k * math.log(1 / delta_slack)) * epsilon + k * epsilon * checks.expm1(
        epsilon
    )
    return ApproximateDP(total, min(1.0, k * delta + delta_slack))


def advanced_composition_inverse(
    num_releases: int, total_epsilon: float, *, delta_slack: float
) -> float:
    """Per-release ``epsilon`` at which `advanced_composition` reaches ``total_epsilon``.

    Examples
    --------
    >>> epsilon = advanced_composition_inverse(10000, 1.0, delta_slack=math.exp(-32))
    >>> round(1 / epsilon)  # against 10000 by basic composition
    812
    """
    checks.positive("total_epsilon", total_epsilon)

    def excess(epsilon: float) -> float:
        return (
            advanced_composition(num_releases, epsilon, delta_slack=delta_slack).epsilon
            - total_epsilon
        )

    # The linear term alone already exceeds the total at the upper end.
    high = total_epsilon / math.sqrt(2 * num_releases * math.log(1 / delta_slack))
    from scipy.optimize import brentq  # slow to import

    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14))


def approximate_draw(epsilon: float, delta: float, *, total_variation: float) -> ApproximateDP:
    """``(epsilon, delta + (1 + e^epsilon) tau)`` of a draw within total variation ``tau``.

    ``tau`` must hold for every dataset, and for a Markov chain it is rarely known.

    Examples
    --------
    >>> round(approximate_draw(0.0, 0.0, total_variation=0.01).delta, 6)
    0.02
    """
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    tau = checks.nonnegative("total_variation", total_variation)
    return ApproximateDP(
        epsilon, min(1.0, delta + (2 + checks.expm1(epsilon)) * tau if tau > 0 else delta)
    )


def kl_from_range(eta: float) -> float:
    """Largest KL between laws whose log-ratio has range ``eta``; attained, at most ``eta^2/8``.

    ``kappa(eta) = x - 1 - ln x`` with ``x = eta / (e^eta - 1)`` (Dong, Durfee & Rogers 2020).

    Parameters
    ----------
    eta
        Range of the log-ratio, ``gamma R`` for a Gibbs posterior.

    Returns
    -------
    float
        ``kappa(eta)``, nats.

    Raises
    ------
    ValueError
        If ``eta`` is negative.

    Examples
    --------
    >>> round(kl_from_range(1.0), 9)
    0.123301561
    """
    checks.nonnegative("eta", eta)
    if eta < 1e-2:  # the closed form cancels; next term eta^6/181440 is below 1e-17
        return eta**2 / 8 - eta**4 / 576
    # x = eta e^-eta / (1 - e^-eta), written so that a large eta does not overflow.
    log_x = math.log(eta) - eta - math.log(-math.expm1(-eta))
    return math.expm1(log_x) - log_x


def zcdp_from_range(eta: float) -> float:
    """``rho = eta^2 / 8`` zCDP, which composes adaptively by adding (Cesar & Rogers 2021).

    Examples
    --------
    >>> zcdp_from_range(2.0)
    0.5
    """
    return checks.nonnegative("eta", eta) ** 2 / 8


def total_variation_from_range(eta: float) -> float:
    """Largest total variation for a log-ratio of range ``eta``: ``tanh(eta / 4)``, attained.

    Examples
    --------
    >>> round(total_variation_from_range(1.0), 9)
    0.244918662
    """
    return math.tanh(checks.nonnegative("eta", eta) / 4)


def renyi_from_range(eta: float, alpha: float) -> float:
    """Largest Rényi divergence of order ``alpha`` for a log-ratio of range ``eta``; one release.

    ``max_t log( q e^{alpha t} + (1 - q) e^{alpha (t - eta)} ) / (alpha - 1)`` over ``0 < t < eta``
    with ``q = (1 - e^{t-eta}) / (e^t - e^{t-eta})``: a convex function of a ratio of mean 1 is
    largest on the two ends of its interval. Do not compose one fixed ``t`` adaptively.

    Parameters
    ----------
    eta
        Range of the log-ratio.
    alpha
        Order, at least 1; 1 is `kl_from_range` and ``inf`` is ``eta``.

    Returns
    -------
    float
        Divergence in nats.

    Examples
    --------
    >>> round(renyi_from_range(1.0, alpha=2.0), 9)
    0.240229014
    """
    checks.nonnegative("eta", eta)
    if math.isnan(alpha) or alpha < 1:
        raise ValueError(f"alpha must be at least 1, got {alpha}; use an order above 1.")
    if alpha == 1:
        return kl_from_range(eta)
    if math.isinf(alpha) or eta == 0:
        return eta

    def negative(t: float) -> float:
        log_high = math.log(-math.expm1(t - eta)) - t - math.log(-math.expm1(-eta)) + alpha * t
        log_low = math.log(-math.expm1(-t)) - math.log(-math.expm1(-eta)) + alpha * (t - eta)
        return -float(np.logaddexp(log_high, log_low)) / (alpha - 1)

    # The maximum drifts towards t = eta as alpha grows: search around the best of a fine grid.
    grid = eta * (1 - np.concatenate([np.geomspace(1e-9, 0.02, 60), np.linspace(0.03, 0.99, 97)]))
    grid.sort()
    best = int(np.argmin([negative(float(t)) for t in grid]))
    low = grid[max(best - 1, 0)]
    high = grid[min(best + 1, grid.size - 1)]
    from scipy.optimize import minimize_scalar  # slow to import

    found = minimize_scalar(
        negative, bounds=(float(low), float(high)), method="bounded", options={"xatol": 1e-12}
    )
    return -min(float(found.fun), negative(float(grid[best])))
