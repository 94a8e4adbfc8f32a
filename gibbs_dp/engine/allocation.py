"""What a gamma needs next: the drift test, the estimator, and the stopping rule of ``rel_error``.

Every gamma gets datasets in proportion to the relative variance of its own estimate, and those
that meet ``rel_error`` get no more. All gammas use the datasets 0, 1, 2, ... in this order, so
random numbers stay common to as many datasets as two gammas both have. The decision reads
finished datasets only, in order: restarts and the number of processes do not change it.
"""

from __future__ import annotations

import math

from gibbs_dp.engine.health import believed, is_drifting
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.track import Track
from gibbs_dp.engine.tuning import MAX_BURN_IN
from gibbs_dp.estimators import Average
from gibbs_dp.sampling.diagnostics import pool

# The stopping rule reads a standard error, which is itself too noisy before this many datasets.
MIN_DATASETS_TO_STOP = 256
MAX_RERUNS = 2
# Spare datasets asked for, and limits of one extrapolation: its standard error is an estimate.
SPARE, LEAST_GROWTH, MOST_GROWTH = 1.1, 1.2, 8.0


def must_rerun(settings: Settings, track: Track) -> bool:
    """Whether the chains of one gamma drift and a longer burn-in may be tried."""
    if (
        settings.is_exact
        or settings.sampler.traits.is_path
        or settings.num_warmup is not None
        or track.num_reruns >= MAX_RERUNS
    ):
        return False
    if int(track.tuned.inputs.schedule.num_burn_in) >= MAX_BURN_IN:
        return False
    summary = track.summary()
    assert summary is not None
    good = believed(summary)
    if good.size < 2:
        return False
    return is_drifting(pool(good.health.spread, settings.num_chains, settings.num_samples))


def other_estimator(settings: Settings, track: Track) -> str | None:
    """Estimator to take instead of the pilots' choice, where that fails on the datasets themselves.

    In skewed populations a few datasets hold the hard cases, and pilots may have none of them.
    """
    summary, leading = track.summary(), settings.leading
    assert summary is not None
    values = getattr(believed(summary).values, leading.name)
    return leading.reconsider(values, track.tuned.estimator, settings)


def extend(settings: Settings, track: Track) -> bool:
    """Raise the target of one gamma that misses ``rel_error``; False where it is finished."""
    if settings.rel_error is None:
        return False
    estimate = track.estimate()
    if estimate.num_datasets < 2:
        return False  # nothing but failures: the report says so
    target = next_target(estimate, track.target, settings.rel_error, settings.block_size)
    if target is None:
        return False
    if track.target >= settings.max_datasets:
        track.missed_rel_error = True
        return False
    track.target = min(target, settings.max_datasets)
    return True


def next_target(estimate: Average, target: int, rel_error: float, block_size: int) -> int | None:
    """Datasets that one gamma needs for its relative error; None where it has them.

    The standard error falls like one over the root of the number of datasets (Chow & Robbins
    1965: stopping when its estimate is small enough is valid as ``rel_error`` tends to 0).

    Parameters
    ----------
    estimate
        Of ``target`` datasets, failed ones left out.
    target
        Datasets so far.
    rel_error
        Wanted standard error over estimate.
    block_size
        Datasets come in blocks of this size.

    Returns
    -------
    int | None
        A multiple of ``block_size``.

    Examples
    --------
    >>> next_target(Average(1.0, 0.02, 1000), 1000, 0.02, 64) is None
    True
    >>> next_target(Average(1.0, 0.04, 1000), 1000, 0.02, 64)  # four times as many, and a tenth
    4416
    """
    if target >= MIN_DATASETS_TO_STOP and estimate.se <= rel_error * abs(estimate.value):
        return None
    ratio = estimate.se / (rel_error * max(abs(estimate.value), 1e-30))
    growth = min(max(SPARE * ratio**2, LEAST_GROWTH), MOST_GROWTH)
    wanted = max(target * growth, MIN_DATASETS_TO_STOP)
    return math.ceil(wanted / block_size) * block_size
