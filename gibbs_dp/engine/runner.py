"""Blocks of datasets through the compiled program, on all workers."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Key

from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.engine.program import block_program
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.summary import Block
from gibbs_dp.engine.workers import Threads, Workers

Part = TypeVar("Part")


class Job(NamedTuple):
    """One block of posteriors at one gamma.

    Attributes
    ----------
    tag
        The caller's name for it.
    roots
        Random keys of the data and of the chains.
    first
        Number of the first posterior.
    plan, inputs
        What to run.
    period
        After how many posteriors the datasets begin again, sampled with new chains; 0: never.
    """

    tag: Any
    roots: Key[Array, 2]
    first: int
    plan: Plan
    inputs: Inputs
    period: int = 0


@dataclass
class Runner:
    """Runs jobs of one audit; compiles each plan once per device."""

    settings: Settings
    workers: Workers = field(default_factory=Threads)
    _ready: set[tuple[Plan, jax.Device]] = field(default_factory=set)
    _placed: dict[tuple[int, int, jax.Device], tuple[Job, Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, jobs: Iterable[Job], num_beside: int = 0
    ) -> Generator[tuple[Job, Block], None, None]:
        """Yield jobs with what they found (NumPy, leading axis: datasets) as they finish.

        ``num_beside`` programs may run at the same time. Close it if the loop may be left early.
        """
        return self.workers.run(jobs, self, num_beside)

    def work(self, job: Job, device: jax.Device) -> Block:
        """Run one job; compiles what is new to this process."""
        name = (job.plan, device)
        if name not in self._ready:
            with self._lock:  # two threads that meet a new plan must not both compile it
                if name not in self._ready:
                    result = self._call(job, device)  # compiled and begun when this returns
                    self._ready.add(name)
                    return result
        return self._call(job, device)

    def _call(self, job: Job, device: jax.Device) -> Block:
        s = self.settings
        chains = np.arange(job.first, job.first + s.block_size, dtype=np.int32)
        numbers = np.stack([chains % job.period if job.period else chains, chains])
        population, roots, inputs = self._place(job, device)
        program = block_program(device.platform, is_quick=s.is_brief)
        numbers = jax.device_put(numbers, device)
        static = (s.posterior, s.sampler, job.plan, s.traced, s.num_at_once)
        return program(*static, population, roots, numbers, inputs)

    def _place(self, job: Job, device: jax.Device) -> Any:
        """Put what all blocks of a gamma share on the device once: dozens of small arrays."""
        name = (id(job.inputs), id(job.roots), device)
        if name not in self._placed:
            placed = jax.device_put((self.settings.population, job.roots, job.inputs), device)
            self._placed[name] = (job, placed)  # with the job, whose ids must not be used again
        return self._placed[name][1]


def concatenate(parts: list[Part], count: int) -> Part:
    """Join blocks in order and cut them to ``count`` datasets."""
    return jax.tree.map(lambda *a: np.concatenate(a)[:count], *parts)
