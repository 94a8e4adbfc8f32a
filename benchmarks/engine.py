"""How long one audit takes: compilation and steady state apart, with the error it buys.

Logistic regression, d = 10, n = 200, gamma = 1, 512 datasets: ``python benchmarks/engine.py``.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import machine
import numpyro.distributions as dist

import gibbs_dp as gdp

DIM, N, DATASETS = 10, 200, 512
SLOPES = jnp.full(DIM, 0.5)


def population(key, n):
    """Draw standard normal features and labels of a logistic model."""
    x_key, y_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, DIM))
    return x, (jax.random.uniform(y_key, (n,)) < jax.nn.sigmoid(x @ SLOPES)).astype(x.dtype)


def main():
    """Run the same audit three times, print what it cost, and save it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--num-datasets", type=int, default=DATASETS)
    parser.add_argument("--quick", action="store_true", help="two audits of 32 datasets")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    datasets, times = (32, 2) if parsed.quick else (parsed.num_datasets, 3)
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([DIM]))
    rows = []
    for key in range(times):
        begin = time.perf_counter()
        report = gdp.audit(
            posterior,
            population,
            N,
            [1.0],
            num_datasets=datasets,
            key=key,
            learn=[*gdp.DEFAULT, gdp.OnAverageKL("one-sided"), gdp.MutualInformation(0)],
            progress=False,
        )
        seconds = time.perf_counter() - begin
        rows.append(
            {
                "audit": "with compilation" if key == 0 else "steady state",
                "seconds": seconds,
                "on_average_kl": float(report["on_average_kl"][0]),
                "on_average_kl_se": float(report["on_average_kl_se"][0]),
            }
        )
    machine.show(rows)
    settings = {"dim": DIM, "n": N, "num_datasets": datasets}
    print("saved", machine.save("engine", rows, settings, parsed.out))


if __name__ == "__main__":
    main()
