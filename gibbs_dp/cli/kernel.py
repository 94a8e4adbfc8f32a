"""From a command line to a Markov kernel."""

from __future__ import annotations

import argparse

from gibbs_dp.cli.errors import UsageError
from gibbs_dp.sampling.kernels import HMC, MALA, SGLD, ULA, Kernel, Unadjusted

# Which kernels an option belongs to; --step-size belongs to all.
BELONGS = {
    "num_leapfrog": ("hmc",),
    "integrator": ("hmc",),
    "relative_step": ("ula", "sgld"),
    "num_steps": ("ula", "sgld"),
    "preconditioner": ("ula", "sgld"),
    "batch_size": ("sgld",),
    "control_variate": ("sgld",),
}


def make_kernel(parsed: argparse.Namespace) -> Kernel | Unadjusted:
    """Build the kernel that ``--kernel`` and the options of kernels describe.

    Raises
    ------
    ValueError
        If a setting is out of range or does not belong to the kernel.
    """
    given = {name: getattr(parsed, name) for name in BELONGS}
    # By identity: a batch of 0 examples equals False and must be refused, not left out.
    given = {k: v for k, v in given.items() if v is not None and v is not False}
    for name in given:
        if parsed.kernel not in BELONGS[name]:
            raise UsageError(
                f"--{name.replace('_', '-')}: {parsed.kernel} has no such setting; use --kernel "
                f"{' or '.join(BELONGS[name])}."
            )
    kernels: dict[str, type[HMC] | type[MALA] | type[ULA] | type[SGLD]] = {
        "hmc": HMC,
        "mala": MALA,
        "ula": ULA,
        "sgld": SGLD,
    }
    return kernels[parsed.kernel](step_size=parsed.step_size, **given)
