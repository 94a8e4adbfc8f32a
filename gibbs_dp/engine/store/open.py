"""Opening a store: a new one is made, one of another configuration is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gibbs_dp import io
from gibbs_dp.engine.store.archive import CONFIGURATION, Archive
from gibbs_dp.engine.store.fingerprint import difference
from gibbs_dp.engine.store.place import Store, StoreError


def as_store(store: Store | str | os.PathLike[str]) -> Store:
    """Turn a path into a store of one process; pass stores through."""
    return store if isinstance(store, Store) else Store(store)


def stored_configuration(store: Store) -> dict[str, Any] | None:
    """Return the configuration that a folder holds; None for a new one.

    Raises
    ------
    ValueError
        If its ``configuration.json`` cannot be read as one.
    """
    path = Path(store.path) / CONFIGURATION
    try:
        found = io.parse_json(path.read_text(), dict)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        found = {}
    if "format" not in found:
        raise ValueError(
            f"store: {os.fspath(path)!r} is damaged, so that nothing tells what the blocks beside "
            "it are; give another folder, or remove this one."
        )
    return found


def open_archive(store: Store, make: Callable[[], dict[str, Any]]) -> Archive:
    """Open the folder for the configuration that ``make`` describes; write down a new one's.

    Raises
    ------
    ValueError
        If the folder holds another configuration, with the difference.
    StoreError
        If the folder cannot be made or written.
    """
    held = stored_configuration(store)
    configuration = json.loads(json.dumps(make()))
    if held is None:
        path = Path(store.path) / CONFIGURATION
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with io.atomic_write(path, is_first_kept=True) as temporary:
                temporary.write_text(json.dumps(configuration, indent=1) + "\n")
        except OSError as error:
            raise StoreError(
                f"store: cannot write to {os.fspath(store.path)!r} ({error.strerror or error}); "
                "give a folder that you may write to."
            ) from error
        held = stored_configuration(store)  # of the process that came first
    if held != configuration:
        raise ValueError(
            f"store: {os.fspath(store.path)!r} holds another configuration: "
            f"{difference(held or {}, configuration)}; give another folder, or the settings that "
            "it was made with."
        )
    return Archive(store, configuration)
