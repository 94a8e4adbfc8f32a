"""Max-information of ``(epsilon, delta)``-DP algorithms on independent examples, in bits.

Rogers, Roth, Smith & Thakkar 2016 prove ``O(n epsilon^2 + n sqrt(delta/epsilon))`` without
quotable constants. The bound here has explicit constants and is derived in the docstring of
`approximate_dp_max_information_bits_at`.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from gibbs_dp.information import checks

BITS_PER_NAT = 1 / math.log(2)


def approximate_dp_max_information_rate(
    n: int, epsilon: float, delta: float
) -> tuple[float, float]:
    """**Asymptotic order, not a bound**: ``n epsilon^2 + n sqrt(delta/epsilon)``.

    Order of ``I_inf^beta`` in bits, and its last term alone that of ``beta - exp(-epsilon^2 n)``
    (Rogers et al. 2016, Thm 3.1), for ``epsilon`` in ``(0, 1/2]``, ``delta < epsilon`` and
    independent examples. Constants are not known: never report these numbers as a guarantee.

    Examples
    --------
    >>> bits, beta = approximate_dp_max_information_rate(100, 0.1, 1e-9)
    >>> round(bits, 6), round(beta, 6)
    (1.01, 0.01)
    """
    checks.positive("epsilon", epsilon)
    checks.unit_interval("delta", delta)
    loss = checks.count("n", n) * math.sqrt(delta / epsilon)
    return n * epsilon**2 + loss, loss


def approximate_dp_max_information_bits_at(
    n: int, epsilon: float, delta: float, *, margin: float, slack: float, azuma_beta: float
) -> tuple[float, float]:
    """Return a pair ``(k, beta)`` with ``I_inf^beta <= k`` bits, for any three free numbers.

    With ``a = epsilon + margin``,

    - ``k = log2(e) ( n a tanh(a/2) + a sqrt(2 n ln(1/azuma_beta)) + slack )``,
    - ``beta = azuma_beta + n delta / (1 - e^-margin) + n delta a / (slack sinh a)``.

    Proof. ``log P(y|x)/P(y) = sum_i G_i`` as in the pure case. Given the past ``x_1..x_{i-1}``, the
    pair ``(x_i, y)`` and the product of its marginals are ``(epsilon, delta)``-close both ways, by
    averaging over the ghost and the future. (1) Hence ``P(G_i > a) <= delta / (1 - e^-margin)``,
    so outside an event of ``n`` times that, ``sum G_i <= sum H_i`` with ``H_i`` the ``G_i`` clipped
    to ``[-a, a]``. (2) Given the past and ``y``, the clipped ratio lies on a chord of ``x log x``:
    ``E H_i <= a tanh(a/2) + (a / sinh a) D_i``, where ``D_i`` is the hockey stick ``E_{e^a}`` of
    the prior of ``x_i`` against its posterior, of mean at most ``delta``; Markov's inequality
    bounds ``sum D_i``. (3) Azuma with range ``2 a`` bounds the deviation.

    Unlike Rogers et al., no event is conditioned on, so ``delta / epsilon`` takes the place of
    ``sqrt(delta / epsilon)``: at ``margin = epsilon`` and ``slack = n epsilon^2``,
    ``beta - azuma_beta <= n delta / (1 - e^-epsilon) + 2 delta / epsilon^2``.

    Parameters
    ----------
    n
        Number of independent examples.
    epsilon, delta
        Approximate DP, replace-one.
    margin, slack, azuma_beta
        Free: positive, and ``azuma_beta`` in ``(0, 1)``.

    Returns
    -------
    bits, beta
        ``beta`` may exceed 1, in which case nothing is claimed.

    Examples
    --------
    >>> bits, beta = approximate_dp_max_information_bits_at(
    ...     100, 0.1, 1e-9, margin=0.01, slack=0.1, azuma_beta=0.04)
    >>> round(bits, 4), round(beta, 6)
    (5.0428, 0.040011)
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


def approximate_dp_max_information_bits(
    n: int, epsilon: float, delta: float, *, beta: float
) -> float:
    """``I_inf^beta`` bound in bits of ``(epsilon, delta)``-DP on independent examples.

    The least ``k`` of `approximate_dp_max_information_bits_at` at this ``beta``, searched
    numerically: every choice is valid, so a poor search loosens the bound but never breaks it.

    Parameters
    ----------
    n
        Number of independent examples.
    epsilon, delta
        Approximate DP, replace-one, ``delta > 0`` (use `dp_approx_max_information_bits` at 0).
    beta
        Mass given away, in ``(0, 1)``.

    Returns
    -------
    float
        Bits; ``inf`` if ``beta <= n delta``, where the method gives nothing.

    Examples
    --------
    >>> round(approximate_dp_max_information_bits(100, 0.1, 1e-9, beta=0.05), 3)
    4.27
    """
    checks.count("n", n)
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("delta", delta, open_left=True)
    checks.unit_interval("beta", beta, open_left=True)
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
        return approximate_dp_max_information_bits_at(
            n, epsilon, delta, margin=margin, slack=slack, azuma_beta=azuma
        )[0]

    from scipy.optimize import minimize  # slow to import

    starts = np.array([[-1.0, -1.0], [-6.0, -6.0], [-12.0, -12.0], [1.0, 1.0]])
    runs = [
        minimize(bits, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10})
        for start in starts
    ]
    return min(float(run.fun) for run in runs)
