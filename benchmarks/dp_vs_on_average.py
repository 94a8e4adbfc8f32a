"""How much larger is the worst case than the average? DP epsilon against on-average KL.

Private mean, linear and logistic regression, a real table and a small network: every worst-case
figure of the accountant over gamma, beside what one replaced example costs on average, of the same
posteriors. The headline is the ratio of like to like: the largest KL divergence that the accountant
allows over on-average KL, and the same of total variation. Everything is of one replaced example.

    python benchmarks/dp_vs_on_average.py

Beside its JSON it writes a picture.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dp_vs_on_average_plot
import jax.numpy as jnp
import machine
import numpy as np
import pandas as pd

import gibbs_dp as gdp
from gibbs_dp import io
from gibbs_dp.model import populations
from gibbs_dp.privacy import account
from gibbs_dp.problems.datasets import breast_cancer, neural_network
from gibbs_dp.problems.location import private_mean
from gibbs_dp.problems.regression import LogisticModel, linear_regression

DELTA = 1e-6
UNIT = gdp.Domain(x_bound=1.0)
CLIP = 4.0  # of the network's loss, in nats
NETWORK_WIDTH = 4
# Columns of a report that are kept, and the unit of each; `worst_case` adds the accountant's.
KEPT = {
    "on_average_kl": "nats",
    "gibbs_generalization": "nats, gamma times the generalization error",
    "on_average_tv": "probability",
    "generalization_error": "loss",
}
UNITS = {
    "pure_epsilon": "nats",
    "approximate_epsilon": f"nats, at delta {DELTA:g}",
    "worst_kl": "nats",
    "zcdp_rho": "nats",
    "gdp_mu": "standard deviations",
    "worst_tv": "probability",
    **KEPT,
    "on_average_tv_pinsker": "probability, at most this from on_average_kl",
    "ratio_kl": "worst_kl / on_average_kl",
    "ratio_pure": "pure_epsilon / on_average_kl",
    "ratio_tv": "worst_tv / on_average_tv",
}


@dataclass(frozen=True)
class Case:
    """A posterior, its population, and where the worst case comes from."""

    name: str
    posterior: Any
    population: Any
    n: int
    gammas: Any
    domain: Any = None
    options: Any = ()


@dataclass(frozen=True)
class Clipped:
    """A loss cut off at ``CLIP``, so that it has a bounded range whatever the weights."""

    loss: Any

    def __call__(self, theta, z):
        """Loss of one example."""
        return jnp.minimum(self.loss(theta, z), CLIP)

    def batch(self, theta, data):
        """Losses of many examples."""
        return jnp.minimum(self.loss.batch(theta, data), CLIP)


def clipped_sampler(key, n):
    """Simulate logistic regression with features clipped to norm 1, as a release clips them."""
    x, y = LogisticModel(5)(key, n)
    norm = jnp.linalg.norm(x, axis=1, keepdims=True)
    return x * jnp.minimum(1.0, 1.0 / jnp.maximum(norm, 1e-30)), y


def cases():
    """Every problem."""
    mean = private_mean()
    yield Case("private mean", mean.posterior, mean.population, 100, np.geomspace(0.1, 1000, 9))
    line = linear_regression(theta_bound=2.0)
    grid = np.geomspace(1e-3, 10, 9)
    yield Case("linear regression", line.posterior, line.population, 100, grid, line.domain)
    # Features clipped to norm 1. A flat prior on a ball has bounded range and no strong convexity;
    # a Gaussian prior has strong convexity and no bounded range, so no pure DP.
    ball = gdp.Flat(gdp.supports.l2_ball(5, 3.0))
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, ball)
    grid = np.geomspace(1e-2, 10, 7)
    yield Case("logistic regression in a ball", posterior, clipped_sampler, 200, grid, UNIT)
    table = breast_cancer()
    rows = populations.Table(UNIT.clip(table.population.data))
    yield Case("breast cancer, Gaussian prior", table.posterior, rows, 284, grid, UNIT)
    # No bound on weights: the worst case is that of the loss's range, [0, CLIP].
    net = neural_network(num_hidden=NETWORK_WIDTH)
    loss = gdp.losses.Declared(Clipped(net.posterior.loss), oscillation=CLIP)
    posterior = gdp.GibbsPosterior(loss, net.posterior.prior)
    yield Case(
        f"network, loss clipped at {CLIP:g}",
        posterior,
        net.population,
        net.n,
        np.geomspace(1e-3, 0.1, 5),
        gdp.Domain(),
        (("num_samples", 32),),
    )


def worst_case(case, gamma):
    """Figures of the accountant for one exact draw."""
    found = account(
        case.posterior, gamma=gamma, n=case.n, adjacency="replace-one", domain=case.domain
    )
    return {
        "pure_epsilon": found.pure(),
        "approximate_epsilon": found.epsilon(DELTA),
        "zcdp_rho": found.zcdp(),
        "gdp_mu": found.gdp(),
        "worst_kl": found.kl(),
        "worst_tv": found.tv(),
    }


def figures(case, row):
    """One line of the table, from a row of a report."""
    gamma, average = row["gamma"], row["on_average_kl"]
    gap = {
        f"gibbs_generalization{end}": gamma * row[f"generalization_error{end}"]
        for end in ("", "_se")
    }
    row = row | gap
    worst = worst_case(case, gamma)
    kept = {f"{name}{end}": row[f"{name}{end}"] for name in KEPT for end in ("", "_se")}
    ratios = {
        "ratio_kl": worst["worst_kl"] / average,
        "ratio_kl_se": worst["worst_kl"] / average**2 * row["on_average_kl_se"],
        "ratio_pure": worst["pure_epsilon"] / average,
        "ratio_tv": worst["worst_tv"] / row["on_average_tv"],
    }
    # Jensen and Pinsker: E TV <= sqrt(E KL / 2).
    pinsker = {"on_average_tv_pinsker": min(1.0, math.sqrt(average / 2))}
    return {"problem": case.name, "n": case.n, "gamma": gamma} | worst | kept | pinsker | ratios


def compare(num_datasets, progress, quick=False):
    """One row per problem and gamma, and every warning; quickly, one problem and two gammas."""
    rows, told, seconds = [], [], {}
    for case in cases():
        if quick:
            case = Case("private mean", case.posterior, case.population, case.n, (1.0, 100.0))
        began = time.perf_counter()
        report = gdp.audit(
            case.posterior,
            case.population,
            n=case.n,
            gammas=case.gammas,
            num_datasets=num_datasets,
            domain=case.domain,
            learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
            progress=progress,
            **dict(case.options),
        )
        seconds[case.name] = time.perf_counter() - began
        told += [f"{case.name}: {warning}" for warning in report.warnings]
        rows += [figures(case, row) for row in report.rows]
        if quick:
            break
    return pd.DataFrame(rows), told, seconds


SHOWN = (
    "problem",
    "gamma",
    "pure_epsilon",
    "approximate_epsilon",
    "worst_kl",
    "on_average_kl",
    "on_average_kl_se",
    "worst_tv",
    "on_average_tv",
    "on_average_tv_se",
    "ratio_kl",
    "ratio_tv",
)


def main():
    """Run the comparison; write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-datasets", type=int, default=256)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--quick", action="store_true", help="private mean, 64 datasets")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    count = 64 if parsed.quick else parsed.num_datasets
    table, told, seconds = compare(count, not parsed.quiet, parsed.quick)
    settings = {
        "num_datasets": count,
        "delta": DELTA,
        "adjacency": "replace-one",
        "units": UNITS,
        "warnings": told,
        "seconds": seconds,
    }
    rows = table.to_dict("records")
    saved = Path(machine.save("dp_vs_on_average", rows, settings, parsed.out))
    with io.atomic_write(saved.with_suffix(".png")) as path:
        dp_vs_on_average_plot.draw(table).savefig(path, format="png", dpi=100)
    print(table[list(SHOWN)].to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    for name, part in table.groupby("problem", sort=False):
        print(
            f"{name}: worst-case KL is {part['ratio_kl'].min():.3g} to "
            f"{part['ratio_kl'].max():.3g} times the average, pure epsilon "
            f"{part['ratio_pure'].min():.3g} to {part['ratio_pure'].max():.3g} times"
        )
    for line in told:
        print(line)
    print("saved", saved)


if __name__ == "__main__":
    main()
