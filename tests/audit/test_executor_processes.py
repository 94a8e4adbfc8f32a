"""Audits in processes of their own: spawned ones, and Dask's, one of which is killed."""

import logging
import multiprocessing
import os
import signal
import threading
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.experimental.compilation_cache import compilation_cache
from problems import QUICK, linear_regression, regression_examples
from test_own_kernel import RandomWalk

import gibbs_dp as gdp

SETTINGS = {"n": 20, "gammas": [0.1, 3.0], "num_datasets": 512, "block_size": 16}
SETTINGS |= QUICK | {"estimator": "one-sided", "num_ghosts": 16}
BLOCKS = 64


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory):
    """This process and those that it starts share compiled programs."""
    asked = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("cache")),
        "jax_persistent_cache_min_compile_time_secs": 0.1,
        "jax_enable_compilation_cache": True,
    }
    before = {name: getattr(jax.config, name) for name in asked}
    root = str(Path(gdp.__file__).parents[1])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in asked.items():
            jax.config.update(name, value)
            patch.setenv(name.upper(), str(value))
        patch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
        compilation_cache.reset_cache()
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.mark.trust
def test_what_a_user_writes_runs_in_a_spawned_process():
    """Functions that no module has, over arrays of the caller's, and a kernel of their own."""
    weights, center = jnp.linspace(0.5, 1.5, 2), np.arange(2.0)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.sum(weights * (theta - z) ** 2) / 2,
        dist.Normal(0.0, 2.0).expand([2]),
    )

    def audit(**executor):
        return flat.audit(
            posterior,
            lambda key, n: center + jax.random.normal(key, (n, 2)),
            **SETTINGS | {"gammas": 1.0, "num_datasets": 64, "kernel": RandomWalk()},
            **executor,
        )

    plain = audit()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        found = audit(executor=executor)
    assert found.rows == plain.rows


def audit(**changed):
    return flat.audit(linear_regression(), regression_examples, **SETTINGS | changed)


class Watched(Executor):
    """Calls ``act`` once so many tasks are done."""

    def __init__(self, executor, count, act):
        self.executor, self.count, self.act = executor, count, act
        self.lock = threading.Lock()

    def submit(self, *arguments):
        future = self.executor.submit(*arguments)
        future.add_done_callback(self._done)
        return future

    def _done(self, future):
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self.act()


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.trust
def test_a_worker_of_dask_is_killed_and_the_report_is_that_of_one_process(client):
    plain, before = audit(), set(client.run(os.getpid).values())
    assert len(before) == 2
    executor = Watched(client.get_executor(), 30, lambda: os.kill(min(before), signal.SIGKILL))
    found = audit(executor=executor)
    assert executor.count < 0
    assert min(before) not in client.run(os.getpid).values()
    assert found.rows == plain.rows
    assert (found.warnings, found.notes) == (plain.warnings, plain.notes)


@pytest.mark.trust
def test_an_error_in_a_worker_of_dask_is_the_users(client):
    here = os.getpid()

    def loss(theta, z):
        if os.getpid() != here:
            raise LookupError("no such table")
        return (theta[0] - z[1]) ** 2

    posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real(1)))
    with pytest.raises(LookupError) as told:
        flat.audit(posterior, regression_examples, executor=client.get_executor(), **SETTINGS)
    assert str(told.value) == "no such table"
    assert "In a worker" in told.value.__notes__[-1]
