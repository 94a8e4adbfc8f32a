"""Blocks of datasets through compiled programs, on all workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import numpy as np

from gibbs_dp._jaxlib.devices import is_accelerator, platform
from gibbs_dp.engine import interrupt
from gibbs_dp.engine.jobs import Job, Sheet, along, arranged, each_alone, searching_longer
from gibbs_dp.engine.memory import Room
from gibbs_dp.engine.plan import Inputs
from gibbs_dp.engine.program import block_program
from gibbs_dp.engine.quantity import kept_kind, values_kind
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.sheets import Sheets, home
from gibbs_dp.engine.summary import Block
from gibbs_dp.engine.workers import Threads, Workers

Part = TypeVar("Part")


@dataclass
class Runner:
    """Runs jobs of one audit; compiles each plan once per device.

    Attributes
    ----------
    settings
        Of the audit.
    on_compile
        Gives a context to compile in; it is entered and left in a worker's thread.
    workers
        What calls :meth:`work`: threads of this process, or other processes.
    is_wide
        Whether all gammas of a block are sampled in one call, as suits accelerators and samplers
        that go along a path.
    path
        Of such a sampler: inputs at all gammas, increasing; pilots decide on it.
    """

    settings: Settings
    on_compile: Callable[[], AbstractContextManager[Any]] = nullcontext
    workers: Workers = field(default_factory=Threads)
    is_wide: bool = field(default_factory=lambda: is_accelerator(platform()))
    path: tuple[Inputs, ...] = ()
    _room: Room = field(default_factory=Room)
    _ready: set[Any] = field(default_factory=set)
    _in_vain: set[Any] = field(default_factory=set)
    _placed: dict[tuple[int, int, jax.Device], tuple[Job, Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._sheets = Sheets(self.settings, self.on_compile)
        self.is_wide |= self.settings.sampler.traits.is_path

    def run(
        self, jobs: Iterable[Job], num_beside: int = 0
    ) -> Generator[tuple[Job, Block], None, None]:
        """Yield jobs with what they found (NumPy, leading axis: datasets) as they finish.

        ``num_beside`` programs may run at the same time. Close it if the loop may be left early.
        """
        if self.path:
            sheets: Iterable[Sheet] = along(self.path, jobs)
        else:
            sheets = arranged(jobs) if self.is_wide else each_alone(jobs)
        with closing(self.workers.run(sheets, self, num_beside)) as finished:
            for sheet, blocks in finished:
                interrupt.check()
                yield from zip(sheet.jobs, blocks, strict=True)

    def work(self, sheet: Sheet, device: jax.Device) -> tuple[Block, ...]:
        """Run a sheet on this process's devices, however it was arranged; a block for each job.

        Where a search for a mode did not end within a sheet's few steps, all of it is run again
        with as many as a search ever takes.
        """
        if not self.is_wide:
            return tuple(self._block(job, device) for job in sheet.jobs)
        if sheet.path:
            return self._sheet(sheet, device)
        if sheet.plan.counts is None:
            (sheet,) = arranged(sheet.jobs)
        blocks = self._sheet(sheet, device)
        longer = searching_longer(sheet)
        if longer is None or sheet.name in self._in_vain or _all_curved(blocks):
            return blocks
        again = self._sheet(longer, device)
        if _num_curved(again) == _num_curved(blocks):
            self._in_vain.add(sheet.name)  # there is no curvature to be found
        return again

    def _sheet(self, sheet: Sheet, device: jax.Device) -> tuple[Block, ...]:
        size = sheet.jobs[0].size
        if sheet.path and not is_accelerator(device.platform):
            size = min(size, self.settings.num_at_once)
        found = self._room.fit(
            sheet.name, size, lambda size: self._sheets.begin(sheet, device, size)
        )
        return home(sheet, found)

    def _block(self, job: Job, device: jax.Device) -> Block:
        # Most audits sample no replaced posteriors: half a program, that compiles in less time.
        num_pairs = None if int(job.inputs.num_pairs) else 0
        job = job._replace(plan=job.plan._replace(num_pairs=num_pairs))
        at_once, name = self.settings.num_at_once, (job.plan, job.size)
        return self._room.fit(name, at_once, lambda size: self._begin(job, device, size))

    def _begin(self, job: Job, device: jax.Device, at_once: int) -> Block:
        name = (job.plan, job.size, device, at_once)
        if name not in self._ready:
            with self._lock:  # two threads that meet a new plan must not both compile it
                if name not in self._ready:
                    with self.on_compile():  # compiled and begun when it is left
                        result = self._call(job, device, at_once)
                    self._ready.add(name)
                    return result
        return self._call(job, device, at_once)

    def _call(self, job: Job, device: jax.Device, at_once: int) -> Block:
        s = self.settings
        population, roots, inputs = self._place(job, device)
        program = block_program(device.platform, is_quick=s.is_brief)
        numbers = jax.device_put(job.numbers, device)
        static = (s.posterior, s.sampler, job.plan, s.traced, at_once)
        kinds = values_kind(s.traced), kept_kind(s.traced)
        return program(*static, population, roots, numbers, inputs, kinds=kinds)

    def _place(self, job: Job, device: jax.Device) -> Any:
        """Put what all blocks of a gamma share on the device once: dozens of small arrays."""
        name = (id(job.inputs), id(job.roots), device)
        if name not in self._placed:
            placed = jax.device_put((self.settings.population, job.roots, job.inputs), device)
            self._placed[name] = (job, placed)  # with the job, whose ids must not be used again
        return self._placed[name][1]


def _num_curved(blocks: tuple[Block, ...]) -> int:
    return sum(int(np.sum(block.health.is_curved)) for block in blocks)


def _all_curved(blocks: tuple[Block, ...]) -> bool:
    return all(bool(np.all(block.health.is_curved)) for block in blocks)


def concatenate(parts: list[Part], count: int) -> Part:
    """Join blocks in order and cut them to ``count`` datasets."""
    return jax.tree.map(lambda *a: np.concatenate(a)[:count], *parts)
