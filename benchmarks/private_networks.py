"""Private networks: states of one private chain against DP-SGD, at the same budgets.

    pip install jax-privacy
    python benchmarks/private_networks.py      # an hour on two cores; --quick for a look
    python benchmarks/private_networks.py --methods "by rule"      # 20 minutes; others' rows stay

A network with one hidden layer on scikit-learn's digits and two made tables of 20,000 rows, at
epsilon 1, 3 and 8 and a delta of 1e-5 under add/remove, whole trajectories, by dp-accounting's
privacy loss distribution. Ours is `gibbs_dp.release` of 20 states of one chain, `ChainDraw(SGLD)`:
its last state alone, and the average of their probabilities. DP-SGD is jax-privacy's clipped
gradients with Poisson batches and its own noise, from a random start, its last state and the same
average. Both have the same rate, steps, clip and noise multiplier, and the one number that is left,
ours the step and theirs the learning rate, is the best of six on a table that is in no result; or,
"in hindsight", on the very rows that judge, which nobody can. "By rule" is ours with nothing
chosen: what `ChainDraw(thinning=...)` runs when it is given a budget alone.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import machine
import numpy as np
from scipy.optimize import brentq

import gibbs_dp as gdp
from gibbs_dp.privacy.chain import subsampled_epsilon
from gibbs_dp.privacy.chain_calibration import LARGEST_RATE, MOST_ROWS, NUM_EPOCHS

EPSILONS, DELTA, HIDDEN, CLIP = (1.0, 3.0, 8.0), 1e-5, 32, 1.0
NUM_KEPT = 20
STEPS, RATES = (2e-5, 6e-5, 2e-4, 6e-4, 2e-3, 6e-3), (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TRIAL = 1_000  # seeds of the table that the step and the learning rate are chosen on


class Rows(NamedTuple):
    """Rows to train on, and others to be judged by; columns of scale one, classes 0, 1, ..."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def rate(self):
        """Share of the rows that a step sees: some 250 of them, or a tenth if that is less."""
        return min(0.1, 250 / len(self.x))

    @property
    def num_steps(self):
        """Of a run: every row is seen some 30 times."""
        return 400 if len(self.x) < 5_000 else 2_000

    @property
    def thinning(self):
        """Steps between the states that are kept, which fill the second half of a run."""
        return self.num_steps // (2 * NUM_KEPT)


def digits(seed):
    """1,400 of scikit-learn's 8 x 8 digits; the others are for judging."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    x, y = (x[order] - 8.0) / 8.0, y[order]
    return Rows(x[:1400], y[:1400], x[1400:], y[1400:])


def made(maker, num_rows=20_000, num_tests=5_000):
    """Return a made table, the last rows of which are for judging."""

    def rows(seed):
        x, y = maker(num_rows + num_tests, np.random.default_rng(seed))
        x = x.astype(np.float64)
        return Rows(x[:num_rows], y[:num_rows], x[num_rows:], y[num_rows:])

    return rows


def rings(count, rng):
    """Five classes by the length of ten Gaussian numbers."""
    from scipy import stats

    x = rng.normal(size=(count, 10))
    edges = stats.chi2.ppf([0.2, 0.4, 0.6, 0.8], 10)
    return x, np.searchsorted(edges, np.sum(x**2, axis=1))


def clouds(count, rng, num_clouds=15, spread=0.9):
    """Five classes of three clouds each in ten dimensions; centers are the same in every draw."""
    centers = np.random.default_rng(7).normal(size=(num_clouds, 10))
    which = rng.integers(num_clouds, size=count)
    return centers[which] + spread * rng.normal(size=(count, 10)), which % 5


def crosses(count, rng):
    """Four classes by the signs of two products of six numbers: to choose settings on."""
    x = rng.normal(size=(count, 6))
    return x, 2 * (x[:, 0] * x[:, 1] > 0) + (x[:, 2] * x[:, 3] > 0)


TABLES = {"digits": digits, "rings": made(rings), "clouds": made(clouds)}


def zeros(num_columns, num_classes):
    """Zeros of the network's shapes."""
    sizes = num_columns, HIDDEN, num_classes
    return [{"w": jnp.zeros((a, b)), "b": jnp.zeros(b)} for a, b in itertools.pairwise(sizes)]


def log_probabilities(params, x):
    """Of the classes, of one row or many."""
    hidden = jnp.tanh(x @ params[0]["w"] + params[0]["b"])
    return jax.nn.log_softmax(hidden @ params[1]["w"] + params[1]["b"])


def cross_entropy(params, z):
    """Loss of one example."""
    return -log_probabilities(params, z[0])[z[1]]


@functools.cache
def posterior_of(num_columns, num_classes):
    """Cross-entropy and a standard normal prior; one object, whose programs are compiled once."""
    prior = gdp.priors.normal_like(zeros(num_columns, num_classes))
    return gdp.GibbsPosterior(cross_entropy, prior)


@functools.cache
def noise_for(epsilon, rate, num_steps):
    """Noise multiplier of a run that meets the budget."""

    def excess(log_noise):
        spent = subsampled_epsilon(math.exp(log_noise), rate, num_steps=num_steps, delta=DELTA)
        return spent - epsilon

    return math.exp(brentq(excess, math.log(0.3), math.log(100.0), xtol=1e-3)) * 1.001


def ours(rows, epsilon, step, seed):
    """States of one private chain, stacked."""
    del seed  # releases take their randomness from the operating system
    noise = noise_for(epsilon, rows.rate, rows.num_steps)
    kernel = gdp.SGLD(step, num_steps=rows.num_steps, clip=CLIP, sampling_rate=rows.rate)
    gamma = rows.rate * math.sqrt(2 / step) / (CLIP * noise)
    found = released(rows, gdp.privacy.ChainDraw(kernel, gamma, rows.thinning))
    assert found.guarantee.epsilon <= epsilon
    return found.theta


def by_rule(rows, epsilon, setting, seed):
    """States of one private chain, of the settings that the budget alone gives."""
    del setting, seed
    num_steps = math.ceil(NUM_EPOCHS / min(LARGEST_RATE, MOST_ROWS / len(rows.x)))
    draw = gdp.privacy.ChainDraw(thinning=num_steps // (2 * NUM_KEPT))
    return released(rows, draw, epsilon=epsilon).theta


def released(rows, method, **budget):
    """Release states by a chain."""
    reach = float(np.linalg.norm(np.concatenate([rows.x, rows.x_test]), axis=1).max())
    with tempfile.TemporaryDirectory() as folder:
        return gdp.release(
            posterior_of(rows.x.shape[1], int(rows.y.max()) + 1),
            (rows.x, rows.y),
            n=len(rows.x),
            domain=gdp.Domain(x_bound=reach),
            adjacency="add-remove",
            delta=DELTA,
            num_draws=NUM_KEPT,
            method=method,
            ledger=gdp.Ledger.create(
                Path(folder) / "ledger", epsilon=20.0, delta=1e-4, adjacency="add-remove"
            ),
            accept=["float-arithmetic"],
            **budget,
        )


def dp_sgd(rows, epsilon, rate, seed):
    """States of DP-SGD, stacked: jax-privacy's clipped gradients, Poisson batches, its noise."""
    import jax_privacy
    from jax_privacy import batch_selection, noise_addition

    noise = noise_for(epsilon, rows.rate, rows.num_steps)
    rng = np.random.default_rng(seed)
    params = jax.tree.map(
        lambda a: (
            jnp.asarray(rng.normal(size=a.shape) / math.sqrt(max(a.shape[0], 1)))
            if a.ndim == 2
            else a
        ),
        zeros(rows.x.shape[1], int(rows.y.max()) + 1),
    )
    clipped = jax_privacy.clipped_grad(
        lambda params, x, y: cross_entropy(params, (x[0], y[0])), l2_clip_norm=CLIP,
        batch_argnums=(1, 2),
    )  # fmt: skip
    privatizer = noise_addition.gaussian_privatizer(
        stddev=noise * clipped.sensitivity(), prng_key=jax.random.key(seed)
    )
    size = rows.rate * len(rows.x)
    most = math.ceil(size + 6 * math.sqrt(size))

    @jax.jit
    def step(params, state, x, y, is_padding):
        gradient = clipped(params, x, y, is_padding_example=is_padding)
        noisy, state = privatizer.update(gradient, state)
        return jax.tree.map(lambda p, g: p - rate * g / size, params, noisy), state

    batches = batch_selection.CyclicPoissonSampling(
        sampling_prob=rows.rate, iterations=rows.num_steps
    ).batch_iterator(len(rows.x), rng=seed)
    state, kept = privatizer.init(params), []
    for index, chosen in enumerate(batches):
        padded = np.full(most, -1)
        padded[: min(len(chosen), most)] = chosen[:most]
        params, state = step(params, state, rows.x[padded], rows.y[padded], padded < 0)
        left = rows.num_steps - 1 - index
        if left % rows.thinning == 0 and left < NUM_KEPT * rows.thinning:
            kept.append(params)
    return jax.tree.map(lambda *a: jnp.stack(a), *kept)


METHODS = {"ours": (ours, STEPS), "DP-SGD": (dp_sgd, RATES), "by rule": (by_rule, (0.0,))}


def judged(states, rows):
    """Accuracy, log loss and calibration error of the last state and of the average."""
    x, places = jnp.asarray(rows.x_test), np.arange(len(rows.y_test))
    logs = np.asarray(jax.vmap(lambda p: log_probabilities(p, x))(states), np.float64)
    average = np.log(np.exp(logs).mean(axis=0))
    found = {}
    for name, table in (("last", logs[-1]), ("average", average)):
        sure, is_right = np.exp(table.max(axis=1)), table.argmax(axis=1) == rows.y_test
        which = np.minimum((15 * sure).astype(int), 14)
        gaps = [np.sum((which == k) * (is_right - sure)) for k in range(15)]
        found[name] = {
            "accuracy": float(is_right.mean()),
            "log loss": float(-table[places, rows.y_test].mean()),
            "calibration error": float(np.abs(gaps).sum() / len(places)),
        }
    return found


def best_settings(table, methods, epsilons):
    """Choose the step and the learning rate for every budget on another table of that length."""
    found = {}
    rows = made(crosses, len(TABLES[table](0).x))(TRIAL)
    for name, epsilon in itertools.product(methods, epsilons):
        method, grid = METHODS[name]
        if len(grid) == 1:
            continue
        losses = [
            judged(method(rows, epsilon, setting, TRIAL), rows)["last"]["log loss"]
            for setting in grid
        ]
        found[name, epsilon] = grid[int(np.argmin(losses))]
        print(f"{name}, epsilon {epsilon:g}: {found[name, epsilon]:g}", flush=True)
    return found


def measure(table, methods, num_seeds, epsilons):
    """Rows of one table: means over seeds, and their standard errors."""
    out, settings = [], best_settings(table, methods, epsilons)
    for epsilon, name in itertools.product(epsilons, methods):
        method, grid = METHODS[name]
        seen = {setting: [] for setting in grid}
        for setting, seed in itertools.product(grid, range(num_seeds)):
            rows = TABLES[table](seed)
            seen[setting].append(judged(method(rows, epsilon, setting, seed), rows))
        for which in ("last", "average"):

            def loss(setting, which=which, seen=seen):
                return np.mean([each[which]["log loss"] for each in seen[setting]])

            choices = {"by the budget": grid[0]}
            if len(grid) > 1:
                best = min(grid, key=loss)
                choices = {"elsewhere": settings[name, epsilon], "in hindsight": best}
            for chosen, setting in choices.items():
                row = {"table": table, "epsilon": epsilon, "method": name, "states": which}
                row |= {"chosen": chosen, "setting": setting, "seeds": num_seeds}
                for column in ("accuracy", "log loss", "calibration error"):
                    values = np.array([each[which][column] for each in seen[setting]])
                    row[column] = float(values.mean())
                    spread = float(np.std(values, ddof=min(1, num_seeds - 1)))
                    row[f"{column}, se"] = spread / math.sqrt(num_seeds)
                out.append(row)
                told = f"{name}, {which}, {chosen} ({setting:g})"
                print(
                    f"{table}, epsilon {epsilon:g}, {told}: accuracy {row['accuracy']:.3f}, "
                    f"log loss {row['log loss']:.3f}, calibration {row['calibration error']:.3f}",
                    flush=True,
                )
    return out


def main():
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--quick", action="store_true", help="one seed of digits, one budget")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    warnings.simplefilter("ignore")  # of single-precision and idealized arithmetic
    tables, seeds, epsilons = parsed.tables, parsed.seeds, EPSILONS
    if parsed.quick:
        tables, seeds, epsilons = ["digits"], 1, (8.0,)
    rows = [
        *machine.rows_of_others("private_networks", "table", tables, parsed.out),
        *(
            row
            for row in machine.rows_of_others(
                "private_networks", "method", parsed.methods, parsed.out
            )
            if row["table"] in tables
        ),
    ]
    settings = {"ours: steps": STEPS, "DP-SGD: learning rates": RATES, "delta": DELTA}
    for table in tables:
        rows += measure(table, parsed.methods, seeds, epsilons)
        path = machine.save("private_networks", rows, settings, parsed.out)
    machine.show(rows)
    print("saved", path)


if __name__ == "__main__":
    main()
