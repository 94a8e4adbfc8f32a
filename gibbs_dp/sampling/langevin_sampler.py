"""The sampler of Langevin kernels without an acceptance step."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.chains import Moved, run_chains
from gibbs_dp.sampling.kernels.base import Potential
from gibbs_dp.sampling.kernels.unadjusted import Unadjusted
from gibbs_dp.sampling.langevin_walk import precondition, walk_langevin
from gibbs_dp.sampling.locate import MAX_LAPLACE_DIM, Location
from gibbs_dp.sampling.sampler import ChainDraws
from gibbs_dp.sampling.schedule import Schedule
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.traits import Traits
from gibbs_dp.sampling.whitening import fit_whitening


@dataclass(frozen=True, repr=False)
class LangevinSampler:
    """Langevin chains, biased; a :class:`~gibbs_dp.sampling.sampler.Sampler`.

    Parameters
    ----------
    kernel
        ULA or SGLD.
    """

    kernel: Unadjusted

    def __repr__(self) -> str:
        return repr(self.kernel)

    @property
    def traits(self) -> Traits:
        """Those of the kernel."""
        return self.kernel.traits

    @property
    def identity(self) -> str:
        """The kernel and its settings."""
        return repr(self.kernel)

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

    def shape(
        self, posterior: GibbsPosterior, num_chains: int, num_samples: int
    ) -> tuple[int, int]:
        """As many chains and draws as were asked for."""
        del posterior
        return num_chains, num_samples

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Step size (or factor of a schedule), and steps per recorded draw."""
        return self.kernel.default_tuning(dim)

    def eased(self, accept_rate: float, tuning: tuple[float, int]) -> None:
        """Return None: nothing is accepted that could tell."""

    def finite_class(self, posterior: GibbsPosterior) -> None:
        """Return None: the parameters are a continuum."""

    def draw(
        self,
        key: PRNGKeyArray,
        target: Target,
        starts: Float[Array, "starts dim"],
        schedule: Schedule,
        num_chains: int,
        num_samples: int,
        scale: Float[Array, " dim"] | None = None,
        is_joint: bool = False,
    ) -> ChainDraws:
        """Run the chains of one dataset."""

        def move(
            key: PRNGKeyArray,
            potential: Potential,
            positions: Float[Array, "chains dim"],
            found: Location,
        ) -> Moved:
            laplace = found.whitening
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
            # The chains have coordinates of their own; they are judged in the Laplace fit's, or,
            # where that is of no use, in the draws'.
            fitted = fit_whitening(run.u.reshape(-1, positions.shape[1]), laplace)
            judge = jax.tree.map(lambda a, b: jnp.where(found.is_curved, a, b), laplace, fitted)
            v = jax.vmap(jax.vmap(judge.whiten))(run.u)
            energy = jax.vmap(jax.vmap(potential))(run.u)
            accept, is_stuck = jnp.ones((num_chains,), v.dtype), jnp.zeros((num_chains,), bool)
            return Moved(v, energy, judge, accept, is_stuck, run.inflation, run.kl_inflation)

        return run_chains(key, target, starts, move, num_chains, scale, is_joint)
