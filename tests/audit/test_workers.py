"""How many programs run at once, and what runs beside them."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import jax.numpy as jnp
import pytest

from gibbs_dp.engine import executor


@pytest.mark.of_cpus("two workers feed a GPU")
@pytest.mark.parametrize(
    ("cores", "pool", "beside", "expected"),
    [(2, 4, 0, 3), (2, 4, 1, 2), (16, 32, 0, 17), (16, 32, 1, 17), (1, 2, 0, 1), (1, 2, 1, 1)],
)
def test_one_thread_of_the_pool_stays_free(cores, pool, beside, expected, monkeypatch):
    monkeypatch.setattr(executor, "num_cores", lambda: cores)
    monkeypatch.setattr(executor, "POOL_SIZE", pool)
    assert executor.num_workers(beside) == expected
    if cores > 1:
        assert expected + beside < pool


@pytest.mark.parametrize("pool", [2, 4])
def test_the_background_gives_results_and_errors_back(pool, monkeypatch):
    monkeypatch.setattr(executor, "POOL_SIZE", pool)
    threads = []

    def fail():
        threads.append(threading.current_thread())
        raise ValueError("too much")

    failed, done = executor.background(fail), executor.background(lambda: 7)
    assert done.result() == 7
    with pytest.raises(ValueError, match="too much"):
        failed.result()
    assert (threads[0] is threading.main_thread()) == (pool == 2)


def test_one_program_at_a_time_runs_beside_the_workers(monkeypatch):
    monkeypatch.setattr(executor, "POOL_SIZE", 4)
    gate, running = threading.Event(), []
    first = executor.background(lambda: gate.wait(10) and running.append("first"))
    second = executor.background(lambda: running.append("second"))
    assert not second.done()
    gate.set()
    first.result()
    second.result()
    assert running == ["first", "second"]


def test_audits_that_run_at_once_share_the_room():
    """Two callers ask for all workers each: no more than the pool has room for run at once."""
    lock, running, most = threading.Lock(), [0], [0]

    def work(job, device):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1
        return jnp.asarray(job)

    def audit():
        assert sorted(job for job, _ in executor.run_jobs(range(12), work)) == list(range(12))

    callers = ThreadPoolExecutor(3)
    for caller in [callers.submit(audit) for _ in range(3)]:
        caller.result(60)
    assert 1 <= most[0] <= max(1, executor.POOL_SIZE - 1)


def test_jobs_that_have_not_begun_are_dropped_when_the_loop_is_left():
    begun = []

    def work(number, job):
        begun.append(number)
        time.sleep(0.01)

    def leave():
        with closing(executor.in_threads(range(100), work, 2)) as finished:
            for _ in finished:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as held:
        leave()
    count = len(begun)
    assert count < 50
    time.sleep(0.1)
    assert len(begun) == count
    assert held.traceback  # which alone would keep the loop, and its threads, alive


def test_a_job_that_waits_for_room_is_dropped_too():
    begun, entered, free = [], itertools.count(), threading.Event()

    @contextmanager
    def room():
        if next(entered):  # all but the first wait, as for another audit
            free.wait(10)
        yield

    jobs = executor.in_threads(range(3), lambda _, job: begun.append(job), 3, room)
    next(jobs)
    threading.Timer(0.1, free.set).start()
    jobs.close()
    assert len(begun) == 1


def test_the_background_keeps_the_callers_precision(dtype):
    assert executor.background(lambda: jnp.zeros(()).dtype).result() == dtype
