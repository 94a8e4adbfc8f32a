"""How good are private linear models? Ours against diffprivlib, DP-SGD, AdaSSP and no privacy.

Accuracy on fifteen tables with two classes, R^2 on seven with a target, for budgets from 0.1 to 10,
pure or with delta 1e-5; neighbours replace one row. All features are standardized, which counts as
public for every method, and every method sees the same splits. Ours runs with its defaults: its
rule sees bounds, rows, columns and budget. Of each peer we print, for each table and epsilon, the
best setting of a grid **chosen on the test rows and not paid for**; at small epsilon that is partly
luck, and ``score_elsewhere`` has it chosen on the other half of the splits. DP-SGD and AdaSSP are
accounted under add/remove neighbours, with 0.5 to 0.7 of the noise that replacement needs; noisy
gradient descent on all rows is under replacement. R^2 below -1 counts as -1.

    python benchmarks/private_accuracy.py            everything
    python benchmarks/private_accuracy.py --ours     ours again, peers from the saved results
    python benchmarks/private_accuracy.py --peers    the peers again, ours from the saved results

diffprivlib 0.6.6 needs a scikit-learn below 1.8, so `--peers` wants an environment of its own:
``pip install diffprivlib==0.6.6 'scikit-learn<1.8' dp-accounting`` beside this library.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

import machine
import numpy as np
import private_accuracy_peers as peers
from private_accuracy_tables import TARGET_BOUND, Table, labelled, measured
from threadpoolctl import threadpool_limits

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
REPETITIONS = 20
# Tables with more rows than this are split fewer times.
LARGE, FEWER = 7_000, 6
# A column's range counts as five standard deviations.
COLUMN_BOUND = 2.5

Method = tuple[float, Callable[[Table, tuple, int], peers.Scored]]


def ours(delta: float) -> Method:
    """Our estimators with their defaults."""

    def scores(table: Table, epsilons: tuple, repetitions: int) -> peers.Scored:
        found = np.zeros((len(epsilons), repetitions))
        for repetition in range(repetitions):
            x, y, x_test, y_test = table.split(repetition)
            for i, epsilon in enumerate(epsilons):
                model = _estimator(table, epsilon, delta, 1_000 * repetition + i)
                with warnings.catch_warnings():
                    # Seeded noise protects nobody, and many fits compose: neither matters here.
                    warnings.simplefilter("ignore")
                    found[i, repetition] = model.fit(x, y).score(x_test, y_test)
        yield "defaults", found

    return delta, scores


def _estimator(table: Table, epsilon: float, delta: float, seed: int):
    from gibbs_dp.sklearn import GibbsClassifier, GibbsRegressor

    shared = {
        "epsilon": epsilon,
        "delta": delta,
        "bounds": (-COLUMN_BOUND, COLUMN_BOUND),
        "random_state": seed,
    }
    if table.is_regression:
        return GibbsRegressor(y_bounds=(-TARGET_BOUND, TARGET_BOUND), **shared)
    return GibbsClassifier(classes=[0, 1], **shared)


OURS = {"ours, pure": ours(0.0), "ours, delta 1e-5": ours(peers.DELTA)}


def rows_of(table: Table, name: str, method: Method, repetitions: int) -> Iterator[dict]:
    """Yield a row an epsilon: the setting with the best mean score."""
    delta, scores = method
    found = dict(scores(table, EPSILONS, repetitions))
    settings = list(found)
    values = np.maximum(np.array([found[setting] for setting in settings]), -1.0)
    best = values.mean(axis=2).argmax(axis=0)
    elsewhere = _chosen_elsewhere(values)
    for i, epsilon in enumerate(EPSILONS):
        chosen = values[best[i], i]
        yield {
            "table": table.name,
            "rows": len(table.split(0)[0]),
            "features": table.x.shape[1],
            "score_is": "R^2" if table.is_regression else "accuracy",
            "rule_made_on": table.made_on,
            "method": name,
            "delta": delta,
            "epsilon": epsilon,
            "score": float(chosen.mean()),
            "standard_error": float(chosen.std(ddof=1) / np.sqrt(len(chosen))),
            "score_elsewhere": float(elsewhere[i]),
            "setting": settings[best[i]],
            "settings_tried": len(settings),
        }


def _chosen_elsewhere(values: np.ndarray) -> np.ndarray:
    """Scores where the setting is the best of the other half of the splits: no luck is counted."""
    halves = values[:, :, ::2], values[:, :, 1::2]
    found = []
    for chosen_on, scored_on in (halves, halves[::-1]):
        best = chosen_on.mean(axis=2).argmax(axis=0)
        found.append(scored_on.mean(axis=2)[best, np.arange(values.shape[1])])
    return np.mean(found, axis=0)


def show(rows: list[dict]) -> None:
    """Print a line for each table and method."""
    lines = defaultdict(dict)
    for row in rows:
        lines[row["table"], row["score_is"], row["method"]][row["epsilon"]] = row
    last = None
    for (table, kind, method), found in sorted(lines.items(), key=lambda line: line[0][:2]):
        if (table, kind) != last:
            row = next(iter(found.values()))
            held = "" if row["rule_made_on"] else ", held out from the rule"
            print(f"\n{table}, {kind}: {row['rows']} rows, {row['features']} features{held}")
            last = (table, kind)
        scores = "  ".join(f"{found[e]['score']:6.3f}" for e in EPSILONS if e in found)
        print(f"  {method:34}{scores}")


def main() -> None:
    """Answer for all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three small tables, two splits")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--ours", action="store_true", help="ours only; peers as saved")
    only.add_argument("--peers", action="store_true", help="peers only; ours as saved")
    arguments = parser.parse_args()
    repetitions = 2 if arguments.quick else REPETITIONS
    tables = [*labelled(), *measured()]
    if arguments.quick:
        tables = [table for table in tables if len(table.x) < 300]
    before = machine.settings_of_others("private_accuracy", arguments.out)
    versions = before.get("peers", {}) if arguments.ours else _versions()
    settings = {"repetitions": repetitions, "of_large_tables": FEWER, "peers": versions}
    rows = machine.rows_of_others("private_accuracy", "method", (), arguments.out)
    for table in tables:
        others = peers.REGRESSORS if table.is_regression else peers.CLASSIFIERS
        methods = ({} if arguments.peers else OURS) | ({} if arguments.ours else others)
        count = min(repetitions, FEWER) if len(table.x) > LARGE else repetitions
        for name, method in methods.items():
            # Matrices are small: threads that wait for each other cost more than they give.
            with threadpool_limits(1):
                new = list(rows_of(table, name, method, count))
            print(table.name, name, *(f"{row['score']:.3f}" for row in new), flush=True)
            rows = [row for row in rows if _what(row) != _what(new[0])] + new
        # After each table, so that a run that is cut short is not lost.
        machine.save("private_accuracy", rows, settings, arguments.out)
    show(rows)


def _what(row: dict) -> tuple:
    return row["table"], row["score_is"], row["method"]


def _versions() -> dict[str, str]:
    found = {}
    for name in ("diffprivlib", "dp-accounting", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
