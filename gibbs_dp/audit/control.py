"""How much of its control variate the generalization error takes: fitted over datasets."""

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
