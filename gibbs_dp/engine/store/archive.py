"""The store of a sweep: whose part it is, what is in its folder, and how that is written.

``DIR/configuration.json`` says what determines the numbers; its digest names the folder beside it,
which holds, for every gamma, ``pilot-G.npz`` (the tuning, and again for every time ``G`` that the
burn-in was lengthened), ``blocks-G/FIRST.npz`` (one block of datasets) and what was found about
mutual information, and finished reports.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp import io
from gibbs_dp._cautions import Caution
from gibbs_dp.engine.plan import Tuned
from gibbs_dp.engine.quantity import Quantity, block_kind
from gibbs_dp.engine.view import Block
from gibbs_dp.model.check import positive_count
from gibbs_dp.model.fingerprint import DIGITS, digest_text

DAMAGED_STORE = Caution(
    "damaged-store",
    "store: {path} is damaged ({reason}); what it held is computed again.",
    "A file of the store is not what was written: a copy that was cut short, a disk error, another "
    "program. The numbers are not affected.",
    "Nothing; the block is sampled again. Where it happens often, check the disk.",
)


class DamagedStoreWarning(UserWarning):
    """A file of a store was damaged; what it held is computed again."""


# Where a sweep is kept, and which part of it this process does.


@dataclass(frozen=True)
class Store:
    """A folder that keeps a sweep's finished blocks, and this process's share of the sweep.

    Several processes, on one machine or many that share the folder, each do the blocks of their
    own number and never talk to each other: the folder is all that connects them. A process that
    was lost is made up for by running it again, or by one process without a share.

    Parameters
    ----------
    path
        The folder; made if missing. It holds one configuration.
    num_processes
        Processes that share the sweep, ``P``.
    process_id
        Which of them this is, from 0 to ``P - 1``. None: none of them; it only puts together
        what they made.
    wait
        Seconds to wait for blocks of other processes while none appears, before giving up with
        :class:`AuditIncomplete`. Where more datasets are needed (``rel_error``, chains that
        drift), they can only be shared out once all earlier blocks are there.

    Raises
    ------
    ValueError
        If the numbers make no sense.

    Examples
    --------
    >>> Store("sweep", num_processes=4, process_id=4)
    Traceback (most recent call last):
        ...
    ValueError: process_id: 4 is not one of 4 processes; they are numbered 0 to 3.
    """

    path: str | os.PathLike[str]
    num_processes: int = 1
    process_id: int | None = 0
    wait: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)):
            raise ValueError(
                f"store: must be a folder's path or a gibbs_dp.Store, got {self.path!r}."
            )
        if not os.fspath(self.path):
            raise ValueError("store: the path is empty; give a folder's name, or None.")
        count = positive_count("num_processes", self.num_processes)
        if self.process_id is not None:
            positive_count("process_id", self.process_id, least=0)
            if self.process_id >= count:
                raise ValueError(
                    f"process_id: {self.process_id} is not one of {count} processes; they are "
                    f"numbered 0 to {count - 1}."
                )
        if not self.wait >= 0:
            raise ValueError(f"wait: must be 0 seconds or more, got {self.wait}.")

    def owner(self, rank: int) -> int:
        """Which process does the ``rank``-th piece of work of a stage."""
        return rank % self.num_processes


class AuditIncomplete(RuntimeError):  # noqa: N818  (no error: other processes are still at work)
    """Blocks of other processes are missing; ``missing`` names them."""

    def __init__(self, message: str, missing: tuple[str, ...]) -> None:
        super().__init__(message)
        self.missing = missing


def nothing_tuned(store: Store, gamma: float) -> AuditIncomplete:
    """Describe a store that lacks the very first files of a gamma."""
    text = f"gamma={gamma:g}: all of it"
    return AuditIncomplete(
        f"store: {str(store.path)!r} has nothing of gamma={gamma:g} yet; run its processes.",
        (text,),
    )


class StoreError(OSError):
    """A store that cannot be written: no room, no permission."""


# What is in a file, as a short digest.


def digest_value(value: Any) -> str:
    """Digest of plain values and arrays, nested in tuples, lists and dicts."""
    leaves, structure = jax.tree.flatten(value)
    found = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        found.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()[:DIGITS]


# The folder of one configuration.

Record = TypeVar("Record")

CONFIGURATION = "configuration.json"
# Parts of a report.
REPORTED = ("rows", "settings", "warnings", "notes", "per_dataset", "curves", "own_columns")
# Age, in seconds, beyond which a temporary file was left by a process that was killed.
STALE = 3600.0


class Origin(NamedTuple):
    """What all gammas of a sweep share: the best parameter, and where losses are taken from."""

    optimum: Float[Array, " dim"]
    anchor: Float[Array, " dim"]


class Archive:
    """The folder of one configuration. Every method reads or writes one file."""

    def __init__(self, store: Store, configuration: dict[str, Any]) -> None:
        self.store = store
        self.configuration = configuration
        self.digest = digest_text(json.dumps(configuration, sort_keys=True))
        self.folder = Path(store.path) / self.digest
        self._made: set[Path] = set()

    # -- what all gammas share --------------------------------------------------------------

    def origin(self) -> Origin | None:
        """Return the stored origin."""
        return self._load(self.folder / "origin.npz", Origin, {})

    def publish_origin(self, origin: Origin) -> Origin:
        """Write the origin unless another process has; return what is stored."""
        return self._publish(self.folder / "origin.npz", origin, {})

    # -- tuning -----------------------------------------------------------------------------

    def tuned(self, gamma: float) -> tuple[Tuned, int] | None:
        """Return the latest tuning of one gamma, and how often it was made longer."""
        folder = self._gamma(gamma)
        for generation in sorted(_numbers(folder, "pilot-"), reverse=True):
            found = self._load(folder / f"pilot-{generation}.npz", Tuned, {"gamma": gamma})
            if found is not None:
                return found, generation
        return None

    def publish_tuned(self, gamma: float, generation: int, tuned: Tuned) -> Tuned:
        """Write a tuning unless another process has; return what is stored."""
        path = self._gamma(gamma) / f"pilot-{generation}.npz"
        return self._publish(path, tuned, {"gamma": gamma})

    # -- blocks -----------------------------------------------------------------------------

    def firsts(self, gamma: float, generation: int) -> set[int]:
        """Return which blocks of a gamma are there, by their first dataset."""
        return _numbers(self._gamma(gamma) / f"blocks-{generation}", "")

    def block(
        self,
        gamma: float,
        generation: int,
        first: int,
        pilot: str,
        quantities: tuple[Quantity, ...],
    ) -> Block | None:
        """Return one block that was made with the tuning of digest ``pilot``."""
        path = self._block(gamma, generation, first)
        kind = block_kind(quantities)
        found = self._load(path, kind, {"gamma": gamma, "first": first, "pilot": pilot})
        return None if found is None else Block(*found)

    def save_block(
        self, gamma: float, generation: int, first: int, pilot: str, block: Block
    ) -> None:
        """Write one block."""
        labels = {"gamma": gamma, "first": first, "pilot": pilot}
        self._save(self._block(gamma, generation, first), block, labels)

    # -- what is made of the blocks -----------------------------------------------------------

    def finding(self, gamma: float, name: str, pilot: str, kind: type[Record]) -> Record | None:
        """Return what was found from the blocks of one gamma under this name."""
        path = self._gamma(gamma) / f"{name}.npz"
        return self._load(path, kind, {"gamma": gamma, "pilot": pilot})

    def save_finding(self, gamma: float, name: str, pilot: str, found: Any) -> None:
        """Write something that was found from the blocks of one gamma."""
        path = self._gamma(gamma) / f"{name}.npz"
        self._save(path, found, {"gamma": gamma, "pilot": pilot})

    def report(self, request: str) -> dict[str, Any] | None:
        """Return what a finished report of a request holds, by the names of its parts."""
        path = self.folder / "reports" / f"{request}.json"
        try:
            content = io.parse_json(path.read_text(), dict)
            held = content["report"]
            if content["digest"] != digest_text(json.dumps(held)):
                raise ValueError("its digest is wrong")
            if not held.keys() >= set(REPORTED):  # an older version kept less
                return None
            return {name: held[name] for name in REPORTED}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _warn(path, error)
            return None

    def save_report(self, request: str, held: dict[str, Any]) -> None:
        """Write the parts of a finished report."""
        # Floats survive JSON exactly: Python writes the shortest text that reads back the same.
        content = {"digest": digest_text(json.dumps(held)), "report": held}
        path = self.folder / "reports" / f"{request}.json"
        self._write(path, lambda: _write_text(path, json.dumps(content)))

    # -- files ------------------------------------------------------------------------------

    def _gamma(self, gamma: float) -> Path:
        return self.folder / f"gamma-{gamma!r}"

    def _block(self, gamma: float, generation: int, first: int) -> Path:
        return self._gamma(gamma) / f"blocks-{generation}" / f"{first:09d}.npz"

    def _load(self, path: Path, kind: type[Record], labels: dict[str, Any]) -> Record | None:
        try:
            return io.load_record(path, kind, {"configuration": self.digest, **labels})
        except FileNotFoundError:
            return None
        except io.DamagedFileError as error:
            _warn(path, error.__cause__ or error)
            return None

    def _save(self, path: Path, record: Any, labels: dict[str, Any]) -> None:
        labels = {"configuration": self.digest, **labels}
        self._write(path, lambda: io.save_record(path, record, labels))

    def _publish(self, path: Path, record: Record, labels: dict[str, Any]) -> Record:
        kind = type(record)
        held = {"configuration": self.digest, **labels}
        self._write(path, lambda: io.save_record(path, record, held, is_first=True))
        stored = self._load(path, kind, labels)
        if stored is None:  # a damaged file kept ours out
            self._save(path, record, labels)
            stored = self._load(path, kind, labels)
        if stored is None:
            raise StoreError(f"store: {os.fspath(path)!r} cannot be read after it was written.")
        return stored

    def _write(self, path: Path, write: Callable[[], None]) -> None:
        try:
            if path.parent not in self._made:
                path.parent.mkdir(parents=True, exist_ok=True)
                _remove_stale(path.parent)
                self._made.add(path.parent)
            try:
                write()
            except FileNotFoundError:  # a process whose clock is ahead took it for left behind
                write()
        except OSError as error:
            raise StoreError(
                f"store: cannot write to {os.fspath(self.store.path)!r} "
                f"({error.strerror or error}); what was finished is kept: free some room (or get "
                "permission) and run the same again."
            ) from error


def pilot_digest(tuned: Tuned) -> str:
    """Digest of a tuning: blocks made with another one do not belong to it."""
    return digest_value(tuned)


def _numbers(folder: Path, prefix: str) -> set[int]:
    """Numbers of the files that are called so; others are not of this library."""
    try:
        names = os.listdir(folder)  # noqa: PTH208  (no path objects for thousands of names)
    except FileNotFoundError:
        return set()
    found = (re.fullmatch(rf"{prefix}(\d+)\.npz", name, re.ASCII) for name in names)
    return {int(match[1]) for match in found if match}


def _remove_stale(folder: Path) -> None:
    limit = time.time() - STALE
    for path in folder.glob(".*.part"):
        try:
            if path.stat().st_mtime < limit:
                path.unlink()
        except FileNotFoundError:
            continue  # its own process has finished or removed it


def _write_text(path: Path, text: str) -> None:
    with io.atomic_write(path) as temporary:
        temporary.write_text(text)


def _warn(path: Path, reason: BaseException) -> None:
    text = DAMAGED_STORE(path=repr(os.fspath(path)), reason=reason)
    warnings.warn(text, DamagedStoreWarning, stacklevel=4)
