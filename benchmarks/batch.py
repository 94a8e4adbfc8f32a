"""What a posterior of a batch costs: one call, a loop over calls, and NUTS of two libraries.

    pip install blackjax            # optional: without it, its row is left out
    python benchmarks/batch.py      # five minutes on one core; --quick for a look

Logistic regression with five coefficients and 50 examples: a dataset each, drawn from the prior's
predictive law. Everyone draws 4 chains of 1,000 (or of 100); NUTS warms up for 1,000 steps. CPU
milliseconds of a dataset, with all checks and diagnostics that the call makes, once compiled;
compilation is beside it. Effective draws are those of the worst coefficient, the median over
datasets. BlackJAX's window adaptation and NUTS run under one `jax.vmap` over datasets and chains,
NumPyro's NUTS in a loop over datasets, one compiled program for the chains of one.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import machine
import numpy as np
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size
from numpyro.infer.hmc import hmc as numpyro_hmc

import gibbs_dp as gdp

N, DIM, NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP = 50, 5, 4, 1000, 1000
ONE_CALL, ONE_HMC, LOOP = "one call", "one call, HMC()", "a loop"
VMAP, NUTS = "BlackJAX NUTS, vmap", "NumPyro NUTS, a loop"
# Way of sampling, datasets, draws of a chain.
RUNS = (
    (ONE_CALL, 100, NUM_SAMPLES),
    (ONE_CALL, 1000, NUM_SAMPLES),
    (ONE_HMC, 1000, NUM_SAMPLES),
    (LOOP, 20, NUM_SAMPLES),
    (VMAP, 100, NUM_SAMPLES),
    (NUTS, 20, NUM_SAMPLES),
    (ONE_HMC, 1000, 100),
    (ONE_HMC, 10_000, 100),
    (ONE_CALL, 1000, 100),
)
QUICK = tuple((way, 3, 50) for way in (ONE_CALL, LOOP, VMAP, NUTS))
PRIOR = dist.Normal(jnp.zeros(DIM), 1.0)


def log_likelihood(theta, z):
    """Logistic regression, of one example."""
    x, y = z
    return y * (x @ theta) - jax.nn.softplus(x @ theta)


POSTERIOR = gdp.GibbsPosterior.from_log_density(log_likelihood, PRIOR)


def datasets(count, seed):
    """Draw datasets, each of its own coefficients."""

    def one(key):
        first, second, third = jax.random.split(key, 3)
        x = jax.random.normal(first, (N, DIM))
        return x, jax.random.bernoulli(third, jax.nn.sigmoid(x @ PRIOR.sample(second))) * 1.0

    return jax.block_until_ready(jax.vmap(one)(jax.random.split(jax.random.key(seed), count)))


def one_call(data, num_samples, seed):
    """Draw from all posteriors at once."""
    draws = gdp.sample(POSTERIOR, data, key=seed, num_samples=num_samples, is_batch=True)
    return draws.theta


def one_hmc(data, num_samples, seed):
    """Draw from all posteriors at once, with no other sampler where diagnostics complain."""
    more = {"num_samples": num_samples, "is_batch": True}
    return gdp.sample(POSTERIOR, data, key=seed, sampler=gdp.HMC(), **more).theta


def loop(data, num_samples, seed):
    """Draw from one posterior after the other."""
    rows = [jax.tree.map(lambda a, i=i: a[i], data) for i in range(len(data[1]))]
    found = [gdp.sample(POSTERIOR, row, key=seed, num_samples=num_samples) for row in rows]
    return [draws.theta for draws in found]  # SMC's, where HMC was not enough, are others


def blackjax_chain(key, start, data, num_samples):
    """Adapt, then draw, one chain of one dataset."""
    import blackjax

    def log_density(theta):
        return POSTERIOR.log_density(theta, data, 1.0)

    first, second = jax.random.split(key)
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), _ = adaptation.run(first, start, num_steps=NUM_WARMUP)
    kernel = blackjax.nuts(log_density, **parameters)

    def step(state, key):
        state, _ = kernel.step(key, state)
        return state, state.position

    return jax.lax.scan(step, state, jax.random.split(second, num_samples))[1]


@jax.jit(static_argnums=1)
def vmapped(data, num_samples, seed):
    """Map BlackJAX's chains over chains and datasets."""

    def of_dataset(key, data):
        first, second = jax.random.split(key)
        keys, starts = jax.random.split(first, NUM_CHAINS), PRIOR.sample(second, (NUM_CHAINS,))
        return jax.vmap(lambda k, s: blackjax_chain(k, s, data, num_samples))(keys, starts)

    return jax.vmap(of_dataset)(jax.random.split(jax.random.key(seed), len(data[1])), data)


@jax.jit(static_argnums=2)
def numpyro_chains(key, data, num_samples):
    """Run the chains of one dataset through NumPyro's kernel, which its MCMC class runs too."""

    def chain(key, start):
        def potential(theta):
            return -POSTERIOR.log_density(theta, data, 1.0)

        init, sample = numpyro_hmc(potential_fn=potential, algo="NUTS")
        state = init(start, NUM_WARMUP, rng_key=key, trajectory_length=None)
        state = jax.lax.fori_loop(0, NUM_WARMUP, lambda _, s: sample(s), state)

        def step(state, _):
            state = sample(state)
            return state, state.z

        return jax.lax.scan(step, state, None, length=num_samples)[1]

    first, second = jax.random.split(key)
    starts = PRIOR.sample(second, (NUM_CHAINS,))
    return jax.vmap(chain)(jax.random.split(first, NUM_CHAINS), starts)


def numpyro_loop(data, num_samples, seed):
    """Run one dataset after the other through one compiled program."""
    keys = jax.random.split(jax.random.key(seed), len(data[1]))
    rows = [jax.tree.map(lambda a, i=i: a[i], data) for i in range(len(data[1]))]
    return [numpyro_chains(key, row, num_samples) for key, row in zip(keys, rows, strict=True)]


WAYS = {ONE_CALL: one_call, ONE_HMC: one_hmc, LOOP: loop, VMAP: vmapped, NUTS: numpyro_loop}


def measured(way, count, num_samples):
    """Time one way of sampling: compiled in a first run, measured in a second."""
    took = []
    # What runs one by one is compiled by one dataset.
    for seed, size in enumerate((1 if way in (LOOP, NUTS) else count, count)):
        data = datasets(size, seed)
        begin = time.process_time()
        theta = jax.tree.map(np.asarray, WAYS[way](data, num_samples, seed))
        took.append(time.process_time() - begin)
    each = took[1] / count
    few = theta[:200]
    ess = float(np.median([effective_sample_size(one.astype(float)).min() for one in few]))
    return {
        "way": way,
        "datasets": count,
        "draws": f"{NUM_CHAINS} x {num_samples}",
        "cpu_seconds": took[1],
        "cpu_ms_each": 1e3 * each,
        "compiling": max(0.0, took[0] - (1 if way in (LOOP, NUTS) else count) * each),
        "ess": ess,
        "ess_per_cpu_second": ess / each,
    }


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three datasets, short chains")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    asked = parser.parse_args()
    rows, settings = [], {"n": N, "dim": DIM, "chains": NUM_CHAINS, "nuts_warmup": NUM_WARMUP}
    for way, count, num_samples in QUICK if asked.quick else RUNS:
        try:
            rows.append(measured(way, count, num_samples))
        except ModuleNotFoundError as missing:
            print(f"{way}: left out ({missing})")
            continue
        machine.show(rows[-1:])
        path = machine.save("batch", rows, settings, asked.out)
    print("saved", path)


if __name__ == "__main__":
    main()
