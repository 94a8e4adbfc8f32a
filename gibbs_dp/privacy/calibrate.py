"""The inverse temperature that just meets a privacy target, for exact draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from scipy.optimize import brentq

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.accountant import Accountant, account
from gibbs_dp.privacy.dependent_rows import DependentRows
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.routes import check_delta
from gibbs_dp.results.table import block

# A target that needs an inverse temperature outside counts as one that cannot be met.
SMALLEST, LARGEST = 1e-12, 1e15
CURRENCIES = ("pure_epsilon", "epsilon", "zcdp", "gdp", "bayesian_epsilon")


@dataclass(frozen=True)
class Target:
    """One privacy target: exactly one of the five currencies."""

    pure_epsilon: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    zcdp: float | None = None
    gdp: float | None = None
    bayesian_epsilon: float | None = None

    def __post_init__(self) -> None:
        given = [k for k in CURRENCIES if getattr(self, k) is not None]
        if len(given) != 1:
            shown = ", ".join(given) or "none"
            raise ValueError(
                "target: give exactly one of pure_epsilon, epsilon (with delta), zcdp, gdp and "
                f"bayesian_epsilon (with rows); got {shown}."
            )
        checks.positive(given[0], getattr(self, given[0]))
        if (self.delta is None) != (self.epsilon is None):
            raise ValueError("delta: it belongs to epsilon; give both, or neither.")
        if self.delta is not None:
            check_delta(self.delta)

    @property
    def name(self) -> str:
        """Its currency."""
        if self.epsilon is not None:
            return "(epsilon, delta)"
        return next(k for k in CURRENCIES if getattr(self, k) is not None)

    def spent(self, accountant: Accountant) -> float:
        """Share of the target that an accountant's guarantee uses; at most 1 where it is met."""
        if self.pure_epsilon is not None:
            return accountant.pure() / self.pure_epsilon
        if self.zcdp is not None:
            return accountant.zcdp() / self.zcdp
        if self.gdp is not None:
            return accountant.gdp() / self.gdp
        if self.bayesian_epsilon is not None:
            return accountant.bayesian() / self.bayesian_epsilon
        assert self.epsilon is not None
        assert self.delta is not None
        return accountant.delta(self.epsilon) / self.delta


@dataclass(frozen=True)
class Calibration:
    """The largest ``gamma`` that meets a target, and the guarantee it gives."""

    gamma: float
    guarantee: Guarantee

    def __repr__(self) -> str:
        return f"Calibration(gamma={self.gamma:.10g}, {self.guarantee!r})"

    def _repr_html_(self) -> str:
        return block(f"gamma = {self.gamma:.10g}", self.guarantee._repr_html_())


def calibrate_gamma(
    posterior: GibbsPosterior,
    target: Target,
    *,
    n: int,
    adjacency: Adjacency,
    domain: Domain | None = None,
    num_draws: int = 1,
    rows: DependentRows | Any | None = None,
) -> Calibration:
    """Find the largest ``gamma`` at which ``num_draws`` exact draws meet a target."""

    def at(gamma: float) -> Accountant:
        return account(
            posterior,
            gamma=gamma,
            n=n,
            adjacency=adjacency,
            domain=domain,
            num_draws=num_draws,
            rows=rows,
        )

    if target.bayesian_epsilon is not None and rows is None:
        raise ValueError(
            "rows: a target bayesian_epsilon is for a declared law of dependent rows; give one, "
            "such as a gibbs_dp.papers.bayesian_dp.MarkovChain, or ask for pure_epsilon."
        )
    delta = 0.0 if target.delta is None else target.delta
    trial = at(1.0)
    is_pure = target.pure_epsilon is not None or target.bayesian_epsilon is not None
    if not trial.routes or (is_pure and math.isinf(trial.pure())):
        raise ValueError(f"domain: no guarantee of {target.name}: {trial.why_none(is_pure)}")
    if target.pure_epsilon is not None:
        gamma = target.pure_epsilon / trial.pure() if trial.pure() > 0 else math.inf
        _require_between(gamma)
        while at(gamma).pure() > target.pure_epsilon:  # rounding of the quotient
            gamma = math.nextafter(gamma, 0.0)
    else:
        gamma = _largest(lambda g: target.spent(at(g)))
    found = at(gamma)
    if target.epsilon is None:
        # The delta at which epsilon is stated: 0 where there is pure DP.
        return Calibration(gamma, found.guarantee(0.0 if math.isfinite(found.pure()) else 1e-6))
    # delta(epsilon) was checked itself; inverting it again would only add rounding.
    return Calibration(gamma, replace(found.guarantee(delta), epsilon=target.epsilon))


def _require_between(gamma: float) -> None:
    """Raise where no usable gamma meets the target, or every one does."""
    if gamma > LARGEST:
        raise ValueError(
            f"target: every gamma up to {LARGEST:g} meets it, as it allows nearly everything or "
            "the loss hardly depends on the data; lower the target."
        )
    if gamma < SMALLEST:
        raise ValueError(
            f"target: no gamma above {SMALLEST:g} meets it; raise the target or narrow the domain."
        )


def _largest(spent: Callable[[float], float]) -> float:
    """Largest argument with ``spent <= 1``, for an increasing function."""
    high = 1.0
    while spent(high) <= 1:
        high *= 4
        _require_between(high)
    low = high / 4
    while spent(low) > 1:
        low /= 4
        _require_between(low)

    def excess(log_gamma: float) -> float:
        # Tiny shares of a delta are as good as zero, and have no finite logarithm.
        return math.log(min(max(spent(math.exp(log_gamma)), 1e-300), 1e300))

    root = math.exp(brentq(excess, math.log(low), math.log(high), xtol=1e-13, rtol=1e-13))
    step = 1e-13
    while spent(root) > 1:
        root, step = root * (1 - step), 4 * step
    return root
