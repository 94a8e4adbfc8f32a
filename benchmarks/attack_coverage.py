"""Whether 95% intervals of the average attacker's columns cover the truth.

The mean of 30 normal numbers (loss ``|theta - z|^2 / 2``, flat prior, gamma 0.05, 1 and 20) and the
private mean of Figure 2a (n = 100, gamma 10 and 100), whose answers are known in closed form or by
quadrature. Each is audited with many datasets, which are cut into audits of 64, the default of
these columns: what they share (tuning) comes from pilots.

    python benchmarks/attack_coverage.py [--repeats 1000]
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import jax
import machine
import numpy as np

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.estimators import average
from gibbs_dp.papers.on_average_kl.attackers import gaussian_mean_attacker, private_mean_attacker
from gibbs_dp.problems import build_problem
from gibbs_dp.quantities.attacker import FPRS, Attacker

COUNT, N_GAUSSIAN, N_PRIVATE = 64, 30, 100
GAUSSIAN, PRIVATE = (0.05, 1.0, 20.0), (10.0, 100.0)
EPSILONS = (0.1, 1.0)
NAMES = ("on_average_tv", "attack_auc", "attack_auc_per_pair", *FPRS, "on_average_renyi_2")


def gaussian(key, n):
    """Draw standard normal numbers."""
    return jax.random.normal(key, (n, 1))


def problems():
    """Posterior, population, n, gammas and the exact attacker of a gamma, by name."""
    mean = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
    private = build_problem("private-mean")
    return {
        "gaussian mean": (
            mean, gaussian, N_GAUSSIAN, GAUSSIAN,
            lambda g: gaussian_mean_attacker(g, N_GAUSSIAN, 1, 1.0),
        ),
        "private mean": (
            private.posterior, private.population, N_PRIVATE, PRIVATE,
            lambda g: private_mean_attacker(g, N_PRIVATE),
        ),
    }  # fmt: skip


def results_of(posterior, population, n, gammas, num_datasets, seed):
    """Audit; a result a gamma."""
    found, sweep = [], auditing.run_sweep
    auditing.run_sweep = lambda *a: found.append(sweep(*a)) or found[0]
    try:
        learn = [*gdp.DEFAULT, gdp.MutualInformation(0), gdp.Attacker(num_datasets=None)]
        kwargs = {"learn": learn, "progress": False, "key": seed}
        gdp.audit(posterior, population, n, gammas, num_datasets=num_datasets, **kwargs)
    finally:
        auditing.run_sweep = sweep
    return [track.result() for track in found[0]]


def parts(result):
    """Cut a result into audits of ``COUNT`` datasets."""
    for first in range(0, result.is_good.size // COUNT * COUNT, COUNT):
        part = np.zeros(result.is_good.size, bool)
        part[first : first + COUNT] = True
        kept = jax.tree.map(lambda a, part=part: a[part], result.kept)
        summary, is_good = result.summary.only(part), result.is_good[part]
        yield replace(result, summary=summary, is_good=is_good, kept=kept)


def estimates(result):
    """Value and standard error of every column, and of the profile."""
    attacker = Attacker()
    found = {}
    for name, values in attacker.means(result).items():
        mean = average(np.asarray(values, np.float64), np.isfinite(values))
        found[name] = mean.value, mean.se
    curve = attacker.curves(result)["privacy_profile"]
    for epsilon in EPSILONS:
        k = int(np.argmin(np.abs(curve["epsilon"] - epsilon)))
        found[f"profile({epsilon:g})"] = float(curve["delta"][k]), float(curve["delta_se"][k])
    return found


def truths(attacker):
    """Return what they estimate."""
    found = {name: getattr(attacker, name) for name in NAMES}
    profile = attacker.privacy_profile(np.array(EPSILONS))
    return found | {f"profile({e:g})": float(d) for e, d in zip(EPSILONS, profile, strict=True)}


def main():
    """Audit both problems, print coverages and save them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few audits, to see that it runs")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    asked = parser.parse_args()
    repeats = 4 if asked.quick else asked.repeats
    rows = []
    for name, (posterior, population, n, gammas, exact) in problems().items():
        results = results_of(posterior, population, n, gammas, repeats * COUNT, asked.seed)
        for gamma, result in zip(gammas, results, strict=True):
            truth = truths(exact(gamma))
            found = [estimates(part) for part in parts(result)]
            for column, true in truth.items():
                if true < 1e-6:  # no draw is so far out
                    continue
                value, se = np.array([one[column] for one in found]).T
                covered = np.abs(value - true) < 1.96 * se
                row = {
                    "problem": name,
                    "gamma": gamma,
                    "column": column,
                    "audits": covered.size,
                    "coverage": float(covered.mean()),
                    "coverage_se": float(np.sqrt(0.95 * 0.05 / covered.size)),
                    "truth": true,
                    "bias": float(value.mean() / true - 1),
                    "bias_se": float(value.std(ddof=1) / covered.size**0.5 / true),
                    "se_over_sd": float(se.mean() / value.std(ddof=1)),
                }
                rows.append(row)
                print(
                    f"{name:14s} gamma {gamma:6g} {column:22s} coverage {row['coverage']:.3f}  "
                    f"bias {row['bias']:+.4f} +- {row['bias_se']:.4f}  "
                    f"se/sd {row['se_over_sd']:.2f}"
                )
    settings = {"repeats": repeats, "num_datasets": COUNT, "seed": asked.seed}
    print("saved", machine.save("attack_coverage", rows, settings, asked.out))


if __name__ == "__main__":
    main()
