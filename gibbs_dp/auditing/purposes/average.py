"""The gamma of a target on-average KL."""

from __future__ import annotations

from dataclasses import dataclass, field

from gibbs_dp.auditing.purposes.result import (
    NEAR_CERTAINTY,
    CurvePoint,
    PurposeCalibration,
    interval,
)
from gibbs_dp.auditing.purposes.root import Sweep, find_root
from gibbs_dp.auditing.report import Report
from gibbs_dp.information import checks
from gibbs_dp.results.table import block, counted, remarks, with_error

# Standard errors that an advantage is at least from 1, for the errors to be believed.
LEAST_DOUBT = 5.0


@dataclass(frozen=True)
class AverageCalibration:
    """The gamma of a target on-average KL, as well as a sweep knows it.

    On-average KL is an average over the population, no guarantee for any one person or dataset.

    Parameters
    ----------
    gamma, gamma_se
        Inverse temperature and its standard error: that of the estimate over the slope of the
        curve, to first order.
    on_average_kl, on_average_kl_se
        Estimate at that gamma for all ``num_draws`` draws together, nats.
    num_draws
        Independent draws that are released together.
    report
        The last audit, at that gamma.
    warnings
        Warnings of every audit on the way.
    curve
        On-average KL of one draw at every gamma that was looked at, nats.
    """

    gamma: float
    gamma_se: float
    on_average_kl: float
    on_average_kl_se: float
    num_draws: int
    report: Report
    warnings: tuple[str, ...]
    curve: tuple[CurvePoint, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        told = f", {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        return f"AverageCalibration({self._head()}{told})"

    def _repr_html_(self) -> str:
        named = [("WARNING", text) for text in self.warnings]
        named.append(("note", "an average over the population is no guarantee for any person."))
        return block(self._head(), remarks(named), self.report._repr_html_())

    def _head(self) -> str:
        draws = counted(self.num_draws, "draw")
        kl = with_error(self.on_average_kl, self.on_average_kl_se)
        return f"gamma={with_error(self.gamma, self.gamma_se)}, on-average KL of {draws} {kl} nats"


def calibrate_on_average_kl(
    sweep: Sweep, target: float, *, num_draws: int = 1
) -> AverageCalibration:
    """Find gamma by root finding on a sweep."""
    goal = checks.positive("target", target) / checks.count("num_draws", num_draws)
    found = find_root(sweep, "on_average_kl", goal, "on_average_kl")
    return AverageCalibration(
        gamma=found.gamma,
        gamma_se=found.gamma_se,
        on_average_kl=num_draws * found.value,
        on_average_kl_se=num_draws * found.value_se,
        num_draws=num_draws,
        report=found.report,
        warnings=found.warnings,
        curve=found.curve,
    )


def calibrate_attack_advantage(sweep: Sweep, target: float) -> PurposeCalibration:
    """Find the gamma of a target advantage of the best attacker, on average, of one draw.

    The advantage is the true minus the false positive rate, at its best, of somebody who sees one
    draw and knows all but one example: the mean total variation, column ``on_average_tv``.
    """
    goal = checks.unit_interval("attack_advantage", target, open_left=True)
    found = find_root(sweep, "on_average_tv", goal, "attack_advantage", levels_off=True)
    told: tuple[str, ...] = ()
    if 1.0 - found.value < LEAST_DOUBT * found.value_se:
        told = (NEAR_CERTAINTY(value=found.value, value_se=found.value_se, gamma=found.gamma),)
    return PurposeCalibration(
        "attack_advantage",
        found.gamma,
        found.gamma_se,
        *interval(found.gamma, found.gamma_se),
        found.value,
        found.value_se,
        found.curve,
        (*told, *found.warnings),
        found.report,
    )
