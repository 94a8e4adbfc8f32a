"""The audits of ``gpu.py``, and how they are timed, here or in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import gibbs_dp as gdp

DIM, N = 10, 200
SCRIPT = Path(__file__).parent / "gpu.py"


def logistic_examples(dim):
    """Draw standard normal features and labels of a logistic model."""

    def examples(key, n):
        x_key, y_key = jax.random.split(key)
        x = gdp.random.normal(x_key, (n, dim))
        y = gdp.random.uniform(y_key, (n,)) < jax.nn.sigmoid(x.sum(axis=1) / jnp.sqrt(dim))
        return x, y.astype(x.dtype)

    return examples


def offset_examples(key, n):
    """Draw from a linear model far from zero: features (1, u), parameters (100, 3)."""
    x_key, noise_key = jax.random.split(key)
    u = gdp.random.normal(x_key, (n,))
    x = jnp.stack([jnp.ones((n,)), u], axis=1)
    return x, 100.0 + 3.0 * u + gdp.random.normal(noise_key, (n,))


def own_logistic(theta, z):
    """Write the logistic loss as a user would: no precision is asked for."""
    x, y = z
    return jnp.logaddexp(0.0, x @ theta) - y * (x @ theta)


def own_squares(theta, z):
    """Write the squared loss as a user would."""
    x, y = z
    return 0.5 * (y - x @ theta) ** 2


def normal_prior(loss, dim, scale=1.0):
    """Return the posterior of a loss under a normal prior."""
    return gdp.GibbsPosterior(loss, dist.Normal(0.0, scale).expand([dim]))


def gaussian_mean(dim=1):
    """Return a posterior whose on-average KL at gamma = 1 is dim/n, and its examples."""
    prior = gdp.Flat(gdp.supports.real(dim))
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior)
    return posterior, lambda key, n: gdp.random.normal(key, (n, dim))


def private_mean():
    """Return the Laplace mechanism of Figure 2a, and its examples."""
    posterior = gdp.GibbsPosterior(
        total_loss=lambda theta, z: jnp.abs(jnp.mean(z) - theta),
        prior=gdp.Flat(gdp.supports.real()),
    )
    return posterior, lambda key, n: gdp.random.truncated_normal(key, -2.0, 2.0, (n,))


# What is learnt unless it is asked for.
WITHOUT = (*gdp.DEFAULT, gdp.MutualInformation(0))


def audit(posterior, examples, n, num_datasets, gammas=(1.0,), learn=WITHOUT, **more):
    """Audit without progress, and without mutual information unless it is asked for."""
    return gdp.audit(
        posterior,
        examples,
        n,
        list(gammas),
        num_datasets=num_datasets,
        learn=learn,
        progress=False,
        **more,
    )


LOGISTIC = normal_prior(gdp.losses.logistic, DIM), logistic_examples(DIM), N


def timed(call):
    """Return what a call returns, and its seconds."""
    begin = time.perf_counter()
    found = jax.block_until_ready(call())
    return found, time.perf_counter() - begin


def least(call, runs=5):
    """Least seconds of several runs, after one that compiles."""
    timed(call)
    return min(timed(call)[1] for _ in range(runs))


def twice(*problem, **more):
    """Report, first and second seconds of an audit: compilation is in the first."""
    _, first = timed(lambda: audit(*problem, **more))
    report, again = timed(lambda: audit(*problem, key=1, **more))
    return report, first, again


def memory(name):
    """Bytes that the device tells of its memory: "bytes_limit", "peak_bytes_in_use"."""
    return (jax.local_devices()[0].memory_stats() or {}).get(name)


def bits(report):
    """Figures of an audit, to be compared to the last bit."""
    return [float(report[name][0]) for name in ("on_average_kl", "generalization_error")]


def child(point, begin):
    """Run what a process of its own was asked for, and print what it found as JSON."""
    if point.get("cores") and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: point["cores"]]))
    imported = time.perf_counter() - begin
    dim = point.get("dim", DIM)
    problem = normal_prior(gdp.losses.logistic, dim), logistic_examples(dim), N
    count = point["datasets"]
    report, first = timed(lambda: audit(*problem, count))
    found = {"import_s": imported, "first_s": first, "bits": bits(report)}
    if point.get("again"):
        found["again_s"] = timed(lambda: audit(*problem, count, key=1))[1]
    found["block_size"] = report.settings["block_size"]
    found["peak_bytes"] = memory("peak_bytes_in_use")
    found["limit_bytes"] = memory("bytes_limit")
    print(json.dumps(found))


def in_a_process(point, seconds, **environment):
    """Run :func:`child` elsewhere; return the point with what it found, or how it failed."""
    command = [sys.executable, str(SCRIPT), "--child", json.dumps(point)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=max(20.0, seconds),
            env=os.environ | environment,
        )
    except subprocess.TimeoutExpired:
        return {**point, "failed": "no time left"}
    if done.returncode:
        return {**point, "failed": done.stderr[-500:]}
    return {**point, **json.loads(done.stdout.splitlines()[-1])}
