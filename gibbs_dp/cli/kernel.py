"""From a command line to a Markov kernel."""

from __future__ import annotations

import argparse

from gibbs_dp.cli.errors import UsageError
from gibbs_dp.sampling.kernels import HMC, MALA, Kernel


def make_kernel(parsed: argparse.Namespace) -> Kernel:
    """Build the kernel that ``--kernel``, ``--step-size`` and ``--num-leapfrog`` describe.

    Raises
    ------
    ValueError
        If a setting is out of range or does not belong to the kernel.
    """
    if parsed.kernel == "mala":
        if parsed.num_leapfrog is not None:
            raise UsageError("--num-leapfrog: MALA has no leapfrog steps; use --kernel hmc.")
        return MALA(step_size=parsed.step_size)
    return HMC(step_size=parsed.step_size, num_leapfrog=parsed.num_leapfrog)
