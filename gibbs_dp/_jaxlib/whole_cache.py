"""JAX's files of compiled programs, whole or not at all.

JAX (all versions up to 0.10 at least) writes them in place and never again: where the disk was full
or the process was killed, half a file stays, and every later run warns of it and compiles anew.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

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
    """Whether programs may be kept now."""
    return _keeps.get()


def keep_whole() -> None:
    """Let JAX write its files whole, and take what it cannot unpack for missing.

    Nothing is done where JAX keeps them in another way, or evicts old ones itself.
    """
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
