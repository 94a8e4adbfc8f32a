"""Draws of chains on minibatches as they are made: rows, in memory or appended to a folder.

``DIR/draws.npy`` has a row for every draw: the loss, and what is kept, of all chains.
``DIR/draws.npz`` is written after them, whole or not at all: how many rows count, where the chains
are behind them, and how they were made. Rows beyond these are overwritten. ``halved.npy`` and
``halved.npz`` are the same for draws at half the step.
"""

from __future__ import annotations

import io as streams
import json
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt32

from gibbs_dp import io
from gibbs_dp.sampling.diagnostics import named_leaves
from gibbs_dp.sampling.kernels.stochastic import StochasticState


class MinibatchState(NamedTuple):
    """All that chains need to go on: numbers, no code.

    Attributes
    ----------
    chains
        Positions in the posterior's unconstrained coordinates, momenta in their own standard
        deviations, and squared gradients, each ``[chains, dim]``; None for what a kernel has not.
    key
        Two words for each chain, ``[chains, 2]``; with the count of steps they make its random
        numbers.
    num_steps, num_learnt
        Steps made so far, and those that the preconditioner was learnt in.
    """

    chains: StochasticState
    key: UInt32[Array, "chains 2"]
    num_steps: Int[Array, ""]
    num_learnt: Int[Array, ""]


def is_alive(state: MinibatchState) -> bool:
    """Whether some chain has not diverged."""
    return bool(np.isfinite(np.asarray(state.chains.position)).all(axis=1).any())


# Rows: all that is known of a draw, so that it takes one place to append to.


def named(kept: PyTree, settings: dict[str, Any]) -> dict[str, Any]:
    """Name the leaves of what was kept; a single array that ``keep`` made is ``kept``."""
    if hasattr(kept, "shape") and settings["keep"] is not None:
        return {"kept": kept}
    return dict(named_leaves(kept))


def _row_type(leaves: dict[str, Any], num_chains: int, dtype: np.dtype) -> np.dtype:
    """Type of a row, from what ``[chains, ...]`` of a draw is kept."""
    for name, leaf in leaves.items():
        if getattr(leaf.dtype, "kind", "key") not in "biuf":
            raise ValueError(
                f"keep: {name!r} is {leaf.dtype}, which files do not hold; return real numbers, "
                "whole numbers or truth values of NumPy's types."
            )
    # Names are there for who reads the file with NumPy alone; its header is ASCII.
    kept = [(ascii(name)[1:-1], leaf.dtype, leaf.shape) for name, leaf in leaves.items()]
    try:
        return np.dtype(
            [("loss", dtype, (num_chains,)), ("kept", np.dtype(kept, align=True))], align=True
        )
    except ValueError as error:  # of 2 GiB and more
        raise ValueError(
            f"keep: a draw of {num_chains} chains is more than NumPy's types hold "
            f"({io.reason(error)}); keep less of it, or run fewer chains."
        ) from error


def _fields(kind: np.dtype) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Type and shape of every field of a row type."""
    return {name: (kind[name].base, kind[name].shape) for name in kind.names or ()}


def leaves_of(rows: np.ndarray) -> list[np.ndarray]:
    """Return what rows keep, each ``[chains, draws, ...]``: views, of a file where rows are."""
    return [np.moveaxis(rows["kept"][name], 0, 1) for name in _fields(rows.dtype["kept"])]


def let_go(kept: PyTree) -> None:
    """Drop pages of a file that were read: the system would do so too, but late."""
    for leaf in jax.tree.leaves(kept):
        mapped = getattr(leaf, "_mmap", None)
        if mapped is not None and hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_DONTNEED)


# The folder.

# From one writing of the state to the next, beside draws.
STORE_SECONDS = 10.0
LABELS = {"gibbs_dp_kind": "minibatch draws", "format": 2}
DRAWS, HALVED = "draws", "halved"
# Characters of a header; each leaf has some 30.
LONGEST_HEADER = 2**20
# Of rows that are copied at a time.
BLOCK_BYTES = 2**24


class _Saved(NamedTuple):
    state: MinibatchState
    num_draws: int
    names: str
    gamma: float
    settings: str


class Stored(NamedTuple):
    """What a folder holds of one part of a run."""

    rows: np.ndarray
    names: list[str]
    state: MinibatchState
    gamma: float
    settings: dict[str, Any]


def folder_to_write(argument: str, path: str | os.PathLike[str]) -> Path:
    """Check that a folder can be written, and holds nothing but draws."""
    folder, shown = Path(path), repr(os.fspath(path))
    try:
        is_fit = folder.parent.is_dir() and (folder.is_dir() or not os.path.lexists(folder))
    except OSError:  # too long a name
        is_fit = False
    if not is_fit:
        raise ValueError(
            f"{argument}: {shown} cannot be written; give the name of a folder, which may be new, "
            "in a folder that there is."
        )
    ours = {f"{part}.{ending}" for part in (DRAWS, HALVED) for ending in ("npy", "npz")}
    found = sorted(file.name for file in folder.iterdir()) if folder.exists() else []
    others = [name for name in found if name not in ours and not name.startswith(".")]
    if others:
        raise ValueError(
            f"{argument}: {shown} holds other files ({io.shown(others[0])}); give a new folder."
        )
    return folder


def load_part(argument: str, path: str | os.PathLike[str], part: str) -> Stored:
    """Read a part of a run: its record, and a map of its rows. Nothing in them is run."""
    folder = Path(path)
    record, data = folder / f"{part}.npz", folder / f"{part}.npy"
    if not (record.is_file() and data.is_file()):
        raise ValueError(
            f"{argument}: {os.fspath(path)!r} cannot be read (it has no {part}.npz or no "
            f"{part}.npy); give a folder that MinibatchDraws.save or store= wrote."
        )
    try:
        saved = io.load_record(record, _Saved, LABELS)
        names, settings = io.parse_json(saved.names, list), io.parse_json(saved.settings, dict)
        if "keep" not in settings or not all(isinstance(name, str) for name in names):
            raise ValueError("its settings are not complete")
        _check_state(saved.state)
        num_chains = len(saved.state.key)
        rows = _mapped(data, saved.num_draws, num_chains)
        if len(names) != len(set(names)) or len(names) != len(rows.dtype["kept"].names or ()):
            raise ValueError("the names of what it keeps are not as many as that")
    except Exception as error:  # whatever NumPy makes of a damaged header
        what = str(error) if isinstance(error, io.DamagedFileError) else io.reason(error)
        raise io.DamagedFileError(
            f"{argument}: {os.fspath(path)!r} is damaged ({what}); give another folder."
        ) from error
    return Stored(rows, names, saved.state, saved.gamma, settings)


def _check_state(state: MinibatchState) -> None:
    """Check chains from a file, in NumPy: JAX might make their numbers shorter."""
    lead = state.chains.position.shape
    if len(lead) != 2 or state.key.shape != (*lead[:1], 2) or not lead[0]:
        raise ValueError("its chains do not agree in number")
    fields = [leaf for leaf in state.chains if leaf is not None]
    if len({(leaf.shape, leaf.dtype) for leaf in fields}) > 1 or fields[0].dtype.kind != "f":
        raise ValueError("its chains do not agree in size")
    counts = state.num_steps, state.num_learnt
    if state.key.dtype != np.uint32 or any(c.dtype != np.int32 or c.shape for c in counts):
        raise ValueError("its keys or counts of steps are no whole numbers")


def _mapped(path: Path, num_draws: int, num_chains: int) -> np.ndarray:
    """Map so many rows, of a type that its header says, without the length that it says."""
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) != (2, 0):
            raise ValueError("its rows have an unknown header")
        _, _, kind = np.lib.format.read_array_header_2_0(file, max_header_size=LONGEST_HEADER)
        offset = file.tell()
    if kind.names != ("loss", "kept") or not kind["kept"].names:
        raise ValueError("its rows are no losses with what is kept")
    kept = _fields(kind["kept"]).values()
    if kind["loss"].base.kind != "f" or any(base.kind not in "biuf" for base, _ in kept):
        raise ValueError("its rows hold something that is no number")
    shapes = [shape[:1] for _, shape in kept]
    if {kind["loss"].shape, *shapes} != {(num_chains,)}:
        raise ValueError("its rows are of another number of chains")
    if not num_draws:
        return np.empty(0, kind)
    return np.memmap(path, kind, "r", offset, (num_draws,))  # refuses more than there are


# The run.


class Part:
    """Draws of a run, one after another, and where its chains are."""

    def __init__(
        self,
        state: MinibatchState,
        shapes: PyTree,
        num_draws: int,
        gamma: float,
        settings: dict[str, Any],
        folder: Path | None,
        part: str = DRAWS,
        called: tuple[str, Path] | None = None,
    ) -> None:
        leaves, dtype = named(shapes, settings), np.dtype(state.chains.position.dtype)
        if len(leaves) < len(jax.tree.leaves(shapes)):
            raise ValueError("keep: two kept arrays have one name; return a dict of other names.")
        self.kind = _row_type(leaves, len(state.key), dtype)
        self._names, self._gamma, self._settings = list(leaves), gamma, settings
        self._shapes, self._folder, self._part = shapes, folder, part
        # What the user calls the folder: an argument, and the place that it names.
        self._called = called or ("store", folder)
        # Together, as an interrupt may fall between any two lines.
        self._made = self._published = 0, state
        self._rows = np.empty(num_draws if folder is None else 0, self.kind)
        self._header = _header(self.kind, 0)
        self._file: BinaryIO | None = None
        self._at_end = ExitStack()
        self._written = time.monotonic()

    @property
    def num_draws(self) -> int:
        """Draws made so far."""
        return self._made[0]

    @property
    def state(self) -> MinibatchState:
        """Where the chains are behind them."""
        return self._made[1]

    def add(self, state: MinibatchState, kept: PyTree = None, loss: Any = None) -> None:
        """Take draws, with leading axes of draws and chains, or none, and where chains are then."""
        count = self.num_draws
        if loss is not None:
            rows = self._rows[count : count + len(loss)]
            if self._folder is not None:
                rows = np.zeros(len(loss), self.kind)
            rows["loss"] = loss
            for into, leaf in zip(leaves_of(rows), jax.tree.leaves(kept), strict=True):
                into[:] = np.moveaxis(leaf, 0, 1)
            if self._folder is not None:
                with writing_to(*self._called):
                    file = self._opened()
                    file.seek(len(self._header) + count * self.kind.itemsize)
                    file.write(rows.view(np.uint8).data)
            count += len(loss)
        self._made = count, state
        if time.monotonic() - self._written > STORE_SECONDS:
            self.publish()

    def publish(self) -> None:
        """Let rows count that were written, if there is a folder and some chain to go on with."""
        if self._folder is not None and self._made is not self._published and is_alive(self.state):
            with writing_to(*self._called):
                self._publish(self._folder)
        self._written = time.monotonic()

    def _publish(self, folder: Path) -> None:
        file, made = self._opened(), self._made
        file.seek(0)
        file.write(_header(self.kind, made[0]))
        file.flush()
        os.fsync(file.fileno())
        names, settings = json.dumps(self._names), json.dumps(self._settings)
        record = _Saved(made[1], made[0], names, self._gamma, settings)
        io.save_record(folder / f"{self._part}.npz", record, LABELS)
        self._published = made

    def _opened(self) -> BinaryIO:
        """Open the file of rows; a new one, where none of those that there are count."""
        assert self._folder is not None
        if self._file is None:
            path = self._folder / f"{self._part}.npy"
            if not self._published[0]:
                with io.atomic_write(path) as new:  # who has mapped older rows keeps them
                    new.write_bytes(self._header)
            self._file = self._at_end.enter_context(path.open("r+b"))
        return self._file

    def __enter__(self) -> Part:
        if self._folder is not None:
            with writing_to(*self._called):
                self._folder.mkdir(exist_ok=True)
                if self._part == DRAWS:
                    self._at_end.enter_context(_locked(self._folder))
                for left in self._folder.glob(f".{self._part}.*.part"):  # of a killed process
                    left.unlink()
        return self

    def __exit__(self, *_: object) -> None:
        with self._at_end:  # whatever fails: a full disk, for one
            self.publish()

    def kept_and_loss(self) -> tuple[PyTree, Float[np.ndarray, "chains draws"]]:
        """Return what was made, as one array a leaf; closed first, where there is a folder."""
        rows = self._rows[: self.num_draws]
        if self._folder is not None:
            path = self._folder / f"{self._part}.npy"
            rows = _mapped(path, self.num_draws, len(self.state.key))
        kept = jax.tree.unflatten(jax.tree.structure(self._shapes), leaves_of(rows))
        return kept, rows["loss"].T

    def copy(self, kept: PyTree, loss: Float[np.ndarray, "chains draws"]) -> None:
        """Write draws that there are, a block at a time; their chains may all have diverged."""
        assert self._folder is not None
        size, leaves = max(1, BLOCK_BYTES // self.kind.itemsize), jax.tree.leaves(kept)
        with self:
            for first in range(0, loss.shape[1], size):
                block = [np.moveaxis(a[:, first : first + size], 1, 0) for a in leaves]
                self.add(self.state, block, loss[:, first : first + size].T)
                let_go(kept)
            self._publish(self._folder)

    def go_on(self, argument: str, warm: int, gaps: list[int]) -> list[str]:
        """Take what the folder has; or return by which arguments that is another run."""
        assert self._folder is not None
        found, begun = load_part(argument, self._folder, self._part), self.state
        wanted = self._settings | {"gamma": self._gamma}
        has = found.settings | {"gamma": found.gamma}
        other = [k for k, value in wanted.items() if has.get(k) != value and k != "init"]
        if not np.array_equal(found.state.key, begun.key):
            other.append("key or num_chains")
        if found.state.chains.position.dtype != begun.chains.position.dtype:
            other.append("precision")
        is_same = found.names == self._names and found.rows.dtype == self.kind
        offset = getattr(found.rows, "offset", len(self._header))
        if not other and not (is_same and offset == len(self._header)):
            other.append("what is kept")
        count, steps = len(found.rows), int(found.state.num_steps)
        least, most = (int(begun.num_steps), warm) if not count else [warm + sum(gaps[:count])] * 2
        if not other and not least <= steps <= most:
            other.append("steps before it" if count <= len(gaps) else "num_samples")
        if not other and has.get("init") != wanted["init"]:
            other.append("init")
        if not other:
            self._made = self._published = count, jax.tree.map(jnp.asarray, found.state)
        return other


@contextmanager
def writing_to(argument: str, folder: Path | None) -> Iterator[None]:
    """Say which folder it is that the system refuses to write to, and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # said already
            raise
        raise OSError(
            f"{argument}: cannot write to {str(folder)!r} ({error.strerror or error}); what "
            "counts in it stays: free some room (or get permission) and run the same again."
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other runs out, where the system has such locks; it takes them from who is killed."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that knows none
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"store: another run writes to {os.fspath(folder)!r}; wait for its end, or "
                    "give another folder."
                ) from None
        yield
    finally:
        os.close(handle)


def _header(kind: np.dtype, num_draws: int) -> bytes:
    """Return a header, of one length whatever the number of rows: NumPy leaves room to grow."""
    buffer = streams.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False}
    np.lib.format.write_array_header_2_0(buffer, about | {"shape": (num_draws,)})
    return buffer.getvalue()
