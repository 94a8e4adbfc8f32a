"""Does a private release work on ordinary tables? Accuracy, refusals and seconds on six of them.

For six tables of 10 to 60 features and pure epsilons from 0.1 to 10, replace-one: one exact-draw
release of a logistic model, a flat prior on a ball, features standardized beforehand (taken as
public here) and clipped. A refusal is a release whose chains did not pass the convergence checks;
it costs its budget, so there should be none. Accuracy is that of one draw on a held-out quarter.

    python benchmarks/release_tables.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import machine
import numpy as np
from sklearn import datasets

import gibbs_dp as gdp
from gibbs_dp.privacy import ReleaseError

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
REPETITIONS = 7
BOTH = ["exact-draw", "float-arithmetic"]
# What a linear prediction may reach: norm bound of the features times radius of the ball.
REACH = 16.0

Table = tuple[str, np.ndarray, np.ndarray]


def tables() -> Iterator[Table]:
    """Name, features and labels of tables that scikit-learn ships, and of two that it makes."""
    x, y = datasets.load_diabetes(return_X_y=True)
    yield "diabetes, above the median", x, y > np.median(y)
    x, y = datasets.load_wine(return_X_y=True)
    yield "wine, first class", x, y == 0
    x, y = datasets.make_classification(1000, 20, n_informative=5, random_state=0)
    yield "synthetic, 20", x, y
    x, y = datasets.load_breast_cancer(return_X_y=True)
    yield "breast cancer", x, y
    x, y = datasets.load_digits(return_X_y=True)
    inner = x.reshape(-1, 8, 8)[:, :, 1:7].reshape(-1, 48)
    yield "digits, odd", inner, y % 2
    x, y = datasets.make_classification(2000, 60, n_informative=20, random_state=1)
    yield "synthetic, 60", x, y


def prepare(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Standardize, add an intercept, and split off a quarter: train x and y, test x and y."""
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    order = rng.permutation(len(x))
    test, train = np.split(order, [len(x) // 4])
    return x[train], y[train].astype(float), x[test], y[test].astype(float)


def one_table(table: Table, repetitions: int, folder: str) -> list[dict]:
    """Release ``repetitions`` times at every epsilon; a row an epsilon."""
    name, x, y = table
    x_train, y_train, x_test, y_test = prepare(x, y, np.random.default_rng(0))
    bound = 1.5 * np.sqrt(x_train.shape[1])
    ball = gdp.supports.l2_ball(x_train.shape[1], REACH / bound)
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(ball))
    path = Path(folder) / f"{name}.ledger"
    ledger = gdp.Ledger.create(path, epsilon=1e4, adjacency="replace-one")
    rows, first = [], None
    for epsilon in EPSILONS:
        right, refusals, seconds = [], 0, []
        for _ in range(repetitions):
            start = time.perf_counter()
            try:
                out = gdp.release(
                    posterior,
                    (x_train, y_train),
                    domain=gdp.Domain(x_bound=float(bound)),
                    adjacency="replace-one",
                    ledger=ledger,
                    pure_epsilon=epsilon,
                    accept=BOTH,
                    method=gdp.privacy.ExactDraw(),
                )
                right.append(np.mean((x_test @ out.theta[0] > 0) == (y_test > 0.5)))
            except ReleaseError:
                refusals += 1
            seconds.append(time.perf_counter() - start)
        first = seconds.pop(0) if first is None else first
        rows.append(
            {
                "table": name,
                "rows": len(x_train),
                "features": x_train.shape[1] - 1,
                "epsilon": epsilon,
                "accuracy": float(np.mean(right)) if right else None,
                "accuracy_se": float(np.std(right) / np.sqrt(max(len(right), 1))),
                "majority": float(max(y_test.mean(), 1 - y_test.mean())),
                "releases": repetitions,
                "refusals": refusals,
                "first_seconds": first,
                "later_seconds": float(np.median(seconds)) if seconds else None,
            }
        )
        print(
            f"{name:28} d={x_train.shape[1] - 1:3} n={len(x_train):5} eps {epsilon:4g}  "
            f"accuracy {rows[-1]['accuracy'] or float('nan'):.3f} "
            f"(majority {rows[-1]['majority']:.3f})  refusals {refusals}/{repetitions}  "
            f"first {first:.1f} s, later {np.median(seconds) if seconds else np.nan:.2f} s",
            flush=True,
        )
    return rows


def main() -> None:
    """Answer for all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two tables, one release each")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for table in list(tables())[: 2 if arguments.quick else None]:
            rows += one_table(table, 1 if arguments.quick else REPETITIONS, folder)
    refused = sum(row["refusals"] for row in rows)
    print(f"{refused} refusals in {sum(row['releases'] for row in rows)} releases")
    machine.save("release_tables", rows, {"repetitions": REPETITIONS}, arguments.out)


if __name__ == "__main__":
    main()
