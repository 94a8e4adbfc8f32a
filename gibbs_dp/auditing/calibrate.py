"""``gdp.calibrate``: gamma for a worst-case target, or for a target on-average KL."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gibbs_dp.auditing.api import audit
from gibbs_dp.auditing.report import Report
from gibbs_dp.auditing.shown import with_error
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.io import html
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Calibration, Target, calibrate_gamma
from gibbs_dp.privacy.dependent_rows import DependentRows
from gibbs_dp.sampling.kernels.hmc import HMC

Sweep = Callable[[Sequence[float]], Report]

# First grid of gammas, then decades beyond it where the target is not inside.
FIRST_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
MAX_DECADES = 9
MAX_STEPS = 12
# Ratio of gammas over which the curve's slope is taken.
SECANT = 1.3


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
    """

    gamma: float
    gamma_se: float
    on_average_kl: float
    on_average_kl_se: float
    num_draws: int
    report: Report
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        told = f", {html.counted(len(self.warnings), 'warning')}" if self.warnings else ""
        return f"AverageCalibration({self._head()}{told})"

    def _repr_html_(self) -> str:
        named = [("WARNING", text) for text in self.warnings]
        named.append(("note:", "an average over the population is no guarantee for any person."))
        return html.block(self._head(), html.remarks(named), self.report._repr_html_())

    def _head(self) -> str:
        draws = html.counted(self.num_draws, "draw")
        kl = with_error(self.on_average_kl, self.on_average_kl_se)
        return f"gamma={with_error(self.gamma, self.gamma_se)}, on-average KL of {draws} {kl} nats"


def calibrate(
    posterior: GibbsPosterior,
    *,
    n: int,
    num_draws: int = 1,
    pure_epsilon: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    zcdp: float | None = None,
    gdp: float | None = None,
    bayesian_epsilon: float | None = None,
    on_average_kl: float | None = None,
    adjacency: Adjacency | None = None,
    domain: Domain | None = None,
    population: Any = None,
    rows: DependentRows | Any | None = None,
    **audit_settings: Any,
) -> Calibration | AverageCalibration:
    """Find the largest gamma that meets one target.

    A worst-case target (pure, ``(epsilon, delta)``, zCDP, Gaussian or Bayesian DP) is for exact
    draws and needs ``adjacency`` and a ``domain``; a target on-average KL needs a ``population``
    and is found by root finding on audits with common random numbers. For a chain that is private
    without convergence see `gibbs_dp.privacy.calibrate_chain`.

    Parameters
    ----------
    posterior
        Loss and prior.
    n
        Examples per dataset; under add/remove, the most that one may have.
    num_draws
        Independent draws that are released together.
    pure_epsilon, epsilon, delta, zcdp, gdp, bayesian_epsilon
        Worst-case targets, one of them (``epsilon`` with ``delta``, ``bayesian_epsilon`` with
        ``rows``); nats.
    on_average_kl
        Target for on-average KL-privacy of all draws together, nats; replace-one.
    adjacency, domain
        For a worst-case target.
    population
        For a target on-average KL: as in `gibbs_dp.audit`.
    rows
        Law of examples that depend on each other, as in `gibbs_dp.privacy.account`; for a
        worst-case target, which other than ``bayesian_epsilon`` stays one of DP.
    audit_settings
        Anything else that `gibbs_dp.audit` takes, such as ``num_datasets``, ``key``, ``kernel``
        (HMC where it is left out, also where an audit would go on with SMC: see its warnings).

    Returns
    -------
    Calibration or AverageCalibration
        The gamma, and what it was found from.

    Raises
    ------
    ValueError
        If the target cannot be met or something that it needs is missing.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    >>> gdp.calibrate(p, n=100, pure_epsilon=1.0, adjacency="replace-one",
    ...               domain=gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))).gamma
    0.03125
    """
    worst = {
        "pure_epsilon": pure_epsilon,
        "epsilon": epsilon,
        "zcdp": zcdp,
        "gdp": gdp,
        "bayesian_epsilon": bayesian_epsilon,
    }
    if on_average_kl is None:
        if adjacency is None:
            raise ValueError("adjacency: a worst-case target needs 'replace-one' or 'add-remove'.")
        if population is not None or audit_settings:
            extra = ", ".join(["population"] * (population is not None) + list(audit_settings))
            raise ValueError(f"{extra}: for a target on_average_kl only; leave it out.")
        target = Target(**worst, delta=delta)
        return calibrate_gamma(
            posterior,
            target,
            n=n,
            adjacency=adjacency,
            domain=domain,
            num_draws=num_draws,
            rows=rows,
        )
    if any(value is not None for value in (*worst.values(), delta)):
        raise ValueError("on_average_kl: give one target, not a worst-case one beside it.")
    if rows is not None:
        raise ValueError(
            "rows: for a worst-case target only; for on-average KL the population says how "
            "examples depend on each other."
        )
    if population is None:
        raise ValueError("population: on-average KL is an average over it; give one.")
    if adjacency not in (None, "replace-one"):
        raise ValueError("adjacency: on-average KL is a replace-one notion; leave it out.")
    settings = {"num_information": 0} | audit_settings
    if settings.get("kernel") is None:
        settings["kernel"] = HMC()  # one sampler for the whole curve, whatever pilots find
    run = partial(audit, posterior, population, n, **settings)
    return calibrate_on_average_kl(run, on_average_kl, num_draws=num_draws)


def calibrate_on_average_kl(
    sweep: Sweep, target: float, *, num_draws: int = 1
) -> AverageCalibration:
    """Find gamma by root finding on a sweep.

    Parameters
    ----------
    sweep
        From gammas to a report; always with the same key, so that its curve is smooth.
    target
        On-average KL of ``num_draws`` independent draws together, which cost ``num_draws`` times
        that of one; nats.
    num_draws
        As above.

    Returns
    -------
    AverageCalibration
        The gamma with its standard error, and the last audit.

    Raises
    ------
    ValueError
        If no gamma between 1e-12 and 1e10 reaches the target, or the curve is not increasing
        around it.
    """
    goal = checks.positive("target", target) / checks.count("num_draws", num_draws)
    known: dict[float, tuple[float, float]] = {}
    warnings: dict[str, None] = {}

    def look(gammas: Sequence[float]) -> Report:
        report = sweep(gammas)
        warnings.update(dict.fromkeys(report.warnings))
        for row in report.rows:
            known[row["gamma"]] = (row["on_average_kl"], row["on_average_kl_se"])
        return report

    look(FIRST_GRID)
    low, high = _bracket(look, known, goal)
    for _ in range(MAX_STEPS):
        gamma = _interpolate(low, high, known, goal)
        report = look([gamma])
        value, error = known[gamma]
        # Nearer to the goal than a tenth of its own error an estimate cannot be improved.
        if abs(value - goal) <= max(0.1 * error, 1e-6 * goal):
            break
        low, high = (gamma, high) if value < goal else (low, gamma)
    else:
        raise ValueError(
            f"num_datasets: the estimates do not settle around gamma={gamma:g} (the curve is too "
            "noisy there); raise it."
        )
    return AverageCalibration(
        gamma=gamma,
        gamma_se=gamma * error / (value * _slope(gamma, known)),
        on_average_kl=num_draws * value,
        on_average_kl_se=num_draws * error,
        num_draws=num_draws,
        report=report,
        warnings=tuple(warnings),
    )


def _bracket(
    look: Callable[[Sequence[float]], Report], known: dict[float, tuple[float, float]], goal: float
) -> tuple[float, float]:
    """Two neighbouring gammas whose estimates enclose the goal, widening by decades."""
    for _ in range(MAX_DECADES):
        ordered = sorted(known)
        for low, high in itertools.pairwise(ordered):
            if 0 < known[low][0] <= goal <= known[high][0]:
                return low, high
        look([10 * ordered[-1]] if known[ordered[-1]][0] < goal else [0.1 * ordered[0]])
    least, most = (known[g][0] for g in (min(known), max(known)))
    raise ValueError(
        f"on_average_kl: {goal:g} a draw is not reached (gamma from {min(known):g} to "
        f"{max(known):g} gives {least:.3g} to {most:.3g}); choose a target in between."
    )


def _interpolate(
    low: float, high: float, known: dict[float, tuple[float, float]], goal: float
) -> float:
    """On the line through two points in logarithms, well inside the interval."""
    share = math.log(goal / known[low][0]) / math.log(known[high][0] / known[low][0])
    share = min(max(share, 0.02), 0.98)
    return float(low * (high / low) ** share)


def _slope(gamma: float, known: dict[float, tuple[float, float]]) -> float:
    """Logarithmic slope between the nearest points that noise cannot tilt: well apart."""
    low = max(g for g in known if g <= gamma / SECANT)
    high = min(g for g in known if g >= gamma * SECANT)
    return math.log(known[high][0] / known[low][0]) / math.log(high / low)
