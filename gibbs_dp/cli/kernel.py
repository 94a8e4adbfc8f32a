"""Markov kernels on the command line: their names and settings, and the kernel described."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import replace
from typing import TYPE_CHECKING

from gibbs_dp._options import Option, parameters
from gibbs_dp._source import exports
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import FLOAT64
from gibbs_dp.cli.parser import given

if TYPE_CHECKING:
    from gibbs_dp.sampling.kernels import Kernel, Unadjusted

# Kernels by the names of their files; the package names those that there are, the default first.
KERNELS = {
    module.rpartition(".")[2]: f"{module}:{name}"
    for name, module in exports("gibbs_dp.sampling.kernels").items()
    if name not in ("Kernel", "Unadjusted")  # bases of the others
}
# Help where that of the fields does not suit a terminal.
HELP = {
    "step_size": "step in posterior standard deviations; for ula and sgld, h (default: tuned)",
    "num_steps": "steps per recorded draw",
    "friction": "how fast momentum is forgotten",
    "num_leapfrog": "gradients per step",
    "integrator": "split, which is exact on the Gaussian fit, or leapfrog",
    "num_inner": "Langevin steps per recorded draw, one gradient each",
    "relative_step": "h times the largest curvature",
    "clip": "shorten the gradient of each example to this norm",
    "preconditioner": "coordinates to run in",
    "sampling_rate": "probability that an example enters a minibatch",
    "batch_size": "examples per minibatch, drawn with replacement",
    "control_variate": "gradients relative to those at the mode",
}


def kernel_options() -> tuple[Option, ...]:
    """Make one option of each field that any kernel has, after ``--kernel``."""
    fields = {name: parameters(where) for name, where in KERNELS.items()}
    keywords = dict.fromkeys(keyword for of_one in fields.values() for keyword in of_one)
    names = tuple(KERNELS)
    return (
        Option("kernel", "str", "Markov kernel", names[0], names),
        *(
            _merged({name: of_one[keyword] for name, of_one in fields.items() if keyword in of_one})
            for keyword in keywords
        ),
    )


def _merged(of: dict[str, Option]) -> Option:
    """Make one option of a field that several kernels have."""
    first = next(iter(of.values()))
    text = HELP.get(first.keyword) or next((o.help for o in of.values() if o.help), "")
    choices = dict.fromkeys(word for option in of.values() for word in option.choices)
    shown = dict.fromkeys(option.shown for option in of.values() if option.shown)
    return replace(
        first,
        help=text if len(of) == len(KERNELS) else f"{', '.join(of)}: {text}",
        choices=tuple(choices) if all(option.choices for option in of.values()) else (),
        shown=", ".join(f"{name} {o.shown}" for name, o in of.items() if o.shown)
        if len(shown) > 1
        else "".join(shown),
    )


SETTINGS = kernel_options()[1:]
KERNEL = (*kernel_options(), FLOAT64)


def make_kernel(parsed: argparse.Namespace) -> Kernel | Unadjusted:
    """Build the kernel that ``--kernel`` and the options of kernels describe.

    Raises
    ------
    ValueError
        If a setting is out of range or does not belong to the kernel.
    """
    settings = given(parsed, SETTINGS)
    for option in SETTINGS:
        has = [name for name, where in KERNELS.items() if option.keyword in parameters(where)]
        if option.keyword in settings and parsed.kernel not in has:
            raise UsageError(
                f"{option.flag}: {parsed.kernel} has no such setting; use --kernel "
                f"{' or '.join(has)}."
            )
    module, _, name = KERNELS[parsed.kernel].partition(":")
    return getattr(importlib.import_module(module), name)(**settings)
