"""Bounds of the generalization error of bounded losses from conditional and T-information."""

from __future__ import annotations

import math

from gibbs_dp.information import checks


def generalization_from_conditional_information(
    conditional_information: float, n: int, *, loss_range: float = 1.0
) -> float:
    """``|gen| <= range * sqrt(2 CMI / n)`` (Steinke & Zakynthinou 2020, Theorem 2).

    Parameters
    ----------
    conditional_information
        ``I(W; U | supersample)``, or any upper bound on it, such as ``n`` times the mean
        Jensen-Shannon divergence between posteriors with one example replaced, in nats.
    n
        Number of independent examples.
    loss_range
        Length of an interval that holds the loss.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> generalization_from_conditional_information(0.5, n=100)
    0.1
    """
    checks.nonnegative("conditional_information", conditional_information, allow_infinite=True)
    rate = 2.0 * conditional_information / checks.count("n", n)
    return checks.positive("loss_range", loss_range) * math.sqrt(rate)


def generalization_from_t_information(t_information: float, *, loss_range: float = 1.0) -> float:
    """``|gen| <= range * T(W; Z_i) <= range * T(W; S)`` for independent, exchangeable examples.

    Parameters
    ----------
    t_information
        Total variation between the law of draw and example and the product of their laws, or of
        draw and dataset.
    loss_range
        Length of an interval that holds the loss.

    Returns
    -------
    float
        Bound on ``|gen|``.

    Examples
    --------
    >>> generalization_from_t_information(0.25, loss_range=2.0)
    0.5
    """
    value = checks.nonnegative("t_information", t_information)
    return checks.positive("loss_range", loss_range) * value
