"""How much do attackers get out of one draw? Measured, against computed and against the worst case.

Both panels of Figure 2 (Wang, Lei & Fienberg 2016): (a) the private mean, which is the Laplace
mechanism, (b) linear regression on a bounded interval. At every gamma 20,000 datasets, each with a
fresh example that may replace one of its own and a coin that says whether it does: one draw of that
posterior is released, and three attackers guess the coin. The best possible advantage, the mean
total variation, is computed in two other ways: from the attackers' draws of the same pairs, and by
quadrature on fresh datasets, where nothing is sampled from a posterior.

    python benchmarks/attack_measured.py

The picture of README is of its JSON (``make pictures``).
"""

from __future__ import annotations

import argparse
import math

import machine
import numpy as np
from scipy import stats

from gibbs_dp.papers.attack.attack import attack
from gibbs_dp.papers.on_average_kl.figure2 import NUM_EXAMPLES, THETA_BOUND
from gibbs_dp.problems.location import EXAMPLE_BOUND, private_mean
from gibbs_dp.problems.regression import linear_regression

GAMMAS = {
    "private mean": (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
    "linear regression": (0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0),
}
TITLES = {
    "private mean": f"(a) private mean, n = {NUM_EXAMPLES}",
    "linear regression": f"(b) linear regression, n = {NUM_EXAMPLES}",
}
NUM_TRIALS, NUM_REFERENCES, NUM_NODES = 20_000, 50_000, 400


def private_mean_exact(gamma):
    """``E[1 - e^(-D/2)]``, ``D = gamma |z - z'| / n``, over two truncated normals."""
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    z = EXAMPLE_BOUND * nodes
    mass = EXAMPLE_BOUND * weights * stats.truncnorm(-EXAMPLE_BOUND, EXAMPLE_BOUND).pdf(z)
    gap = np.abs(z[:, None] - z) / NUM_EXAMPLES
    return float(mass @ -np.expm1(-gamma * gap / 2) @ mass), 0.0


def linear_regression_exact(gamma, seed=1):
    """Mean over fresh pairs of datasets of the total variation of two truncated normals."""
    rng = np.random.default_rng(seed)
    x, noise = rng.uniform(-1, 1, (2, NUM_REFERENCES, NUM_EXAMPLES + 1))
    y = x + noise
    # Of the examples that both have; the loss (y - x theta)^2 is a quadratic in theta.
    common = [(a[:, 2:] * b[:, 2:]).sum(1) for a, b in ((x, x), (x, y))]
    laws = []
    for i in (0, 1):
        precision = 2 * gamma * (common[0] + x[:, i] ** 2)
        laws.append((2 * gamma * (common[1] + x[:, i] * y[:, i]) / precision, precision**-0.5))
    tv = truncated_tv(*laws, THETA_BOUND)
    return float(tv.mean()), float(tv.std() / tv.size**0.5)


def truncated_tv(first, second, bound):
    """Total variation of pairs of normals on ``[-bound, bound]``: between where densities cross."""
    (m, s), (k, t) = first, second
    mass = [
        stats.norm.cdf((bound - a) / b) - stats.norm.cdf((-bound - a) / b)
        for a, b in (first, second)
    ]
    # log p - log q = u theta^2 + v theta + w.
    u, v = 0.5 * (t**-2 - s**-2), m / s**2 - k / t**2
    w = 0.5 * (k**2 / t**2 - m**2 / s**2) + np.log(t * mass[1] / (s * mass[0]))
    root = np.sqrt(np.maximum(v**2 - 4 * u * w, 0.0))
    far = -0.5 * (v + np.where(v >= 0, root, -root))
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = np.sort(np.nan_to_num(np.stack([far / u, w / far]), nan=bound), axis=0)
    ends = np.clip(crossings, -bound, bound)
    cuts = [np.full_like(m, -bound), ends[0], ends[1], np.full_like(m, bound)]
    shares = [
        np.diff(stats.norm.cdf((np.stack(cuts) - a) / b), axis=0) / c
        for (a, b), c in zip((first, second), mass, strict=True)
    ]
    return 0.5 * np.abs(shares[0] - shares[1]).sum(axis=0)


PROBLEMS = {
    "private mean": (private_mean, private_mean_exact),
    "linear regression": (
        lambda: linear_regression(theta_bound=THETA_BOUND),
        linear_regression_exact,
    ),
}


def main():
    """Attack both problems, print what was reached and save it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="500 trials at two gammas")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    num_trials = 500 if parsed.quick else NUM_TRIALS
    rows, warnings = [], []
    for name, (make, exact) in PROBLEMS.items():
        problem = make()
        gammas = GAMMAS[name][4:6] if parsed.quick else GAMMAS[name]
        found = attack(
            problem.posterior,
            problem.population,
            NUM_EXAMPLES,
            gammas,
            num_trials=num_trials,
            key=parsed.seed,
            domain=problem.domain,
            progress=False,
        )
        warnings += [f"{name}, {text}" for text in found.warnings]
        truth = {gamma: exact(gamma) for gamma in gammas}
        for row in found.rows():
            value, error = truth[row["gamma"]]
            z = (row["advantage"] - value) / math.hypot(row["advantage_se"], error)
            more = {"on_average_tv_exact": value, "on_average_tv_exact_se": error, "z_exact": z}
            rows.append({"panel": TITLES[name], **row, **more})
        shown = ("gamma", "attacker", "advantage", "advantage_se", "on_average_tv", "z", "z_exact")
        shown += ("on_average_tv_exact", "tpr_1pct", "attack_tpr_1pct", "auc", "dp_advantage")
        machine.show(
            [{k: row.get(k) for k in shown} for row in rows if row["panel"] == TITLES[name]]
        )
    print(*(f"WARNING {text}" for text in warnings), sep="\n")
    settings = {"num_trials": num_trials, "n": NUM_EXAMPLES, "seed": parsed.seed}
    print(
        "saved",
        machine.save("attack_measured", rows, settings | {"warnings": warnings}, parsed.out),
    )


if __name__ == "__main__":
    main()
