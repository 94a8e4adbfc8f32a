"""The sampler of Langevin kernels without an acceptance step."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.chain_sampler import ChainSampler
from gibbs_dp.sampling.chains import Moved
from gibbs_dp.sampling.kernels.base import Potential
from gibbs_dp.sampling.kernels.unadjusted import Unadjusted
from gibbs_dp.sampling.langevin_walk import precondition, walk_langevin
from gibbs_dp.sampling.locate import MAX_LAPLACE_DIM, Location
from gibbs_dp.sampling.schedule import Schedule
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.whitening import fit_whitening


@dataclass(frozen=True, repr=False)
class LangevinSampler(ChainSampler[Unadjusted]):
    """Biased chains of ULA or SGLD, in coordinates of their own."""

    def check(self, posterior: GibbsPosterior) -> None:
        """Raise a ValueError where the kernel cannot run on a posterior."""
        name = type(self.kernel).__name__
        if posterior.structured and self.traits.needs_examples:
            raise ValueError(
                f"kernel: {name} with minibatches or clipping needs gradients per example, but a "
                "total_loss has none; use gibbs_dp.HMC, or ULA without clip."
            )
        if self.traits.needs_hessian and posterior.dim > MAX_LAPLACE_DIM:
            raise ValueError(
                f"kernel: a dense Hessian of {posterior.dim} coordinates is out of reach (at most "
                f"{MAX_LAPLACE_DIM}); use {name}(preconditioner='diagonal')."
            )

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
        """Walk, and judge the draws in the Laplace fit's coordinates, or in their own."""
        del is_joint
        laplace, (num_chains, dim) = found.whitening, positions.shape
        run = walk_langevin(
            key,
            target,
            potential,
            positions,
            laplace.center,
            precondition(self.kernel, found),
            self.kernel,
            schedule,
            num_samples,
        )
        fitted = fit_whitening(run.u.reshape(-1, dim), laplace)
        judge = jax.tree.map(lambda a, b: jnp.where(found.is_curved, a, b), laplace, fitted)
        v = jax.vmap(jax.vmap(judge.whiten))(run.u)
        energy = jax.vmap(jax.vmap(potential))(run.u)
        accept, is_stuck = jnp.ones((num_chains,), v.dtype), jnp.zeros((num_chains,), bool)
        return Moved(v, energy, judge, accept, is_stuck, run.inflation, run.kl_inflation)
