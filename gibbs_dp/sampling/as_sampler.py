"""From what users pass as ``kernel`` to a sampler."""

from __future__ import annotations

from typing import Any

from gibbs_dp.sampling.kernels import HMC, Kernel, Unadjusted
from gibbs_dp.sampling.kernels.base import check_own
from gibbs_dp.sampling.langevin_sampler import LangevinSampler
from gibbs_dp.sampling.markov import MarkovSampler
from gibbs_dp.sampling.sampler import Sampler


def as_sampler(kernel: Any, also: str = "") -> Sampler:
    """Return the sampler of a kernel; pass samplers through.

    Parameters
    ----------
    kernel
        What the user gave; None: ``gibbs_dp.HMC()``.
    also
        What else the caller takes, for the message; "": nothing but kernels of Markov chains.

    Returns
    -------
    Sampler
        Chains of the kernel, or the sampler itself.

    Raises
    ------
    ValueError
        If it is a name, a class instead of an object of it, no kernel, or one's own that lacks
        something.

    Examples
    --------
    >>> as_sampler("hmc")
    Traceback (most recent call last):
        ...
    ValueError: kernel: 'hmc' is text; give a kernel, such as gibbs_dp.HMC(), SMC() or SGLD().
    """
    given = f"such as gibbs_dp.HMC(), SMC() or SGLD(){also}"
    if isinstance(kernel, str):
        raise ValueError(f"kernel: {kernel!r} is text; give a kernel, {given}.")
    if isinstance(kernel, type):
        name = kernel.__name__
        raise ValueError(f"kernel: {name} is a class; give an object of it: {name}(...).")
    if kernel is None:
        return MarkovSampler(HMC())
    if isinstance(kernel, Kernel):
        check_own(kernel)
        return MarkovSampler(kernel)
    if isinstance(kernel, Unadjusted):
        return LangevinSampler(kernel)
    if isinstance(kernel, Sampler) and kernel.traits.is_exact and not also:
        raise ValueError(
            f"kernel: a {type(kernel).__name__} sums over the posterior and makes no draws here; "
            f"gibbs_dp.audit takes one. Give a Markov kernel, {given}."
        )
    if not isinstance(kernel, Sampler):
        name = type(kernel).__name__
        raise ValueError(f"kernel: {name} is no Markov kernel that suits here; give one, {given}.")
    return kernel
