"""Tails of the generalization error from Sibson's alpha-mutual information and maximal leakage."""

from __future__ import annotations

import math

from gibbs_dp.information import checks


def generalization_tail_from_alpha_information(
    information: float, n: int, *, sigma: float, alpha: float, delta: float
) -> float:
    """Bound of ``|R - empirical R|`` with probability ``1 - delta`` over dataset and draw.

    ``P(|gap| >= t) <= 2^((a-1)/a) exp(-((a-1)/a) (n t^2 / (2 sigma^2) - I_a))`` (Esposito, Gastpar
    & Issa 2021, Corollary 4), solved for ``t``: ``sqrt(2 sigma^2 / n (I_a + log 2 + a / (a-1) log(1
    / delta)))``.

    Parameters
    ----------
    information
        ``I_alpha(W; S)``, or any upper bound on it, in nats; maximal leakage for ``alpha = inf``.
    n
        Number of independent examples.
    sigma
        ``loss(theta, z)`` is ``sigma^2``-subgaussian in ``z`` for every ``theta``.
    alpha
        Order, above 1; may be infinite.
    delta
        Probability that is given away.

    Returns
    -------
    float
        ``t``, in units of the loss.

    Raises
    ------
    ValueError
        If alpha is not above 1, or another number is out of its range.

    Examples
    --------
    >>> round(generalization_tail_from_alpha_information(
    ...     0.5, 100, sigma=0.5, alpha=math.inf, delta=0.05), 6)
    0.144722
    """
    checks.nonnegative("information", information, allow_infinite=True)
    checks.positive("sigma", sigma)
    if not alpha > 1:
        raise ValueError(f"alpha: must be above 1, got {alpha}; orders up to 1 bound no tail.")
    if not 0 < delta <= 1:
        raise ValueError(f"delta: must be above 0 and at most 1, got {delta}; pass 0.05, say.")
    order = 1.0 if math.isinf(alpha) else alpha / (alpha - 1.0)
    nats = information + math.log(2.0) - order * math.log(delta)
    return sigma * math.sqrt(2.0 * nats / checks.count("n", n))
