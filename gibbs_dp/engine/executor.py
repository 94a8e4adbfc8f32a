"""Who runs an audit's programs: threads of this process, or others; and how Ctrl-C is noted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from types import FrameType
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import numpy as np

from gibbs_dp._jaxlib.devices import IN_FLIGHT, devices, is_accelerator, platform
from gibbs_dp._jaxlib.precision import current_mode, in_mode
from gibbs_dp._jaxlib.threads import POOL_SIZE, num_cores

# Running block programs on every local device, or every core, at once.

Job = TypeVar("Job")
Result = TypeVar("Result")

# Audits that run at once in one process share the room in XLA's pool.
_permits = threading.BoundedSemaphore(max(1, POOL_SIZE - 1))


def _room() -> AbstractContextManager[Any]:
    """Context to run a program in: it waits until XLA's pool has a thread for it."""
    return nullcontext() if is_accelerator(platform()) else _permits


def num_workers(num_beside: int = 0) -> int:
    """Two workers a device; on a CPU that shows as one device, one worker a core and one more.

    A block's small operations do not fill several cores; several blocks do, one more than there
    are cores (a sixth faster on two): a block waits a little between operations. One thread of
    XLA's pool stays free (see ``gibbs_dp/_jaxlib/threads.py``).
    """
    count = len(devices())
    if is_accelerator(platform()):
        return IN_FLIGHT * count
    most = num_cores() + 1 if count == 1 else count
    return max(1, min(most, POOL_SIZE - 1 - num_beside))


def background(work: Callable[[], Result]) -> Future[Result]:
    """Begin something in a thread beside the workers, with the caller's settings.

    One after another, so that no more than one program runs there. Where XLA's pool has no room
    for it beside a worker (on one core) it is done before this returns.
    """
    mode, context = current_mode(), copy_context()

    def one() -> Result:
        with in_mode(mode):
            return work()

    def one_in_room() -> Result:
        with _room():
            return one()

    if POOL_SIZE - 1 > 1:
        return _lane().submit(context.run, one_in_room)
    done: Future[Result] = Future()
    try:
        done.set_result(one())
    except Exception as error:
        done.set_exception(error)
    return done


@cache
def _lane() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="gibbs_dp_beside")


def in_threads(
    jobs: Iterable[Job],
    work: Callable[[int, Job], Any],
    num_threads: int,
    room: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Generator[tuple[Job, Any], None, None]:
    """Yield ``(job, work(number, job))`` as jobs finish.

    On an exception (an interrupt too), and when the generator is closed, jobs that have not begun
    are dropped. Close it where the loop over it may be left early: a traceback keeps it open.
    A job begins when ``room`` lets it.
    """
    mode, context, is_left = current_mode(), copy_context(), threading.Event()

    def one(number: int, job: Job) -> Any:
        # JAX's settings are local to a thread; workers take the caller's.
        with room(), in_mode(mode):
            return None if is_left.is_set() else work(number, job)

    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="gibbs_dp")
    try:
        futures = {pool.submit(context.copy().run, one, i, job): job for i, job in enumerate(jobs)}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()  # a future that is kept keeps its result
    finally:
        is_left.set()
        pool.shutdown(wait=True, cancel_futures=True)


def run_jobs(
    jobs: Iterable[Job], work: Callable[[Job, jax.Device], Any], num_beside: int = 0
) -> Generator[tuple[Job, Any], None, None]:
    """Yield ``(job, result as NumPy arrays)`` as jobs finish, on all devices or cores.

    ``num_beside`` programs may run at the same time. Close it as ``in_threads`` says.
    """
    targets = devices()

    def one(number: int, job: Job) -> Any:
        # Copies: a view would keep the JAX array alive, which is larger than a block's numbers.
        return jax.tree.map(np.array, work(job, targets[number % len(targets)]))

    return in_threads(jobs, one, num_workers(num_beside), _room)


def in_room(work: Callable[[], Result]) -> Result:
    """Run a program in this thread once XLA's pool has one for it."""
    with _room():
        return work()


# What an audit asks of whoever runs its jobs.


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


# Ctrl-C that is never lost.
#
# Python runs the handler of a signal wherever the main thread happens to be. Within a callback of
# JAX's garbage collection the exception that it raises is printed and ignored; so it is also noted,
# and raised again where blocks come in, and after the last.

_was_pressed = threading.Event()


def _handle(number: int, frame: FrameType | None) -> None:
    _was_pressed.set()
    signal.default_int_handler(number, frame)


@contextmanager
def noting_interrupts() -> Iterator[None]:
    """Note Ctrl-C while the body runs, in the main thread and unless others handle it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _was_pressed.clear()
    signal.signal(signal.SIGINT, _handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _was_pressed.clear()


def raise_lost_interrupt() -> None:
    """Raise a KeyboardInterrupt that was lost."""
    if threading.current_thread() is threading.main_thread() and _was_pressed.is_set():
        _was_pressed.clear()
        raise KeyboardInterrupt
