"""Running block programs on every local device, or every core, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from gibbs_dp._threads import POOL_SIZE, num_cores

Job = TypeVar("Job")
Result = TypeVar("Result")


def num_workers() -> int:
    """One worker a device; on a CPU that shows as one device, one worker a core and one more.

    A block's small operations do not fill several cores; several blocks do, one more than there
    are cores (a sixth faster on two): a block waits a little between operations. One thread of
    XLA's pool stays free (see ``gibbs_dp/_threads.py``).
    """
    devices = jax.local_devices()
    count = len(devices)
    if devices[0].platform != "cpu":
        return count
    return max(1, min(num_cores() + 1 if count == 1 else count, POOL_SIZE - 1))


def precision(is_double: bool) -> AbstractContextManager[None]:
    """Return a context in which this thread's JAX computes in double precision, or in single."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(is_double)
    from jax import experimental  # where it was before JAX 0.8

    return getattr(experimental, "enable_x64")(is_double)  # noqa: B009


def background(work: Callable[[], Result]) -> Future[Result]:
    """Begin something in a thread of its own, in the caller's precision."""
    is_double = _is_double()

    def one() -> Result:
        with precision(is_double):
            return work()

    pool = ThreadPoolExecutor(1, thread_name_prefix="gibbs_dp")
    future = pool.submit(one)
    pool.shutdown(wait=False)
    return future


def _is_double() -> bool:
    return bool(jnp.zeros(()).dtype == jnp.dtype("float64"))


def in_threads(
    jobs: Iterable[Job], work: Callable[[int, Job], Any], num_threads: int
) -> Iterator[tuple[Job, Any]]:
    """Yield ``(job, work(number, job))`` as jobs finish.

    On an exception (an interrupt too) jobs that have not begun are dropped.
    """
    is_double = _is_double()

    def one(number: int, job: Job) -> Any:
        # JAX's precision setting is local to a thread; workers take the caller's.
        with precision(is_double):
            return work(number, job)

    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="gibbs_dp")
    try:
        futures = {pool.submit(one, i, job): job for i, job in enumerate(jobs)}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()  # a future that is kept keeps its result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def run_jobs(
    jobs: Iterable[Job], work: Callable[[Job, jax.Device], Any]
) -> Iterator[tuple[Job, Any]]:
    """Yield ``(job, result as NumPy arrays)`` as jobs finish, on all devices or cores."""
    devices = jax.local_devices()

    def one(number: int, job: Job) -> Any:
        # Copies: a view would keep the JAX array alive, which is larger than a block's numbers.
        return jax.tree.map(np.array, work(job, devices[number % len(devices)]))

    return in_threads(jobs, one, num_workers())
