"""Whether audits of posteriors with several modes are right, and what that costs.

    python benchmarks/multimodal.py [modes healthy time]

``modes``: posteriors of several separated modes, whose exact on-average KL is known by quadrature
over the same datasets. ``off_in_se`` is the report's distance from it in the report's standard
errors; ``off_paired_se`` in those of the differences dataset by dataset, which are smaller: it sees
biases that no report shows. ``healthy``: problems of one mode, where HMC is right; SMC is compared
with it on the same datasets. ``time``: 16 gammas by either, compiling included, and once more.
"""

from __future__ import annotations

import argparse
import time

import jax
import machine
import multimodal_cases as cases
import numpy as np

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.auditing.assemble import dataset_values
from gibbs_dp.problems import build_problem

KERNELS = {"HMC": gdp.HMC, "SMC": gdp.SMC}
HEALTHY = {
    "gaussian-mean": {"prior_scale": 3.0},
    "logistic-regression": {},
    "k-means": {"is_boxed": True},
}
TIMED = ("logistic-regression", "mixture")
COLUMNS = ("on_average_kl", "empirical_risk", "population_risk")


def audit(posterior, population, n, gammas, num_datasets, kernel, num_ghosts=cases.GHOSTS):
    """Audit; also return the values of every dataset by column, one array a gamma, and seconds."""
    found = []
    sweep = auditing.run_sweep
    auditing.run_sweep = lambda *a: found.append(sweep(*a)) or found[0]
    begin = time.perf_counter()
    try:
        report = gdp.audit(
            posterior,
            population,
            n,
            gammas,
            num_datasets=num_datasets,
            learn=[*gdp.DEFAULT, gdp.OnAverageKL(num_ghosts=num_ghosts), gdp.MutualInformation(0)],
            sampler=kernel,
            progress=False,
        )
    finally:
        auditing.run_sweep = sweep
    seconds = time.perf_counter() - begin
    values = [dataset_values(track.settings, track.result()) for track in found[0]]
    return report, values, seconds


def off(values, reference):
    """Mean difference of two columns of datasets in its standard errors, and in percent."""
    difference = values - reference
    good = np.isfinite(difference)
    difference = difference[good]
    error = difference.std(ddof=1) / good.sum() ** 0.5
    return difference.mean() / error, 100 * difference.mean() / reference[good].mean()


def codes(report, gamma):
    """Warnings of a gamma, by name."""
    mine = [text for text in report.warnings if text.startswith(f"gamma={gamma:g}:")]
    return " ".join(sorted({text.rpartition("[")[2].rstrip("]") for text in mine}))


def modes(quick):
    """Every case of many modes, by every kernel, against quadrature."""
    for name, make in cases.CASES.items():
        case = make()
        count = 16 if quick else 64 if len(case.low) == 2 else 256
        exact = [cases.exact_of(case, count, gamma) for gamma in case.gammas]
        for kernel, kind in KERNELS.items():
            report, values, seconds = audit(
                case.posterior, case.population, case.n, case.gammas, count, kind()
            )
            for row, found, right in zip(report.rows, values, exact, strict=True):
                truth = right.on_average_kl
                paired, percent = off(found["on_average_kl"], truth)
                distance = row["on_average_kl"] - truth.mean()
                yield {
                    "question": "modes",
                    "case": name,
                    "gamma": row["gamma"],
                    "kernel": kernel,
                    "exact": truth.mean(),
                    "on_average_kl": row["on_average_kl"],
                    "off_in_se": distance / row["on_average_kl_se"],
                    "off_paired_se": paired,
                    "off_percent": percent,
                    "seconds": seconds,
                    "warnings": codes(report, row["gamma"]),
                }


def healthy(quick):
    """SMC against HMC on problems of one mode."""
    for name, options in HEALTHY.items():
        problem = build_problem(name, **options)
        count = 16 if quick else 128
        given = (problem.posterior, problem.population, problem.n, problem.gammas, count)
        (hmc, of_hmc, _), (smc, of_smc, _) = (audit(*given, kind()) for kind in KERNELS.values())
        for row, right, one, other in zip(smc.rows, hmc.rows, of_smc, of_hmc, strict=True):
            for column in COLUMNS:
                paired, percent = off(one[column], other[column])
                yield {
                    "question": "healthy",
                    "case": name,
                    "gamma": row["gamma"],
                    "column": column,
                    "HMC": right[column],
                    "SMC": row[column],
                    "off_in_se": (row[column] - right[column]) / row[f"{column}_se"],
                    "off_paired_se": paired,
                    "off_percent": percent,
                    "warnings": codes(smc, row["gamma"]),
                }


def seconds_of(quick):
    """Time of 16 gammas by either kernel, first (compiling) and second (other datasets)."""
    gammas = np.geomspace(0.05, 2.0, 2 if quick else 16).tolist()
    count = 16 if quick else 128
    for name in TIMED[:1] if quick else TIMED:
        problem = build_problem(name)
        row = {"question": "time", "case": name, "gammas": len(gammas), "datasets": count}
        for kernel, kind in KERNELS.items():
            sampler = kind()  # one object, one program
            for run in ("first", "second"):
                jax.clear_caches() if run == "first" else None
                begin = time.perf_counter()
                gdp.audit(
                    problem.posterior,
                    problem.population,
                    problem.n,
                    gammas,
                    num_datasets=count,
                    key=int(run == "second"),
                    sampler=sampler,
                    learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
                    progress=False,
                )
                row[f"{kernel}_{run}"] = time.perf_counter() - begin
        for run in ("first", "second"):
            row[f"ratio_{run}"] = row[f"SMC_{run}"] / row[f"HMC_{run}"]
        yield row


QUESTIONS = {"modes": modes, "healthy": healthy, "time": seconds_of}


def main():
    """Print every row as it comes; save after every question."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=", ".join(QUESTIONS))
    parser.add_argument("--quick", action="store_true", help="16 datasets, two gammas timed")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    unknown = set(parsed.questions) - QUESTIONS.keys()
    if unknown:
        parser.error(f"there is no {unknown.pop()!r}; choose from {', '.join(QUESTIONS)}.")
    asked = parsed.questions or list(QUESTIONS)
    rows = machine.rows_of_others("multimodal", "question", asked, parsed.out)
    settings = {"ghosts": cases.GHOSTS, "quick": parsed.quick}
    for name in asked:
        own = []
        for row in QUESTIONS[name](parsed.quick):
            own.append(row)
            values = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values())
            print(" ".join(values), flush=True)
        machine.show(own)
        rows += own
        print("saved", machine.save("multimodal", rows, settings, parsed.out))


if __name__ == "__main__":
    main()
