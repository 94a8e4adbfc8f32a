"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, is_first_kept: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success it is flushed and renamed to ``path``.

    On any error (a full disk, Ctrl-C) the temporary file is removed and ``path`` keeps what it
    held before. With ``is_first_kept``, a file that another process has put there meanwhile stays
    and this one is dropped: exactly one of several writers wins.

    Raises
    ------
    OSError
        If the folder cannot be written; it names ``path``.
    """
    target = Path(path)
    with _named(target):
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part"
        )
    os.close(handle)
    temporary = Path(name)
    try:
        with _named(target, temporary):
            yield temporary
            _finish(temporary, target, is_first_kept)
    finally:
        temporary.unlink(missing_ok=True)


def _finish(temporary: Path, target: Path, is_first_kept: bool) -> None:
    with temporary.open("rb+") as written:
        os.fsync(written.fileno())
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)  # mkstemp's 0600 would keep results from being shared
    if is_first_kept:
        _link(temporary, target)
    else:
        temporary.replace(target)


@contextmanager
def _named(target: Path, temporary: Path | None = None) -> Iterator[None]:
    """Let errors of the system name the file that was to be written: writing itself names none."""
    try:
        yield
    except OSError as error:
        if temporary is None or error.filename in (None, os.fspath(temporary)):
            error.filename = os.fspath(target)
        raise


def _link(temporary: Path, target: Path) -> None:
    """Give a finished file its name unless the name is taken."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links: the last writer wins
        temporary.replace(target)
