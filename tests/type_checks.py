"""Checks of annotated types and shapes while tests run: jaxtyping's, in a fraction of its time.

For its messages jaxtyping checks a call's arguments twice and binds them to a signature each time,
which costs tests that call small functions a third of their time. Here beartype checks a call once,
in the context in which jaxtyping compares the names of axes.
"""

import functools
import inspect
import types
import typing

import jaxtyping
from beartype.roar import BeartypeCallHintViolation

THEIRS, CONFIG = jaxtyping.jaxtyped, jaxtyping.config


def evaluated(function):
    """What a function's annotations mean; as with jaxtyping, anything where they mean nothing."""

    def one(annotation):
        alone = types.SimpleNamespace(__annotations__={"it": annotation})
        try:
            return typing.get_type_hints(alone, function.__globals__, include_extras=True)["it"]
        except Exception:  # of a class that is being made, or imported for type checkers alone
            return typing.Any

    return {name: one(annotation) for name, annotation in function.__annotations__.items()}


def jaxtyped(function=None, *, typechecker=None):
    """Like ``jaxtyping.jaxtyped(typechecker=...)``, which checks what is no plain function."""
    if function is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    is_plain = isinstance(function, types.FunctionType) and typechecker is not None
    if not is_plain or inspect.isgeneratorfunction(function):
        return (
            THEIRS(function) if typechecker is None else THEIRS(function, typechecker=typechecker)
        )
    if not function.__annotations__:
        return function
    parts = function.__code__, function.__globals__, function.__name__, function.__defaults__
    annotated = functools.update_wrapper(types.FunctionType(*parts, function.__closure__), function)
    annotated.__kwdefaults__ = function.__kwdefaults__
    annotated.__annotations__ = evaluated(function)
    del annotated.__wrapped__
    checked = typechecker(annotated)

    @functools.wraps(function)
    def call(*arguments, **named):
        __tracebackhide__ = True
        if CONFIG.jaxtyping_disable:
            return function(*arguments, **named)
        with THEIRS("context"):
            try:
                return checked(*arguments, **named)
            except BeartypeCallHintViolation as wrong:
                raise jaxtyping.TypeCheckError(str(wrong)) from None

    return call


def install():
    """Take the place of jaxtyping's decorator in packages that are imported from now on."""
    jaxtyping.jaxtyped = jaxtyped
