"""The sampler of every Markov kernel that has an acceptance step."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.chains import Moved, run_chains
from gibbs_dp.sampling.evolve import evolve
from gibbs_dp.sampling.kernels.base import Kernel, Potential
from gibbs_dp.sampling.locate import Location
from gibbs_dp.sampling.sampler import ChainDraws
from gibbs_dp.sampling.schedule import Schedule
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.traits import Traits


@dataclass(frozen=True, repr=False)
class MarkovSampler:
    """Chains of a kernel, whitened around the mode; a :class:`~gibbs_dp.sampling.sampler.Sampler`.

    Parameters
    ----------
    kernel
        How a chain moves.
    """

    kernel: Kernel

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
        """Accept every posterior."""

    def shape(
        self, posterior: GibbsPosterior, num_chains: int, num_samples: int
    ) -> tuple[int, int]:
        """As many chains and draws as were asked for."""
        del posterior
        return num_chains, num_samples

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Tuning for a standard Gaussian, which a whitened posterior resembles."""
        return self.kernel.default_tuning(dim)

    def eased(
        self, accept_rate: float, tuning: tuple[float, int]
    ) -> tuple[tuple[float, int], int] | None:
        """Ask the kernel."""
        return self.kernel.eased(accept_rate, tuning)

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
            run = evolve(
                key,
                potential,
                positions,
                found.whitening,
                self.kernel,
                schedule,
                num_samples,
                is_joint,
            )
            none = jnp.zeros((num_chains,), positions.dtype)
            return Moved(*run, none, none[0])

        return run_chains(key, target, starts, move, num_chains, scale, is_joint)
