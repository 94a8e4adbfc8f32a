"""How many programs run at once, and what runs beside them."""

import threading

import jax.numpy as jnp
import pytest

from gibbs_dp.audit import workers


@pytest.mark.parametrize(
    ("cores", "pool", "beside", "expected"),
    [(2, 4, 0, 3), (2, 4, 1, 2), (16, 32, 0, 17), (16, 32, 1, 17), (1, 2, 0, 1), (1, 2, 1, 1)],
)
def test_one_thread_of_the_pool_stays_free(cores, pool, beside, expected, monkeypatch):
    monkeypatch.setattr(workers, "num_cores", lambda: cores)
    monkeypatch.setattr(workers, "POOL_SIZE", pool)
    assert workers.num_workers(beside) == expected
    if cores > 1:
        assert expected + beside < pool


@pytest.mark.parametrize("pool", [2, 4])
def test_the_background_gives_results_and_errors_back(pool, monkeypatch):
    monkeypatch.setattr(workers, "POOL_SIZE", pool)
    threads = []

    def fail():
        threads.append(threading.current_thread())
        raise ValueError("too much")

    failed, done = workers.background(fail), workers.background(lambda: 7)
    assert done.result() == 7
    with pytest.raises(ValueError, match="too much"):
        failed.result()
    assert (threads[0] is threading.main_thread()) == (pool == 2)


def test_one_program_at_a_time_runs_beside_the_workers(monkeypatch):
    monkeypatch.setattr(workers, "POOL_SIZE", 4)
    gate, running = threading.Event(), []
    first = workers.background(lambda: gate.wait(10) and running.append("first"))
    second = workers.background(lambda: running.append("second"))
    assert not second.done()
    gate.set()
    first.result()
    second.result()
    assert running == ["first", "second"]


def test_the_background_keeps_the_callers_precision(dtype):
    assert workers.background(lambda: jnp.zeros(()).dtype).result() == dtype
