"""Releases of draws that count as exact: chains that are checked, and tried longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import approximate_draw
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Target
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.releases.arguments import (
    check_kernel,
    check_proper,
    check_run,
    has_converged,
)
from gibbs_dp.privacy.releases.method import (
    IDEALIZATIONS,
    TIMING_CAVEAT,
    ReleaseMethod,
    ReleasePlan,
    ReleaseRequest,
)
from gibbs_dp.sampling.kernels import Kernel
from gibbs_dp.sampling.sample import sample

CHECKS_CAVEAT = (
    "that the convergence checks passed is itself a function of the data, and not covered."
)
MIN_CHAINS = 4
# Factors by which chains run longer where shorter ones did not pass the checks.
LONGER = (1, 4, 16)


@dataclass(frozen=True)
class ExactDraw(ReleaseMethod):
    """Draws that count as exact: the last state of one Markov chain each, once all of them agree.

    Chains that do not pass the convergence checks are run anew, 4 and 16 times as long. A guarantee
    that assumes no convergence is that of `ChainDraw` and `ProvenDraw`.

    Parameters
    ----------
    total_variation
        Distance of each chain's law from the posterior that you vouch for, for every dataset; then
        the target must be ``epsilon`` and ``delta``, it is met with it, and "exact-draw" need not
        be accepted.
    kernel
        What moves the chains, as ``sampler`` of `gibbs_dp.sample`. One without an acceptance step
        (ULA, SGLD) needs ``total_variation``: its draws are biased and do not count as exact.
    num_warmup
        Steps of each chain before those that count.
    num_samples
        Steps of each chain that are checked.

    Examples
    --------
    >>> list(ExactDraw().idealizations), list(ExactDraw(total_variation=1e-9).idealizations)
    (['exact-draw', 'float-arithmetic'], ['float-arithmetic'])
    """

    total_variation: float | None = None
    kernel: Kernel | Any | None = None
    num_warmup: int = 500
    num_samples: int = 1000

    mechanism: ClassVar[str] = "exact draw"
    failed: ClassVar[str] = (
        "release: the chains failed or did not pass the convergence checks, run as asked and up to "
        f"{LONGER[-1]} times longer; nothing is released and the charge stands. Raise num_warmup "
        "and num_samples, or lower the target."
    )

    @property
    def idealizations(self) -> Mapping[str, str]:
        """Exact draws, unless a total variation is declared, and floats for reals."""
        return IDEALIZATIONS if self.total_variation is None else super().idealizations

    def plan(self, request: ReleaseRequest) -> ReleasePlan:
        """Calibrate gamma; chains are traced before the charge, not run."""
        check_kernel(self.kernel, request.posterior, self.total_variation is None)
        num_draws = request.num_draws
        num_chains = max(MIN_CHAINS, num_draws)
        num_warmup, num_samples = check_run(
            request.posterior.dim, num_draws, num_chains, self.num_warmup, self.num_samples
        )
        target = request.target
        check_proper(request.posterior, request.domain)
        gamma, guarantee = self._promise(request, target)

        def draw(unchecked: GibbsPosterior, examples: PyTree, key: Any) -> PyTree | None:
            """Run chains from fresh noise until they pass the checks, each time longer."""
            for factor, fresh in zip(LONGER, jax.random.split(key, len(LONGER)), strict=True):
                draws = sample(
                    unchecked,
                    examples,
                    gamma=gamma,
                    key=fresh,
                    sampler=self.kernel,
                    num_chains=num_chains,
                    num_warmup=factor * num_warmup,
                    num_samples=factor * num_samples,
                )
                if has_converged(draws):
                    return jax.tree.map(lambda leaf: leaf[:num_draws, -1], draws.theta)
            return None

        return ReleasePlan(guarantee, draw, _second_derivatives)

    def _promise(self, request: ReleaseRequest, target: Target) -> tuple[float, Guarantee]:
        """Calibrate, so that the target is met together with a declared total variation."""
        tau, asked = self.total_variation, target
        if tau is not None:
            checks.nonnegative("total_variation", tau)
            if target.epsilon is None or target.delta is None:
                raise ValueError(
                    "total_variation: an approximate draw has (epsilon, delta) only; give the "
                    "target as epsilon and delta."
                )
            lost = approximate_draw(
                target.epsilon, 0.0, total_variation=min(1.0, request.num_draws * tau)
            ).delta
            if not lost < target.delta:
                raise ValueError(
                    f"total_variation: {tau:g} alone costs a delta of {lost:.3g}, more than the "
                    f"target's {target.delta:g}; make the chain closer or delta larger."
                )
            asked = replace(target, delta=target.delta - lost)
        found = request.calibrate(asked)
        guarantee = found.guarantee
        if tau is not None and target.delta is not None:
            guarantee = replace(guarantee.within_total_variation(tau), delta=target.delta)
        caveats = (*guarantee.caveats, CHECKS_CAVEAT, TIMING_CAVEAT)
        return found.gamma, replace(guarantee, caveats=caveats)


def _second_derivatives(posterior: GibbsPosterior, data: PyTree) -> Any:
    """Take the derivatives that the Laplace fit needs; chains need the first."""
    target = posterior.unconstrained(data, 1.0)
    return jax.hessian(target.log_density)(jnp.zeros(posterior.dim))
