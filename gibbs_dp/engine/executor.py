"""Running block programs on every local device, or every core, at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

import jax
import numpy as np

from gibbs_dp._jaxlib.devices import devices, is_accelerator, platform
from gibbs_dp._jaxlib.precision import current_mode, in_mode
from gibbs_dp._jaxlib.threads import POOL_SIZE, num_cores

Job = TypeVar("Job")
Result = TypeVar("Result")

# Programs that an accelerator is given at once: the next one waits on the device, not on its host.
IN_FLIGHT = 2

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

    Parameters
    ----------
    num_beside
        Programs that run at the same time, see :func:`background`.

    Returns
    -------
    int
        At least 1.
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

    def begin(number: int, job: Job) -> Any:
        return context.copy().run(one, number, job)

    def one(number: int, job: Job) -> Any:
        # JAX's settings are local to a thread; workers take the caller's.
        with room(), in_mode(mode):
            return None if is_left.is_set() else work(number, job)

    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="gibbs_dp")
    try:
        futures = {pool.submit(begin, i, job): job for i, job in enumerate(jobs)}
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
