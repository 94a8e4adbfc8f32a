"""Type checks of the library's functions in tests: of the first calls in every file of tests.

Some functions are called a million times, with the same shapes, by a loop in one test; checking
each call took a fifth of the time of such tests.
"""

import sys

from beartype import beartype

ENOUGH = 200
_calls = {}
_trusted = []


def first_calls(function):
    """Check types as beartype does, in the first calls after :func:`check_again`."""
    checked = None

    def call(*arguments, **named):
        nonlocal checked
        if checked is None:  # of functions within others most are never called
            checked = beartype(function)
        _calls[call] = _calls.get(call, 0) + 1
        if _calls[call] == ENOUGH:
            # What jaxtyping wraps: it looks at the mark before it binds arguments.
            wrapped = sys._getframe(1).f_locals.get("fn")  # where this jaxtyping calls it so
            if wrapped is not None and "__no_type_check__" not in vars(wrapped):
                wrapped.__no_type_check__ = True
                _trusted.append(wrapped)
        return checked(*arguments, **named)

    return call


def check_again():
    """Begin anew: a file of tests begins."""
    _calls.clear()
    while _trusted:
        del _trusted.pop().__no_type_check__
