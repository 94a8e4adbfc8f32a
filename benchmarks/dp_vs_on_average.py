"""How much larger is the worst case than the average? DP epsilon against on-average KL.

For private mean, linear and logistic regression and a real table: every worst-case figure of the
accountant over gamma, beside on-average KL, total variation bounds and generalization error of the
same posteriors. The headline is the ratio of the worst case to the average, KL against KL: both
are in nats and bound the same divergence, one over all neighbours, the other over the population.

    python benchmarks/dp_vs_on_average.py

Beside its JSON it writes a picture.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import jax.numpy as jnp
import machine
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import gibbs_dp as gdp
from gibbs_dp import io
from gibbs_dp.model import populations
from gibbs_dp.privacy import account
from gibbs_dp.problems.breast_cancer import breast_cancer
from gibbs_dp.problems.linear_regression import linear_regression
from gibbs_dp.problems.logistic_regression import LogisticModel
from gibbs_dp.problems.private_mean import private_mean

DELTA = 1e-6
UNIT = gdp.Domain(x_bound=1.0)
ROWS_KEPT = (
    "gamma",
    "on_average_kl",
    "on_average_kl_se",
    "generalization_error",
    "generalization_error_se",
    "on_average_tv_bound",
)
# Column -> label, colour, marker, line.
FIGURES = {
    "pure_epsilon": ("pure DP epsilon", "#D55E00", "s", "-"),
    "approximate_epsilon": (f"(eps, {DELTA:g})-DP epsilon", "#E69F00", "v", "--"),
    "gdp": ("Gaussian DP mu", "#999999", "x", "-"),
    "zcdp": ("zCDP rho", "#F0E442", "d", "-"),
    "worst_kl": ("worst-case KL", "#CC79A7", "P", "--"),
    "worst_tv": ("worst-case total variation", "black", "", "-"),
    "on_average_tv_bound": ("on-average total variation, at most (from KL)", "black", "", ":"),
    "on_average_kl": ("on-average KL", "#0072B2", "o", "-"),
    "generalization_error": ("generalization error (above 4 s.e.)", "#009E73", "^", "-"),
}


def clipped_sampler(key, n):
    """Simulate logistic regression with features clipped to norm 1, as a release clips them."""
    x, y = LogisticModel(5)(key, n)
    norm = jnp.linalg.norm(x, axis=1, keepdims=True)
    return x * jnp.minimum(1.0, 1.0 / jnp.maximum(norm, 1e-30)), y


def cases():
    """Name, posterior, population, domain, n and gammas of every problem."""
    mean = private_mean()
    yield ("private mean", mean.posterior, mean.population, None, 100, np.geomspace(0.1, 1000, 9))
    line = linear_regression(theta_bound=2.0)
    yield (
        "linear regression",
        line.posterior,
        line.population,
        line.domain,
        100,
        np.geomspace(1e-3, 10, 9),
    )
    # Features clipped to norm 1. A flat prior on a ball has bounded range and no strong convexity;
    # a Gaussian prior has strong convexity and no bounded range, so no pure DP.
    ball = gdp.Flat(gdp.supports.l2_ball(5, 3.0))
    yield (
        "logistic regression (ball)",
        gdp.GibbsPosterior(gdp.losses.logistic, ball),
        clipped_sampler,
        UNIT,
        200,
        np.geomspace(1e-2, 10, 7),
    )
    table = breast_cancer()
    yield (
        "breast cancer (Gaussian prior)",
        table.posterior,
        populations.Table(UNIT.clip(table.population.data)),
        UNIT,
        284,
        np.geomspace(1e-2, 10, 7),
    )


def compare(num_datasets, progress, quick=False):
    """One row per problem and gamma; quickly, one problem and three gammas."""
    rows = []
    for name, posterior, population, domain, n, gammas in cases():
        if quick:
            if name != "private mean":
                break
            gammas = gammas[::4]
        report = gdp.audit(
            posterior,
            population,
            n=n,
            gammas=gammas,
            num_datasets=num_datasets,
            domain=domain,
            num_information=0,
            progress=progress,
        )
        for warning in report.warnings:
            print(f"{name}: {warning}")
        for row in report.rows:
            found = account(
                posterior, gamma=row["gamma"], n=n, adjacency="replace-one", domain=domain
            )
            # Jensen and Pinsker: E TV <= sqrt(E KL / 2), the average's own bound.
            row = row | {"on_average_tv_bound": min(1.0, math.sqrt(row["on_average_kl"] / 2))}
            worst = {
                "pure_epsilon": found.pure(),
                "approximate_epsilon": found.epsilon(DELTA),
                "zcdp": found.zcdp(),
                "gdp": found.gdp(),
                "worst_kl": found.kl(),
                "worst_tv": found.tv(),
                "renyi_8": found.renyi(8.0),
            }
            rows.append(
                {
                    "problem": name,
                    "n": n,
                    **{k: row[k] for k in ROWS_KEPT},
                    **worst,
                    "ratio": found.kl() / row["on_average_kl"],
                    "pure_ratio": found.pure() / row["on_average_kl"],
                }
            )
    return pd.DataFrame(rows)


def draw(table):
    """Curves of each problem, and the ratio of all of them."""
    figure = Figure(figsize=(12.5, 7.5), layout="constrained")
    places = figure.subplots(2, 3).ravel()
    for axes, (name, part) in zip(places, table.groupby("problem", sort=False), strict=False):
        noise = 4 * part["generalization_error_se"]
        part = part.assign(
            generalization_error=part["generalization_error"].where(
                part["generalization_error"] > noise
            )
        )
        for column, (label, color, marker, line) in FIGURES.items():
            good = np.isfinite(part[column]) & (part[column] > 0)
            axes.plot(
                part["gamma"][good],
                part[column][good],
                line,
                color=color,
                marker=marker,
                ms=4,
                label=label,
            )
        axes.set(
            xscale="log",
            yscale="log",
            title=f"{name}, n = {part['n'].iloc[0]}",
            xlabel="gamma (inverse temperature)",
            ylabel="nats (mu and loss: own units)",
        )
        axes.grid(alpha=0.3)
        places[4].plot(part["gamma"], part["ratio"], marker="o", ms=4, label=name)
    places[4].set(
        xscale="log",
        yscale="log",
        xlabel="gamma (inverse temperature)",
        title="headline: worst-case KL / on-average KL",
        ylabel="ratio",
    )
    places[4].axhline(1.0, color="black", linewidth=0.8)
    places[4].grid(alpha=0.3)
    places[5].set_axis_off()
    curves = places[5].legend(
        *places[1].get_legend_handles_labels(),
        frameon=False,
        loc="upper center",
        fontsize=8,
        title="problems",
    )
    places[5].add_artist(curves)
    places[5].legend(
        *places[4].get_legend_handles_labels(),
        frameon=False,
        loc="lower center",
        fontsize=8,
        title="ratio",
    )
    return figure


def main():
    """Run the comparison; write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-datasets", type=int, default=512)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--quick", action="store_true", help="private mean, 32 datasets")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    count = 32 if parsed.quick else parsed.num_datasets
    table = compare(count, not parsed.quiet, parsed.quick)
    rows = table.to_dict("records")
    saved = Path(machine.save("dp_vs_on_average", rows, {"num_datasets": count}, parsed.out))
    if not parsed.quick:
        with io.atomic_write(saved.with_suffix(".png")) as path:
            draw(table).savefig(path, format="png", dpi=150)
    shown = table[
        [
            "problem",
            "gamma",
            "pure_epsilon",
            "approximate_epsilon",
            "zcdp",
            "gdp",
            "worst_kl",
            "on_average_kl",
            "on_average_kl_se",
            "worst_tv",
            "on_average_tv_bound",
            "generalization_error",
            "ratio",
        ]
    ]
    print(shown.to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    for name, part in table.groupby("problem", sort=False):
        print(
            f"{name}: worst-case KL is {part['ratio'].min():.3g} to {part['ratio'].max():.3g} "
            f"times the average, pure epsilon {part['pure_ratio'].min():.3g} to "
            f"{part['pure_ratio'].max():.3g} times"
        )
    print("saved", saved)


if __name__ == "__main__":
    main()
