"""Who runs the jobs of an audit: threads of this process, or processes elsewhere."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax

from gibbs_dp.engine.executor import run_jobs

Job = TypeVar("Job")


@runtime_checkable
class Work(Protocol):
    """What is done to jobs; ``settings`` are all that it is made from."""

    settings: Any

    def work(self, job: Any, device: jax.Device) -> Any:
        """Run one job; the result's leaves are arrays."""


@runtime_checkable
class Workers(Protocol):
    """Runs independent jobs, in any order and anywhere."""

    def run(
        self, jobs: Iterable[Job], work: Work, num_beside: int = 0
    ) -> Generator[tuple[Job, Any], None, None]:
        """Yield jobs with their results (NumPy arrays) as they finish.

        ``num_beside`` other programs may run on this machine at the same time. Jobs that have not
        begun are dropped when the generator is closed: close it where the loop may be left early.
        """


class Threads:
    """Threads of this process: one a device, or one a core of a CPU and one more."""

    def run(
        self, jobs: Iterable[Job], work: Work, num_beside: int = 0
    ) -> Generator[tuple[Job, Any], None, None]:
        """See :meth:`Workers.run`."""
        return run_jobs(jobs, work.work, num_beside)
