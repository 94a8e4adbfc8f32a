"""One posterior whose data no process holds alone."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from sharded_process import SETTINGS, examples

import gibbs_dp as gdp
from gibbs_dp.model.charts import distinct_values, on_every_device


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


@pytest.mark.trust
def test_two_processes_draw_what_one_draws(tmp_path):
    root = str(Path(gdp.__file__).parents[1])
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]),
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # compiles in less time
    }
    script, port = Path(__file__).with_name("sharded_process.py"), free_port()
    running = [
        subprocess.Popen(
            [sys.executable, str(script), str(port), "2", str(number)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(2)
    ]
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([2]))
    alone = gdp.sample(posterior, examples(), **SETTINGS)
    try:
        outputs = [process.communicate(timeout=200)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    answers = [json.loads(out.splitlines()[-1]) for out in outputs]
    for answer in answers:
        assert (answer["rows"], answer["rows_here"]) == (400, 200)
        np.testing.assert_allclose(answer["theta"], alone.theta, rtol=1e-4, atol=1e-5)
        assert "processes hold [3, 4] rows" in answer["refusal"]
    assert answers[0]["theta"] == answers[1]["theta"]


def test_in_one_process_sharding_changes_nothing():
    x, y = gdp.shard_examples((np.arange(4.0)[:, None], np.array([0, 1, 1, 0])))
    assert x.dtype == jnp.zeros(()).dtype
    np.testing.assert_array_equal(x[:, 0], np.arange(4))
    assert on_every_device(3.0, (x, y)) == 3.0
    np.testing.assert_array_equal(distinct_values(y, 6), [0, 1])
    with pytest.raises(ValueError, match="1 values are NaN or infinite"):
        gdp.shard_examples(np.array([1.0, np.nan]))
