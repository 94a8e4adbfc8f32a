"""Results on stdout, log on stderr, files and pages; errors in one line; colours of a terminal."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from gibbs_dp._options import Option
from gibbs_dp.io.files import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gibbs_dp.auditing.report import Report


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


# Colour where a terminal shows it: by the variables that Python's own tools go by.


BOLD, RED, YELLOW, RESET = "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[0m"
# Words at the beginning of a line that say how bad it is.
_MARKS = (
    (re.compile(r"^(?:gibbs-dp: )?error:", re.MULTILINE), RED),
    (re.compile(r"^FAILS\b", re.MULTILINE), RED),
    (re.compile(r"^(?:gibbs-dp: )?(?:warning|interrupted):", re.MULTILINE), YELLOW),
    (re.compile(r"^(?:WARNING|IDEALIZED)\b:?", re.MULTILINE), YELLOW),
)
_HEADING = re.compile(r"^(?:usage:|(?=\S)[^\n]*:$)", re.MULTILINE)


@runtime_checkable
class Stream(Protocol):
    """A stream that says whether a terminal is behind it."""

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        ...


def is_colored(stream: Stream, environment: Mapping[str, str] | None = None) -> bool:
    """Decide whether what is written to a stream may have colours.

    As Python 3.14's argparse does: ``PYTHON_COLORS`` 0 or 1 decides; else a ``NO_COLOR`` that is
    not empty means no, a ``FORCE_COLOR`` that is not empty yes; else a terminal that is not dumb.

    >>> import io
    >>> is_colored(io.StringIO(), {}), is_colored(io.StringIO(), {"FORCE_COLOR": "1"})
    (False, True)
    """
    environment = os.environ if environment is None else environment
    wanted = environment.get("PYTHON_COLORS")
    if wanted in ("0", "1"):
        return wanted == "1"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    if environment.get("TERM") == "dumb":
        return False
    if sys.platform == "win32" and not environment.get("WT_SESSION"):
        return False  # old consoles show the codes
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def marked(text: str, stream: Stream) -> str:
    """Colour the words of errors and warnings that begin a line, if the stream shows colours."""
    if is_colored(stream):
        for pattern, code in _MARKS:
            text = pattern.sub(rf"{code}\g<0>{RESET}", text)
    return text


def headed(text: str, stream: Stream) -> str:
    """Make the headings of a help text bold, if the stream shows colours."""
    return _HEADING.sub(rf"{BOLD}\g<0>{RESET}", text) if is_colored(stream) else text


# Where a command's words and files go: results on stdout, log on stderr, files in a folder.


# Bytes that must fit on the disk before the work begins: more than most results take.
ROOM = 1 << 20


def emit(text: str) -> None:
    """Print a result on stdout; what a terminal would take for a command is spelled out."""
    _to_stdout(printable(text))


def show(text: str) -> None:
    """Print a result for people on stdout, its warnings in colour where a terminal has it."""
    _to_stdout(marked(printable(text), sys.stdout))


def _to_stdout(text: str) -> None:
    try:
        write(text, sys.stdout)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except OSError as error:
        error.filename = "stdout"
        raise


def write(text: str, stream: Any) -> None:
    """Write a line as it is, and at once."""
    stream.write(text + "\n")
    stream.flush()


def emit_parts(parts: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Print the rows of several tables as JSON, one a line, each with its table's name."""
    from gibbs_dp import io

    for kind, rows in parts.items():
        for row in rows:
            emit(json.dumps({"kind": kind, **io.json_row(row)}, allow_nan=False))


def report_in_words(report: Report, is_whole: bool) -> str:
    """Return what a terminal shows of an audit's report, all columns or the usual ones."""
    exposed = [report.exposure_summary()] if report.row_tables else []
    return "\n\n".join([report.summary(is_whole), *exposed])


def present(
    parsed: Any,
    rows: Iterable[str | Mapping[str, Any]],
    text: Callable[[], str],
    warnings: Iterable[str] = (),
) -> None:
    """Print a result: for programs rows of JSON, its warnings on stderr; else the text of both."""
    if not parsed.json:
        show(text())
        return
    for row in rows:
        emit(row if isinstance(row, str) else json.dumps(row))
    warn(warnings, parsed.quiet)


def log(text: str, quiet: bool = False) -> None:
    """Print a remark on stderr; nothing where that is full or nobody reads it any more."""
    if not quiet:
        with suppress(OSError):
            write(marked(printable(text), sys.stderr), sys.stderr)


def logger(quiet: bool) -> Callable[[str], None]:
    """Return a function that prints remarks on stderr."""
    return lambda text: log(text, quiet)


def warn(warnings: Iterable[str], quiet: bool) -> None:
    """Print warnings on stderr, one a line."""
    for warning in warnings:
        log(f"warning: {warning}", quiet)


def prepare_folder(path: str | None) -> Path | None:
    """Make the output folder and prove that it can be written, before any work is done."""
    if path is None:
        return None
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(b" " * ROOM)
            trial.flush()
    except OSError as error:
        raise UsageError(
            f"--out: cannot write to {path!r} ({error.strerror}); give a folder that you may "
            "write to, with some room."
        ) from error
    return folder


def save_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Write each figure under its name, as SVG and as PNG; return the files."""
    from gibbs_dp.results import plotting

    return [
        path for name, figure in figures.items() for path in plotting.save(figure, folder / name)
    ]


def save_json(value: Mapping[str, Any], path: Path) -> None:
    """Write a JSON file, whole or not at all."""
    from gibbs_dp import io

    with io.atomic_write(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n")


def tell_saved(paths: Iterable[Path], is_json: bool, quiet: bool) -> None:
    """Say where files went: on stdout, or on stderr where stdout is for JSON."""
    first, *others = paths
    text = f"saved {first}"
    if others:  # all of one folder
        text = f"saved in {first.parent}: " + ", ".join(path.name for path in (first, *others))
    if is_json:
        log(text, quiet)
    else:
        emit(text)


# ``--html``: a command's result as a page in one file.


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
    """Prove that the page of ``--html`` can be written, before any work is done or charged."""
    if parsed.html is not None:
        others = (v for k, v in vars(parsed).items() if k != "html" and isinstance(v, str))
        refuse_input(parsed.html, "--html", others)
        prepare_file(parsed.html, "--html")


def refuse_input(name: str, flag: str, inputs: Iterable[str]) -> None:
    """Refuse to write over a file that is read."""
    for read in inputs:
        with suppress(OSError):
            if Path(name).samefile(read):
                raise UsageError(f"{flag}: {name!r} is what is read; name another file.")


@contextmanager
def writing(name: str, flag: str) -> Iterator[Path]:
    """Give the file beside the one that an option names, which it replaces when it is whole."""
    from gibbs_dp import io

    try:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        with io.atomic_write(Path(name)) as temporary:
            yield temporary
    except OSError as error:
        told = "give a file in a folder that you may write to"
        raise _unwritable(flag, name, error, told) from error


def prepare_file(name: str, flag: str) -> None:
    """Prove that a page can be written where an option names it."""
    from gibbs_dp import io
    from gibbs_dp.results.page import check_page_path

    path = Path(name)
    try:
        check_page_path(path)
    except ValueError as error:
        raise UsageError(f"{flag}: {str(error).partition(': ')[2]}") from None
    try:
        if path.is_dir():
            raise UsageError(f"{flag}: {name!r} is a folder; name a file in it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(_TrialError), io.atomic_write(path) as temporary:
            temporary.write_bytes(b" " * ROOM)
            raise _TrialError  # what is there already stays
    except OSError as error:
        told = "give a file in a folder that you may write to"
        raise _unwritable(flag, name, error, told) from error


def write_page(
    parsed: argparse.Namespace,
    result: HasPage,
    title: str | None = None,
    about: Iterable[str] = (),
    **more: Any,
) -> None:
    """Write a result as the page of ``--html``, if there is one, and say where it is."""
    if parsed.html is None:
        return
    path = Path(parsed.html)
    try:
        result.to_html(path, title, [text for text in about if text], **more)
    except OSError as error:
        told = "everything else is finished and printed above"
        raise _unwritable("--html", parsed.html, error, told) from error
    tell_saved([path], parsed.json, parsed.quiet)


class _TrialError(Exception):
    """Ends a trial of writing."""


def _unwritable(flag: str, path: str, error: OSError, remedy: str) -> UsageError:
    return UsageError(f"{flag}: cannot write {path!r} ({error.strerror}); {remedy}.")
