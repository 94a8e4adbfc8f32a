"""Whether the 95% intervals of every column of a report cover the truth.

The mean of 20 numbers (loss ``|theta - z|^2 / 2``, flat prior) is a normal posterior whatever the
numbers' law, so its figures are closed forms, sums or quadrature: of normal numbers, of Poisson
ones of mean 0.2 (skewness 2.2) and of lognormals (skewness 6.2, no mutual information), at an
on-average KL of 0.02, 0.2 and 5. 500 default audits of 128 datasets and 500 of 1,024
are cut out of larger ones, each with pilots of its own; each audit is reported anew from its
datasets. Mutual information compares datasets with each other: 500 whole audits of 128.

    python benchmarks/report_coverage.py

Of a column: how often ``value ± 1.96 se`` holds the truth (of ``on_average_kl`` the report's
interval), of a bound how often its end is on its side of the truth; the relative bias; the mean
error over the standard deviation; how many audits carry a warning of any kind, and in how many the
row flags the column, which are left out.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import machine
import numpy as np
from report_coverage_truth import LAWS, Law, N, truth

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.auditing.assemble import dataset_values, make_row
from gibbs_dp.engine.track import Track
from gibbs_dp.quantities.known_means import LEAST_DATASETS

KLS, COUNTS, INFORMATION = (0.02, 0.2, 5.0), (128, 1024), 128
# Datasets of one large audit: each has its own pilots.
LARGE = 64 * 1024
MIN_AUDITS = 2  # for a standard deviation
LOWER, UPPER = ("mutual_information_lower", "generalization_lower"), ("mutual_information_upper",)
Cell = tuple[str, float, int, str]


def posterior() -> Any:
    """Return the posterior of a mean."""
    return gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))


def tracks_of(target: Any, law: Law, num_datasets: int, seed: int) -> list[Track]:
    """Audit one law at every gamma."""
    found: list[Any] = []
    sweep = auditing.run_sweep
    auditing.run_sweep = lambda *a: found.append(sweep(*a)) or found[-1]
    try:
        gdp.audit(
            target,
            law.population,
            N,
            [N * kl for kl in KLS],
            num_datasets=num_datasets,
            key=seed,
            learn=[
                *gdp.DEFAULT,
                gdp.OnAverageKL(controlled=True),
                gdp.Attacker(num_datasets=num_datasets),
                gdp.MutualInformation(0),
            ],
            progress=False,
        )
    finally:
        auditing.run_sweep = sweep
    return found[-1]


class Cut(NamedTuple):
    """Control variates of datasets from one on."""

    whole: Any
    first: int

    def of(self, gamma: float, count: int) -> Any:
        """Of some of them."""
        found = self.whole.of(gamma, self.first + count)
        return None if found is None else found[self.first :]


def cuts(track: Track, count: int) -> Iterator[dict[str, Any]]:
    """Rows of audits of ``count`` datasets each."""
    whole, kept = track.summary(), track.first_kept()
    assert whole is not None
    values = np.zeros(whole.size, bool)
    for first in range(0, whole.size // count * count, count):
        part = values.copy()
        part[first : first + count] = True
        controls = (
            Cut(track.controls, first) if track.controls and count >= LEAST_DATASETS else None
        )
        held = {
            name: {0: jax.tree.map(lambda a, i=first: a[i : i + count], each)}
            for name, each in (kept._asdict() if kept else {}).items()
        }
        one = replace(
            track,
            target=count,
            blocks={0: whole.only(part)},
            kept=held,
            controls=controls,
            _whole=None,
        )
        result = one.result()
        row, told = make_row(track.settings, result, dataset_values(track.settings, result))
        yield row | {"is_warned": bool(told)}


def take(rows: list[dict[str, Any]], column: str) -> tuple[np.ndarray, ...]:
    """Values, lower and upper ends, and errors of a column where it is known."""
    known = [r for r in rows if r.get(f"{column}_se") is not None and np.isfinite(r[column])]
    value, se = np.array([[r[column], r[f"{column}_se"]] for r in known], float).reshape(-1, 2).T
    low, high = value - 1.96 * se, value + 1.96 * se
    if f"{column}_low" in (known[0] if known else {}):
        low, high = np.array([[r[f"{column}_low"], r[f"{column}_high"]] for r in known], float).T
    return value, low, high, se


def is_flagged(row: dict[str, Any], column: str) -> bool:
    """Whether the row itself says that the column is not to be believed."""
    order = column.rpartition("_")[2] if column.startswith("on_average_renyi") else None
    return order is not None and order in (row.get("renyi_tail_flag") or "").split(" and ")


def judge(rows: list[dict[str, Any]], column: str, true: float) -> dict[str, Any]:
    """Coverage and bias of a column, in audits whose row does not flag it."""
    believed = [r for r in rows if not is_flagged(r, column)]
    about = {"column": column, "truth": true, "flagged": 1 - len(believed) / len(rows)}
    value, low, high, se = take(believed, column)
    if len(value) < MIN_AUDITS:
        return about | {"audits": len(value)}
    covered = (low <= true) & (true <= high)
    if column in LOWER:
        covered = low <= true
    if column in UPPER:
        covered = high >= true
    count = len(value)
    sd = float(value.std(ddof=1))
    return about | {
        "side": "lower" if column in LOWER else "upper" if column in UPPER else "both",
        "audits": count,
        "covered": int(covered.sum()),
        "coverage": float(covered.mean()),
        "relative_bias": float(value.mean() / true - 1.0),
        "relative_bias_se": abs(sd / math.sqrt(count) / true),
        "se_over_sd": float(se.mean() / sd),
        "warned": float(np.mean([r["is_warned"] for r in rows])),
    }


def audits_of(law: Law, repeats: int, seed: int) -> dict[tuple[float, int], list[dict[str, Any]]]:
    """Rows of all audits cut out of large ones, by KL and count."""
    found: dict[tuple[float, int], list[dict[str, Any]]] = {}
    target = posterior()
    while len(found.get((KLS[0], COUNTS[-1]), ())) < repeats:
        missing = repeats - len(found.get((KLS[0], COUNTS[-1]), ()))
        tracks = tracks_of(target, law, min(LARGE, missing * COUNTS[-1]), seed)
        seed += 1
        for kl, track in zip(KLS, tracks, strict=True):
            for count in COUNTS:
                rows = found.setdefault((kl, count), [])
                # As many of 128 from every large audit as of 1,024.
                at_most = track.result().is_good.size // COUNTS[-1]
                rows += [row for row, _ in zip(cuts(track, count), range(at_most), strict=False)]
    return found


def informed(law: Law, repeats: int, seed: int) -> dict[tuple[float, int], list[dict[str, Any]]]:
    """Rows of whole audits with mutual information."""
    found: dict[tuple[float, int], list[dict[str, Any]]] = {}
    target = posterior()
    for i in range(repeats):
        report = gdp.audit(
            target,
            law.population,
            N,
            [N * kl for kl in KLS],
            num_datasets=INFORMATION,
            key=seed + i,
            learn=[
                gdp.OnAverageKL(),
                gdp.Risks(),
                gdp.WorstCase(),
                gdp.MutualInformation(INFORMATION),
            ],
            progress=False,
        )
        for kl, row in zip(KLS, report.rows, strict=True):
            found.setdefault((kl, INFORMATION), []).append(
                row | {"is_warned": bool(report.warnings)}
            )
    return found


def line_of(row: dict[str, Any]) -> str:
    """Print one row."""
    begin = f"{row['law']:12s} KL {row['kl']:<5g}{row['datasets']:5d} {row['column']:26s}"
    if "coverage" not in row:
        return f"{begin} flagged {row['flagged']:.0%}"
    return (
        f"{begin} {row['coverage']:.3f}  bias {row['relative_bias']:+.4f} ± "
        f"{row['relative_bias_se']:.4f}  se/sd {row['se_over_sd']:.2f}  "
        f"flagged {row['flagged']:.0%} warned {row['warned']:.0%}"
    )


def main() -> None:
    """Audit every law, print coverages and save them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--seed", type=int, default=28)
    parser.add_argument("--only", nargs="*", help="laws (default: all)")
    parser.add_argument("--quick", action="store_true", help="few audits, to see that it runs")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    asked = parser.parse_args()
    repeats = 3 if asked.quick else asked.repeats
    names = tuple(asked.only or LAWS)
    rows = machine.rows_of_others("report_coverage", "law", names, asked.out) if asked.only else []
    for name in names:
        law = LAWS[name]
        parts = [(audits_of(law, repeats, asked.seed), False)]
        if law.information is not None:
            parts.append((informed(law, repeats, asked.seed + 1000), True))
        for audits, is_informed in parts:
            for (kl, count), found in sorted(audits.items()):
                for column, true in truth(law, N * kl, is_informed).items():
                    if not any(f"{column}_se" in row for row in found):
                        continue
                    r = {"law": name, "kl": kl, "datasets": count} | judge(found, column, true)
                    rows.append(r)
                    print(line_of(r), flush=True)
    settings = {"n": N, "repeats": repeats, "seed": asked.seed}
    print("saved", machine.save("report_coverage", rows, settings, asked.out))


if __name__ == "__main__":
    main()
