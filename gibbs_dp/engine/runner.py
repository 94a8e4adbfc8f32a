"""Blocks of datasets through compiled programs, on all workers, in the memory that there is."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt32

from gibbs_dp._cautions import Caution
from gibbs_dp._jaxlib.compile import Program, on_default_backend
from gibbs_dp._jaxlib.devices import (
    IN_FLIGHT,
    SHARE_OF_MEMORY,
    is_accelerator,
    memory_limit,
)
from gibbs_dp.engine.datasets import run_once
from gibbs_dp.engine.executor import (
    Threads,
    Workers,
    background,
    raise_lost_interrupt,
)
from gibbs_dp.engine.plan import Inputs, Job, Sheet, along, each_alone
from gibbs_dp.engine.program import block_program, keep_program
from gibbs_dp.engine.quantity import Settings, kept_kind, values_kind
from gibbs_dp.engine.view import Block

# How many datasets are worked on at once, and what happens where memory does not hold them.

Outcome = TypeVar("Outcome")

# Gammas from where what is kept is worth a program that takes twice as long to compile.
MANY_GAMMAS = 8


OUT_OF_MEMORY = Caution(
    "out-of-memory",
    "memory did not hold {size} datasets at once; {smaller} are taken from here on.",
    "A program needed more memory than the device has, or than other programs left of it. The "
    "numbers are not affected: the same datasets are sampled in smaller parts.",
    "Nothing, unless it is slow: a smaller block_size, fewer num_ghosts or num_samples need less.",
)


class SmallerBlocksWarning(UserWarning):
    """Memory ran out, and fewer datasets are worked on at once."""


class TooLargeError(Exception):
    """A compiled program would take more memory than its device has."""


class NoRoomError(MemoryError):
    """Memory does not hold a single dataset."""


class Room:
    """Remembers, by the programs' names, how many datasets were found to fit."""

    def __init__(self) -> None:
        self._fitting: dict[Any, int] = {}
        self._lock = threading.Lock()

    def fit(self, name: Any, size: int, run: Callable[[int], Outcome]) -> Outcome:
        """Call ``run`` with ``size`` datasets at once; with half of them where memory runs out."""
        while True:
            with self._lock:
                size = min(size, self._fitting.get(name, size))
            try:
                return jax.block_until_ready(run(size))
            except (TooLargeError, MemoryError, jax.errors.JaxRuntimeError) as error:
                if not _is_out_of_memory(error):
                    raise
                if size == 1:
                    reason = str(error).rstrip(".") or "nothing more is known"
                    raise NoRoomError(
                        f"memory: it does not hold one dataset at a time ({reason}); ask for fewer "
                        "num_samples, num_chains or num_ghosts, or a smaller n."
                    ) from error
            self._halve(name, size)

    def _halve(self, name: Any, size: int) -> None:
        with self._lock:
            if self._fitting.get(name, size) < size:
                return  # another thread was told, too
            self._fitting[name] = smaller = size // 2
        text = OUT_OF_MEMORY(size=size, smaller=smaller)
        warnings.warn(text, SmallerBlocksWarning, stacklevel=3)


def check_memory(compiled: Any, device: jax.Device) -> None:
    """Refuse a compiled program that is larger than its device, where both tell their sizes."""
    limit = memory_limit(device)
    found = compiled.memory_analysis()
    if limit is None or found is None:
        return
    needed = IN_FLIGHT * (found.temp_size_in_bytes + found.output_size_in_bytes)
    needed += found.argument_size_in_bytes
    if needed > SHARE_OF_MEMORY * limit:
        raise TooLargeError(f"a program needs {needed:,} bytes of the device's {limit:,}.")


def _is_out_of_memory(error: Exception) -> bool:
    is_told = isinstance(error, (TooLargeError, MemoryError))
    return is_told or "RESOURCE_EXHAUSTED" in str(error)


# Bringing results home.

# All that a block leaves behind as one array of words: one copy brings it home.


@on_default_backend
def pack(values: PyTree[Array]) -> UInt32[Array, "block words"]:
    """Lay numbers and truth values, ``[block, ...]``, out in words, bit for bit."""
    return jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(values)], axis=1)


def unpack(words: UInt32[np.ndarray, "block words"], like: PyTree[Any]) -> PyTree[np.ndarray]:
    """Read back what :func:`pack` laid out."""
    start, found = 0, []
    leaves, structure = jax.tree.flatten(like)
    for leaf in leaves:
        count = math.prod(leaf.shape[1:]) * max(1, leaf.dtype.itemsize // 4)
        part = np.ascontiguousarray(words[:, start : start + count])
        values = part.astype(bool) if leaf.dtype == bool else part.view(leaf.dtype)
        found.append(values.reshape(leaf.shape))
        start += count
    return jax.tree.unflatten(structure, found)


def _words(leaf: Array) -> UInt32[Array, "block words"]:
    is_truth = leaf.dtype == bool
    words = leaf.astype(jnp.uint32) if is_truth else jax.lax.bitcast_convert_type(leaf, jnp.uint32)
    return words.reshape(leaf.shape[0], -1)


def home(sheet: Sheet, found: Block) -> tuple[Block, ...]:
    """Bring what a sheet found from the device, a block for each of its jobs."""
    whole = unpack(np.asarray(pack(found)), found)
    if not sheet.path:
        return (whole,)
    gammas = [float(inputs.gamma) for inputs in sheet.path]
    places = [gammas.index(float(job.inputs.gamma)) for job in sheet.jobs]
    return tuple(jax.tree.map(lambda a, i=i: np.ascontiguousarray(a[:, i]), whole) for i in places)


# Blocks of datasets through compiled programs, on all workers.


@dataclass
class Runner:
    """Runs jobs of one audit; compiles each plan once per device."""

    settings: Settings
    # Gives a context to compile in; it is entered and left in a worker's thread.
    on_compile: Callable[[], AbstractContextManager[Any]] = nullcontext
    # What calls :meth:`work`: threads of this process, or other processes.
    workers: Workers = field(default_factory=Threads)
    # Of a sampler that goes along a path: inputs at all gammas, increasing; pilots decide on it.
    path: tuple[Inputs, ...] = ()
    _room: Room = field(default_factory=Room)
    _is_rehearsed: bool = False
    _ready: set[Any] = field(default_factory=set)
    _locks: dict[Any, threading.Lock] = field(default_factory=dict)
    _ahead: dict[Any, Callable[..., Any]] = field(default_factory=dict)
    _placed: dict[Any, tuple[Sheet, Job, Any]] = field(default_factory=dict)
    _ahead_lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, jobs: Iterable[Job], num_beside: int = 0
    ) -> Generator[tuple[Job, Block], None, None]:
        """Yield jobs with what they found (NumPy, leading axis: datasets) as they finish.

        ``num_beside`` programs may run at the same time. Close it if the loop may be left early.
        """
        sheets = along(self.path, jobs) if self.path else each_alone(jobs)
        with closing(self.workers.run(sheets, self, num_beside)) as finished:
            for sheet, blocks in finished:
                raise_lost_interrupt()
                yield from zip(sheet.jobs, blocks, strict=True)

    def work(self, sheet: Sheet, device: jax.Device) -> tuple[Block, ...]:
        """Run a sheet on one of this process's devices; a block for each of its jobs."""
        job = sheet.jobs[0] if sheet.path else _with_static_pairs(sheet.jobs[0])
        is_far = is_accelerator(device.platform)
        most = job.size if is_far else min(job.size, self.settings.num_at_once)
        run = partial(self._run_job, sheet, job, device)
        found = self._room.fit((job.plan, job.size, len(sheet.path)), most, run)
        blocks = home(sheet, found) if is_far or sheet.path else (found,)
        return tuple(jax.tree.map(lambda a: np.asarray(a)[: job.wanted], b) for b in blocks)

    def _run_job(self, sheet: Sheet, job: Job, device: jax.Device, at_once: int) -> Block:
        s, is_far = self.settings, is_accelerator(device.platform)
        placed = population, roots, inputs = self._place(sheet, job, device)
        arguments = population, roots, jax.device_put(job.numbers(job.wanted), device), inputs
        static = (s.posterior, s.sampler, job.plan, s.traced, at_once)
        kinds, name = (values_kind(s.traced),), (job.plan, job.size, device, at_once)
        program = block_program(device.platform, not is_far and s.is_brief and not sheet.path)

        def ahead() -> None:
            found = program.shapes(*static, *arguments, kinds=kinds)
            self._rehearse_kept(found.kept, job, device, at_once, placed)

        if is_far:
            found = self._compiled(name, device, program, (static, arguments, kinds), ahead)
            found = found(*arguments)
        else:
            with self._compiling(name) as is_new:
                if is_new:
                    ahead()
                found = program(*static, *arguments, kinds=kinds)
        if not any(job.keeps) or found.kept is None:
            return found._replace(kept=None)
        kept = self._kept(found.kept, job.keeps, job, device, at_once, placed)
        return found._replace(kept=kept)

    def _compiled(
        self, name: Any, device: jax.Device, program: Program, given: Any, ahead: Callable[[], None]
    ) -> Callable[..., Any]:
        """Compile an accelerator's program ahead, so that its memory is known before it runs."""
        if name not in self._ahead:
            # Two threads that meet a new program must not both compile it.
            with self._ahead_lock:
                if name not in self._ahead:
                    static, arguments, kinds = given
                    with self.on_compile():
                        ahead()
                        compiled, run = program.compiled(*static, *arguments, kinds=kinds)
                    check_memory(compiled, device)
                    self._ahead[name] = run
        return self._ahead[name]

    def _kept(
        self,
        left: Any,
        keeps: tuple[int, ...],
        job: Job,
        device: jax.Device,
        at_once: int,
        placed: Any,
    ) -> Any:
        """Let quantities keep what they want of the first datasets, from the draws ``left``."""
        s, is_quick = self.settings, len(self.settings.gammas) < MANY_GAMMAS
        population, roots, inputs = placed
        static = (s.posterior, s.sampler, job.plan, s.traced, at_once)
        program, kinds = keep_program(device.platform, is_quick), (kept_kind(s.traced),)
        wanted = np.arange(job.size)[:, None] < np.array(keeps)
        numbers, wanted = jax.device_put((job.numbers(max(keeps)), wanted), device)
        given = population, roots, numbers, inputs, left, wanted
        with self._compiling(("kept", job.plan, job.size, device, at_once)):
            return program(*static, *given, kinds=kinds)

    def _rehearse_kept(
        self, shapes: Any, job: Job, device: jax.Device, at_once: int, placed: Any
    ) -> None:
        """Compile what keeps beside the block's program, on blank draws and for no dataset.

        Whichever thread needs it first compiles it, this one or a worker that has a block.
        """
        if self._is_rehearsed or shapes is None:
            return
        self._is_rehearsed = True
        s, keeps = self.settings, (0,) * len(self.settings.num_kept)

        def work() -> Any:
            left = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
            return self._kept(jax.device_put(left, device), keeps, job, device, at_once, placed)

        is_quick = len(s.gammas) < MANY_GAMMAS
        depends_on = "kept", job.plan, job.size, device, at_once, s.sampler, s.traced, is_quick
        background(lambda: run_once(work, s.posterior, s.population, *depends_on))

    @contextmanager
    def _compiling(self, name: Any) -> Iterator[bool]:
        """Let one thread alone compile a program and begin it, where it is new."""
        if name not in self._ready:
            # Two threads that meet a new plan must not both compile it.
            with self._locks.setdefault(name, threading.Lock()):
                if name not in self._ready:
                    with self.on_compile():
                        yield True
                    self._ready.add(name)
                    return
        yield False

    def _place(self, sheet: Sheet, job: Job, device: jax.Device) -> Any:
        """Put what all blocks of a gamma, or path, share on the device once: many small arrays."""
        inputs = sheet.path or (job.inputs,)
        name = (*map(id, inputs), id(job.roots), device)
        if name not in self._placed:
            each = [jax.tree.map(_as_count, one) for one in inputs]
            given = jax.tree.map(lambda *a: np.stack(a), *each) if sheet.path else each[0]
            placed = jax.device_put((self.settings.population, job.roots, given), device)
            self._placed[name] = (sheet, job, placed)  # whose ids must not be used again
        return self._placed[name][-1]


def _as_count(leaf: Any) -> Any:
    """Type a store's counts, which are Python's, as pilots do: JAX compiles by types."""
    return np.asarray(leaf, np.int32) if isinstance(leaf, int) else leaf


def _with_static_pairs(job: Job) -> Job:
    """Say in the plan where no replaced posteriors are sampled: half a program, compiled sooner."""
    num_pairs = None if int(job.inputs.num_pairs) else 0
    return job._replace(plan=job.plan._replace(num_pairs=num_pairs))
