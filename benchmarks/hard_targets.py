"""What default draws do on hard targets: right, warned of, refused, or silently wrong.

    python benchmarks/hard_targets.py

Every target goes through `gibbs_dp.sample` with ``sampler=gdp.HMC()`` and keys 0 to 9, or, with
``--kernel default``, without a sampler, so that others are tried where HMC is in doubt. Its moments
are known from closed forms, quadrature or a million exact draws. A run is *within* its limits where
the mean of every statistic is off by no more than 4 standard errors and 5% of its standard
deviation, and every standard deviation by no more than 4 errors and 5%; errors are those of the
effective draws, of which draws without a warning promise 100. A run is

    right            within the limits; "alarms" counts those that were warned of all the same
    flagged          outside, or of fewer effective draws than promised, and warned of
    refused          a posterior that cannot be normalized, refused
    wrongly refused  one that can be
    silently wrong   outside, or of a posterior without normalizer, and no warning
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import machine
import numpy as np
from hard_targets_models import MODELS
from hard_targets_modes import MODES
from hard_targets_shapes import SHAPES
from hard_targets_truth import Moments, Target
from numpyro.diagnostics import effective_sample_size

import gibbs_dp as gdp

CASES = MODES | SHAPES | MODELS
ERRORS, SHARE, PROMISED = 4.0, 0.05, 100.0
KEYS = range(10)
VERDICTS = ("right", "flagged", "refused", "wrongly refused", "silently wrong")
KERNELS = {
    "hmc": gdp.HMC(),
    "mala": gdp.MALA(),
    "smc": gdp.SMC(num_particles=2048),
    "default": None,
}
QUICK = ("modes at -2, 2, d = 1", "quartic", "improper: equal columns")
PAGE = Path(__file__).parent.parent / "docs" / "hard_targets.md"


def misses(values: Any, truth: Moments) -> tuple[float, float]:
    """Return how far mean and standard deviation are off, over what they may be off."""
    with np.errstate(all="ignore"):
        squares = (values - truth.mean) ** 2
        error = truth.sd / np.sqrt(_effective(values))
        mean = abs(values.mean() - truth.mean) / (ERRORS * error + SHARE * truth.sd)
        sd = np.sqrt(squares.mean())
        error = squares.std() / np.sqrt(_effective(squares)) / (2 * truth.sd)
        width = abs(sd - truth.sd) / (ERRORS * error + SHARE * truth.sd)
    return float(np.nan_to_num(mean, nan=np.inf)), float(np.nan_to_num(width, nan=np.inf))


def _effective(values: Any, least: float = PROMISED) -> float:
    if not np.isfinite(values).all() or values.std() == 0:
        return float(values.size)  # nothing that would excuse an error
    return float(np.clip(effective_sample_size(values), least, values.size))


def judge(target: Target, key: int, kernel: Any) -> dict[str, Any]:
    """Draw once, and compare."""
    try:
        draws = gdp.sample(target.posterior, target.data, target.gamma, key, kernel)
    except ValueError as error:
        verdict = "refused" if target.truth is None else "wrongly refused"
        return {"verdict": verdict, "why": [str(error).split(";")[0]], "off": {}}
    warnings = [str(w).rpartition("[")[2].rstrip("]") for w in draws.warnings]
    truth = target.truth or {}
    found = target.read(draws.theta)
    off = {name: misses(found[name], truth[name]) for name in truth}
    is_right = bool(off) and max(max(each) for each in off.values()) <= 1
    is_vague = any(_effective(found[name], 0.0) < PROMISED for name in truth)
    if warnings and (is_vague or not is_right):
        verdict = "flagged"
    else:
        verdict = "right" if is_right else "silently wrong"
    return {"verdict": verdict, "why": warnings, "off": off}


def row(name: str, kernel: str) -> dict[str, Any]:
    """All keys of one target."""
    target = CASES[name]()
    begin = time.perf_counter()
    runs = [judge(target, key, KERNELS[kernel]) for key in KEYS]
    seconds = time.perf_counter() - begin
    found = Counter(run["verdict"] for run in runs)
    worst: dict[str, float] = {}
    for run in runs:
        for statistic, (mean, sd) in run["off"].items():
            for what, value in ((f"mean of {statistic}", mean), (f"sd of {statistic}", sd)):
                worst[what] = max(worst.get(what, 0.0), value)
    alarms = sum(run["verdict"] == "right" and bool(run["why"]) for run in runs)
    words = Counter(word for run in runs for word in run["why"])
    return {
        "target": name if kernel == "hmc" else f"{name} ({kernel})",
        **{verdict: found[verdict] for verdict in VERDICTS},
        "alarms": alarms,
        "seconds": seconds,
        "warnings": dict(words.most_common()),
        "worst": dict(sorted(worst.items(), key=lambda pair: -pair[1])),
    }


def _told(row: dict[str, Any]) -> str:
    return "" if row["refused"] else ", ".join(row["warnings"])


def page(rows: list[dict[str, Any]]) -> str:
    """Write the table of the documentation."""
    head = ["target", *VERDICTS, "right, but warned", "warnings"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for each in rows:
        counts = [str(each[v] or "") for v in VERDICTS] + [str(each["alarms"] or "")]
        counts[4] = f"**{counts[4]}**" if counts[4] else ""
        lines.append("| " + " | ".join([each["target"], *counts, _told(each)]) + " |")
    total = {v: sum(each[v] for each in rows) for v in VERDICTS}
    runs = sum(total.values())
    told = ", ".join(f"{total[v]} {v}" for v in VERDICTS)
    alarms = sum(each["alarms"] for each in rows)
    return TEXT.format(
        targets=len(rows), runs=runs, told=told, alarms=alarms, table="\n".join(lines)
    )


TEXT = """\
# Hard targets

What `gibbs_dp.sample` does with `sampler=gdp.HMC()` where sampling is hard: {targets} targets, ten
keys each. Written by `benchmarks/hard_targets.py`, which says how a run is judged, from
`benchmarks/results/hard_targets.json`.

Of {runs} runs: {told}. Of those that are right {alarms} have a warning.

**Silently wrong** draws are off by more than sampling error and 5%, and nothing says so. Rows with
"(default)" are the same targets without a sampler: others are then tried where HMC's draws are in
doubt.

{table}
"""


def main() -> None:
    """Measure all targets, or some of them anew."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="TARGET", help="some anew")
    parser.add_argument("--kernel", choices=KERNELS, default="hmc", help="what draws")
    parser.add_argument("--quick", action="store_true", help="three targets")
    parser.add_argument("--out", help="folder (default: benchmarks/results, and the page)")
    parsed = parser.parse_args()
    names = parsed.only or (QUICK if parsed.quick else list(CASES))
    rows = []
    for name in names:
        rows.append(row(name, parsed.kernel))
        print(*(f"{k}: {v}" for k, v in rows[-1].items() if v), sep="; ", flush=True)
    measured = [each["target"] for each in rows]
    if not parsed.quick:
        rows += machine.rows_of_others("hard_targets", "target", measured, parsed.out)
    places = {name: place for place, name in enumerate(CASES)}
    rows.sort(key=lambda each: places.get(each["target"].split(" (")[0], len(places)))
    settings = {"keys": list(KEYS), "errors": ERRORS, "share": SHARE, "promised": PROMISED}
    path = machine.save("hard_targets", rows, settings, parsed.out)
    shown = PAGE if parsed.out is None else Path(parsed.out) / PAGE.name
    shown.write_text(page(rows))
    print("saved", path, shown)


if __name__ == "__main__":
    main()
