"""Are draws those of the posterior? Simulation-based calibration of every sampler, on 15 models.

    python benchmarks/calibration.py

A parameter is drawn from the prior and data given it; then its rank among draws of the posterior is
uniform, for every coordinate and for the loss (Talts et al. 2018). `gibbs_dp.sample` with default
settings for each kernel, 63 draws of each posterior; and the engine of audits as `gibbs_dp.audit`
sets it up, one draw of each of its eight chains, or eight of a sum's points. Of a row: the coverage
of central 90% intervals by ranks, its binomial error, and the p-value of the largest departure from
uniform (chi-square), times the number of statistics. A row is "off" below 1e-3: of 90 correct rows
one in 11 runs is. Whether the library itself warned is beside it.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import machine
import numpy as np
from calibration_models import GAMMA, MODELS
from jax.flatten_util import ravel_pytree
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.engine.quantity import Quantity

NUM_DATASETS, NUM_RANKED, OFF, CHAINS = 512, 63, 1e-3, 8  # as many as an audit has
KERNELS = {
    "default": None,
    "HMC": gdp.HMC(),
    "MALA": gdp.MALA(),
    "underdamped Langevin": gdp.UnderdampedLangevin(),
    "SMC": gdp.SMC(),
}
ENGINE = "engine of audits"
SAMPLERS = (*KERNELS, ENGINE)
QUICK = ("normal mean", "two hills")


def names_of(warnings):
    """Return the names in brackets at the ends of warnings."""
    return [str(w).rpartition("[")[2].rstrip("]") for w in warnings]


def pairs(model, num_datasets, seed):
    """Parameters of the prior, flat, and a dataset of each."""

    def one(key):
        first, second = jax.random.split(key)
        theta = model.draw(first)
        return theta, model.data(second, theta)

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), num_datasets))


def ranks_of_sample(model, kernel, num_datasets, seed):
    """Ranks among draws of `gibbs_dp.sample`, and its warnings."""
    posterior = gdp.GibbsPosterior(model.loss, model.prior)
    theta, data = pairs(model, num_datasets, seed)
    draws = gdp.sample(posterior, data, GAMMA, seed, kernel, is_batch=True)

    def statistics(theta, data):
        return jnp.append(ravel_pytree(theta)[0], posterior.empirical_loss(theta, data))

    drawn = jax.tree.map(lambda a: a.reshape(a.shape[0], -1, *a.shape[3:]), draws.theta)
    count = jax.tree.leaves(drawn)[0].shape[1]
    chosen = np.linspace(0, count - 1, NUM_RANKED).round().astype(int)
    drawn = jax.tree.map(lambda a: jnp.asarray(a[:, chosen]), drawn)
    found = jax.jit(jax.vmap(jax.vmap(statistics, in_axes=(0, None))))(drawn, data)
    true = jax.jit(jax.vmap(statistics))(theta, data)
    below, ties = (np.asarray(a) for a in jax.vmap(below_and_ties)(found, true))
    return (
        broken(below, ties, seed),
        NUM_RANKED,
        names_of(draws.warnings),
    )


def below_and_ties(drawn, true):
    """How many draws are below the truth, and how many are it but for rounding.

    Absolute losses are flat between the middle two of an even number of examples.
    """
    near = 1e-5 * (jnp.abs(true) + 1.0)
    return jnp.sum(drawn < true - near, axis=0), jnp.sum(jnp.abs(drawn - true) <= near, axis=0)


def broken(below, ties, seed):
    """Ranks with ties broken by chance: truth and draws are exchangeable."""
    return below + np.random.default_rng(seed).integers(0, ties, endpoint=True)


class RankValues(NamedTuple):
    """Of each dataset: how many chains' last draws are below the parameter, and are it."""

    below: Any
    ties: Any


class Ranks(Quantity):
    """Ranks of the parameter that examples carry with them."""

    name = "ranks"
    Values = RankValues
    needs_independent_chains = True

    def per_dataset(self, view):
        """Rank by the last draw of every chain; of a sum, by as many points, drawn by weight."""
        true = view.train[1][0]

        def statistics(theta):
            loss = view.posterior.empirical_loss(theta, view.train)
            return jnp.append(ravel_pytree(theta)[0], loss)

        last = view.draws.u[:, -1]
        if len(last) == 1:
            log_weight = jnp.log(view.draws.weight[0])
            last = view.draws.u[0][jax.random.categorical(view.key, log_weight, shape=(CHAINS,))]
        drawn = jax.vmap(lambda u: statistics(view.posterior.constrain(u)))(last)
        return RankValues(*(a.astype(drawn.dtype) for a in below_and_ties(drawn, true)))


def ranks_of_engine(model, num_datasets, seed):
    """Ranks among draws of an audit, and its warnings."""
    posterior = gdp.GibbsPosterior(lambda theta, z: model.loss(theta, z[0]), model.prior)

    def population(key, n):
        first, second = jax.random.split(key)
        theta = model.draw(first)
        data = model.data(second, theta)
        size = jax.tree.leaves(data)[0].shape[0]
        # Ghosts and whatever else is asked for are further examples of the same parameter.
        keys = jax.vmap(lambda i: jax.random.fold_in(second, i))(jnp.arange(1, -(-n // size)))
        more = jax.vmap(model.data, in_axes=(0, None))(keys, theta)
        loss = jnp.sum(jax.vmap(lambda z: model.loss(theta, z))(data))
        carried = jnp.append(ravel_pytree(theta)[0], loss)
        examples = jax.tree.map(
            lambda a, b: jnp.concatenate([a, b.reshape(-1, *a.shape[1:])])[:n], data, more
        )
        return examples, jnp.tile(carried, (n, 1))

    data = jax.eval_shape(lambda key: model.data(key, model.draw(key)), jax.random.key(0))
    n, found = jax.tree.leaves(data)[0].shape[0], []
    sweep, others = auditing.run_sweep, auditing.others
    auditing.run_sweep = lambda *a: found.append(sweep(*a)) or found[-1]
    auditing.others = lambda *a: (*others(*a), Ranks())
    try:
        report = gdp.audit(
            posterior,
            population,
            n,
            [GAMMA],
            num_datasets=num_datasets,
            key=seed,
            learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
            progress=False,
        )
    finally:
        auditing.run_sweep, auditing.others = sweep, others
    result = found[-1][0].result()
    ranks = result.summary.values.ranks
    below, ties = (np.asarray(a).astype(int)[result.is_good] for a in (ranks.below, ranks.ties))
    names = names_of(report.warnings)
    return broken(below, ties, seed), CHAINS, names


def judge(below, count):
    """Coverage of central intervals, and the p-value of uniform ranks; the worst statistic's."""
    num_ranks = count + 1
    bins = min(num_ranks, 16)
    p_values, covered = [], []
    for column in below.T:
        place = np.minimum((column + 0.5) / num_ranks * bins, bins - 1e-9).astype(int)
        expected = np.diff(np.floor(np.arange(bins + 1) * num_ranks / bins)) / num_ranks
        p_values.append(
            stats.chisquare(np.bincount(place, minlength=bins), expected * len(place)).pvalue
        )
        low, high = 0.05 * num_ranks, 0.95 * num_ranks
        # A rank stands for an interval of that length: what of it is inside counts.
        share = np.clip(np.minimum(column + 1, high) - np.maximum(column, low), 0.0, 1.0)
        covered.append(share.mean())
    worst = int(np.argmin(p_values))
    coverage = covered[int(np.argmax(np.abs(np.array(covered) - 0.9)))]
    p_value = min(1.0, p_values[worst] * len(p_values))
    return {
        "statistics": len(p_values),
        "coverage": float(coverage),
        "coverage_se": math.sqrt(0.9 * 0.1 / len(below)),
        "p_value": float(p_value),
        "verdict": "off" if p_value < OFF else "uniform",
    }


def row(name: str, sampler: str, num_datasets: int, seed: int) -> dict[str, Any]:
    """One model and sampler."""
    begin = time.perf_counter()
    model = MODELS[name]
    about = {"model": name, "sampler": sampler}
    try:
        if sampler == ENGINE:
            below, count, warnings = ranks_of_engine(model, num_datasets, seed)
        else:
            below, count, warnings = ranks_of_sample(model, KERNELS[sampler], num_datasets, seed)
    except ValueError as refusal:
        seconds = time.perf_counter() - begin
        about |= {"verdict": "refused", "refusal": str(refusal), "seconds": seconds}
        return about | {"warnings": {}}
    return about | {
        "datasets": len(below),
        **judge(below, count),
        "warnings": dict(Counter(warnings)),
        "seconds": time.perf_counter() - begin,
    }


def line_of(r: dict[str, Any]) -> str:
    """Print one row."""
    begin = f"{r['model']:30s} {r['sampler']:21s}"
    if "coverage" not in r:
        return f"{begin} refused: {r['refusal']}"
    return (
        f"{begin} 90%: {r['coverage']:.3f} ± {r['coverage_se']:.3f}  p {r['p_value']:.2g} "
        f"{r['verdict']:8s} {r['seconds']:5.1f} s  {', '.join(r['warnings'])}"
    )


def main() -> None:
    """Calibrate every sampler on every model, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=NUM_DATASETS)
    parser.add_argument("--seed", type=int, default=28)
    parser.add_argument("--only", nargs="*", help="models (default: all)")
    parser.add_argument("--samplers", nargs="*", help=f"of {', '.join(SAMPLERS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="two models, few datasets")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    asked = parser.parse_args()
    names = QUICK if asked.quick else tuple(asked.only or MODELS)
    num_datasets = 64 if asked.quick else asked.datasets
    samplers = tuple(asked.samplers or SAMPLERS)
    settings = {"datasets": num_datasets, "seed": asked.seed, "gamma": GAMMA}
    others = machine.rows_of_others("calibration", "model", (), asked.out)
    is_part = asked.only or asked.samplers
    order = [(model, sampler) for model in MODELS for sampler in SAMPLERS]
    rows = [r for r in others if is_part and not (r["model"] in names and r["sampler"] in samplers)]
    for name in names:
        for sampler in samplers:
            found = row(name, sampler, num_datasets, asked.seed)
            rows.append(found)
            rows.sort(key=lambda r: order.index((r["model"], r["sampler"])))
            print(line_of(found), flush=True)
            # Of what takes hours, whatever is known is kept.
            machine.save("calibration", rows, settings, asked.out)
    print("saved", machine.save("calibration", rows, settings, asked.out))


if __name__ == "__main__":
    main()
