"""Where a command's words and files go: results on stdout, log on stderr, files in a folder."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gibbs_dp.cli import color
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.io.atomic import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Bytes that must fit on the disk before the work begins: more than most results take.
ROOM = 1 << 20


def emit(text: str) -> None:
    """Print a result on stdout; what a terminal would take for a command is spelled out.

    Nothing is printed where the reader left early, as `head` does: what is left to do, files to be
    saved above all, is done all the same.
    """
    _to_stdout(printable(text))


def show(text: str) -> None:
    """Print a result for people on stdout, its warnings in colour where a terminal has it."""
    _to_stdout(color.marked(printable(text), sys.stdout))


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


def log(text: str, quiet: bool = False) -> None:
    """Print a remark on stderr; nothing where that is full or nobody reads it any more."""
    if not quiet:
        with suppress(OSError):
            write(color.marked(printable(text), sys.stderr), sys.stderr)


def logger(quiet: bool) -> Callable[[str], None]:
    """Return a function that prints remarks on stderr."""
    return lambda text: log(text, quiet)


def warn(warnings: Iterable[str], quiet: bool) -> None:
    """Print warnings on stderr, one a line."""
    for warning in warnings:
        log(f"warning: {warning}", quiet)


def prepare_folder(path: str | None) -> Path | None:
    """Make the output folder and prove that it can be written, before any work is done.

    Returns
    -------
    Path or None
        The folder, or None for None.

    Raises
    ------
    UsageError
        If it cannot.
    """
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
