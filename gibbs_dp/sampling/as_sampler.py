"""From what users pass as ``sampler`` to a sampler, and how many chains it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gibbs_dp.model.check import positive_count
from gibbs_dp.sampling.chains import MarkovSampler
from gibbs_dp.sampling.kernels.base import Kernel, check_own
from gibbs_dp.sampling.kernels.hmc import HMC
from gibbs_dp.sampling.kernels.langevin import Unadjusted
from gibbs_dp.sampling.sampler import GammaSampler, PathSampler, Sampler


@dataclass(frozen=True)
class Chains:
    """The chains of a kernel that an audit runs for each dataset: how many, and how long.

    A few draws a dataset are enough: the datasets are the sample.

    Parameters
    ----------
    kernel
        Of a Markov chain; None: ``gibbs_dp.HMC()``, which an audit may leave for SMC (see there).
    num_chains, num_samples
        Chains per dataset (at least 2) and draws kept per chain (at least 4).
    num_warmup
        Burn-in steps. None: 16, lengthened where pilots or the drift test ask for it.

    Raises
    ------
    ValueError
        If a number is out of range, or this is a sampler that runs no chains.

    Examples
    --------
    >>> Chains(num_samples=32)
    Chains(kernel=None, num_chains=8, num_samples=32, num_warmup=None)
    """

    kernel: Kernel | Unadjusted | None = None
    num_chains: int = 8
    num_samples: int = 8
    num_warmup: int | None = None

    def __post_init__(self) -> None:
        least = {"num_chains": 2, "num_samples": 4, "num_warmup": 0}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None or name != "num_warmup":
                object.__setattr__(self, name, positive_count(name, value, least=lowest))
        kernel: Any = self.kernel
        if isinstance(kernel, Sampler) and not isinstance(kernel, type):
            name = type(kernel).__name__
            raise ValueError(
                f"kernel: {name} runs no chains of a kernel and has settings of its own; pass it "
                f"itself, sampler=gibbs_dp.{name}(...)."
            )


def as_sampler(kernel: Any, also: str = "", argument: str = "sampler") -> Sampler:
    """Return the sampler of a kernel; pass samplers through."""
    given = f"such as gibbs_dp.HMC(), SMC() or SGLD(){also}"
    if isinstance(kernel, str):
        raise ValueError(f"{argument}: {kernel!r} is text; give a kernel, {given}.")
    if isinstance(kernel, type):
        name = kernel.__name__
        raise ValueError(f"{argument}: {name} is a class; give an object of it: {name}(...).")
    if kernel is None:
        return MarkovSampler(HMC())
    if isinstance(kernel, Chains):
        raise ValueError(
            f"{argument}: the counts of Chains are arguments here; give the kernel, and "
            "num_chains=, num_samples= and num_warmup= beside it."
        )
    if isinstance(kernel, Kernel):
        check_own(kernel, argument)
        return MarkovSampler(kernel)
    if isinstance(kernel, Unadjusted):
        from gibbs_dp.sampling.unadjusted import LangevinSampler  # other chains need none of it

        return LangevinSampler(kernel)
    if isinstance(kernel, Sampler) and kernel.traits.is_exact and not also:
        raise ValueError(
            f"{argument}: a {type(kernel).__name__} sums over the posterior and makes no draws "
            f"here; gibbs_dp.audit takes one. Give a Markov kernel, {given}."
        )
    name = type(kernel).__name__
    if not isinstance(kernel, Sampler):
        raise ValueError(
            f"{argument}: {name} is no Markov kernel that suits here; give one, {given}."
        )
    if not isinstance(kernel, (GammaSampler, PathSampler)):
        raise ValueError(
            f"{argument}: {name} has no method draw; a subclass of gibbs_dp.Sampler gives it."
        )
    try:
        hash(kernel)
    except TypeError as error:
        raise ValueError(
            f"{argument}: {name} cannot be hashed ({error}); make it a frozen dataclass."
        ) from error
    return kernel
