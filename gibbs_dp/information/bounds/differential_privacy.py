"""Differential privacy: of draws whose loss has bounded range, composed; max-information.

``R = sup_{z,z'} [sup - inf]_theta (loss(theta, z) - loss(theta, z'))``; ``eta = gamma R`` bounds
the range of the log-ratio between neighbours (Durfee & Rogers 2019; Dong, Durfee & Rogers 2020).
Everything is in nats but max-information.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

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


# Max-information of differentially private algorithms, in bits.
#
# ``I_inf^beta(A, n) <= k`` bounds the probability of an event that the output of ``A`` chose:
# ``P[(S, A(S)) in O] <= 2^k P[S x A(S) in O] + beta`` (Dwork, Feldman, Hardt, Pitassi, Reingold &
# Roth 2015, *Generalization in adaptive data analysis and holdout reuse*). Replace-one neighbours.

BITS_PER_NAT = 1 / math.log(2)


def max_information_bits(n: int, epsilon: float, delta: float = 0.0, *, beta: float = 0.0) -> float:
    """Bound ``I_inf^beta`` of an ``(epsilon, delta)``-DP algorithm on ``n`` examples, in bits.

    - ``log2(e) epsilon n`` at ``delta = beta = 0``, for any law of the data (Dwork et al. 2015,
      Thm 19).
    - ``log2(e) (n kappa(epsilon) + epsilon sqrt(n ln(1/beta) / 2))`` at ``delta = 0``, for
      independent examples, if that is less. ``kappa(epsilon) <= epsilon^2 / 8`` is `kl_from_range`;
      Thm 20 has ``epsilon^2 / 2`` and ``ln(2/beta)``. At an output ``y`` write
      ``log P(y|x)/P(y) = sum_i G_i``, ``G_i = log P(y|x_1..x_i) / P(y|x_1..x_{i-1})``: given the
      past each has range ``epsilon`` and ``E e^{G_i} = 1``, so its mean under the joint law is at
      most ``kappa(epsilon)``, and Azuma bounds the rest.
    - At ``delta > 0``, for independent examples, the least number of bits that
      `approximate_dp_bits_at` gives at this ``beta``. Rogers, Roth, Smith & Thakkar 2016 have no
      explicit constants. It is searched numerically: every choice is valid, so a poor search
      loosens the bound but never breaks it.

    For ``epsilon``-Bayesian DP the bounds at ``delta = 0`` hold with arbitrarily correlated
    examples (Zhao 2019, Thm 3).

    Parameters
    ----------
    n
        Number of examples.
    epsilon, delta
        Privacy of the algorithm, replace-one.
    beta
        Mass given away, in ``[0, 1)``.

    Returns
    -------
    float
        Bits; ``inf`` if ``delta > 0`` and ``beta <= n delta``, where the method gives nothing.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> round(max_information_bits(10, 0.1), 6)
    1.442695
    >>> round(max_information_bits(10, 2.0, beta=0.05), 6)
    18.012338
    >>> round(max_information_bits(100, 0.1, 1e-9, beta=0.05), 3)
    4.27
    """
    checks.count("n", n)
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    checks.unit_interval("beta", beta)
    if delta > 0:
        return _search(n, epsilon, delta, beta)
    spread = epsilon * math.sqrt(n * math.log(1 / beta) / 2) if beta > 0 else math.inf
    return BITS_PER_NAT * min(n * kl_from_range(epsilon) + spread, n * epsilon)


def _search(n: int, epsilon: float, delta: float, beta: float) -> float:
    """Choose the free numbers of `approximate_dp_bits_at`."""
    if beta <= n * delta:
        return math.inf

    def shares(x: Float[np.ndarray, " 2"]) -> tuple[float, float, float]:
        """Two logits to the parts of beta given to (1), (2) and Azuma; (1) needs > n delta."""
        floor = n * delta
        parts = [math.exp(min(float(v), 600.0)) for v in (x[0], x[1], 0.0)]
        scale = (beta - floor) / sum(parts)
        return floor + parts[0] * scale, parts[1] * scale, parts[2] * scale

    def bits(x: Float[np.ndarray, " 2"]) -> float:
        tail, markov, azuma = shares(x)
        margin = -math.log1p(-n * delta / tail)
        if not margin > 0 or not markov > 0:
            return math.inf
        a = epsilon + margin
        slack = n * delta * 2 * a * math.exp(-a) / -math.expm1(-2 * a) / markov
        if not slack > 0:
            return math.inf
        return approximate_dp_bits_at(
            n, epsilon, delta, margin=margin, slack=slack, azuma_beta=azuma
        )[0]

    from scipy.optimize import minimize  # slow to import

    starts = np.array([[-1.0, -1.0], [-6.0, -6.0], [-12.0, -12.0], [1.0, 1.0]])
    runs = [
        minimize(bits, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10})
        for start in starts
    ]
    return min(float(run.fun) for run in runs)


def approximate_dp_bits_at(
    n: int, epsilon: float, delta: float, *, margin: float, slack: float, azuma_beta: float
) -> tuple[float, float]:
    """Return a pair ``(k, beta)`` with ``I_inf^beta <= k`` bits, for any three free numbers.

    ``margin``, ``slack`` and ``azuma_beta`` are positive. With ``a = epsilon + margin``,

    - ``k = log2(e) ( n a tanh(a/2) + a sqrt(2 n ln(1/azuma_beta)) + slack )``,
    - ``beta = azuma_beta + n delta / (1 - e^-margin) + n delta a / (slack sinh a)``.

    Proof. ``log P(y|x)/P(y) = sum_i G_i`` as in `max_information_bits`. Given the past
    ``x_1..x_{i-1}``, the pair ``(x_i, y)`` and the product of its marginals are ``(epsilon,
    delta)``-close both ways, by averaging over the ghost and the future. (1) Hence ``P(G_i > a) <=
    delta / (1 - e^-margin)``, so outside an event of ``n`` times that, ``sum G_i <= sum H_i`` with
    ``H_i`` the ``G_i`` clipped to ``[-a, a]``. (2) Given the past and ``y``, the clipped ratio lies
    on a chord of ``x log x``: ``E H_i <= a tanh(a/2) + (a / sinh a) D_i``, where ``D_i`` is the
    hockey stick ``E_{e^a}`` of the prior of ``x_i`` against its posterior, of mean at most
    ``delta``; Markov's inequality bounds ``sum D_i``. (3) Azuma with range ``2 a`` bounds the
    deviation.

    Unlike Rogers et al., no event is conditioned on, so ``delta / epsilon`` takes the place of
    ``sqrt(delta / epsilon)``: at ``margin = epsilon`` and ``slack = n epsilon^2``,
    ``beta - azuma_beta <= n delta / (1 - e^-epsilon) + 2 delta / epsilon^2``.
    """
    checks.count("n", n)
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    checks.unit_interval("azuma_beta", azuma_beta, open_left=True)
    a = epsilon + checks.positive("margin", margin)
    checks.positive("slack", slack)
    nats = n * a * math.tanh(a / 2) + a * math.sqrt(2 * n * math.log(1 / azuma_beta)) + slack
    a_over_sinh = 2 * a * math.exp(-a) / -math.expm1(-2 * a)
    beta = azuma_beta + n * delta * (-1 / math.expm1(-margin) + a_over_sinh / slack)
    return BITS_PER_NAT * nats, beta
