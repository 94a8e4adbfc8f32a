"""Max-information of differentially private algorithms, in bits.

Dwork, Feldman, Hardt, Pitassi, Reingold & Roth 2015 (*Generalization in adaptive data analysis
and holdout reuse*). Adjacency is replace-one. For ``epsilon``-Bayesian DP the three pure bounds
hold with arbitrarily correlated examples (Zhao 2019, Thm 3). For ``(epsilon, delta)``-DP see
`approximate_dp`.
"""

from __future__ import annotations

import math

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
