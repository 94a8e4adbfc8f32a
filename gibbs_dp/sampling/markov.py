"""The sampler of every Markov kernel that has an acceptance step."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.chains import ChainSampler, Moved
from gibbs_dp.sampling.evolve import evolve
from gibbs_dp.sampling.fused.allowed import check
from gibbs_dp.sampling.kernels.base import Kernel, Potential
from gibbs_dp.sampling.kernels.hmc import HMC
from gibbs_dp.sampling.locate import Location
from gibbs_dp.sampling.schedule import Schedule
from gibbs_dp.sampling.target import Target


@dataclass(frozen=True, repr=False)
class MarkovSampler(ChainSampler[Kernel]):
    """Chains whitened around the mode, adapted where that is asked for."""

    def check(self, posterior: GibbsPosterior) -> None:
        """Raise a ValueError where the fused kernel was asked for and cannot run."""
        if isinstance(self.kernel, HMC) and self.kernel.fused:
            check(posterior, self.kernel.fused)

    def eased(
        self, accept_rate: float, tuning: tuple[float, int]
    ) -> tuple[tuple[float, int], int] | None:
        """Ask the kernel."""
        return self.kernel.eased(accept_rate, tuning)

    def move(
        self,
        key: PRNGKeyArray,
        target: Target,
        potential: Potential,
        positions: Float[Array, "chains dim"],
        found: Location,
        schedule: Schedule,
        num_samples: int,
        is_joint: bool,
    ) -> Moved:
        """Run rounds of adaptation, burn-in and draws."""
        last_round = None
        if isinstance(self.kernel, HMC) and self.kernel.fused:
            from gibbs_dp.sampling.fused import program  # loads Pallas

            last_round = program.last_round(self.kernel, target, found)
        run = evolve(
            key,
            potential,
            positions,
            found.whitening,
            self.kernel,
            schedule,
            num_samples,
            is_joint,
            last_round,
        )
        none = jnp.zeros((positions.shape[0],), positions.dtype)
        return Moved(*run, none, none[0])
