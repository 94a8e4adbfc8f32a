"""The Gaussian mechanism on Poisson samples, many times: dp-accounting's distribution."""

from __future__ import annotations

from gibbs_dp._extras import require
from gibbs_dp.information import checks


def subsampled_epsilon(
    noise_multiplier: float, sampling_rate: float, *, num_steps: int, delta: float
) -> float:
    """``epsilon`` of ``num_steps`` Poisson-subsampled Gaussian mechanisms, add/remove, pessimistic.

    Parameters
    ----------
    noise_multiplier
        Standard deviation over the sensitivity of one step.
    sampling_rate
        Probability with which each example takes part in a step.
    num_steps
        Steps, composed adaptively.
    delta
        In ``(0, 1)``.

    Returns
    -------
    float
        Nats, rounded up.

    Raises
    ------
    ValueError
        For numbers out of range, and where dp-accounting is missing.

    Examples
    --------
    >>> round(subsampled_epsilon(2.0, 1.0, num_steps=10, delta=1e-5), 4)
    7.5113
    """
    checks.positive("noise_multiplier", noise_multiplier)
    checks.count("num_steps", num_steps)
    checks.unit_interval("delta", delta, open_left=True)
    pld = require("dp_accounting.pld.privacy_loss_distribution")
    # One step, convolved with itself: a list of events costs a distribution per step.
    step = pld.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=sampling_rate, value_discretization_interval=1e-4
    )
    return float(step.self_compose(num_steps).get_epsilon_for_delta(delta))
