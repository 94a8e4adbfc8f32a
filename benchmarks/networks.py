"""Steps a second of chains on minibatches, against a loop that is written by hand.

    python benchmarks/networks.py
    python benchmarks/networks.py --widths 96 280 960      # 16,522, 99,690 and 994,570 weights
    python benchmarks/networks.py --hmc                    # HMC on all of 2,000 rows, first width

SGHMC for a network (64-96-96-10, cross-entropy, made-up rows), two chains, batches of 256 rows of
20,000. By hand: `jax.lax.scan` over the same steps of a pytree, in one compiled program, nothing
kept but the last position. On a GPU it also runs with products that are as exact as ours, and ours
also as runs of 400,000 steps and more are compiled. All run once with compilation, then in turns; a
rate is that of the fastest turn.

HMC with an acceptance step, ten leapfrog steps a draw of four chains: `gibbs_dp.sample` against a
loop of BlackJAX's from where ours ended, with a step of 0.002. Gradients a second, of all chains
together, are those of draws beyond the first: a short run is taken from a long one, so that mode
search and warmup count in neither; the first run counts all.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time
import warnings
from unittest import mock

import jax
import jax.numpy as jnp
import machine
import numpy as np
from numpyro.diagnostics import split_gelman_rubin

import gibbs_dp as gdp
from gibbs_dp.sampling import minibatch

NUM_INPUTS, NUM_CLASSES, NUM_ROWS, NUM_CHAINS, BATCH = 64, 10, 20_000, 2, 256
STEP_SIZE, FRICTION, GAMMA = 1e-6, 0.05, 1.0
THINNING, TURNS = 20, 5


def shapes(width):
    """Zeros of the network's shapes."""
    sizes = (NUM_INPUTS, width, width, NUM_CLASSES)
    return [
        {"weight": jnp.zeros((a, b)), "bias": jnp.zeros(b)} for a, b in itertools.pairwise(sizes)
    ]


def logits(theta, x):
    """Scores of the classes, of one row or many."""
    for layer in theta[:-1]:
        x = jnp.tanh(x @ layer["weight"] + layer["bias"])
    return x @ theta[-1]["weight"] + theta[-1]["bias"]


def loss(theta, z):
    """Cross-entropy of one row."""
    scores = logits(theta, z[0])
    return jax.nn.logsumexp(scores) - scores[z[1]]


def made_up():
    """Make normal rows with the labels of a linear rule."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_ROWS, NUM_INPUTS)).astype(np.float32)
    return x, np.argmax(x @ rng.normal(size=(NUM_INPUTS, NUM_CLASSES)), axis=1).astype(np.int32)


def ours(data, start, num_samples, is_long=False):
    """Return a function that runs the library's chains, compiled as for a long run or a short."""
    blank = jax.tree.map(jnp.zeros_like, start)
    posterior = gdp.GibbsPosterior(loss, gdp.priors.normal_like(blank, 0.3))
    kernel = gdp.StochasticLangevin(STEP_SIZE, FRICTION)

    def run():
        with mock.patch.object(minibatch, "MANY_STEPS", 0 if is_long else minibatch.MANY_STEPS):
            draws = gdp.sample_minibatches(
                posterior,
                data,
                GAMMA,
                kernel=kernel,
                batch_size=BATCH,
                num_chains=NUM_CHAINS,
                num_warmup=0,
                num_samples=num_samples,
                thinning=THINNING,
                init=start,
                keep=first_bias,
            )
        return draws.loss.mean()

    return run


def first_bias(theta):
    """Next to nothing, to be kept of every draw."""
    return theta[-1]["bias"][0]


def by_hand(data, start, num_samples, precision=None):
    """Return a function that runs the loop written by hand."""
    x, y = map(jnp.asarray, data)

    def cost(theta, rows, labels):
        scores = logits(theta, rows)
        of_labels = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
        total = NUM_ROWS / BATCH * jnp.sum(jax.nn.logsumexp(scores, axis=1) - of_labels)
        squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(theta))
        return GAMMA * total + squares / (2 * 0.3**2), total

    def step(carry, key):
        theta, momentum = carry
        batch_key, noise_key = jax.random.split(key)
        chosen = jax.random.randint(batch_key, (BATCH,), 0, NUM_ROWS)
        slope, total = jax.grad(cost, has_aux=True)(theta, x[chosen], y[chosen])
        leaves, structure = jax.tree.flatten(theta)
        keys = structure.unflatten(list(jax.random.split(noise_key, len(leaves))))
        momentum = jax.tree.map(
            lambda v, g, k: (
                (1 - FRICTION) * v
                - STEP_SIZE * g
                + jnp.sqrt(2 * FRICTION * STEP_SIZE) * jax.random.normal(k, v.shape)
            ),
            momentum,
            slope,
            keys,
        )
        return (jax.tree.map(jnp.add, theta, momentum), momentum), total

    def chain(key):
        begin = start, jax.tree.map(jnp.zeros_like, start)
        return jax.lax.scan(step, begin, jax.random.split(key, num_samples * THINNING))

    program = jax.jit(jax.vmap(chain))

    def run():
        with jax.default_matmul_precision(precision):
            return np.asarray(program(jax.random.split(jax.random.key(0), NUM_CHAINS))[1]).mean()

    return run


def timed(run):
    """Seconds of a run, and what it returns."""
    begin = time.perf_counter()
    found = run()
    return time.perf_counter() - begin, float(found)


def compared(width, num_samples, turns):
    """Run all on a network of this width."""
    data, steps = made_up(), num_samples * THINNING
    leaves, structure = jax.tree.flatten(shapes(width))
    keys = jax.random.split(jax.random.key(1), len(leaves))
    start = structure.unflatten(
        [0.1 * jax.random.normal(k, a.shape) for k, a in zip(keys, leaves, strict=True)]
    )
    runs = {"gdp.sample_minibatches": ours(data, start, num_samples)}
    runs["by hand"] = by_hand(data, start, num_samples)
    if jax.default_backend() != "cpu":
        runs["by hand, exact products"] = by_hand(data, start, num_samples, "highest")
        runs["gdp.sample_minibatches, long"] = ours(data, start, num_samples, is_long=True)
    first = {name: timed(run) for name, run in runs.items()}
    again = [{name: timed(run)[0] for name, run in runs.items()} for _ in range(turns)]
    return [
        {
            "what": name,
            "weights": sum(leaf.size for leaf in leaves),
            "steps": steps,
            "first_run_s": first[name][0],
            "steps_per_s": steps / min(turn[name] for turn in again),
            "mean_loss": first[name][1] / NUM_ROWS,
        }
        for name in runs
    ]


# HMC, on all of fewer rows.

NUM_HMC_ROWS, NUM_HMC_CHAINS, NUM_LEAPFROG, NUM_WARMUP, HMC_STEP = 2000, 4, 10, 100, 2e-3


def hmc_of_ours(posterior, data, num_samples):
    """Draw with HMC; return draws."""
    kernel = gdp.HMC(num_leapfrog=NUM_LEAPFROG, integrator="leapfrog")
    return gdp.sample(
        posterior,
        data,
        GAMMA,
        sampler=kernel,
        num_chains=NUM_HMC_CHAINS,
        num_warmup=NUM_WARMUP,
        num_samples=num_samples,
    )


def hmc_by_blackjax(posterior, data, start):
    """Return a function that runs so many draws of BlackJAX's HMC."""
    import blackjax

    def log_density(theta):
        squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(theta))
        return -GAMMA * jnp.sum(posterior.losses(theta, data)) - squares / (2 * 0.3**2)

    @functools.partial(jax.jit, static_argnums=1)
    def chains(keys, num_samples):
        blank = jnp.ones(sum(leaf.size for leaf in jax.tree.leaves(start)))
        hmc = blackjax.hmc(log_density, HMC_STEP, blank, NUM_LEAPFROG)

        def step(state, key):
            state, info = hmc.step(key, state)
            return state, (state.position, info.acceptance_rate)

        def chain(key):
            return jax.lax.scan(step, hmc.init(start), jax.random.split(key, num_samples))[1]

        return jax.vmap(chain)(keys)

    def run(num_samples):
        with jax.default_matmul_precision("highest"):
            drawn, accepted = chains(
                jax.random.split(jax.random.key(0), NUM_HMC_CHAINS), num_samples
            )
        jax.tree.map(np.asarray, drawn)
        return float(accepted.mean())

    return run


def hmc_compared(width, sizes, turns):
    """Run HMC on a network of this width, in short and long runs."""
    x, y = made_up()
    data = x[:NUM_HMC_ROWS], y[:NUM_HMC_ROWS]
    blank = shapes(width)
    posterior = gdp.GibbsPosterior(loss, gdp.priors.normal_like(blank, 0.3))
    runs, seconds, first, accepted, found = {}, {}, {}, {}, {}

    def ours(num_samples):
        found["draws"] = draws = hmc_of_ours(posterior, data, num_samples)
        return float(draws.accept_rate.mean())

    def add(name, run):
        begin = time.perf_counter()
        run(sizes[1])
        first[name] = time.perf_counter() - begin
        run(sizes[0])
        runs[name], seconds[name] = run, {size: [] for size in sizes}

    add("gdp.sample, HMC", ours)
    begin_at = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, -1]), found["draws"].theta)
    try:
        add("BlackJAX, HMC", hmc_by_blackjax(posterior, data, begin_at))
    except ImportError:
        print("BlackJAX is not installed: its row is left out")
    for _, size, (name, run) in itertools.product(range(turns), sizes, runs.items()):
        begin = time.perf_counter()
        accepted[name] = run(size)
        seconds[name][size].append(time.perf_counter() - begin)
    gradients = (sizes[1] - sizes[0]) * NUM_LEAPFROG * NUM_HMC_CHAINS
    agree = float(split_gelman_rubin(found["draws"].log_density))
    return [
        {
            "what": name,
            "weights": posterior.dim,
            "first_run_s": first[name],
            "gradients_per_s": gradients / (min(of[sizes[1]]) - min(of[sizes[0]])),
            "accepted": accepted[name],
            "r_hat_of_density": agree if name.startswith("gdp") else None,
        }
        for name, of in seconds.items()
    ]


def main():
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", nargs="+", type=int, default=[96], help="of hidden layers")
    parser.add_argument("--samples", type=int, default=50, help="draws of a turn, 20 steps each")
    parser.add_argument("--hmc", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    warnings.simplefilter("ignore", gdp.DrawsWarning)  # runs are short
    num_samples, turns = (5, 2) if options.quick else (options.samples, TURNS)
    rows = [row for width in options.widths for row in compared(width, num_samples, turns)]
    machine.show(rows)
    if options.hmc:
        sizes, repeats = ((4, 14), 1) if options.quick else ((20, 120), 2)
        of_hmc = hmc_compared(options.widths[0], sizes, repeats)
        machine.show(of_hmc)
        rows += of_hmc
    settings = {"rows": NUM_ROWS, "batch": BATCH, "chains": NUM_CHAINS, "turns": turns}
    print(machine.save("networks", rows, settings, options.out))


if __name__ == "__main__":
    main()
