"""``gdp.calibrate``: gamma for a worst-case target, for one on average, or of the least risk."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal

from gibbs_dp._cautions import warns
from gibbs_dp.auditing.audit import audit
from gibbs_dp.auditing.calibrate_by_audits import (
    LOWEST,
    AverageCalibration,
    calibrate_attack_advantage,
    calibrate_lowest,
    calibrate_on_average_kl,
)
from gibbs_dp.auditing.summary import kind_of
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Calibration, Target, calibrate_gamma
from gibbs_dp.privacy.dependent_rows import DependentRows
from gibbs_dp.quantities.attacker import Attacker
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.registry import DEFAULT
from gibbs_dp.sampling.as_sampler import Chains
from gibbs_dp.sampling.kernels.hmc import HMC


@warns(kind_of)
def calibrate(
    posterior: GibbsPosterior,
    *,
    n: int | None = None,
    num_draws: int = 1,
    pure_epsilon: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    zcdp: float | None = None,
    gdp: float | None = None,
    bayesian_epsilon: float | None = None,
    on_average_kl: float | None = None,
    attack_advantage: float | None = None,
    lowest: Literal["population_risk"] | None = None,
    adjacency: Adjacency | None = None,
    domain: Domain | None = None,
    population: Any = None,
    rows: DependentRows | Any | None = None,
    **settings: Any,
) -> Calibration | AverageCalibration:
    """Find the gamma that meets one target or has the least risk.

    A worst-case target (pure, ``(epsilon, delta)``, zCDP, Gaussian or Bayesian DP) is for exact
    draws and needs ``adjacency`` and a ``domain``; the gamma is the largest. On average over a
    ``population``, by audits of the same datasets at every gamma: a target on-average KL or
    advantage of the best attacker, or the least population risk. For a chain that is private
    without convergence see `gibbs_dp.privacy.calibrate_chain`.

    Parameters
    ----------
    posterior
        Loss and prior.
    n
        Examples per dataset; under add/remove, the most that one may have.
    num_draws
        Independent draws that are released together; for worst-case targets and on-average KL.
    pure_epsilon, epsilon, delta, zcdp, gdp, bayesian_epsilon
        Worst-case targets, one of them (``epsilon`` with ``delta``, ``bayesian_epsilon`` with
        ``rows``); nats.
    on_average_kl
        Target for on-average KL-privacy of all draws together, nats; replace-one.
    attack_advantage
        Target, in (0, 1), for the on-average advantage of the best attacker on one draw: how much
        more often somebody who knows all but one example recognizes it than not (mean total
        variation, the column ``on_average_tv``).
    lowest
        "population_risk": the gamma at which the mean loss on fresh examples is least.
    adjacency, domain
        For a worst-case target; ``domain`` also for audits on the way.
    population
        For what is on average: as in `gibbs_dp.audit`.
    rows
        Law of examples that depend on each other, as in `gibbs_dp.privacy.account`; for a
        worst-case target, which other than ``bayesian_epsilon`` stays one of DP.
    settings
        Anything else that `gibbs_dp.audit` takes, such as ``num_datasets``, ``key``, ``sampler``
        (HMC where it is left out, also where an audit would go on with SMC: see its warnings), and
        ``gammas`` to look for the least risk between.

    Returns
    -------
    Calibration or AverageCalibration
        The gamma, on average with its error bar, and what it was found from.

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
    purposes = {
        "on_average_kl": on_average_kl,
        "attack_advantage": attack_advantage,
        "lowest": lowest,
    }
    asked = [name for name, value in purposes.items() if value is not None]
    if len(asked) > 1:
        raise ValueError(f"{asked[0]}: give one target, not {asked[1]} beside it.")
    if n is None:
        raise ValueError("n: how many examples a dataset has is missing; give it.")
    if not asked:
        if adjacency is None:
            raise ValueError("adjacency: a worst-case target needs 'replace-one' or 'add-remove'.")
        if population is not None or settings:
            extra = ", ".join(["population"] * (population is not None) + list(settings))
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
    name = asked[0]
    num_asked = num_draws if on_average_kl is None else 1
    _refuse(name, worst | {"delta": delta}, rows, adjacency, num_asked)
    if population is None:
        raise ValueError(f"population: {_called(name)} is an average over it; give one.")
    if lowest not in (None, LOWEST):
        raise ValueError(f"lowest: there is no {lowest!r}; give {LOWEST!r}.")
    gammas = settings.pop("gammas", None) if lowest else None
    learn = [*DEFAULT, MutualInformation(0)]
    if attack_advantage is not None:
        learn.append(Attacker(num_datasets=None))
    found = {"learn": learn, "domain": domain} | settings
    # One sampler for the whole curve, whatever pilots find.
    sampler = found.get("sampler") or HMC()
    if isinstance(sampler, Chains) and sampler.kernel is None:
        sampler = replace(sampler, kernel=HMC())
    found["sampler"] = sampler
    run = partial(audit, posterior, population, n, **found)
    if attack_advantage is not None:
        return calibrate_attack_advantage(run, attack_advantage)
    if lowest is not None:
        return calibrate_lowest(run, gammas)
    assert on_average_kl is not None
    return calibrate_on_average_kl(run, on_average_kl, num_draws=num_draws)


def _called(name: str) -> str:
    """Return what a purpose is called in messages."""
    names = {
        "on_average_kl": "on-average KL",
        "attack_advantage": "an attacker's advantage",
        "lowest": "population risk",
    }
    return names[name]


def _refuse(
    name: str,
    worst: dict[str, float | None],
    rows: Any,
    adjacency: Adjacency | None,
    num_draws: int,
) -> None:
    """Refuse what only worst-case targets take."""
    if any(value is not None for value in worst.values()):
        raise ValueError(f"{name}: give one target, not a worst-case one beside it.")
    if rows is not None:
        raise ValueError(
            f"rows: for a worst-case target only; for {_called(name)} the population says how "
            "examples depend on each other."
        )
    if adjacency not in (None, "replace-one"):
        raise ValueError(f"adjacency: {_called(name)} is a replace-one notion; leave it out.")
    if num_draws != 1:
        raise ValueError(f"num_draws: {name} is of one draw; leave it out.")
