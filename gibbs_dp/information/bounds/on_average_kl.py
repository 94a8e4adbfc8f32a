"""On-average KL-privacy (Wang, Lei & Fienberg 2016): what it implies and how it adds up.

``eps_KL = E KL(A(Z) || A(Z^(1)))``, replace-one with a ghost example. Everything is in nats.
"""

from __future__ import annotations

import math

from gibbs_dp.information import checks


def on_average_kl_from_generalization(gamma: float, generalization_error: float) -> float:
    """Theorem 4, an equality: ``eps_KL = gamma * gen``.

    Parameters
    ----------
    gamma
        Inverse temperature, multiplying the total loss of a Gibbs posterior with a sum loss.
    generalization_error
        ``E [R(theta) - Rhat(theta, Z)]``.

    Returns
    -------
    float
        ``eps_KL`` in nats.

    Examples
    --------
    >>> on_average_kl_from_generalization(gamma=2.0, generalization_error=0.1)
    0.2
    """
    return checks.positive("gamma", gamma) * generalization_error


def generalization_from_on_average_kl(gamma: float, on_average_kl: float) -> float:
    """Theorem 4 read the other way: ``gen = eps_KL / gamma`` (Gibbs, sum loss).

    Examples
    --------
    >>> generalization_from_on_average_kl(gamma=2.0, on_average_kl=0.2)
    0.1
    """
    return checks.nonnegative("on_average_kl", on_average_kl) / checks.positive("gamma", gamma)


def post_processed_on_average_kl(on_average_kl: float) -> float:
    """Lemma 5: ``eps_KL(f(A)) <= eps_KL(A)`` for any ``f`` of the output alone, even a random one.

    Examples
    --------
    >>> post_processed_on_average_kl(0.2)
    0.2
    """
    return checks.nonnegative("on_average_kl", on_average_kl, allow_infinite=True)


def group_on_average_kl(on_average_kl: float, group_size: int) -> float:
    """Lemma 6 and Corollary 7: replacing ``k`` examples costs ``k eps_KL``.

    An equality for the Gibbs posterior of a sum loss.

    Parameters
    ----------
    on_average_kl
        ``eps_KL`` in nats.
    group_size
        ``k``, at most ``n``.

    Returns
    -------
    float
        Bound on the on-average KL of the group, nats.

    Examples
    --------
    >>> round(group_on_average_kl(0.1, group_size=3), 6)
    0.3
    """
    checks.nonnegative("on_average_kl", on_average_kl, allow_infinite=True)
    return checks.count("group_size", group_size) * on_average_kl


def composed_on_average_kl(first: float, *, second_given_first: float) -> float:
    """Composition lemma: ``eps_KL(A, B) <= eps_1 + eps_2``.

    Parameters
    ----------
    first
        ``eps_1``, the on-average KL of ``A``.
    second_given_first
        ``eps_2 >= E_{Z,z'} E_{theta ~ A(Z)} KL(B(Z, theta) || B(Z^(1), theta))``, with ``theta``
        drawn from ``A`` *on the same dataset*. A bound for every fixed ``theta`` on average over
        ``Z`` is not enough; see `gibbs_dp.papers.on_average_kl.counterexamples`.

    Returns
    -------
    float
        Bound on the on-average KL of both outputs, nats.

    Examples
    --------
    >>> round(composed_on_average_kl(0.1, second_given_first=0.2), 6)
    0.3
    """
    checks.nonnegative("first", first, allow_infinite=True)
    checks.nonnegative("second_given_first", second_given_first, allow_infinite=True)
    return first + second_given_first


def repeated_draws_on_average_kl(on_average_kl: float, num_draws: int) -> float:
    """``m`` independent draws from one posterior cost exactly ``m eps_KL``.

    Examples
    --------
    >>> round(repeated_draws_on_average_kl(0.1, num_draws=4), 6)
    0.4
    """
    checks.nonnegative("on_average_kl", on_average_kl, allow_infinite=True)
    return checks.count("num_draws", num_draws) * on_average_kl


def mutual_information_from_on_average_kl(n: int, on_average_kl: float) -> float:
    """Lemma 9 for Gibbs posteriors: ``I = n eps_KL - lautum <= n eps_KL``.

    The same ``n eps_KL`` bounds the erasure information ``I^-`` of *any* algorithm on independent
    examples, hence ``I`` too: ``I(W; Z_i | S^{-i})`` is the KL to the average over ghosts.

    Parameters
    ----------
    n
        Number of independent examples.
    on_average_kl
        ``eps_KL`` in nats.

    Returns
    -------
    float
        Bound on the mutual information, nats.

    Examples
    --------
    >>> round(mutual_information_from_on_average_kl(10, 0.02), 6)
    0.2
    """
    checks.nonnegative("on_average_kl", on_average_kl, allow_infinite=True)
    return checks.count("n", n) * on_average_kl


def generalization_lower_from_mutual_information(
    mutual_information: float, n: int, gamma: float
) -> float:
    """Corollary 10, left side: ``gen >= I / (n gamma)`` for a Gibbs posterior with a sum loss.

    ``gen = (I + lautum) / (n gamma)`` exactly (also Aminian et al. 2021).

    Examples
    --------
    >>> generalization_lower_from_mutual_information(0.5, n=10, gamma=1.0)
    0.05
    """
    checks.nonnegative("mutual_information", mutual_information)
    return mutual_information / (checks.count("n", n) * checks.positive("gamma", gamma))


def gibbs_mutual_information(
    n: int, gamma: float, *, sigma: float, b: float | None = None
) -> float:
    """Both sides of Corollary 10 together: ``I <= 2 n gamma^2 sigma^2``.

    For subexponential losses this holds up to ``gamma = 1 / (2 b)``. Beyond, ``I / (n gamma) <= gen
    <= b I / n + sigma^2 / (2 b)`` gives ``n gamma sigma^2 / (2 b (1 - gamma b))``, and nothing from
    ``gamma = 1 / b`` on.

    Parameters
    ----------
    n, gamma
        Dataset size and inverse temperature.
    sigma
        ``loss(theta, z)`` is ``sigma^2``-subgaussian in ``z`` for every ``theta``.
    b
        The loss is only subexponential: ``log E exp(s (loss - R)) <= s^2 sigma^2 / 2`` for ``|s| <
        1/b``. None: for every ``s``.

    Returns
    -------
    float
        Bound on the mutual information, nats.

    Examples
    --------
    >>> gibbs_mutual_information(10, gamma=0.5, sigma=0.5)
    1.25
    >>> [gibbs_mutual_information(10, gamma=0.5, sigma=0.5, b=b) for b in (1.0, 1.5, 2.0)]
    [1.25, 1.6666666666666667, inf]
    """
    checks.count("n", n)
    root = checks.positive("gamma", gamma) * checks.positive("sigma", sigma)
    if b is None or 2 * gamma * checks.positive("b", b) <= 1:
        return 2 * n * root**2
    if gamma * b >= 1:
        return math.inf
    return n * root * sigma / (2 * b * (1 - gamma * b))


def gibbs_generalization_subgaussian(gamma: float, *, sigma: float) -> float:
    """Both sides of Corollary 10 together: ``gen <= 2 gamma sigma^2``.

    Parameters are those of `gibbs_mutual_information`.

    Examples
    --------
    >>> gibbs_generalization_subgaussian(0.5, sigma=0.5)
    0.25
    """
    return 2 * checks.positive("gamma", gamma) * checks.positive("sigma", sigma) ** 2


def subgaussian_parameter(lower: float, upper: float) -> float:
    """Hoeffding's lemma: a loss in ``[lower, upper]`` is subgaussian, ``sigma`` half the length.

    Examples
    --------
    >>> subgaussian_parameter(0.0, 1.0)
    0.5
    """
    if not (math.isfinite(lower) and math.isfinite(upper) and lower <= upper):
        raise ValueError(f"lower must be at most upper, got {lower} and {upper}; swap them.")
    return (upper - lower) / 2


# Relations between divergences: what a value of one says about another.


def total_variation_from_kl(kl: float) -> float:
    """Pinsker: ``TV <= sqrt(KL / 2)``, capped at 1.

    Parameters
    ----------
    kl
        KL divergence in nats, at least 0 and possibly ``inf``.

    Returns
    -------
    float
        Bound on the total variation.

    Raises
    ------
    ValueError
        If ``kl`` is negative.

    Examples
    --------
    >>> total_variation_from_kl(0.02)
    0.1
    """
    return min(1.0, math.sqrt(checks.nonnegative("kl", kl, allow_infinite=True) / 2))


def kl_from_max_divergence(max_divergence: float) -> float:
    """``KL <= D_inf``: the mean of a log-ratio is at most its supremum, in nats.

    Examples
    --------
    >>> kl_from_max_divergence(0.5)
    0.5
    """
    return checks.nonnegative("max_divergence", max_divergence, allow_infinite=True)


def hockey_stick_lower_from_total_variation(total_variation: float, g: float) -> float:
    """Lower bound ``E_g >= 1 - g (1 - TV)`` of the hockey stick, ``g >= 1``.

    The event of the total variation is one candidate of the supremum, and
    ``P(A) - g Q(A) = g TV - (g - 1) P(A) >= 1 - g (1 - TV)`` (Rakhlin, lecture 20).

    Parameters
    ----------
    total_variation
        In ``[0, 1]``.
    g
        Factor, at least 1.

    Returns
    -------
    float
        Bound on ``E_g``, at least 0.

    Examples
    --------
    >>> round(hockey_stick_lower_from_total_variation(0.9, g=2.0), 6)
    0.8
    """
    _total_variation(total_variation)
    if not g >= 1:
        raise ValueError(f"g must be at least 1, got {g}; use g = exp(epsilon).")
    return 1 - g * (1 - total_variation)


def epsilon_from_approximate_max_divergence(forward: float, backward: float) -> float:
    """``(epsilon, delta)``-DP of a pair: the larger approximate max divergence of two directions.

    ``E_{e^epsilon}(P || Q) <= delta`` exactly when ``D_inf^delta(P || Q) <= epsilon``; DP asks it
    of both orders, and of ``epsilon >= 0``.

    Examples
    --------
    >>> epsilon_from_approximate_max_divergence(0.3, -0.1)
    0.3
    """
    return max(forward, backward, 0.0)


def total_variation_from_kl_large(kl: float) -> float:
    """``TV <= sqrt(1 - e^{-KL})`` (Bretagnolle & Huber 1979): below 1 at every finite KL.

    Smaller than `total_variation_from_kl` above about 1.6 nats.

    Examples
    --------
    >>> round(total_variation_from_kl_large(3.0), 6)
    0.974789
    """
    return math.sqrt(-math.expm1(-checks.nonnegative("kl", kl, allow_infinite=True)))


def _total_variation(total_variation: float) -> float:
    if not 0 <= total_variation <= 1:
        raise ValueError(f"total_variation must lie in [0, 1], got {total_variation}; check it.")
    return total_variation


def auc_lower_from_total_variation(total_variation: float) -> float:
    """``AUC >= 1/2 + TV/2``: the ROC lies above the triangle through the best test.

    Examples
    --------
    >>> auc_lower_from_total_variation(0.5)
    0.75
    """
    return 0.5 + _total_variation(total_variation) / 2


def auc_from_total_variation(total_variation: float) -> float:
    """``AUC <= 1/2 + TV - TV^2/2``: the ROC lies below ``min(a + TV, 1)``.

    Examples
    --------
    >>> auc_from_total_variation(0.5)
    0.875
    """
    return 0.5 + _total_variation(total_variation) * (1 - total_variation / 2)


def jensen_shannon_from_kl(kl: float, reverse_kl: float) -> float:
    """``JS(P, Q) <= (KL(P || Q) + KL(Q || P)) / 8``, in nats, and at most ``log 2``.

    On average over replace-one pairs both divergences are ``eps_KL``: ``E JS <= eps_KL / 4``.

    Examples
    --------
    >>> jensen_shannon_from_kl(0.4, 0.4)
    0.1
    """
    checks.nonnegative("kl", kl, allow_infinite=True)
    checks.nonnegative("reverse_kl", reverse_kl, allow_infinite=True)
    return min(math.log(2), (kl + reverse_kl) / 8)
