"""The JAX session of a command: precision and the persistent compilation cache."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import stat
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

from gibbs_dp.cli import output

# Reading back what compiled for longer is faster than compiling it again.
MIN_COMPILE_SECONDS = 0.01
# What to call once Ctrl-C may raise: compiled modules that are being imported do not bear it.
when_ready: ContextVar[Callable[[], None]] = ContextVar("when_ready")


def start_session(parsed: argparse.Namespace, *, keeps_programs: bool = True) -> Path | None:
    """Set JAX up for one command, before any array is made, and make its output folder.

    Without ``keeps_programs`` none is kept for the next run: the names, sizes and times of programs
    of private rows would tell how many there are, and whether chains ran again.
    """
    import jax

    begin()
    if getattr(parsed, "float64", False):
        jax.config.update("jax_enable_x64", True)
    if keeps_programs:
        enable_compilation_cache()
    return output.prepare_folder(parsed.out)


def begin() -> None:
    """Say that what a command imports is imported, and that it is about to work."""
    when_ready.get(lambda: None)()


def enable_compilation_cache() -> None:
    """Keep compiled programs in the user's cache folder, so that the next run starts faster."""
    from gibbs_dp._jaxlib.program_cache import keep_whole

    keep_whole()
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = cache_folder()
    try:
        for place in (folder.parent.parent, folder.parent, folder):
            _make_own(place)
    except OSError:
        return
    if not os.access(folder, os.W_OK):
        return
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)


def _make_own(place: Path) -> None:
    """Make a folder that its owner alone may open, or take those rights from others."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        raise PermissionError(f"{place} is not a folder of this user's own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        place.chmod(0o700)


def cache_folder() -> Path:
    """``XDG_CACHE_HOME`` or ``~/.cache``, one folder per kind of processor."""
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # no home folder
        root = Path(os.devnull)
    # Home folders are shared between machines, and programs use the instructions of one.
    digest = hashlib.sha256(_processor().encode()).hexdigest()[:12]
    return root / "gibbs_dp" / "jax" / digest


def _processor() -> str:
    """Name the instruction set, as exactly as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return f"{platform.machine()} {platform.processor()} {flags}"
