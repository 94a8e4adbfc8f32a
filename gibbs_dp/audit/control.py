"""How much of their control variates estimates take: fitted over datasets."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.audit.plan import Summary
from gibbs_dp.estimators.average import fitted_share

# Fewer say nothing about a coefficient.
LEAST_DATASETS = 8


def control_coefficient(
    values: Float[np.ndarray, " datasets"], control: Float[np.ndarray, " datasets"]
) -> float:
    """Coefficient in [0, 1] with which subtracting a control variate leaves least variance.

    Fitted on the datasets that it is used on, which biases an average by ``O(1 / datasets)`` of
    its spread (Glasserman 2003, *Monte Carlo Methods in Financial Engineering*, section 4.1).

    Examples
    --------
    >>> noise = np.linspace(-1.0, 1.0, 9)
    >>> control_coefficient(3.0 + 0.5 * noise, noise)
    0.5
    """
    if control.size < LEAST_DATASETS or not np.ptp(control) > 0:
        return 1.0
    return fitted_share(values, control)


def fit_control(summary: Summary, kept: Bool[np.ndarray, " datasets"] | None = None) -> Summary:
    """Give back what of the control variate does not reduce noise.

    A block subtracts the gap of the reference's losses whole. That is best where posteriors are
    close to the reference; where they follow their own datasets instead (a KL of some nats) it is
    mostly noise.
    """
    control = np.asarray(summary.control, np.float64)
    gap = np.asarray(summary.generalization, np.float64)
    chosen = np.isfinite(gap) & np.isfinite(control)
    if kept is not None:
        chosen &= kept
    surplus = 1.0 - control_coefficient((gap + control)[chosen], control[chosen])
    if surplus == 0.0:
        return summary
    dtype = summary.generalization.dtype
    found = (
        (summary.generalization, summary.control),
        (summary.kl_ghost, summary.kl_control),
    )
    generalization, ghost = (
        np.asarray(whole + surplus * np.asarray(part, np.float64), dtype) for whole, part in found
    )
    changed: Any = {"generalization": generalization, "kl_ghost": ghost}
    return summary._replace(**changed)


# Half a variance may fall short of a KL of many nats, and by so much a coefficient is believed.
LARGEST_SHARE = 2.0


def shares_of_others(
    values: Float[np.ndarray, " datasets"], control: Float[np.ndarray, " datasets"]
) -> Float[np.ndarray, " datasets"]:
    """Each dataset's coefficient of a control variate, fitted by least squares on all others.

    A coefficient that has not seen the dataset leaves its mean alone, however skewed the control
    variate is: no bias at all, where one fit for all has ``O(1 / datasets)``. Zero for few
    datasets; kept in [0, 2].

    Examples
    --------
    >>> noise = np.linspace(-1.0, 1.0, 9)
    >>> shares_of_others(3.0 + 0.5 * noise, noise).round(9)
    array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    """
    count = control.size
    if count < LEAST_DATASETS or not np.ptp(control) > 0:
        return np.zeros(count)
    # A sum over the others of products about their own means: about all's, less the dataset's.
    c, v = control - control.mean(), values - values.mean()
    less = count / (count - 1)
    square, product = np.sum(c * c) - less * c * c, np.sum(c * v) - less * c * v
    tiny = np.finfo(np.float64).tiny
    return np.clip(product / np.maximum(square, tiny), 0.0, LARGEST_SHARE)


def fit_pairs(summary: Summary, kept: Bool[np.ndarray, " datasets"] | None = None) -> Summary:
    """Take from the two-sided estimate what is only due to which pairs were sampled.

    How much half the variance of a pair's log ratio differs from that of all pairs costs no
    further posterior, and says most of how much the pair's KL differs.
    """
    value = np.asarray(summary.kl_two_sided, np.float64)
    control = np.asarray(summary.pair_control, np.float64)
    chosen = np.isfinite(value) & np.isfinite(control)
    if kept is not None:
        chosen &= kept
    if not chosen.any():
        return summary
    found = value.copy()
    found[chosen] -= shares_of_others(value[chosen], control[chosen]) * control[chosen]
    changed: Any = found.astype(summary.kl_two_sided.dtype)
    return summary._replace(kl_two_sided=changed)
