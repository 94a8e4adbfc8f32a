"""What Dask's workers cost against threads of one process on the same cores.

    python benchmarks/workers.py            # 6 minutes on two cores; --quick for a look

An audit of logistic regression of about a minute, in threads of one process and by one worker of
Dask a core with one thread each, in turns after a short audit each in which everything compiles.
The reports must be equal.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import machine
import numpyro.distributions as dist
from distributed import Client, LocalCluster

import gibbs_dp as gdp
from gibbs_dp._jaxlib.threads import num_cores
from gibbs_dp.engine.remote import client as sender

DIM, N = 10, 200
NUM_DATASETS, NUM_TURNS = 120_000, 3
QUICK_DATASETS, QUICK_TURNS = 8_192, 1


def examples(key, n):
    """Draw Gaussian features, and labels of a logistic model."""
    x_key, y_key = jax.random.split(key)
    x = gdp.random.normal(x_key, (n, DIM))
    y = gdp.random.uniform(y_key, (n,)) < jax.nn.sigmoid(x.sum(axis=1) / jnp.sqrt(DIM))
    return x, y.astype(x.dtype)


def measure(num_datasets, num_turns):
    """Rows of turns, and how long the parts of a task take the process that sends them."""
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([DIM]))

    def audit(executor, count):
        begin = time.perf_counter()
        report = gdp.audit(
            posterior,
            examples,
            N,
            1.0,
            num_datasets=count,
            learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
            block_size=128,
            executor=executor,
            progress=False,
        )
        return time.perf_counter() - begin, report.rows

    rows, packing, pack = [], [], sender.pack_job

    def timed(job):
        begin = time.perf_counter()
        content = pack(job)
        packing.append((time.perf_counter() - begin, len(content)))
        return content

    sender.pack_job = timed
    cluster = LocalCluster(n_workers=num_cores(), threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        workers = client.get_executor()
        for executor in (None, workers):
            audit(executor, 1024)
        for turn in range(num_turns):
            threads_s, plain = audit(None, num_datasets)
            dask_s, found = audit(workers, num_datasets)
            row = {"turn": turn, "threads_s": threads_s, "dask_s": dask_s}
            rows.append({**row, "ratio": dask_s / threads_s, "is_equal": found == plain})
            print(f"{threads_s:.1f} s, with Dask {dask_s:.1f} s", file=sys.stderr, flush=True)
    seconds, sizes = zip(*packing, strict=True)
    return rows, {"pack_ms": 1e3 * statistics.median(seconds), "job_bytes": max(sizes)}


def main():
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    count = QUICK_DATASETS if parsed.quick else NUM_DATASETS
    rows, tasks = measure(count, QUICK_TURNS if parsed.quick else NUM_TURNS)
    machine.show(rows)
    ratio = statistics.median(row["ratio"] for row in rows)
    print(f"median ratio {ratio:.3f}; {tasks}")
    settings = {"dim": DIM, "n": N, "num_datasets": count, "median_ratio": ratio, **tasks}
    print("saved", machine.save("workers", rows, settings, parsed.out))


if __name__ == "__main__":
    main()
