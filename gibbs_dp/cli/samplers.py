"""Samplers and release methods by name: their settings as options, and the one described."""

from __future__ import annotations

import argparse
import ast
import importlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from gibbs_dp._options import Option, parameters
from gibbs_dp._source import exports, find
from gibbs_dp.cli.options import FLOAT64, with_dashes
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import given

if TYPE_CHECKING:
    from gibbs_dp.privacy import ReleaseMethod
    from gibbs_dp.sampling.kernels import Kernel, Unadjusted
    from gibbs_dp.sampling.smc import SMC

# Kernels by their names; the package names those that there are.
SAMPLERS = {
    with_dashes(name): f"{module}:{name}"
    for name, module in exports("gibbs_dp.sampling.kernels").items()
    if name not in ("Kernel", "Unadjusted")  # bases of the others
}
SAMPLERS["adaptive-hmc"] = "gibbs_dp.sampling.adaptive_hmc:AdaptiveHMC"
SAMPLERS["smc"] = "gibbs_dp.sampling.smc:SMC"
DEFAULT_SAMPLER = "hmc"
SHOWN = (
    "hmc, or adaptive-hmc for hierarchical priors; sample goes on with others where draws cannot "
    "be trusted, an audit without --store with smc where it finds several modes"
)
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
    "clip_by": "shorten whole gradients, or each array of the parameter to its share",
    "preconditioner": "coordinates to run in",
    "sampling_rate": "probability that an example enters a minibatch",
    "batch_size": "examples per minibatch, drawn with replacement",
    "control_variate": "gradients relative to those at the mode",
    "num_parallel": "chains side by side, which learn from each other",
    "recentre": "keep nested parts of a prior as they are written",
    "patience": "times as long adaptation",
    "num_particles": "particles of a dataset",
    "num_islands": "groups of particles that never meet",
    "least_ess": "share of the particles that count after a step",
}


def _fields(where: str) -> dict[str, Option]:
    """Fields of a kernel; what moves particles is SMC's own choice."""
    return {name: option for name, option in parameters(where).items() if name != "kernel"}


def sampler_options(samplers: Mapping[str, str] = SAMPLERS) -> tuple[Option, ...]:
    """Make one option of each field that any kernel has, after ``--sampler``, and the precision."""
    fields = {name: _fields(where) for name, where in samplers.items()}
    keywords = dict.fromkeys(keyword for of_one in fields.values() for keyword in of_one)
    names = tuple(samplers)
    return (
        Option("sampler", "str", "what draws", None, names, shown=SHOWN),
        *(
            _merged({name: of_one[keyword] for name, of_one in fields.items() if keyword in of_one})
            for keyword in keywords
        ),
        FLOAT64,
    )


def _merged(of: dict[str, Option]) -> Option:
    """Make one option of a field that several kernels have."""
    first = next(iter(of.values()))
    for name, option in of.items():
        if (option.kind, option.is_list) != (first.kind, first.is_list):
            raise UsageError(
                f"{option.flag}: {name} and {next(iter(of))} have settings of this name and of "
                "different kinds; rename that of your own."
            )
    text = HELP.get(first.keyword) or next((o.help for o in of.values() if o.help), "")
    choices = dict.fromkeys(word for option in of.values() for word in option.choices)
    shown = dict.fromkeys(option.shown for option in of.values() if option.shown)
    return replace(
        first,
        help=text if len(of) == len(SAMPLERS) else f"{', '.join(of)}: {text}".rstrip(": "),
        choices=tuple(choices) if all(option.choices for option in of.values()) else (),
        shown=", ".join(f"{name} {o.shown}" for name, o in of.items() if o.shown)
        if len(shown) > 1
        else "".join(shown),
    )


SAMPLER = sampler_options()


def make_sampler(parsed: argparse.Namespace) -> Kernel | Unadjusted | SMC | None:
    """Build what ``--sampler`` and the options of kernels describe; None: nothing was said."""
    samplers = SAMPLERS | parsed.extensions.sampler_paths
    options = sampler_options(samplers)[1:-1]
    settings, chosen = given(parsed, options), parsed.sampler or DEFAULT_SAMPLER
    for option in options:
        has = [name for name, where in samplers.items() if option.keyword in _fields(where)]
        if option.keyword in settings and chosen not in has:
            raise UsageError(
                f"{option.flag}: {chosen} has no such setting; use --sampler {' or '.join(has)}."
            )
    if parsed.sampler is None and not settings:
        return None
    module, _, name = samplers[chosen].partition(":")
    return getattr(importlib.import_module(module), name)(**settings)


# Release methods: names and settings, and the one described.


@cache  # other commands read no code of releases
def release_methods() -> dict[str, str]:
    """Find the methods that `gibbs_dp.privacy` exports, by their names on a command line."""
    found = {}
    for name, module in exports("gibbs_dp.privacy").items():
        _, node = find(module, name)
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        if any(isinstance(base, ast.Name) and base.id == "ReleaseMethod" for base in bases):
            found[with_dashes(name)] = f"{module}:{name}"
    return found


# Whose settings are given without a name.
DEFAULT_METHOD = "exact-draw"
SHOWN_METHOD = "proven-draw where its proximal sampler applies, else exact-draw"


def fields_of(name: str, where: str) -> dict[str, Option]:
    """Options of a method, by keyword."""
    found = parameters(where)
    if (
        name in release_methods()
    ):  # a chain's goes with its kernel, which a command line cannot give
        found.pop("gamma", None)
    return found


def method_options(methods: Mapping[str, str]) -> tuple[Option, ...]:
    """Make one option of each setting of a method, after ``--method``."""
    found: dict[str, Option] = {}
    names: dict[str, list[str]] = {}
    for name, where in methods.items():
        for keyword, option in fields_of(name, where).items():
            first = found.setdefault(keyword, option)
            if (first.kind, first.is_list) != (option.kind, option.is_list):
                raise UsageError(
                    f"{option.flag}: two methods have a setting {keyword!r} of different kinds; "
                    "rename that of yours."
                )
            names.setdefault(keyword, []).append(name)
    for keyword, option in found.items():
        told = f"{', '.join(names[keyword])}: {option.help}".rstrip(": ")
        found[keyword] = replace(option, help=told)
    return (
        Option("method", "str", "how to draw", None, tuple(methods), shown=SHOWN_METHOD),
        *found.values(),
    )


def make_method(parsed: argparse.Namespace) -> ReleaseMethod | None:
    """Build the method that a parsed command line describes; None: nothing was said."""
    methods = release_methods() | parsed.extensions.method_paths
    options, chosen = method_options(methods)[1:], parsed.method or DEFAULT_METHOD
    settings, fields = given(parsed, options), fields_of(chosen, methods[chosen])
    if parsed.method is None and not settings:
        return None
    for option in options:
        if option.keyword in settings and option.keyword not in fields:
            raise UsageError(f"{option.flag}: {chosen} has no such setting; leave it out.")
    module, _, name = methods[chosen].partition(":")
    try:
        return getattr(importlib.import_module(module), name)(**settings)
    except TypeError as error:
        raise UsageError(
            f"--method: {chosen} cannot be made of the command line ({error}); give the class "
            "a plan, and its settings defaults."
        ) from error
