"""What samplers that run chains of a kernel share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.chains import Moved, run_chains
from gibbs_dp.sampling.kernels.base import Kernel, Potential
from gibbs_dp.sampling.kernels.unadjusted import Unadjusted
from gibbs_dp.sampling.locate import Location
from gibbs_dp.sampling.sampler import ChainDraws
from gibbs_dp.sampling.schedule import Schedule
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.traits import Traits

# Acceptance below which steps are too long: of gradient kernels, and of a kernel's own target.
LEAST_ACCEPT, SHARE_OF_TARGET = 0.5, 5 / 6

K = TypeVar("K", Kernel, Unadjusted)


@dataclass(frozen=True, repr=False)
class ChainSampler(Generic[K]):
    """Chains of a kernel; a :class:`~gibbs_dp.sampling.sampler.Sampler` once :meth:`move` is given.

    Parameters
    ----------
    kernel
        How a chain moves.
    """

    kernel: K

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

    @property
    def least_accept(self) -> float:
        """A half; less where the kernel itself aims for so little."""
        return min(LEAST_ACCEPT, getattr(self.kernel, "target_accept", 1.0) * SHARE_OF_TARGET)

    def check(self, posterior: GibbsPosterior) -> None:
        """Accept every posterior."""

    def shape(
        self, posterior: GibbsPosterior, num_chains: int, num_samples: int
    ) -> tuple[int, int]:
        """As many chains and draws as were asked for."""
        del posterior
        return num_chains, num_samples

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Tuning that the kernel begins with."""
        return self.kernel.default_tuning(dim)

    def eased(
        self, accept_rate: float, tuning: tuple[float, int]
    ) -> tuple[tuple[float, int], int] | None:
        """Return None: no less than usual will do."""
        del accept_rate, tuning
        return None

    def points(self, posterior: GibbsPosterior) -> None:
        """Return None: draws are all there is."""

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
            return self.move(
                key, target, potential, positions, found, schedule, num_samples, is_joint
            )

        newton = schedule.num_newton
        return run_chains(key, target, starts, move, num_chains, scale, is_joint, newton)

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
        """Move all chains from their positions, and keep the last draws.

        ``potential`` is relative to the mode, which ``found`` tells of; the rest as in
        :meth:`~gibbs_dp.sampling.sampler.Sampler.draw`.
        """
        raise NotImplementedError
