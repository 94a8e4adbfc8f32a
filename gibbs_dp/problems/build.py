"""Problems from their names: built-in ones, and users' own by ``module:object``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gibbs_dp.problems.base import Problem
from gibbs_dp.problems.registry import PROBLEMS, Entry


def build_problem(name: str, **options: Any) -> Problem:
    """Build a built-in problem.

    Parameters
    ----------
    name
        One of `PROBLEMS`.
    options
        Arguments of the problem's function in ``gibbs_dp.problems``.

    Returns
    -------
    Problem
        Ready for `gibbs_dp.audit`.

    Raises
    ------
    ValueError
        If there is no such problem or option, or an option has a wrong value.

    Examples
    --------
    >>> build_problem("gaussian-mean", dim=3).posterior.dim
    3
    """
    if name not in PROBLEMS:
        raise ValueError(f"problem: there is no {name!r}; choose one of {', '.join(PROBLEMS)}.")
    return build_entry(PROBLEMS[name], name, options)


def build_entry(entry: Entry, name: str, options: Mapping[str, Any]) -> Problem:
    """Build what an entry describes; errors as of `build_problem`."""
    known = {option.keyword for option in entry.options}
    for keyword in options:
        if keyword not in known:
            has = ", ".join(sorted(known)) or "none"
            raise ValueError(f"{keyword}: {name} has no such option; it has {has}.")
    for option in entry.options:
        if option.is_required and options.get(option.keyword) is None:
            raise ValueError(
                f"{option.keyword}: {name} needs it ({option.help}); give {option.keyword}= "
                f"({option.flag})."
            )
    module, _, function = entry.where.partition(":")
    return getattr(importlib.import_module(module), function)(**options)


def load_problem(spec: str) -> Problem:
    """Load a user's problem.

    Parameters
    ----------
    spec
        ``module:object``, where the module may lie in the current directory. The object is a
        :class:`Problem` or a callable without arguments that returns one.

    Returns
    -------
    Problem
        The object, or what it returned.

    Raises
    ------
    ValueError
        If the module cannot be imported or the object is neither.
    """
    module_name, colon, path = spec.partition(":")
    if not (colon and module_name and path) or module_name.endswith(".py"):
        raise ValueError(
            f"problem: {spec!r} is not module:object (for example my_problems:regression, for "
            "the name `regression` in my_problems.py)."
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(
            f"problem: importing {module_name!r} failed ({type(error).__name__}: {error})."
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"problem: {module_name!r} has no {path!r}.")
        found = getattr(found, part)
    if callable(found) and not isinstance(found, Problem):
        try:
            found = found()
        except Exception as error:
            raise ValueError(
                f"problem: calling {spec} without arguments failed ({type(error).__name__}: "
                f"{error}); it must take none and return a gibbs_dp.problems.Problem."
            ) from error
    if not isinstance(found, Problem):
        raise ValueError(
            f"problem: {spec} is a {type(found).__name__}; it must be a "
            "gibbs_dp.problems.Problem or a function that returns one."
        )
    return found
