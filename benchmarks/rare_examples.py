"""Audits of data with rare examples that weigh much: right, or flagged.

The Gaussian mean with loss ``|theta - z|^2 / 2`` and prior N(0, 5^2) has an on-average KL of
``gamma^2 v / (1/25 + gamma n)`` whatever the law of the examples, of variance ``v``. Normal and
Poisson(3) examples, of which a share is one far number: rates 1e-4 to 1e-2, sizes 5 to 400, gammas
0.1, 1 and 10, eight keys each, n = 12, 1,024 datasets. Where 1 in 10,000 is 100, eight such
examples are expected in all datasets and ghosts, and they make half of the KL.

A row is *outside* where its 95% interval does not hold the truth, 5% of the time where all is well
(keys are common to cells, which therefore fail together), and *silently wrong* where it is outside,
more than four standard errors from the truth, and no warning says so.

    python benchmarks/rare_examples.py [--quick] [--keys 8] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import machine
import numpyro.distributions as dist

import gibbs_dp as gdp

N, PRIOR, NUM_DATASETS = 12, 5.0, 1024
LAWS = {"normal": (0.0, 1.0), "poisson": (3.0, 12.0)}
"""Mean and mean square."""
RATES, SIZES, GAMMAS = (1e-4, 3e-4, 1e-3, 1e-2), (5.0, 15.0, 40.0, 100.0, 400.0), (0.1, 1.0, 10.0)
WRONG_Z = 4.0


@dataclass(frozen=True)
class Outliers:
    """Examples of a law, of which a share is one far number."""

    rate: jax.Array
    size: jax.Array
    law: str

    def sample(self, key, n, num_ghosts):
        """Training examples and ghosts."""
        keys, shape = jax.random.split(key), (n + num_ghosts, 1)
        usual = jax.random.normal(keys[0], shape)
        if self.law == "poisson":
            usual = jax.random.poisson(keys[0], 3.0, shape).astype(usual.dtype)
        every = jnp.where(jax.random.bernoulli(keys[1], self.rate, shape), self.size, usual)
        return every[:n], every[n:]


jax.tree_util.register_dataclass(Outliers, data_fields=["rate", "size"], meta_fields=["law"])


def exact_kl(law, rate, size, gamma):
    """On-average KL, nats."""
    mean, square = LAWS[law]
    mean = (1 - rate) * mean + rate * size
    square = (1 - rate) * square + rate * size**2
    return gamma**2 * (square - mean**2) / (1 / PRIOR**2 + gamma * N)


def audit(posterior, law, rate, size, gamma, key):
    """One row of the table."""
    population = Outliers(jnp.asarray(rate), jnp.asarray(size), law)
    report = gdp.audit(
        posterior,
        population,
        N,
        [gamma],
        num_datasets=NUM_DATASETS,
        key=key,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    row, truth = report.rows[0], exact_kl(law, rate, size, gamma)
    z = (row["on_average_kl"] - truth) / row["on_average_kl_se"]
    is_in = row["on_average_kl_low"] <= truth <= row["on_average_kl_high"]
    return {
        "law": law,
        "rate": rate,
        "size": size,
        "gamma": gamma,
        "key": key,
        "truth": truth,
        **{name: row[name] for name in ("on_average_kl", "on_average_kl_se", "estimator")},
        "z": z,
        "is_inside": is_in,
        "num_warnings": len(report.warnings),
        "is_silently_wrong": not is_in and abs(z) > WRONG_Z and not report.warnings,
    }


def main():
    """Audit all cells."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="two cells, one key")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    prior = dist.Normal(jnp.zeros(1), PRIOR).to_event(1)
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior)
    rows = []
    cells, keys = list(itertools.product(LAWS, GAMMAS, RATES, SIZES)), range(args.keys)
    if args.quick:
        cells, keys = [cells[3], cells[-4]], range(1)
    for law, gamma, rate, size in cells:
        rows += [audit(posterior, law, rate, size, gamma, key) for key in keys]
        mine = rows[-len(keys) :]
        inside, flagged = (sum(bool(r[k]) for r in mine) for k in ("is_inside", "num_warnings"))
        mean = sum(r["on_average_kl"] for r in mine) / len(mine)
        print(
            f"{law:8} {gamma:5g} {rate:7g} {size:4g}: truth {mine[0]['truth']:8.4g}, "
            f"mean {mean:8.4g}, inside {inside} and flagged {flagged} of {len(keys)}",
            flush=True,
        )
    wrong = sum(r["is_silently_wrong"] for r in rows)
    outside = sum(not r["is_inside"] for r in rows)
    print(f"{len(rows)} audits: {outside} outside their interval, {wrong} silently wrong.")
    print(dict(Counter(r["estimator"] for r in rows)))
    settings = {"n": N, "num_datasets": NUM_DATASETS, "keys": len(keys)}
    machine.save("rare_examples", rows, settings, args.out)


if __name__ == "__main__":
    main()
