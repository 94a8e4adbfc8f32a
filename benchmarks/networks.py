"""Steps a second of chains on minibatches, against a loop that is written by hand.

    python benchmarks/networks.py
    python benchmarks/networks.py --widths 96 280 960      # 16,522, 99,690 and 994,570 weights

SGHMC for a network (64-96-96-10, cross-entropy, made-up rows), two chains, batches of 256 rows of
20,000. By hand: `jax.lax.scan` over the same steps of a pytree, in one compiled program, nothing
kept but the last position; on a GPU also with products that are as exact as ours. All run once with
compilation, then in turns; a rate is that of the fastest turn.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings

import jax
import jax.numpy as jnp
import machine
import numpy as np

import gibbs_dp as gdp

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


def ours(data, start, num_samples):
    """Return a function that runs the library's chains."""
    blank = jax.tree.map(jnp.zeros_like, start)
    posterior = gdp.GibbsPosterior(loss, gdp.priors.normal_like(blank, 0.3))
    kernel = gdp.StochasticLangevin(STEP_SIZE, FRICTION)

    def run():
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


def main():
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", nargs="+", type=int, default=[96], help="of hidden layers")
    parser.add_argument("--samples", type=int, default=50, help="draws of a turn, 20 steps each")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    warnings.simplefilter("ignore", gdp.DrawsWarning)  # runs are short
    num_samples, turns = (5, 2) if options.quick else (options.samples, TURNS)
    rows = [row for width in options.widths for row in compared(width, num_samples, turns)]
    machine.show(rows)
    settings = {"rows": NUM_ROWS, "batch": BATCH, "chains": NUM_CHAINS, "turns": turns}
    print(machine.save("networks", rows, settings, options.out))


if __name__ == "__main__":
    main()
