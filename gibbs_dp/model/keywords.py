"""Suggestions for misspelt keywords."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def names_keywords(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function say which keyword was probably meant; Python does so from 3.13 on.

    Examples
    --------
    >>> @names_keywords
    ... def audit(gammas): ...
    >>> audit(gamma=1)
    Traceback (most recent call last):
        ...
    TypeError: audit() has no keyword 'gamma'; did you mean 'gammas'?
    """
    known = tuple(inspect.signature(function).parameters)

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for name in kwargs:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}" if near else f"it has {', '.join(known)}"
                end = "?" if near else "."
                raise TypeError(f"{function.__name__}() has no keyword {name!r}; {hint}{end}")
        return function(*args, **kwargs)

    return call
