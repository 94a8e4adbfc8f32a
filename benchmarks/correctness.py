"""How wrong can the numbers be? Every answer there is, in one table.

    python benchmarks/correctness.py            # the saved results
    python benchmarks/correctness.py --run      # measure again: some two hours on two cores

Runs `calibration.py` (draws of every sampler on 15 models), `report_coverage.py` (intervals of all
columns), `estimator_bias.py` (bias by draws and KL) and `hard_targets.py`, and counts what is wrong
in each; a coverage is where its 99.9% binomial interval is below 95%.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import machine
from correctness_plot import bar

HERE = Path(__file__).parent
PARTS = ("calibration", "report_coverage", "estimator_bias", "hard_targets")
LEVEL = 0.999
Rows = list[dict[str, Any]]


def calibration(rows: Rows) -> Rows:
    """By sampler."""
    found = []
    for sampler in dict.fromkeys(row["sampler"] for row in rows):
        own = [row for row in rows if row["sampler"] == sampler]
        off = [row for row in own if row["verdict"] == "off"]
        silent = [row["model"] for row in off if not row["warnings"]]
        found.append(
            {
                "what": f"draws of {sampler}",
                "cases": len(own),
                "off": len(off),
                "off_silently": len(silent),
                "worst": min((r["coverage"] for r in own if "coverage" in r), default=None),
                "named": ", ".join(row["model"] for row in off),
            }
        )
    return found


def is_low(row: dict[str, Any]) -> bool:
    """Whether a coverage is below 95% beyond chance."""
    return bar(row["covered"], row["audits"], LEVEL)[1] < 0.95


def report_coverage(rows: Rows) -> Rows:
    """By column."""
    found = []
    for column in dict.fromkeys(row["column"] for row in rows):
        own = [row for row in rows if row["column"] == column and "coverage" in row]
        low = [row for row in own if is_low(row)]
        # Few audits of a cell warned: nothing tells the reader of most of them.
        silent = [row for row in low if row["warned"] < 0.5]
        found.append(
            {
                "what": f"interval of {column}",
                "cases": len(own),
                "off": len(low),
                "off_silently": len(silent),
                "worst": min((row["coverage"] for row in own), default=None),
                "named": ", ".join(f"{r['law']} KL {r['kl']:g} x {r['datasets']}" for r in low),
            }
        )
    return found


def estimator_bias(rows: Rows) -> Rows:
    """By estimator and column."""
    found = []
    for key in dict.fromkeys((row["estimator"], row["column"]) for row in rows):
        own = [row for row in rows if (row["estimator"], row["column"]) == key]
        off = [row for row in own if row["seen"]]
        silent = [row for row in off if not (row["flagged"] or row["warnings"])]
        found.append(
            {
                "what": f"bias of {key[1]}, {key[0]}",
                "cases": len(own),
                "off": len(off),
                "off_silently": len(silent),
                "worst": max((abs(row["relative_bias"]) for row in silent), default=0.0),
                "named": ", ".join(f"{r['draws']} KL {r['kl']:g}" for r in off),
            }
        )
    return found


def hard_targets(rows: Rows) -> Rows:
    """All runs."""
    counts = Counter[str]()
    for row in rows:
        counts.update({k: v for k, v in row.items() if isinstance(v, int)})
    silent = [row["target"] for row in rows if row.get("silently wrong")]
    return [
        {
            "what": "runs of hard targets",
            "cases": sum(counts[k] for k in OUTCOMES),
            "off": counts["silently wrong"] + counts["flagged"] + counts["wrongly refused"],
            "off_silently": counts["silently wrong"],
            "worst": None,
            "named": ", ".join(silent),
        }
    ]


OUTCOMES = ("right", "flagged", "refused", "wrongly refused", "silently wrong")
SUMMARIES = {
    "calibration": calibration,
    "report_coverage": report_coverage,
    "estimator_bias": estimator_bias,
    "hard_targets": hard_targets,
}


def main() -> None:
    """Run what is asked, print the table and save it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="measure again before the table")
    parser.add_argument("--quick", action="store_true", help="measure with counts of no meaning")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    asked = parser.parse_args()
    folder = machine.RESULTS if asked.out is None else Path(asked.out)
    if asked.run or asked.quick:
        words = ["--quick"] * asked.quick + ["--out", str(folder)]
        for part in PARTS:
            subprocess.run([sys.executable, HERE / f"{part}.py", *words], check=True)
    missing = [part for part in PARTS if not (folder / f"{part}.json").is_file()]
    if missing:
        sys.exit(f"{folder}: no results of {', '.join(missing)}; run with --run, or those alone.")
    rows: Rows = []
    for part in PARTS:
        saved = json.loads((folder / f"{part}.json").read_text())
        rows += [{"part": part} | row for row in SUMMARIES[part](saved["rows"])]
    machine.show(rows)
    print("saved", machine.save("correctness", rows, {"level": LEVEL}, asked.out))


if __name__ == "__main__":
    main()
