"""Release methods on the command line: names and settings, and the one described."""

from __future__ import annotations

import argparse
import ast
import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gibbs_dp._options import Option, parameters
from gibbs_dp._source import exports, find
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import with_dashes
from gibbs_dp.cli.parser import given

if TYPE_CHECKING:
    from gibbs_dp.privacy import ReleaseMethod


def methods() -> dict[str, str]:
    """Find the methods that `gibbs_dp.privacy` exports, by their names on a command line."""
    found = {}
    for name, module in exports("gibbs_dp.privacy").items():
        _, node = find(module, name)
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        if any(isinstance(base, ast.Name) and base.id == "ReleaseMethod" for base in bases):
            found[with_dashes(name)] = f"{module}:{name}"
    return found


METHODS = methods()
DEFAULT = "exact-draw"


def fields_of(name: str, where: str) -> dict[str, Option]:
    """Options of a method, by keyword."""
    found = parameters(where)
    if name in METHODS:  # a chain's goes with its kernel, which a command line cannot give
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
        Option("method", "str", "how to draw", None, tuple(methods), shown=DEFAULT),
        *found.values(),
    )


METHOD = method_options(METHODS)


def make_method(parsed: argparse.Namespace) -> ReleaseMethod:
    """Build the method that a parsed command line describes.

    Raises
    ------
    ValueError
        If a setting is out of range or does not belong to the method.
    """
    methods = METHODS | parsed.own.method_places
    options, chosen = method_options(methods)[1:], parsed.method or DEFAULT
    settings, fields = given(parsed, options), fields_of(chosen, methods[chosen])
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
