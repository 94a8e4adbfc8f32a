"""Whether 95% intervals of information cover the truth, and which way bounds err.

Audits of the finite class of ``docs/theory.md`` (n = 4), whose truths are exact sums, and of the
Gaussian mean with a flat prior (d = 1, n = 30, gamma 1), whose truths are closed forms and
quadrature; 256 datasets each, all compared (64, 128 and 512 for the information about one example).
Of a lower bound ``covered`` is how often ``value - 1.96 se`` is at most the truth, of an upper one
how often ``value + 1.96 se`` is at least that: 97.5% or more, as bounds may be loose. Of an
estimate, ``both_sides``, how often 1.96 errors around it hold the truth.

    python benchmarks/information_coverage.py [--repeats 300] [--only individual_information]
"""

from __future__ import annotations

import argparse
import itertools

import jax
import machine
import numpy as np
from scipy import stats

import gibbs_dp as gdp

DATASETS, ONE = 256, "individual_information"
DATASETS_OF_ONE = (64, 128, 512)
NAMES = ("alpha", "leakage", "tv", "conditional", "membership")
THETA, EXAMPLES = np.linspace(0.0, 1.0, 5), np.array([0.0, 0.5, 1.0])
PROBS, GAMMAS, N = np.array([0.5, 0.3, 0.2]), (0.2, 1.0, 3.0), 4
GAUSSIAN_N = 30


def finite_truth(gamma):
    """Exact sums over all datasets of the finite class."""
    loss = (THETA[:, None] - EXAMPLES) ** 2
    datasets = np.array(list(itertools.product(range(3), repeat=N)))
    p = np.exp(-gamma * loss[:, datasets].sum(-1))
    p /= p.sum(0)
    weight = PROBS[datasets].prod(1)
    marginal = p @ weight

    def alpha(a):
        return a / (a - 1) * np.log(np.sum((p**a @ weight) ** (1 / a)))

    one = np.stack([p[:, datasets[:, 0] == z] @ weight[datasets[:, 0] == z] for z in range(3)], 1)
    one /= PROBS
    score, law = (one / marginal[:, None]).ravel(), (one * PROBS).ravel()
    apart = (marginal[:, None] * PROBS).ravel()
    above = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    return {
        "alpha_information_2": alpha(2),
        "alpha_information_8": alpha(8),
        "leakage": np.log(p.max(1).sum()),
        "t_information": 0.5 * np.abs(p - marginal[:, None]).sum(0) @ weight,
        ONE: law @ np.log(score),
        "membership_advantage": 0.5 * np.abs(law - apart).sum(),
        "membership_auc": law @ above @ apart,
        "conditional_information": conditional(p, datasets),
        "jensen_shannon": divergence(p, datasets, weight),
    }


def conditional(p, datasets):
    """``I(theta; U | supersample)``: every supersample and every choice of it."""
    code = {tuple(z): i for i, z in enumerate(datasets)}
    total = 0.0
    # Only sorted pairs of examples: which of two is first says nothing.
    pairs = list(itertools.combinations_with_replacement(range(3), 2))
    chance = [PROBS[a] * PROBS[b] * (1 if a == b else 2) for a, b in pairs]
    for chosen in itertools.combinations_with_replacement(range(len(pairs)), N):
        counts = np.unique(chosen, return_counts=True)[1]
        orders = np.prod(range(1, N + 1)) / np.prod([np.prod(range(1, c + 1)) for c in counts])
        options = itertools.product(*(pairs[c] for c in chosen))
        laws = np.stack([p[:, code[z]] for z in options], axis=1)
        mixture = laws.mean(1, keepdims=True)
        information = np.sum(laws * np.log(laws / mixture)) / laws.shape[1]
        total += orders * np.prod([chance[c] for c in chosen]) * information
    return total


def divergence(p, datasets, weight):
    """Mean Jensen-Shannon divergence with the first example replaced."""
    total = 0.0
    for i, j in itertools.product(range(len(datasets)), repeat=2):
        if (datasets[i, 1:] == datasets[j, 1:]).all():
            middle = 0.5 * (p[:, i] + p[:, j])
            half = np.sum(p[:, i] * np.log(p[:, i] / middle))
            total += weight[i] * PROBS[datasets[j, 0]] * half
    return total


def gaussian_truth():
    """Take closed forms, and quadrature over normal laws of draw and example or dataset mean."""
    n, gamma = GAUSSIAN_N, 1.0
    within, between = 1 / (n * gamma), 1 / n  # of a draw, and of datasets' means
    of_rest = within + (n - 1) / n**2  # of a draw given one example, whose mean is z / n

    def total_variation(spread, rest):
        means = spread * stats.norm.ppf((np.arange(4000) + 0.5) / 4000)[:, None]
        grid = np.linspace(-10, 10, 4001) * (spread**2 + rest) ** 0.5
        given = stats.norm.pdf(grid, means, rest**0.5)
        apart = stats.norm.pdf(grid, 0.0, (spread**2 + rest) ** 0.5)
        return 0.5 * float(np.abs(given - apart).mean(0).sum() * (grid[1] - grid[0]))

    return {
        # The power mean of N(m, within) over m of variance between is a Gaussian's, too.
        **{f"alpha_information_{a}": 0.5 * np.log1p(a * between / within) for a in (2, 8)},
        "t_information": total_variation(between**0.5, within),
        ONE: 0.5 * np.log((within + between) / of_rest),
        "membership_advantage": total_variation(1 / n, of_rest),
    }


FURTHER = (*gdp.DEFAULT, gdp.FurtherInformation())


def problems():
    """Names, audits of a seed, and the truths of every gamma."""
    finite = gdp.GibbsPosterior(lambda t, z: (t - z) ** 2, gdp.Flat(gdp.supports.real()))
    population, grid = gdp.populations.Finite(EXAMPLES, PROBS), gdp.Grid(THETA)

    def of_finite(seed, datasets=DATASETS, learn=FURTHER):
        return gdp.audit(
            finite,
            population,
            N,
            GAMMAS,
            num_datasets=datasets,
            key=seed,
            sampler=grid,
            learn=learn,
            progress=False,
        )

    mean = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))

    def normals(key, n):
        return jax.random.normal(key, (n, 1))

    def of_gaussian(seed, datasets=DATASETS, learn=FURTHER):
        return gdp.audit(
            mean,
            normals,
            GAUSSIAN_N,
            [1.0],
            num_datasets=datasets,
            key=seed,
            learn=learn,
            progress=False,
        )

    yield "finite", of_finite, GAMMAS, [finite_truth(g) for g in GAMMAS]
    yield "gaussian", of_gaussian, (1.0,), [gaussian_truth()]


def judge(values, errors, truth, end):
    """How often the end of the interval that matters is on its side of the truth."""
    away = (values - truth) / errors
    row = {
        "mean": float(values.mean()),
        "truth": float(truth),
        "mean_minus_truth_in_se_of_mean": float((values.mean() - truth) / values.std(ddof=1))
        * values.size**0.5,
        "sd_over_se": float(values.std(ddof=1) / np.sqrt(np.mean(errors**2))),
        "both_sides": float(np.mean(np.abs(away) <= 1.96)),
    }
    if end:
        row["covered"] = float(np.mean(away <= 1.96 if end == "lower" else away >= -1.96))
    return row


def rows_of(reports, j, key, truth):
    """Judge a number's estimate or its bounds at one gamma, those that reports have."""
    for end in ("lower", "upper", ""):
        column = f"{key}_{end}".rstrip("_")
        if all(f"{column}_se" in r.columns for r in reports):
            values, errors = (
                np.array([r[c][j] for r in reports], float) for c in (column, f"{column}_se")
            )
            known = np.isfinite(values)
            about = {"column": column, "audits": int(known.sum())}
            yield about | judge(values[known], errors[known], truth, end)


def main():
    """Audit both problems many times, print coverages and save them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300, help="audits of 256 datasets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="8 audits of each problem")
    parser.add_argument("--only", choices=[ONE], help="leave the other columns as they were")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    repeats, rows = 8 if parsed.quick else parsed.repeats, []
    if parsed.only:
        rows += machine.rows_of_others("information_coverage", "column", (ONE,), parsed.out)
    runs = [] if parsed.only else [(DATASETS, FURTHER)]
    runs += [(m, (gdp.OnAverageKL(), gdp.MutualInformation(m))) for m in DATASETS_OF_ONE]
    for datasets, learn in runs:
        for name, audit, gammas, truths in problems():
            reports = [audit(parsed.seed + i, datasets, learn) for i in range(repeats)]
            for j, (gamma, truth) in enumerate(zip(gammas, truths, strict=True)):
                about = {"problem": name, "gamma": gamma, "datasets": datasets}
                for key, number in truth.items():
                    if (key == ONE) == (learn is FURTHER):
                        continue
                    for row in rows_of(reports, j, key, number):
                        rows.append(about | row)
                        print(" ".join(f"{v:.4g}" if isinstance(v, float) else str(v)
                                       for v in rows[-1].values()), flush=True)  # fmt: skip
    settings = {"datasets": DATASETS, "repeats": repeats, "seed": parsed.seed}
    print("saved", machine.save("information_coverage", rows, settings, parsed.out))


if __name__ == "__main__":
    main()
