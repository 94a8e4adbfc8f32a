"""Where a command's words and files go: results on stdout, log on stderr, files in a folder."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gibbs_dp.cli.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def emit(text: str) -> None:
    """Print a result on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def emit_parts(parts: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Print the rows of several tables as JSON, one a line, each with its table's name."""
    from gibbs_dp import io

    for kind, rows in parts.items():
        for row in rows:
            emit(json.dumps({"kind": kind, **io.json_row(row)}, allow_nan=False))


def log(text: str, quiet: bool = False) -> None:
    """Print a remark on stderr."""
    if not quiet:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def prepare_folder(path: str | None) -> Path | None:
    """Make the output folder and prove that it can be written, before any work is done.

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


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG, whole or not at all.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    from gibbs_dp import io

    with io.atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def tell_saved(paths: Iterable[Path], is_json: bool, quiet: bool) -> None:
    """Say where files went: on stdout, or on stderr where stdout is for JSON."""
    text = "saved " + ", ".join(str(path) for path in paths)
    if is_json:
        log(text, quiet)
    else:
        emit(text)
