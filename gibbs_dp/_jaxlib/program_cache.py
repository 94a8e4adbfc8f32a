"""Traced programs in the cache folder, beside what XLA compiles of them.

A second run of a command would trace and lower for seconds what it then finds compiled. Programs
are kept as JAX exports them (portable StableHLO, no Python in it) under a digest of everything
that they depend on; users' functions are known by their fingerprints (:func:`identified`), and
without one, nothing is kept. No folder is written unless JAX has one for compiled programs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
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

from gibbs_dp._jaxlib.chacha import wrap_key
from gibbs_dp._jaxlib.precision import current_mode
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
    """Say what users' objects are: programs for them may be kept."""
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
    """Digest of all that a program depends on; None where that cannot be told."""
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
    """Read a program and the structure of its results; None where it is missing or damaged."""
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
    """Write a program, and how its results are put together."""
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
    """Return True if something was noted before."""
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
    """Describe a static argument in JSON."""
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
    """Return True if a setting of JAX's is about files, logs or messages."""
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


# Nested tuples, lists and dicts as JSON: what a kept program's results are put together as.

PACKAGE = __name__.partition(".")[0]


def describe(value: Any, kinds: Sequence[type] = ()) -> Any:
    """Describe a nest whose leaves are integers or texts.

    Raises TypeError for what is put together otherwise: users' classes, dicts of another order.
    """
    if value is None:
        return None
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": [[key, describe(value[key], kinds)] for key in sorted(value)]}
    if isinstance(value, (tuple, list)):
        parts = [describe(item, kinds) for item in value]
        if type(value) in (tuple, list):
            return {type(value).__name__: parts}
        return {"kind": _name(type(value), kinds), "parts": parts}
    if isinstance(value, str):
        return value
    if not isinstance(value, int):
        raise TypeError(f"{type(value).__name__} is not of this package")
    return 0


def rebuild(description: Any, kinds: Sequence[type] = ()) -> Callable[[Sequence[Any]], Any]:
    """Return what puts leaves together as described."""
    build = _builder(description, kinds)

    def put_together(leaves: Sequence[Any]) -> Any:
        return build(iter(leaves))

    return put_together


def _builder(description: Any, kinds: Sequence[type]) -> Callable[[Iterator[Any]], Any]:
    if description is None:
        return lambda leaves: None
    if description == 0:
        return next
    if isinstance(description, str):
        return lambda leaves: wrap_key(next(leaves), description)
    match description:
        case {"dict": pairs}:
            named = [(key, _builder(inner, kinds)) for key, inner in pairs]
            return lambda leaves: {key: build(leaves) for key, build in named}
        case {"tuple": parts}:
            builders = [_builder(inner, kinds) for inner in parts]
            return lambda leaves: tuple(build(leaves) for build in builders)
        case {"list": parts}:
            builders = [_builder(inner, kinds) for inner in parts]
            return lambda leaves: [build(leaves) for build in builders]
        case {"kind": str(name), "parts": parts}:
            kind, builders = _kind(name, kinds), [_builder(inner, kinds) for inner in parts]
            return lambda leaves: kind(*(build(leaves) for build in builders))
    raise ValueError(f"{description!r} describes nothing")


def _name(kind: type, kinds: Sequence[type]) -> str:
    if kind in kinds:
        return kind.__name__
    name = f"{kind.__module__}:{kind.__qualname__}"
    try:
        if _kind(name, ()) is kind:
            return name
    except LookupError:
        pass
    raise TypeError(f"{name} is not of this package")


def _kind(name: str, kinds: Sequence[type]) -> Any:
    module, _, path = name.partition(":")
    if not path:
        return {kind.__name__: kind for kind in kinds}[name]
    if module.partition(".")[0] != PACKAGE:
        raise LookupError(f"{name} is not of this package")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and hasattr(found, "_fields")):
        raise LookupError(f"{name} is no named tuple")
    return found


# JAX's own files of compiled programs, whole or not at all. JAX (all versions up to 0.10 at least)
# writes them in place and never again: where the disk was full or the process was killed, half a
# file stays, and every later run warns of it and compiles anew.

_keeps: ContextVar[bool] = ContextVar("keeps", default=True)


@contextlib.contextmanager
def nothing_kept() -> Iterator[None]:
    """Compile without the folder of compiled programs: neither read nor write there.

    Names, sizes and times of files in it tell shapes, which may be secret.
    """
    keep_whole()
    token = _keeps.set(False)
    try:
        yield
    finally:
        _keeps.reset(token)


def is_kept() -> bool:
    """Return True if programs may be kept now."""
    return _keeps.get()


def keep_whole() -> None:
    """Let JAX write its files whole, and take what it cannot unpack for missing."""
    try:
        from jax._src import compilation_cache, lru_cache

        kind: Any = lru_cache.LRUCache
        get, put, unpack = kind.get, kind.put, compilation_cache.decompress_executable
        ending = lru_cache._CACHE_SUFFIX
    except (ImportError, AttributeError):
        return
    if put.__module__ == __name__:
        return

    def whole(self: Any, key: str) -> bytes | None:
        found: bytes | None = get(self, key) if is_kept() else None
        if found is None:
            return None
        try:
            unpack(found)
        except Exception:  # of zlib or zstandard: cut short
            with contextlib.suppress(OSError):
                (Path(self.path) / f"{key}{ending}").unlink()
            return None
        return found

    def put_whole(self: Any, key: str, value: bytes) -> None:
        if not is_kept():
            return
        path = Path(self.path) / f"{key}{ending}"
        if self.eviction_enabled or path.exists():
            put(self, key, value)
            return
        temporary = path.with_name(f".{key[-64:]}.{os.getpid()}.part")
        with contextlib.suppress(OSError):  # no room: it is compiled again next time
            try:
                temporary.write_bytes(value)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    kind.get, kind.put = whole, put_whole
