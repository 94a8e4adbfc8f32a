"""What a gradient costs per (chain x example), against the same arithmetic alone and the peak.

    python benchmarks/roofline.py

Logistic regression and a loss without a linear predictor, one block of datasets. "bare" is the
arithmetic written out as batched matrix products and elementwise functions; "gradient" is the
gradient of the engine's potential; "sampler" is a whole HMC step over its gradients, noise,
acceptance and bookkeeping included. Times are the least of many runs on one core, which is where
a block of an audit runs.
"""

from __future__ import annotations

import argparse
import os
import time

if __name__ == "__main__" and hasattr(os, "sched_setaffinity"):  # before JAX starts its threads
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import machine
import numpy as np
import numpyro.distributions as dist

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import compiler_options
from gibbs_dp.sampling.evolve import evolve
from gibbs_dp.sampling.kernels.hmc import HMC
from gibbs_dp.sampling.schedule import make_schedule
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.whitening import Whitening

CHAINS, LEAPFROG = 8, 3


def compiled(function, *arguments):
    """Compile as the engine does."""
    options = compiler_options(jax.default_backend())
    return jax.jit(function, compiler_options=options).lower(*arguments).compile()


def best(program, *arguments, runs):
    """Least time of several runs."""
    jax.block_until_ready(program(*arguments))
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        times.append(time.perf_counter() - begin)
    return min(times)


def peak_gflops(runs):
    """Rate of a large single-precision matrix product."""
    size = 1024 if jax.default_backend() == "cpu" else 8192
    a = jnp.ones((size, size), jnp.float32)
    return 2 * size**3 / best(compiled(jnp.matmul, a, a), a, a, runs=runs) / 1e9


def generic_logistic(theta, z):
    """Write the logistic loss as a user would, one example at a time."""
    x, y = z
    return jnp.logaddexp(0.0, x @ theta) - y * (x @ theta)


def potential_of(posterior, x, y):
    """Return the engine's potential of one dataset at gamma = 1."""
    target = Target(posterior, (x, y), jnp.ones(()))
    return target.relative_to(target.terms(jnp.zeros(x.shape[1])))


def unit_of(dim):
    """Coordinates like those that the engine whitens with."""
    return Whitening(jnp.zeros(dim), 0.1 * jnp.eye(dim))


def measure(loss, datasets, n, dim, runs, steps=100):
    """Nanoseconds per (chain x example) of the gradient and of a sampler's gradient."""
    posterior = gdp.GibbsPosterior(loss, dist.Normal(0.0, 1.0).expand([dim]))
    key = jax.random.key(0)
    x = jax.random.normal(key, (datasets, n, dim))
    y = (jax.random.uniform(key, (datasets, n)) < 0.5).astype(x.dtype)
    v = 0.1 * jax.random.normal(key, (datasets, CHAINS, dim))
    keys = jax.random.split(key, datasets)
    unit = datasets * CHAINS * n * 1e-9

    def gradients(v, x, y):
        def one(v, x, y):
            slope = jax.vmap(jax.grad(unit_of(dim).pull_back(potential_of(posterior, x, y))))
            return jax.lax.fori_loop(0, steps, lambda _, v: v - 1e-4 * slope(v), v)

        return jax.vmap(one)(v, x, y)

    def sampler(keys, v, x, y, burn_in):
        def one(key, v, x, y):
            schedule = make_schedule((0.1, LEAPFROG), 0, 0)._replace(num_burn_in=burn_in)
            potential = potential_of(posterior, x, y)
            return evolve(key, potential, v, unit_of(dim), HMC(), schedule, 8, True).v

        return jax.vmap(one)(keys, v, x, y)

    gradient = best(compiled(gradients, v, x, y), v, x, y, runs=runs) / steps / unit
    few, many = jnp.asarray(8, jnp.int32), jnp.asarray(8 + steps, jnp.int32)
    program = compiled(sampler, keys, v, x, y, few)
    spans = [best(program, keys, v, x, y, count, runs=runs) for count in (few, many)]
    # The last gradient of a trajectory comes with the potential's value, which the step needs.
    step = (spans[1] - spans[0]) / steps / unit
    return gradient, step / LEAPFROG


def value_and_gradient(datasets, n, dim, runs, steps=100):
    """Nanoseconds per (chain x example) of the value together with the gradient."""
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([dim]))
    key = jax.random.key(0)
    x = jax.random.normal(key, (datasets, n, dim))
    y = (jax.random.uniform(key, (datasets, n)) < 0.5).astype(x.dtype)
    v = 0.1 * jax.random.normal(key, (datasets, CHAINS, dim))

    def run(v, x, y):
        def one(v, x, y):
            pulled = unit_of(dim).pull_back(potential_of(posterior, x, y))
            both = jax.vmap(jax.value_and_grad(pulled))

            def body(_, v):
                value, slope = both(v)
                return v - 1e-4 * slope - 1e-9 * value[:, None]

            return jax.lax.fori_loop(0, steps, body, v)

        return jax.vmap(one)(v, x, y)

    return best(compiled(run, v, x, y), v, x, y, runs=runs) / steps / (datasets * CHAINS * n * 1e-9)


def bare(datasets, n, dim, runs, steps=100):
    """Nanoseconds per (chain x example) of two matrix products and a sigmoid."""
    key = jax.random.key(0)
    x = jax.random.normal(key, (datasets, n, dim))
    y = (jax.random.uniform(key, (datasets, n)) < 0.5).astype(x.dtype)
    v = 0.1 * jax.random.normal(key, (datasets, CHAINS, dim))

    def run(v, x, y):
        def body(_, v):
            residual = jax.nn.sigmoid(jnp.einsum("bcd,bnd->bcn", v, x)) - y[:, None]
            return v - 1e-4 * (jnp.einsum("bcn,bnd->bcd", residual, x) + v)

        return jax.lax.fori_loop(0, steps, body, v)

    return best(compiled(run, v, x, y), v, x, y, runs=runs) / steps / (datasets * CHAINS * n * 1e-9)


def main():
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="one small shape, two runs")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    if parsed.quick:
        parsed.runs = 2
    peak = peak_gflops(parsed.runs)
    rows = []
    shapes = [(8, 200, 10), (64, 200, 10), (64, 1000, 31)]
    if jax.default_backend() != "cpu":
        shapes += [(1024, 200, 10), (4096, 200, 10), (16384, 200, 10)]
    if parsed.quick:
        shapes = shapes[:1]
    for datasets, n, dim in shapes:
        alone = bare(datasets, n, dim, parsed.runs)
        both = value_and_gradient(datasets, n, dim, parsed.runs)
        for name, loss in (
            ("linear predictor", gdp.losses.logistic),
            ("generic", generic_logistic),
        ):
            gradient, sampler = measure(loss, datasets, n, dim, parsed.runs)
            own = ((LEAPFROG - 1) * gradient + both) / LEAPFROG
            rows.append(
                {
                    "loss": name,
                    "datasets": datasets,
                    "n": n,
                    "dim": dim,
                    "bare_ns": alone,
                    "gradient_ns": gradient,
                    "sampler_ns": sampler,
                    "gradient_over_bare": gradient / alone,
                    "sampler_over_gradients": sampler / own if name != "generic" else None,
                    "share_of_peak": 4 * dim / gradient / peak,
                }
            )
    machine.show(rows)
    settings = {"num_chains": CHAINS, "num_leapfrog": LEAPFROG, "peak_gflops": peak}
    print("saved", machine.save("roofline", rows, settings, parsed.out))
    assert np.isfinite(peak)


if __name__ == "__main__":
    main()
