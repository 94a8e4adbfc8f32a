"""How far the estimators of on-average KL, and what is made of their draws, are off on average.

The mean of 20 normal numbers, whose on-average KL is ``gamma / 20``: every estimator with few, the
default number of and many draws, at four KLs; 16,384 datasets each, so that biases of 1% show. A
bias counts as seen where it is 4 standard errors or more.

    python benchmarks/estimator_bias.py
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import machine
import numpy as np

import gibbs_dp as gdp
from gibbs_dp.papers.on_average_kl.attackers import gaussian_mean_attacker

N, DATASETS, SEEN = 20, 16_384, 4.0
KLS = (0.02, 0.2, 2.0, 8.0)
ESTIMATORS = ("auto", "one-sided", "two-sided", "ghost")
SHAPES = {"few": (4, 4), "default": (8, 8), "many": (16, 32)}
ATTACKER = {"on_average_tv", "attack_auc", "attack_auc_per_pair", "on_average_renyi_2"}


def population(key: Any, n: int) -> Any:
    """Draw standard normal numbers."""
    return jax.random.normal(key, (n, 1))


def truth(kl: float) -> dict[str, float]:
    """Return closed forms of columns."""
    exact = gaussian_mean_attacker(N * kl, N, 1, 1.0)
    return {"on_average_kl": kl} | {name: getattr(exact, name) for name in sorted(ATTACKER)}


def rows_of(estimator: str, shape: str, num_datasets: int, seed: int) -> list[dict[str, Any]]:
    """Audit with one estimator and number of draws; a row a KL and column."""
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
    chains, draws = SHAPES[shape]
    learn = gdp.DEFAULT
    if estimator != "auto":
        learn = [q for q in learn if not isinstance(q, gdp.Attacker)]
    report = gdp.audit(
        posterior,
        population,
        N,
        [N * kl for kl in KLS],
        num_datasets=num_datasets,
        key=seed,
        sampler=gdp.Chains(num_chains=chains, num_samples=draws),
        learn=[*learn, gdp.OnAverageKL(estimator), gdp.MutualInformation(0)],
        progress=False,
    )
    rows = []
    for kl, row in zip(KLS, report.rows, strict=True):
        flagged = str(row.get("renyi_tail_flag", "none")).split(" and ")
        warned = [w for w in report.warnings if w.startswith(f"gamma={N * kl:g}:")]
        for column, true in truth(kl).items():
            if not np.isfinite(row.get(f"{column}_se", np.nan)):  # none, or of a lower bound
                continue
            bias, se = row[column] / true - 1, row[f"{column}_se"] / true
            rows.append(
                {
                    "estimator": estimator,
                    "used": row["estimator"],
                    "draws": f"{chains} x {draws}",
                    "kl": kl,
                    "column": column,
                    "relative_bias": bias,
                    "relative_bias_se": se,
                    "seen": abs(bias) >= SEEN * se,
                    "flagged": column.rpartition("_")[2] in flagged or bool(row["tail_flag"])
                    if column != "on_average_kl"
                    else bool(row["tail_flag"]),
                    "warnings": [str(w).rpartition("[")[2].rstrip("]") for w in warned],
                }
            )
    return rows


def main() -> None:
    """Audit with every estimator and shape, print biases and save them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=DATASETS)
    parser.add_argument("--seed", type=int, default=28)
    parser.add_argument("--quick", action="store_true", help="few datasets, one estimator")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    asked = parser.parse_args()
    num_datasets = 64 if asked.quick else asked.datasets
    rows = []
    for estimator in ESTIMATORS[:1] if asked.quick else ESTIMATORS:
        for shape in SHAPES:
            found = rows_of(estimator, shape, num_datasets, asked.seed)
            rows += found
            for r in found:
                print(
                    f"{estimator:10s} {r['draws']:8s} KL {r['kl']:<5g} {r['column']:20s} "
                    f"{r['relative_bias']:+.4f} ± {r['relative_bias_se']:.4f}"
                    f"{' SEEN' if r['seen'] else ''}{' flagged' if r['flagged'] else ''} "
                    f"{', '.join(r['warnings'])}",
                    flush=True,
                )
    settings = {"n": N, "datasets": num_datasets, "seed": asked.seed}
    print("saved", machine.save("estimator_bias", rows, settings, asked.out))


if __name__ == "__main__":
    main()
