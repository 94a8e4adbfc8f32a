"""Traced programs in the cache folder, beside what XLA compiles of them.

A second run of a command would trace and lower for seconds what it then finds compiled. Programs
are kept as JAX exports them (portable StableHLO, no Python in it) under a digest of everything
that they depend on; users' functions are known by their fingerprints (:func:`identified`), and
without one, nothing is kept. No folder is written unless JAX has one for compiled programs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax import export

from gibbs_dp._jaxlib.precision import current_mode
from gibbs_dp._jaxlib.structure import rebuild
from gibbs_dp._jaxlib.whole_cache import is_kept
from gibbs_dp._version import __version__

FOLDER, ENDING, NOTE = "gibbs_dp-programs", ".export", ".note"
# Files beyond this many, the longest unused first, are removed: some 40 MB.
MOST_FILES = 256
DIGEST_BYTES = 32


class _Known(NamedTuple):
    """Objects whose code and data a digest stands for."""

    objects: tuple[Any, ...]
    digest: str


_known: ContextVar[_Known | None] = ContextVar("known", default=None)


@contextmanager
def identified(objects: Sequence[Any], digest: str) -> Iterator[None]:
    """Say what users' objects are: programs for them may be kept.

    Parameters
    ----------
    objects
        Static arguments of programs, compared by identity.
    digest
        Changes with everything that the programs compute with them.
    """
    token = _known.set(_Known(tuple(objects), digest))
    try:
        yield
    finally:
        _known.reset(token)


def folder() -> Path | None:
    """Return where programs are kept; None where JAX keeps none."""
    config: Any = jax.config
    if not (config.jax_enable_compilation_cache and is_kept()) or config.jax_disable_jit:
        return None
    found = config.jax_compilation_cache_dir
    return None if not found or "://" in found else Path(found) / FOLDER


def program_name(
    function: Callable[..., Any],
    options: Any,
    statics: Sequence[Any],
    others: Sequence[Any],
    leaves: Sequence[Any],
) -> str | None:
    """Digest of all that a program depends on; None where that cannot be told.

    Parameters
    ----------
    function
        What is compiled, a function of this package.
    options
        How, as JSON.
    statics, others, leaves
        Its static arguments, all others, and the arrays in these.
    """
    known = _known.get() or _Known((), "")
    is_plain = all(isinstance(other, jax.Array) for other in others)
    if any(_is_spread(leaf) for leaf in leaves) or not (known.objects or is_plain):
        return None
    try:
        told = [_told(value, known) for value in statics]
    except TypeError:
        return None
    shapes = [
        [list(leaf.shape), str(leaf.dtype), bool(getattr(leaf, "weak_type", False))]
        for leaf in leaves
    ]
    where = f"{function.__module__}:{function.__qualname__}"
    text = json.dumps([where, options, told, known.digest, shapes, _surroundings()])
    return hashlib.sha256(text.encode()).hexdigest()


def load(name: str, kinds: Sequence[type]) -> tuple[Any, Any] | None:
    """Read a program and the structure of its results; None where there is none, or it is damaged.

    ``kinds``: named tuples that no module has.
    """
    place = folder()
    if place is None:
        return None
    path = place / (name + ENDING)
    try:
        content = path.read_bytes()
        size = int.from_bytes(content[DIGEST_BYTES : DIGEST_BYTES + 4], "big")
        body = content[DIGEST_BYTES + 4 :]
        if hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]:
            return None  # cut short; it is written again
        exported = export.deserialize(bytearray(body[size:]))
        structure = rebuild(json.loads(body[:size]), kinds)
        os.utime(path)
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return exported, structure


def save(name: str, exported: Any, description: Any) -> None:
    """Write a program, and how its results are put together.

    Nothing is written where the folder cannot be, or where the program cannot be serialized: it
    runs all the same.
    """
    place = folder()
    if place is None:
        return
    try:
        head = json.dumps(description).encode()
        body = len(head).to_bytes(4, "big") + head + bytes(exported.serialize())
        place.mkdir(parents=True, exist_ok=True)
        temporary = place / f".{name}.{os.getpid()}.part"
        try:
            temporary.write_bytes(hashlib.sha256(body).digest() + body)
            temporary.replace(place / (name + ENDING))
        finally:  # a full disk
            temporary.unlink(missing_ok=True)
        _remove_oldest(place)
    except (OSError, ValueError, TypeError, NotImplementedError):
        return


def is_noted(name: str) -> bool:
    """Whether something was noted before."""
    place = folder()
    return place is not None and (place / (name + NOTE)).exists()


def note(name: str) -> None:
    """Note something, if the folder can be written."""
    place = folder()
    if place is None:
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / (name + NOTE)).touch()
        _remove_oldest(place)
    except OSError:
        return


def _remove_oldest(place: Path) -> None:
    for ending in (ENDING, NOTE):
        files = sorted(place.glob("*" + ending), key=lambda path: path.stat().st_mtime)
        for path in files[: max(0, len(files) - MOST_FILES)]:
            path.unlink(missing_ok=True)


def _told(value: Any, known: _Known) -> Any:
    """Describe a static argument in JSON.

    Raises
    ------
    TypeError
        If it holds anything whose code is a user's.
    """
    if any(value is other for other in known.objects):
        return "known"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, tuple):
        return [type(value).__qualname__, *(_told(item, known) for item in value)]
    kind = type(value)
    if dataclasses.is_dataclass(value) and kind.__module__.startswith("gibbs_dp."):
        fields = [_told(getattr(value, f.name), known) for f in dataclasses.fields(value)]
        return [f"{kind.__module__}:{kind.__qualname__}", *fields]
    raise TypeError(f"{kind.__name__} is not known")


def _is_spread(leaf: Any) -> bool:
    return not isinstance(leaf, jax.Array) or len(leaf.sharding.device_set) > 1


def _surroundings() -> list[Any]:
    """List what programs depend on besides what they are given."""
    config: Any = jax.config
    mode = current_mode()
    settings = {k: str(v) for k, v in config.values.items() if not _is_aside(k)}
    flags = os.environ.get("XLA_FLAGS", "")
    return [mode.is_double, mode.matmul_precision, settings, flags, *_code()]


@cache
def _is_aside(setting: str) -> bool:
    """Whether a setting of JAX's is about files, logs or messages."""
    return any(word in setting for word in ("cache", "log", "dump", "debug_info", "traceback"))


@cache
def _code() -> list[str]:
    """Versions, and this package's source files: their code may be at work."""
    names = ("jax", "jaxlib", "numpyro", "optax", "numpy")
    found = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        about = path.stat()
        found.update(f"{path.relative_to(root)} {about.st_size} {about.st_mtime_ns}\n".encode())
    return [__version__, *(importlib.metadata.version(n) for n in names), found.hexdigest()]
