"""``--html``: a command's result as a page in one file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gibbs_dp._options import Option
from gibbs_dp.cli import output
from gibbs_dp.cli.errors import UsageError

HTML = Option(
    "html", "str", "the result as a page for a browser, in one file (.html)", metavar="FILE"
)


@runtime_checkable
class HasPage(Protocol):
    """A result that writes itself as a page."""

    @property
    def to_html(self) -> Callable[..., None]:
        """Write the page: to a path, with a title and sentences about what it is of."""
        ...


def prepare_page(parsed: argparse.Namespace) -> None:
    """Prove that the page of ``--html`` can be written, before any work is done or charged.

    Raises
    ------
    UsageError
        If its name does not end as a page's does, or its folder cannot be written, or is full.
    """
    if parsed.html is None:
        return
    from gibbs_dp import io
    from gibbs_dp.results.page import check_page_path

    path = Path(parsed.html)
    try:
        check_page_path(path)
    except ValueError as error:
        raise UsageError(f"--html: {str(error).partition(': ')[2]}") from None
    try:
        if path.is_dir():
            raise UsageError(f"--html: {parsed.html!r} is a folder; name a file in it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(_TrialError), io.atomic_write(path) as temporary:
            temporary.write_bytes(b" " * output.ROOM)
            raise _TrialError  # what is there already stays
    except OSError as error:
        raise _unwritable(
            parsed.html, error, "give a file in a folder that you may write to"
        ) from (error)


def write_page(
    parsed: argparse.Namespace,
    result: HasPage,
    title: str | None = None,
    about: Iterable[str] = (),
    **more: Any,
) -> None:
    """Write a result as the page of ``--html``, if there is one, and say where it is.

    Parameters
    ----------
    parsed
        The command line; `prepare_page` has seen it.
    result
        Whatever has ``to_html``.
    title, about, **more
        As it takes them.

    Raises
    ------
    UsageError
        If the file cannot be written after all.
    """
    if parsed.html is None:
        return
    path = Path(parsed.html)
    try:
        result.to_html(path, title, [text for text in about if text], **more)
    except OSError as error:
        told = "everything else is finished and printed above"
        raise _unwritable(parsed.html, error, told) from error
    output.tell_saved([path], parsed.json, parsed.quiet)


class _TrialError(Exception):
    """Ends a trial of writing."""


def _unwritable(path: str, error: OSError, remedy: str) -> UsageError:
    return UsageError(f"--html: cannot write {path!r} ({error.strerror}); {remedy}.")
