"""Pictures of `calibration.py` and `report_coverage.py`: coverages with binomial bars.

    python benchmarks/correctness_plot.py

draws ``docs/pictures/calibration.svg`` and ``docs/pictures/coverage.svg`` from the saved numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import machine
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import beta

from gibbs_dp.results.plotting import COLORS, styled

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
Rows = list[dict[str, Any]]
# Where panels of coverages begin.
LEAST = 0.8


def bar(covered: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of a coverage (Clopper and Pearson)."""
    tail = (1 - level) / 2
    low = beta.ppf(tail, covered, count - covered + 1) if covered else 0.0
    high = beta.ppf(1 - tail, covered + 1, count - covered) if covered < count else 1.0
    return float(low), float(high)


def rows_of(name: str) -> Rows:
    """Rows of a benchmark."""
    found: Rows = json.loads((machine.RESULTS / f"{name}.json").read_text())["rows"]
    return found


def draw(axes: Any, rows: Rows, labels: list[str], by: str, series: dict[Any, str]) -> None:
    """Coverages with their bars, a line a label, a colour a series."""
    height = np.arange(len(labels))[::-1]
    for i, key in enumerate(series):
        shift = 0.7 * (0.5 - (i + 0.5) / len(series))
        own = {row[by]: row for row in rows if row["series"] == key}
        known = [(y, own[label]) for y, label in zip(height, labels, strict=True) if label in own]
        if not known:
            continue
        y = np.array([y for y, _ in known]) + shift
        middle = np.array([row["coverage"] for _, row in known])
        ends = np.array([bar(round(row["coverage"] * row["of"]), row["of"]) for _, row in known])
        axes.errorbar(
            middle, y, xerr=np.abs(ends.T - middle), fmt=".", ms=4, lw=1,
            color=COLORS[i % len(COLORS)], label=series[key],
        )  # fmt: skip
    axes.set_yticks(height, labels)
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.grid(axis="x", alpha=0.3)


def beyond(axes: Any, rows: Rows, labels: list[str]) -> None:
    """Arrows at the edge for what is beyond it, with the numbers."""
    for label in dict.fromkeys(row["column"] for row in rows):
        low = ", ".join(f"{r['coverage']:.2f}" for r in rows if r["column"] == label)
        height = len(labels) - 1 - labels.index(label)
        axes.plot([LEAST], [height], "k<", ms=5, clip_on=False)
        axes.annotate(low, (LEAST, height), (6, 0), textcoords="offset points", va="center", size=7)


@styled()
def calibration(rows: Rows) -> Figure:
    """Coverage of central 90% intervals by ranks, every sampler on every model."""
    models, samplers = (list(dict.fromkeys(r[k] for r in rows)) for k in ("model", "sampler"))
    rows = [r | {"series": r["sampler"], "of": r["datasets"]} for r in rows if "coverage" in r]
    figure = Figure(figsize=(7.2, 7.5), layout="constrained")
    axes = figure.subplots()
    draw(axes, rows, models, "model", {s: s for s in samplers})
    axes.axvline(0.9, color="0.4", lw=1, zorder=0)
    axes.set_xlabel("coverage of 90% intervals, the worst coordinate's (bars: 95%)")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


@styled()
def coverage(rows: Rows) -> Figure:
    """Coverage of every column's 95% interval: a panel a KL, a colour a law and count."""
    rows = [
        r | {"series": (r["law"], r["datasets"]), "of": r["audits"]}
        for r in rows
        if "coverage" in r
    ]
    kls = list(dict.fromkeys(r["kl"] for r in rows))
    columns = list(dict.fromkeys(r["column"] for r in rows))
    keys = dict.fromkeys(r["series"] for r in rows)
    series = {key: f"{key[0]}, {key[1]:,} datasets" for key in keys}
    figure = Figure(figsize=(10, 8), layout="constrained")
    panels = figure.subplots(1, len(kls), sharey=True, squeeze=False)[0]
    for axes, kl in zip(panels, kls, strict=True):
        draw(axes, [r for r in rows if r["kl"] == kl], columns, "column", series)
        axes.axvline(0.95, color="0.4", lw=1, zorder=0)
        axes.set_title(f"on-average KL {kl:g}", fontsize=10)
        axes.set_xlim(LEAST, 1.005)
        beyond(axes, [r for r in rows if r["kl"] == kl and r["coverage"] < LEAST], columns)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    middle = panels[len(panels) // 2]
    middle.set_xlabel(f"coverage of 95% intervals and bounds (bars: 95%; arrows: below {LEAST:g})")
    return figure


def main() -> None:
    """Draw and save both."""
    for name, figure in (
        ("calibration", calibration(rows_of("calibration"))),
        ("coverage", coverage(rows_of("report_coverage"))),
    ):
        figure.savefig(PICTURES / f"{name}.svg")
        print(f"{name}.svg")


if __name__ == "__main__":
    main()
