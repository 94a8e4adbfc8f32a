"""Kernels that users pass."""

from __future__ import annotations

from typing import Any

from gibbs_dp.sampling.kernels.base import Kernel
from gibbs_dp.sampling.kernels.unadjusted import Unadjusted


def check_kernel(kernel: Any, also: str = "") -> Kernel | Unadjusted:
    """Return a Markov kernel; refuse anything else.

    Parameters
    ----------
    kernel
        What the user gave.
    also
        What else the caller takes, for the message.

    Raises
    ------
    ValueError
        If it is a name, a class instead of an object of it, or no kernel.

    Examples
    --------
    >>> check_kernel("hmc")
    Traceback (most recent call last):
        ...
    ValueError: kernel: 'hmc' is text; give a kernel, such as gibbs_dp.HMC(), MALA() or SGLD().
    """
    given = f"such as gibbs_dp.HMC(), MALA() or SGLD(){also}"
    if isinstance(kernel, str):
        raise ValueError(f"kernel: {kernel!r} is text; give a kernel, {given}.")
    if isinstance(kernel, type):
        name = kernel.__name__
        raise ValueError(f"kernel: {name} is a class; give an object of it: {name}(...).")
    if not isinstance(kernel, (Kernel, Unadjusted)):
        name = type(kernel).__name__
        raise ValueError(f"kernel: {name} is no Markov kernel that suits here; give one, {given}.")
    return kernel
