"""Where a command's words and files go: results on stdout, log on stderr, files in a folder."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gibbs_dp.cli import color
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.io.damage import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def emit(text: str) -> None:
    """Print a result on stdout; what a terminal would take for a command is spelled out."""
    write(printable(text), sys.stdout)


def show(text: str) -> None:
    """Print a result for people on stdout, its warnings in colour where a terminal has it."""
    write(color.marked(printable(text), sys.stdout), sys.stdout)


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
    """Print a remark on stderr."""
    if not quiet:
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
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"--out: cannot write to {path!r} ({error.strerror}); give a folder that you may "
            "write to."
        ) from error
    return folder


def save_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Write each figure under its name, as SVG and as PNG; return the files."""
    from gibbs_dp import plotting

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
