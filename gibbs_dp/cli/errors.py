"""How a command fails: one line on stderr and an exit status."""

from __future__ import annotations


class UsageError(ValueError):
    """A command line that makes no sense."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a sentence that says what was saved."""


def one_line(error: BaseException) -> str:
    r"""Return the message of an exception on one line.

    >>> one_line(ValueError("first\n   second"))
    'first second'
    >>> one_line(FileNotFoundError(2, "No such file or directory", "a/b"))
    'a/b: No such file or directory.'
    """
    if isinstance(error, OSError) and error.strerror:
        name = error.filename if isinstance(error.filename, str) else type(error).__name__
        return f"{name}: {error.strerror}."
    return " ".join(str(error).split()) or type(error).__name__
