"""Whether runs of one posterior found different modes, and what a search for them tried.

Chains stay in the mode that they start in, and all their diagnostics look well there. Starts far
away find modes that lie apart; a ladder of wider Gaussians finds a broad hill around a narrow peak.
Neither can show that there is no other mode: what was tried is all that is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from gibbs_dp._cautions import Caution, Warned

# Widths of the Gaussians that searches begin from, in posterior standard deviations.
NEAREST, FARTHEST = 4.0, 64.0
# Mass of another mode, as a share of the one that is sampled, below which it does not matter.
LEAST_MASS = 1e-3
# Distance of two runs' means, in standard deviations, that chains of one mode do not reach: as
# much as separates modes that they pass between, and 4 standard errors of the means.
LEAST_DISTANCE, DISTANCE_Z = 4.0, 4.0
# Of the posterior's mass, outside of where chains are: as much, and as many standard errors.
OUTSIDE, OUTSIDE_Z = 0.05, 3.0

SEVERAL_MODES = Caution(
    "several-modes",
    "{where} a second mode, {distance:.0f} standard deviations away, with {gap:+.1f} in log mass; "
    "chains stay in the mode where they start, and the draws have them in wrong proportions.",
    "Searches that began far away ended in another mode, which holds more than a thousandth of the "
    "mass of the one that was sampled. Chains do not pass from one to the other: whatever is "
    "averaged over the draws leaves the other mode out. The difference of the log masses, in nats, "
    "is the other mode's minus that of the sampled one, both as if they were Gaussian.",
    "Use sampler=gdp.SMC() (with a flat prior it begins at a normal over the modes found, and "
    "knows no others); gdp.Grid for one or two parameters; a prior that prefers one mode; or "
    "remove a symmetry of the model (label switching).",
)
NESTED_SCALES = Caution(
    "nested-scales",
    "a ladder of ever wider Gaussians finds {share:.0%} of the posterior's mass outside of the "
    "region where the chains stay: a narrow peak in a broad hill, or another mode.",
    "The chains are in a peak that has a normal shape, and around it, or beside it, lies a lower "
    "and much wider hill of which they know nothing. Averages over the draws leave it out.",
    "Use sampler=gdp.SMC() with a proper prior; gdp.Grid for one or two parameters; or a prior "
    "without a spike.",
)


class Modes(NamedTuple):
    """What was tried to find other modes, and what was found.

    Attributes
    ----------
    num_searched
        Posteriors that were searched; 0: other modes were not looked for.
    num_starts
        Runs, each of a mode search and chains from where it ended, of all of them together.
    num_rungs
        Gaussians of the ladder; 0: no ladder.
    share_of_datasets
        Datasets with another mode that matters, over those that were searched.
    distance
        Of the other mode, in posterior standard deviations; median over those datasets (NaN: no
        other mode was found).
    log_mass_gap
        Log mass of the other mode minus that of the one that is sampled, nats; median (NaN: as
        before).
    ladder_excess, ladder_excess_se
        Mass that the ladder finds outside of where the chains are, over the mass inside; mean over
        datasets (NaN: no ladder).
    """

    num_searched: int = 0
    num_starts: int = 0
    num_rungs: int = 0
    share_of_datasets: float = math.nan
    distance: float = math.nan
    log_mass_gap: float = math.nan
    ladder_excess: float = math.nan
    ladder_excess_se: float = math.nan

    @property
    def has_ladder(self) -> bool:
        """Whether a ladder was tried."""
        return self.num_rungs > 0

    @property
    def plain(self) -> dict[str, int | float | None]:
        """The fields by name, None for NaN: what JSON has."""
        return {k: None if v != v else v for k, v in self._asdict().items()}

    @classmethod
    def of_plain(cls, found: Mapping[str, Any]) -> Modes:
        """Read what :attr:`plain` gave.

        Raises
        ------
        ValueError
            If a field is missing or no number, or there are others.
        """
        numbers: dict[str, Any] = {k: math.nan if v is None else v for k, v in found.items()}
        is_number = all(type(v) in (int, float) for v in numbers.values())
        if set(numbers) != set(cls._fields) or not is_number:
            raise ValueError("what it says of other modes is not numbers by their names")
        return cls(**numbers)

    def with_ladder(
        self,
        share: Float[np.ndarray, " posteriors"],
        se: Float[np.ndarray, " posteriors"],
        num_rungs: int,
    ) -> Modes:
        """Add the shares of mass that a ladder of so many rungs found outside."""
        mean, error = share.mean(), np.sqrt(np.sum(se**2)) / share.size
        inside = max(1.0 - mean, np.finfo(np.float32).eps)
        return self._replace(
            num_rungs=num_rungs,
            ladder_excess=float(mean / inside),
            ladder_excess_se=float(error / inside**2),
        )


NOT_LOOKED_FOR = Modes()


class Ended(NamedTuple):
    """Where runs of the same posteriors ended (axes: runs, posteriors).

    Attributes
    ----------
    mean, variance
        Of the draws.
    log_mass
        Of the mode that they are in, from the same zero for all runs of a posterior.
    ess
        Effective draws of a run.
    is_good
        Whether it can be believed.
    """

    mean: Float[np.ndarray, "runs posteriors dim"]
    variance: Float[np.ndarray, "runs posteriors dim"]
    log_mass: Float[np.ndarray, "runs posteriors"]
    ess: float
    is_good: Bool[np.ndarray, "runs posteriors"]


def distances(
    ended: Ended, runs: Int[np.ndarray, " posteriors"]
) -> Float[np.ndarray, "runs posteriors"]:
    """Of every run from one, in standard deviations of the wider one of both; NaN for bad runs.

    ``runs`` says from which one, of each posterior.
    """
    mean, variance = (np.asarray(a, np.float64) for a in (ended.mean, ended.variance))
    each = np.arange(runs.size)
    wider = np.maximum(variance, variance[runs, each]) + np.finfo(np.float32).tiny
    found = np.sqrt(np.sum((mean - mean[runs, each]) ** 2 / wider, axis=-1))
    return np.where(ended.is_good & ended.is_good[runs, each], found, np.nan)


def least_distance(dim: int, ess: float) -> float:
    """Distance of two runs' means from where on they are in different modes."""
    return LEAST_DISTANCE + DISTANCE_Z * math.sqrt(2.0 * dim / max(ess, 1.0))


def is_apart(ended: Ended) -> bool:
    """Whether any two runs of a posterior ended in different modes, whatever their masses."""
    limit = least_distance(ended.mean.shape[-1], ended.ess)
    num_runs, num = ended.log_mass.shape
    with np.errstate(invalid="ignore"):
        return any(bool(np.any(distances(ended, np.full(num, i)) > limit)) for i in range(num_runs))


class Others(NamedTuple):
    """Other modes that matter, one a posterior: whether there is one, its distance and log mass."""

    is_found: Bool[np.ndarray, " posteriors"]
    distance: Float[np.ndarray, " posteriors"]
    gap: Float[np.ndarray, " posteriors"]


def others(ended: Ended, runs: Int[np.ndarray, " posteriors"]) -> Others:
    """Find the largest mode, of those that runs ended in, beside the one that ``runs`` are in."""
    far = distances(ended, runs)
    each = np.arange(runs.size)
    limit = least_distance(ended.mean.shape[-1], ended.ess)
    gap = np.asarray(ended.log_mass, np.float64) - ended.log_mass[runs, each]
    with np.errstate(invalid="ignore"):
        matters = (far > limit) & (gap > math.log(LEAST_MASS))
    best = np.argmax(np.where(matters, gap, -np.inf), axis=0)
    return Others(matters.any(axis=0), far[best, each], gap[best, each])


def summary_of(modes: Modes) -> str:
    """Describe what was found in half a sentence."""
    if modes.share_of_datasets > 0:
        return (
            f"{_where(modes)} a second mode, {modes.distance:.0f} standard deviations away, with "
            f"{modes.log_mass_gap:+.1f} in log mass"
        )
    return "a peak in a broader hill"


def _where(modes: Modes) -> str:
    num, count = modes.num_searched, round(modes.share_of_datasets * modes.num_searched)
    return f"{count} of {num} posteriors have" if num > 1 else "the posterior has"


def searched_for(modes: Modes) -> str:
    """Describe what was tried, and what it showed; never that there is no other mode."""
    if not modes.num_searched:
        return "other modes were not looked for"
    tried = f"{modes.num_starts} dispersed starts"
    tried += " and a ladder of scales" if modes.has_ladder else ""
    where = f" on {modes.num_searched} posteriors" if modes.num_searched > 1 else ""
    if warn_of(modes):
        return f"{tried}{where} found {summary_of(modes)}"
    return f"{tried}{where} found no second mode"


def warn_of(modes: Modes) -> list[Warned]:
    """Say what was found, if anything."""
    if modes.share_of_datasets > 0:
        where = _where(modes)
        gaps = {"distance": modes.distance, "gap": modes.log_mass_gap}
        return [SEVERAL_MODES(where=where, **gaps)]
    share = modes.ladder_excess / (1.0 + modes.ladder_excess)
    if share > OUTSIDE and modes.ladder_excess > OUTSIDE_Z * modes.ladder_excess_se:
        return [NESTED_SCALES(share=share)]
    return []
