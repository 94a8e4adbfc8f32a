"""Max-information of differentially private algorithms, in bits.

Dwork, Feldman, Hardt, Pitassi, Reingold & Roth 2015 (*Generalization in adaptive data analysis
and holdout reuse*). Adjacency is replace-one. For ``epsilon``-Bayesian DP the three pure bounds
hold with arbitrarily correlated examples (Zhao 2019, Thm 3). For ``(epsilon, delta)``-DP see
`approximate_dp`.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from gibbs_dp.information import checks
from gibbs_dp.information.bounds.bounded_range import kl_from_range

BITS_PER_NAT = 1 / math.log(2)


def pure_dp_max_information_bits(n: int, epsilon: float) -> float:
    """``I_inf(A, n) <= log2(e) epsilon n`` for ``epsilon``-DP and any law of the data, in bits.

    Dwork et al. 2015, Thm 19.

    Parameters
    ----------
    n
        Number of examples.
    epsilon
        Pure DP, replace-one.

    Returns
    -------
    float
        Bound in bits.

    Examples
    --------
    >>> round(pure_dp_max_information_bits(10, 0.1), 6)
    1.442695
    """
    return BITS_PER_NAT * checks.nonnegative("epsilon", epsilon) * checks.count("n", n)


def dp_approx_max_information_bits_published(n: int, epsilon: float, *, beta: float) -> float:
    """``I_inf^beta <= log2(e) (epsilon^2 n / 2 + epsilon sqrt(n ln(2/beta) / 2))``, in bits.

    Dwork et al. 2015, Thm 20: ``epsilon``-DP and independent examples.

    Parameters
    ----------
    n, epsilon
        Number of examples and pure DP, replace-one.
    beta
        Mass given away, in ``(0, 1)``.

    Returns
    -------
    float
        Bound in bits.

    Examples
    --------
    >>> round(dp_approx_max_information_bits_published(10, 0.1, beta=0.05), 6)
    0.691728
    """
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("beta", beta, open_left=True)
    spread = epsilon * math.sqrt(checks.count("n", n) * math.log(2 / beta) / 2)
    return BITS_PER_NAT * (epsilon**2 * n / 2 + spread)


def dp_approx_max_information_bits(n: int, epsilon: float, *, beta: float) -> float:
    """``I_inf^beta <= log2(e) (epsilon^2 n / 8 + epsilon sqrt(n ln(1/beta) / 2))``, in bits.

    Sharper constants for the same assumptions. At an output ``y`` write
    ``log P(y|x)/P(y) = sum_i G_i``, ``G_i = log P(y|x_1..x_i) / P(y|x_1..x_{i-1})``: given the past
    each has range ``epsilon`` and ``E e^{G_i} = 1``, so its mean under the joint law is at most
    ``kappa(epsilon) <= epsilon^2/8``, and Azuma bounds the rest.

    Parameters are those of `dp_approx_max_information_bits_published`.

    Examples
    --------
    >>> round(dp_approx_max_information_bits(10, 0.1, beta=0.05), 6)
    0.576389
    """
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("beta", beta, open_left=True)
    spread = epsilon * math.sqrt(checks.count("n", n) * math.log(1 / beta) / 2)
    return BITS_PER_NAT * (epsilon**2 * n / 8 + spread)


def dp_approx_max_information_bits_kappa(n: int, epsilon: float, *, beta: float) -> float:
    """`dp_approx_max_information_bits` with ``kappa(epsilon)`` for ``epsilon^2 / 8``, in bits.

    ``kappa(epsilon)`` (`kl_from_range`) is what the proof gives; it matters from about 1.
    Also never more than `pure_dp_max_information_bits`, which holds at every ``beta``.

    Parameters are those of `dp_approx_max_information_bits_published`.

    Examples
    --------
    >>> round(dp_approx_max_information_bits_kappa(10, 2.0, beta=0.05), 6)
    18.012338
    """
    checks.nonnegative("epsilon", epsilon)
    checks.unit_interval("beta", beta, open_left=True)
    spread = epsilon * math.sqrt(checks.count("n", n) * math.log(1 / beta) / 2)
    nats = min(n * kl_from_range(epsilon) + spread, n * epsilon)
    return BITS_PER_NAT * nats


def composed_max_information(
    first_bits: float, first_beta: float, second_bits: float, second_beta: float
) -> tuple[float, float]:
    """Adaptive composition adds both ``k`` and ``beta`` (Dwork et al. 2015, Lemma 18).

    The second bound must hold for every output of the first, with the dataset drawn from its law
    *given that output*; a bound for every law of the data (such as that of pure DP) will do. On
    the dataset's own, unconditioned law it is not enough: see
    `gibbs_dp.papers.on_average_kl.counterexamples`.

    Returns
    -------
    bits, beta
        Of the pair of outputs.

    Examples
    --------
    >>> composed_max_information(1.0, 0.125, 2.0, 0.25)
    (3.0, 0.375)
    """
    checks.unit_interval("first_beta", first_beta)
    checks.unit_interval("second_beta", second_beta)
    return first_bits + second_bits, first_beta + second_beta


def mutual_information_from_max_information(max_information_bits: float) -> float:
    """``I <= I_inf``: nats of mutual information from bits of max-information.

    Examples
    --------
    >>> round(mutual_information_from_max_information(1.0), 6)
    0.693147
    """
    checks.nonnegative("max_information_bits", max_information_bits, allow_infinite=True)
    return max_information_bits * math.log(2)


# Max-information of ``(epsilon, delta)``-DP algorithms on independent examples, in bits.
#
# Rogers, Roth, Smith & Thakkar 2016 prove ``O(n epsilon^2 + n sqrt(delta/epsilon))`` without
# quotable constants. The bound here has explicit constants and is derived in the docstring of
# `approximate_dp_max_information_bits_at`.


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


# What max-information buys: tails of events that were chosen after looking at the data.
#
# Dwork et al. 2015, section 3, for **independent examples** and replace-one DP. Functions whose
# guarantee needs a small ``epsilon`` raise when it is too large.


def event_probability(product_probability: float, *, bits: float, beta: float) -> float:
    """``P[(S, A(S)) in O] <= 2^k P[S x A(S) in O] + beta``, the definition of ``I_inf^beta <= k``.

    Parameters
    ----------
    product_probability
        Probability of the event when the output is drawn for an independent dataset; or a bound.
    bits, beta
        ``I_inf^beta(A, n) <= bits``.

    Returns
    -------
    float
        Bound on the probability, at most 1.

    Examples
    --------
    >>> event_probability(0.01, bits=2.0, beta=0.05)
    0.09
    """
    if not 0 <= product_probability <= 1:
        raise ValueError(f"product_probability must lie in [0, 1], got {product_probability}.")
    checks.unit_interval("beta", beta)
    return min(1.0, math.exp2(bits) * product_probability + beta)


def _require(name: str, value: float, limit: float) -> None:
    if not value <= limit:
        raise ValueError(
            f"{name} must be at most {limit:g} for this guarantee, got {value:g}; "
            "make the algorithm more private, or use adaptive_event_tail."
        )


def statistical_query_tail(n: int, tau: float, *, epsilon: float) -> float:
    """``tau^2``-DP selects a query: ``P[|E_S phi - P phi| >= tau] <= 2 exp(-n tau^2)``.

    ``phi`` in ``[0, 1]``; from ``I_inf <= log2(e) tau^2 n`` and Hoeffding's inequality.

    Parameters
    ----------
    n, tau
        Number of independent examples and the deviation.
    epsilon
        Pure DP of the selection, at most ``tau^2``.

    Returns
    -------
    float
        Bound on the probability, at most 1.

    Raises
    ------
    ValueError
        If ``epsilon > tau^2``.

    Examples
    --------
    >>> round(statistical_query_tail(1000, 0.1, epsilon=0.01), 9)
    9.08e-05
    """
    _require("epsilon", checks.nonnegative("epsilon", epsilon), checks.positive("tau", tau) ** 2)
    return min(1.0, 2 * math.exp(-checks.count("n", n) * tau**2))


def statistical_query_tail_root(n: int, tau: float, *, epsilon: float) -> float:
    """``epsilon <= sqrt(tau^2 - ln 2/(2n))``: the tail is at most ``3 sqrt(2) exp(-n tau^2)``.

    `general_event_tail` with Hoeffding's ``2 exp(-2 n tau^2)``. Parameters are those of
    `statistical_query_tail`.

    Examples
    --------
    >>> round(statistical_query_tail_root(1000, 0.1, epsilon=0.09), 9)
    0.000192616
    """
    checks.nonnegative("epsilon", epsilon)
    inside = checks.positive("tau", tau) ** 2 - math.log(2) / (2 * checks.count("n", n))
    _require("epsilon", epsilon, math.sqrt(max(inside, 0.0)))
    return min(1.0, 3 * math.sqrt(2) * math.exp(-n * tau**2))


def low_sensitivity_tail(n: int, tau: float, *, sensitivity: float, epsilon: float) -> float:
    """``c``-sensitive function: the tail is at most ``2 exp(-(3/4) tau^2/(n c^2))``.

    Parameters
    ----------
    n, tau
        Number of independent examples and the deviation of the function from its mean.
    sensitivity
        ``c``, with ``tau^2 / (n c^2) >= 10``.
    epsilon
        Pure DP of the selection, at most ``tau / (n c)``.

    Returns
    -------
    float
        Bound on the probability.

    Examples
    --------
    >>> round(low_sensitivity_tail(1000, 0.2, sensitivity=0.001, epsilon=0.2), 15)
    1.87e-13
    """
    checks.count("n", n)
    checks.positive("tau", tau)
    checks.positive("sensitivity", sensitivity)
    exponent = tau**2 / (n * sensitivity**2)
    if exponent < 10:
        raise ValueError(
            f"tau^2 / (n c^2) must be at least 10 for this guarantee, got {exponent:g}; raise tau."
        )
    _require("epsilon", checks.nonnegative("epsilon", epsilon), tau / (n * sensitivity))
    return 2 * math.exp(-0.75 * exponent)


def general_event_tail(n: int, *, fixed_tail: float, epsilon: float) -> float:
    """``3 sqrt(beta)`` for ``max_y P[S in R(y)] <= beta``, ``epsilon <= sqrt(ln(1/beta)/(2n))``.

    Parameters
    ----------
    n
        Number of independent examples.
    fixed_tail
        ``beta``, bounding the event for every fixed output.
    epsilon
        Pure DP of the selection.

    Returns
    -------
    float
        Bound on the probability, at most 1.

    Examples
    --------
    >>> round(general_event_tail(100, fixed_tail=1e-6, epsilon=0.2), 6)
    0.003
    """
    checks.unit_interval("fixed_tail", fixed_tail, open_left=True)
    limit = math.sqrt(math.log(1 / fixed_tail) / (2 * checks.count("n", n)))
    _require("epsilon", checks.nonnegative("epsilon", epsilon), limit)
    return min(1.0, 3 * math.sqrt(fixed_tail))


def adaptive_event_tail(n: int, *, fixed_tail: float, epsilon: float) -> float:
    """Best ``2^k fixed_tail + beta`` over ``beta``, for any ``epsilon``: the sharpest in this file.

    ``k`` is `dp_approx_max_information_bits_kappa`. Parameters are those of `general_event_tail`.

    Examples
    --------
    >>> round(adaptive_event_tail(100, fixed_tail=1e-6, epsilon=0.2), 6)
    0.000188
    """
    checks.unit_interval("fixed_tail", fixed_tail, open_left=True)
    checks.nonnegative("epsilon", epsilon)

    def log_tail(log_beta: float) -> float:
        beta = math.exp(log_beta)
        bits = dp_approx_max_information_bits_kappa(n, epsilon, beta=beta)
        high, low = sorted((bits / BITS_PER_NAT + math.log(fixed_tail), log_beta), reverse=True)
        return high + math.log1p(math.exp(low - high))

    floor = 4 * math.log(fixed_tail) - 1
    from scipy.optimize import minimize_scalar  # slow to import

    found = minimize_scalar(log_tail, bounds=(floor, -1e-9), method="bounded")
    return min(1.0, math.exp(float(found.fun)))
