"""What an audit goes on with where its pilots find several modes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.sizes import power_of_two
from gibbs_dp.sampling.smc.sampler import SMC

# Particles of an audit that goes on with SMC: of paths in many coordinates more are lost.
PARTICLES_PER_DIM, MOST_PARTICLES = 16, 1024


def settings_with_smc(settings: Settings, kernel: Any) -> Settings | None:
    """Return what an audit goes on with where pilots find several modes; None: with its chains.

    Only where the kernel was left to the audit, and the prior can be drawn from.
    """
    if kernel is not None or not settings.posterior.prior.has_draws:
        return None
    dim = settings.posterior.dim
    smc = SMC(num_particles=min(MOST_PARTICLES, max(256, power_of_two(PARTICLES_PER_DIM * dim))))
    return replace(settings, sampler=smc, num_chains=smc.num_islands, num_samples=smc.num_each)
