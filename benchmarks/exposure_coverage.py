"""Whether 95% intervals of what rows of a table cost cover the truth, and the ranking misleads.

Two tables: 40 normal numbers, whose mean (loss ``|theta - z|^2 / 2``, flat prior, n = 10) has the
closed form ``gamma (|z_i - mean|^2 + variance) / (2 n)``; and the ten rows of a finite problem
(n = 4) that is summed exactly. Each is audited with many datasets, which are cut into audits of
128 and of 512: what these share (tuning) comes from pilots. Coverage of Student's interval, as
``Report.exposure`` has it, over all rows; and of the three rows that rank first in each audit,
where the mean of ``ranked_by`` and of what is reported show what choosing the largest does.

    python benchmarks/exposure_coverage.py [--repeats 300]
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace

import machine
import numpy as np

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.auditing.report_data import exposure_frame
from gibbs_dp.quantities.exposure import table_of_rows, training_rows

COUNTS, TOP = (128, 512), 3
GAMMAS = (0.5, 5.0)
THETA = np.linspace(0.0, 1.0, 5)
Z = np.random.default_rng(0).normal(size=(40, 1))
FINITE = np.repeat([0.0, 0.5, 1.0], [5, 3, 2])


def squared(theta, z):
    """Loss of the finite problem."""
    return (theta - z) ** 2


def gaussian_truth(gamma):
    """KL of every row; no closed form of the total variation."""
    centred = Z[:, 0] - Z.mean()
    return {"on_average_kl": gamma * (centred**2 + Z.var()) / 20}


def finite_truth(gamma):
    """KL and total variation of every row, over all datasets."""
    values, probs = np.unique(FINITE, return_counts=True)
    probs = probs / probs.sum()

    def law(data):
        p = np.exp(-gamma * np.sum((THETA[:, None] - np.array(data)) ** 2, axis=1))
        return p / p.sum()

    found = {"on_average_kl": {}, "advantage": {}}
    for z in values:
        sums = np.zeros(2)
        for places in itertools.product(range(len(values)), repeat=4):
            *rest, ghost = values[list(places)]
            p, q = law([z, *rest]), law([ghost, *rest])
            pair = np.sum(p * np.log(p / q)), 0.5 * np.sum(np.abs(p - q))
            sums += np.prod(probs[list(places)]) * np.array(pair)
        found["on_average_kl"][z], found["advantage"][z] = sums
    return {name: np.array([of[z] for z in FINITE]) for name, of in found.items()}


PROBLEMS = {
    "gaussian mean": (
        gdp.losses.half_squared_distance, gdp.supports.real(1), Z, 10, None, gaussian_truth,
    ),
    "finite": (squared, gdp.supports.real(), FINITE, 4, gdp.Grid(THETA), finite_truth),
}  # fmt: skip


def results_of(problem, num_datasets, seed):
    """Audit a problem; a result a gamma."""
    loss, support, rows, n, kernel, _ = PROBLEMS[problem]
    found, sweep = [], auditing.run_sweep
    auditing.run_sweep = lambda *a: found.append(sweep(*a)) or found[0]
    try:
        gdp.audit(
            gdp.GibbsPosterior(loss, gdp.Flat(support)),
            gdp.populations.Table(rows),
            n,
            GAMMAS,
            num_datasets=num_datasets,
            learn=[
                *gdp.DEFAULT,
                gdp.OnAverageKL(num_ghosts=16),
                gdp.MutualInformation(0),
                gdp.Exposure(),
            ],
            key=seed,
            sampler=kernel,
            progress=False,
        )
    finally:
        auditing.run_sweep = sweep
    return [track.result() for track in found[0]]


def frames_of(result, rows, count):
    """Cut one result into audits of ``count`` datasets; the frame of each, by row."""
    for first in range(0, result.is_good.size // count * count, count):
        part = np.zeros(result.is_good.size, bool)
        part[first : first + count] = True
        one = replace(result, summary=result.summary.only(part), is_good=result.is_good[part])
        yield exposure_frame([result.gamma], [table_of_rows(one, rows[part])])


def judge(frames, truth, name):
    """Coverage and bias of one figure."""
    inside, top_inside, bias, gain, widths = [], [], [], [], []
    for frame in frames:
        known = frame[frame["num_datasets"] > 1]
        exact = truth[known["row"]]
        covered = (known[f"{name}_low"] <= exact) & (exact <= known[f"{name}_high"])
        inside.append(covered.mean())
        top_inside.append(covered[:TOP].mean())
        bias.append((known[name] - exact).mean() / exact.mean())
        widths.append((known[f"{name}_se"] / exact).mean())
        if name == "on_average_kl":
            top = known[:TOP]
            chosen, reported = (top[k] / exact[:TOP] - 1 for k in ("ranked_by", name))
            gain.append((chosen.mean(), reported.mean()))
    repeats = len(inside)
    told = {
        "audits": repeats,
        "coverage": float(np.mean(inside)),
        "coverage_se": float(np.std(inside) / repeats**0.5),
        "coverage_top": float(np.mean(top_inside)),
        "relative_se": float(np.mean(widths)),
        "relative_bias": float(np.mean(bias)),
        "relative_bias_se": float(np.std(bias) / repeats**0.5),
    }
    if gain:
        told |= dict(zip(("top_ranked_by", "top_reported"), np.mean(gain, axis=0), strict=True))
    return told


def main():
    """Audit both tables, print coverages and save them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300, help="audits of 128 datasets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="8 audits of 128 datasets")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    repeats = 8 if parsed.quick else parsed.repeats
    rows = []
    for problem, (*_, truth) in PROBLEMS.items():
        results = results_of(problem, repeats * COUNTS[0], parsed.seed)
        drawn = training_rows(results)
        for result, count in itertools.product(results, COUNTS):
            frames = list(frames_of(result, drawn, count))
            for name, exact in truth(result.gamma).items():
                row = {"problem": problem, "gamma": result.gamma, "datasets": count, "of": name}
                rows.append(row | judge(frames, exact, name))
                print(" ".join(f"{v:.4g}" if isinstance(v, float) else str(v)
                               for v in rows[-1].values()), flush=True)  # fmt: skip
    settings = {"repeats": repeats, "seed": parsed.seed, "top": TOP}
    print("saved", machine.save("exposure_coverage", rows, settings, parsed.out))


if __name__ == "__main__":
    main()
