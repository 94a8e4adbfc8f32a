"""Pilots of all gammas at once: what each asks for waits until all have asked, and is one call.

The tuning of one gamma is a dialogue, each question depending on the answer before. On an
accelerator 64 posteriors take as long as 1,000, so that the dialogues of all gammas are held side
by side, each in a thread of its own that waits most of the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import Any, Protocol, TypeVar, runtime_checkable

from gibbs_dp.engine.executor import in_threads
from gibbs_dp.engine.jobs import Job
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.summary import Block

Item = TypeVar("Item")
Result = TypeVar("Result")


@runtime_checkable
class Runs(Protocol):
    """What runs jobs: :class:`gibbs_dp.engine.runner.Runner`, or several speakers' share of it."""

    @property
    def settings(self) -> Settings:
        """Of the audit."""
        ...

    @property
    def is_wide(self) -> bool:
        """Whether all gammas of a block are sampled in one call."""
        ...

    def run(
        self, jobs: Iterable[Job], num_beside: int = 0
    ) -> Generator[tuple[Job, Block], None, None]:
        """Yield jobs with what they found as they finish."""
        ...


class Together:
    """A runner shared by ``count`` threads: their jobs run once all of them wait.

    Parameters
    ----------
    runner
        What runs the jobs.
    count
        Threads that will call :meth:`run`; each calls :meth:`leave` at its end.
    """

    def __init__(self, runner: Runs, count: int) -> None:
        self._runner, self._count = runner, count
        self._asked: list[tuple[Job, Future[Block]]] = []
        self._num_waiting = 0
        self._is_stopped = False
        self._lock = threading.Lock()

    @property
    def settings(self) -> Settings:
        """Of the audit."""
        return self._runner.settings

    @property
    def is_wide(self) -> bool:
        """Whether all gammas of a block are sampled in one call."""
        return self._runner.is_wide

    def run(
        self, jobs: Iterable[Job], num_beside: int = 0
    ) -> Generator[tuple[Job, Block], None, None]:
        """Run with the jobs of all other threads; yield those that were given."""
        del num_beside
        if self._is_stopped:
            raise RuntimeError("stopped")  # in a thread that nobody waits for
        mine = [(job, Future[Block]()) for job in jobs]
        with self._lock:
            self._asked += mine
            self._num_waiting += 1
        self._run_if_all_wait()
        for job, future in mine:
            yield job, future.result()

    def leave(self) -> None:
        """Wait for this thread no longer."""
        with self._lock:
            self._count -= 1
        self._run_if_all_wait()

    def stop(self) -> None:
        """Run nothing more: whoever asked has gone."""
        self._is_stopped = True

    def _run_if_all_wait(self) -> None:
        with self._lock:
            if self._num_waiting < self._count or not self._asked:
                return
            asked, self._asked, self._num_waiting = self._asked, [], 0
        # Tags are the speakers' own, and may be the same ones.
        numbered = [job._replace(tag=i) for i, (job, _) in enumerate(asked)]
        try:
            with closing(self._runner.run(numbered, num_beside=1)) as finished:
                for job, block in finished:
                    asked[job.tag][1].set_result(block)
        except BaseException as error:  # whoever waits has to be told
            for _, future in asked:
                if not future.done():
                    future.set_exception(error)


def side_by_side(
    runner: Runs, items: Sequence[Item], talk: Callable[[Runs, Item], Result]
) -> list[Result]:
    """Call ``talk`` on every item, each in a thread; what they run is run together."""
    together = Together(runner, len(items))

    def one(_: int, item: Item) -> Any:
        try:
            return talk(together, item)
        finally:
            together.leave()

    numbered = list(enumerate(items))
    done = {}
    with closing(in_threads(numbered, lambda i, job: one(i, job[1]), len(items))) as finished:
        try:
            for (number, _), result in finished:
                done[number] = result
        except BaseException:
            together.stop()
            raise
    return [done[i] for i in range(len(items))]
