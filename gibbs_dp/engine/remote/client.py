"""Jobs sent to an executor, and what a worker does with them: from bytes to arrays."""

from __future__ import annotations

import itertools
import math
import pickle
import threading
from collections import OrderedDict, deque
from collections.abc import Generator, Iterable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Literal, TypeVar

import jax
import numpy as np

from gibbs_dp._extras import require
from gibbs_dp._jaxlib.compile import make_room
from gibbs_dp._jaxlib.devices import devices
from gibbs_dp._jaxlib.precision import Mode
from gibbs_dp.engine.executor import Work, in_room
from gibbs_dp.engine.remote.serialization import (
    applied,
    dumps,
    pack_error,
    pack_job,
    pack_settings,
    unpack_error,
    unpack_job,
    unpack_settings,
    versions,
)
from gibbs_dp.engine.runner import Runner

# What a worker does: one block of datasets, from bytes to arrays.

Answer = Literal["done", "failed", "wanted", "unreadable", "versions"]

# Audits that a process keeps its programs and tables for.
MAX_RUNNERS = 4

_runners: OrderedDict[str, tuple[Runner, Mode]] = OrderedDict()
_lock = threading.Lock()
_turns = itertools.count()


def run_block(
    wanted_versions: dict[str, str], name: str, content: bytes | None, job: bytes
) -> tuple[Answer, Any]:
    """Run one job."""
    own = versions()
    if own != wanted_versions:
        return "versions", own
    try:
        held = _runner(name, content)
    except Exception as error:  # unpickling runs anybody's code
        return "unreadable", f"{type(error).__name__}: {error}"
    if held is None:
        return "wanted", None
    runner, mode = held
    try:
        with applied(mode):
            found = in_room(lambda: _arrays(runner, unpack_job(job, mode)))
        return "done", dumps(found)
    except Exception as error:
        return "failed", pack_error(error)


def _arrays(runner: Runner, job: Any) -> Any:
    targets = devices()
    device = targets[next(_turns) % len(targets)]
    return jax.tree.map(np.asarray, runner.work(job, device))


def _runner(name: str, content: bytes | None) -> tuple[Runner, Mode] | None:
    with _lock:  # two threads that meet a new audit must share what they compile for it
        if name not in _runners:
            if content is None:
                return None
            make_room()
            settings, mode = unpack_settings(content)
            _runners[name] = Runner(settings), mode
        _runners.move_to_end(name)
        while len(_runners) > MAX_RUNNERS:
            _runners.popitem(last=False)
        return _runners[name]


# Jobs sent to an executor: how many at a time, and what is done about those that are lost.

Job = TypeVar("Job")

# Tasks at a time: two a worker for 512 workers, and few enough to be held in memory.
MOST_TASKS = 1024
# Sent before one result is looked at.
SOME_TASKS = 16
# Bytes of settings on their way at a time. Small ones go with every task; of large ones, tables,
# workers ask for a copy.
MOST_BYTES = 2**26
# How often a job is sent again after its worker was lost.
RETRIES = 3


class ExecutorError(OSError):
    """An executor that broke, or lost the same job again and again."""


def check_executor(executor: Any) -> None:
    """Refuse what is no executor, or one that cannot work."""
    if not isinstance(executor, Executor):
        hint = "; give client.get_executor()" if hasattr(executor, "get_executor") else ""
        raise ValueError(
            "executor: must be a concurrent.futures.Executor, got "
            f"{type(executor).__name__}{hint or ', which is none'}."
        )
    context = getattr(executor, "_mp_context", None)
    if isinstance(executor, ProcessPoolExecutor) and context is not None:
        method = context.get_start_method()
        if method == "fork":
            raise ValueError(
                "executor: a process that was forked from one where JAX runs waits forever; make "
                "it ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))."
            )
    require("cloudpickle")


@dataclass
class _Task:
    """A job that has no result yet."""

    job: Any
    packed: bytes
    num_losses: int = 0
    has_copy: bool = False  # of the settings


class _Settings:
    """Settings of an audit, and how many copies of them are worth sending.

    Small ones go with every task. Large ones go with the first tasks, and then with as many as
    workers have asked for.
    """

    def __init__(self, settings: Any) -> None:
        self.settings, self.parcel = settings, pack_settings(settings)
        self.most = max(1, MOST_BYTES // len(self.parcel.content))  # on their way at a time
        self.wanted = math.inf if self.most >= MOST_TASKS else self.most


@dataclass
class Remote:
    """Workers of an executor."""

    executor: Executor
    kept: str
    _settings: _Settings | None = None

    def run(
        self, jobs: Iterable[Job], work: Work, num_beside: int = 0
    ) -> Generator[tuple[Job, Any], None, None]:
        """See :meth:`gibbs_dp.engine.executor.Workers.run`; nothing runs on this machine."""
        del num_beside
        if self._settings is None or self._settings.settings is not work.settings:
            self._settings = _Settings(work.settings)
        return _Round(self.executor, self.kept, self._settings, jobs).run()


class _Round:
    """The tasks of some jobs.

    A worker that lacks the settings answers at once, so that each such answer makes one task less
    at a time; results make them more again.
    """

    def __init__(
        self, executor: Executor, kept: str, settings: _Settings, jobs: Iterable[Any]
    ) -> None:
        self.executor, self.kept, self.settings = executor, kept, settings
        self.versions = versions()
        self.jobs = (_Task(job, pack_job(job)) for job in jobs)
        self.again: deque[_Task] = deque()
        self.running: dict[Future[Any], _Task] = {}
        self.finished: SimpleQueue[Future[Any]] = SimpleQueue()
        self.most_running = MOST_TASKS
        self.num_copies = 0  # on their way

    def run(self) -> Generator[tuple[Any, Any], None, None]:
        """Yield jobs and results; cancel what has not begun when left early."""
        try:
            while self._send():
                task, answer, content = self._receive()
                if answer == "done":
                    self.most_running = min(MOST_TASKS, self.most_running + 2)
                    yield task.job, pickle.loads(content)
                elif answer == "wanted":
                    self.most_running = max(1, self.most_running - 1)
                    self.settings.wanted += 1
                    self.again.append(task)
                elif answer == "failed":
                    raise unpack_error(content)
                else:
                    raise ValueError(self._refusal(answer, content))
        finally:
            for future in list(self.running):
                future.cancel()

    def _send(self) -> bool:
        """Have as many tasks running as may be; False once there is none.

        What has come back meanwhile is taken in first, after some tasks.
        """
        begin = len(self.running)
        while len(self.running) < self.most_running:
            if len(self.running) - begin >= SOME_TASKS and not self.finished.empty():
                break
            task = self.again.popleft() if self.again else next(self.jobs, None)
            if task is None:
                break
            self._submit(task)
        return bool(self.running)

    def _submit(self, task: _Task) -> None:
        sent = self.settings
        task.has_copy = sent.wanted > 0 and self.num_copies < sent.most
        sent.wanted -= task.has_copy
        self.num_copies += task.has_copy
        name, content = sent.parcel
        settings = content if task.has_copy else None
        try:
            future = self.executor.submit(run_block, self.versions, name, settings, task.packed)
        except Exception as error:
            raise ExecutorError(
                f"executor: it takes no more tasks ({_told(error)}); {self.kept}."
            ) from error
        self.running[future] = task
        future.add_done_callback(self.finished.put)

    def _receive(self) -> tuple[_Task, str, Any]:
        """Wait for an answer; what is lost on the way is sent again."""
        while True:
            future = self.finished.get()
            task = self.running.pop(future)
            self.num_copies -= task.has_copy
            try:
                answer, content = future.result()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # exceptions of the user's code are answers
                self._lose(task, error)
            else:
                return task, answer, content

    def _lose(self, task: _Task, error: BaseException) -> None:
        task.num_losses += 1
        self.settings.wanted += 1  # whoever takes its place has none
        if isinstance(error, ImportError):
            raise ExecutorError(
                f"executor: a worker cannot import the library ({_told(error)}); install there "
                "what is installed here."
            ) from error
        if task.num_losses > RETRIES:
            raise ExecutorError(
                f"executor: the same block was lost {task.num_losses} times, the last time by "
                f"{_told(error)}; {self.kept}."
            ) from error
        self.again.append(task)
        self._send()

    def _refusal(self, answer: str, content: Any) -> str:
        if answer == "versions":
            names = [name for name, here in self.versions.items() if content.get(name) != here]
            there = ", ".join(f"{name} {content.get(name)}" for name in names)
            here = ", ".join(f"{name} {self.versions[name]}" for name in names)
            return (
                f"executor: a worker has {there} where this process has {here}; install the same "
                "versions on both."
            )
        return (
            f"executor: a worker cannot load what was sent ({content}); make your own modules "
            "importable there."
        )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ").removesuffix(".")
