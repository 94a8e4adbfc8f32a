"""Whether 95% intervals cover the truth where populations are skewed.

The Gaussian mean with loss ``|theta - z|^2 / 2`` and a flat prior has an on-average KL of
``gamma v / n`` whatever the law of the examples, of variance ``v``. Every law and gamma is audited
by itself with many datasets, by sums over a line as far as these reach, which are cut into audits
of 128, 256 and 1,024, with control variates of known means (but those of 128) and without; what
these share (tuning, the estimator) comes from pilots. Coverage of ``on_average_kl`` by 1.96
standard errors, and by the interval of the report; the bias is of all datasets.

    python benchmarks/coverage.py [--repeats 400]
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import jax
import jax.numpy as jnp
import machine
import numpy as np

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.estimators import mean_interval
from gibbs_dp.quantities.known_means import LEAST_DATASETS, refined

N, COUNTS = 20, (128, 256, 1024)
KLS = (0.05, 0.2, 0.4, 1.0, 5.0)
E = float(np.e)


def lognormal(key, shape):
    """Standardized lognormals of shape 1."""
    return (jnp.exp(jax.random.normal(key, shape)) - E**0.5) / (E * (E - 1.0)) ** 0.5


LAWS = {
    "normal": jax.random.normal,
    "poisson, mean 1": lambda key, shape: jax.random.poisson(key, 1.0, shape) - 1.0,
    "poisson, mean 0.2": lambda key, shape: (jax.random.poisson(key, 0.2, shape) - 0.2) / 0.2**0.5,
    "exponential": lambda key, shape: jax.random.exponential(key, shape) - 1.0,
    "lognormal": lognormal,
}


def track_of(law, kl, num_datasets, seed):
    """Audit one law at one gamma; its finished track."""
    found = []
    sweep = auditing.run_sweep
    auditing.run_sweep = lambda *a: found.append(sweep(*a)) or found[-1]
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
    try:
        gdp.audit(
            posterior,
            lambda key, n: law(key, (n, 1)),
            N,
            [N * kl],
            num_datasets=num_datasets,
            key=seed,
            learn=[*gdp.DEFAULT, gdp.OnAverageKL(controlled=True), gdp.MutualInformation(0)],
            progress=False,
        )
    finally:
        auditing.run_sweep = sweep
    return found[-1][0]


def judge(values, controls, truth, count):
    """Coverage over audits of ``count`` datasets, refined if there are control variates."""
    repeats = values[: values.size // count * count].reshape(-1, count)
    if controls is not None:
        parts = (controls[i * count : (i + 1) * count] for i in range(len(repeats)))
        repeats = np.stack([refined(*pair) for pair in zip(repeats, parts, strict=True)])
    mean, error = repeats.mean(axis=1), repeats.std(axis=1, ddof=1) / count**0.5
    ends = np.array([mean_interval(row)[:2] for row in repeats])
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return {
        "datasets": count,
        "audits": len(repeats),
        "relative_error": float(mean.std(ddof=1) / truth),
        "coverage_1.96_se": float(np.mean(np.abs(mean - truth) < 1.96 * error)),
        "coverage_interval": float(inside.mean()),
        "width_over_1.96_se": float(np.median((ends[:, 1] - ends[:, 0]) / (3.92 * error))),
    }


def main():
    """Audit every law, print coverages and save them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=400, help="audits of 128 datasets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="16 audits of 128 datasets")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    repeats = 16 if parsed.quick else parsed.repeats
    rows = []
    for name, law in LAWS.items():
        for kl in KLS:
            track = track_of(law, kl, repeats * COUNTS[0], parsed.seed)
            controls = track.controls.of(track.gamma, track.target)
            values = replace(track, controls=None).result().leading
            good = np.isfinite(values)
            values, controls = values[good], controls[good]
            bias = {
                "relative_bias": float(values.mean() / kl - 1.0),
                "relative_bias_se": float(values.std() / values.size**0.5 / kl),
            }
            for count, given in [(c, g) for c in COUNTS for g in (None, controls)]:
                if given is not None and count < LEAST_DATASETS:
                    continue
                row = {"law": name, "kl": kl}
                leading, choice = track.settings.leading, track.tuned.estimator
                row["estimator"] = leading.called(choice, track.settings)
                row["is_controlled"] = given is not None
                rows.append(row | bias | judge(values, given, kl, count))
                print(" ".join(f"{v:.4g}" if isinstance(v, float) else str(v)
                               for v in rows[-1].values()), flush=True)  # fmt: skip
    settings = {"n": N, "repeats": repeats, "seed": parsed.seed}
    print("saved", machine.save("coverage", rows, settings, parsed.out))


if __name__ == "__main__":
    main()
