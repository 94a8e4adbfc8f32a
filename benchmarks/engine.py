"""How long one audit takes: compilation and steady state apart, with the error it buys.

Logistic regression, d = 10, n = 200, gamma = 1, 512 datasets: ``python benchmarks/engine.py``.
"""

import platform
import time

import jax
import jax.numpy as jnp
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
    """Run the same audit three times and print what it cost."""
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([DIM]))
    print(f"{platform.machine()}, {jax.devices()}, jax {jax.__version__}")
    for key in range(3):
        begin = time.perf_counter()
        report = gdp.audit(
            posterior,
            population,
            N,
            [1.0],
            DATASETS,
            key=key,
            estimator="one-sided",
            num_information=0,
            progress=False,
        )
        seconds = time.perf_counter() - begin
        label = "with compilation" if key == 0 else "steady state"
        kl, se = report["on_average_kl"][0], report["on_average_kl_se"][0]
        print(f"{label:>16}: {seconds:6.2f} s, on-average KL {kl:.5f} ± {se:.5f} nats")


if __name__ == "__main__":
    main()
