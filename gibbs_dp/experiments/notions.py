"""All notions of privacy: over gamma on one problem, in a table, and what implies what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gibbs_dp import io
from gibbs_dp.exact import FiniteProblem
from gibbs_dp.exact.record import Record
from gibbs_dp.experiments.notions_arrows import ArrowRecord, check_arrows
from gibbs_dp.experiments.notions_curves import Curves, curves, order_records
from gibbs_dp.experiments.notions_logic import Pair, Verdict, decide
from gibbs_dp.experiments.notions_measures import NOTIONS
from gibbs_dp.experiments.notions_missing import FAMILIES, MissingRecord, check_missing
from gibbs_dp.experiments.notions_properties import property_records
from gibbs_dp.experiments.verify_exact import FIXTURE_N, fixture

GAMMAS = tuple(float(g) for g in np.geomspace(0.01, 30.0, 25))
COLUMNS = (
    "title",
    "over_datasets",
    "over_outputs",
    "composition",
    "post_processing",
    "groups",
    "generalization",
)


@dataclass(frozen=True)
class Notions:
    """Everything that the pictures and tables show.

    Parameters
    ----------
    gammas, n
        Grid of inverse temperatures and dataset size of the curves.
    curves
        Every notion over gamma, nats (informations per example).
    order
        The order among the curves; each record is the closest call over gamma.
    arrows, missing
        Implications and their inequality, missing ones and their counterexample.
    properties
        Post-processing, composition and groups.
    verdicts
        Every ordered pair of notions.
    """

    gammas: tuple[float, ...]
    n: int
    curves: Curves
    order: list[Record]
    arrows: list[ArrowRecord]
    missing: list[MissingRecord]
    properties: list[Record]
    verdicts: dict[Pair, Verdict]

    @property
    def failures(self) -> list[str]:
        """What does not hold, a line each; pairs that nothing decides are among it."""
        named = [*self.order, *self.properties]
        found = [f"{record.name} [{record.source}]" for record in named if not record.holds]
        found += [f"{r.start} => {r.end} [{r.formula}]" for r in self.arrows if not r.holds]
        found += [f"{r.start} =/=> {r.end} [{r.family}]" for r in self.missing if not r.holds]
        undecided = [pair for pair, verdict in self.verdicts.items() if verdict == "open"]
        return found + [f"{a} => {b} is open" for a, b in undecided]


def _nothing(_: str) -> None:
    """Say nothing."""


def compare_notions(
    problem: FiniteProblem | None = None,
    n: int = FIXTURE_N,
    gammas: Sequence[float] = GAMMAS,
    say: Callable[[str], None] = _nothing,
) -> Notions:
    """Compute the curves of one problem, and check every arrow and counterexample.

    Parameters
    ----------
    problem
        A finite problem; the reference problem by default.
    n
        Dataset size of the curves.
    gammas
        Inverse temperatures, positive and increasing.
    say
        Told, a line a time, what is going on.

    Raises
    ------
    ValueError
        If a gamma is not positive, or the problem is too large to enumerate.
    """
    grid = tuple(float(g) for g in gammas)
    if not grid or not all(a < b for a, b in zip((0.0, *grid), grid, strict=False)):
        raise ValueError(f"gammas: must be positive and increasing, got {list(grid)}.")
    say("computing every notion over gamma")
    found = curves(problem if problem is not None else fixture(), grid, n)
    say("checking implications on random channels")
    arrows = check_arrows()
    say("searching for counterexamples")
    missing = check_missing()
    say("checking post-processing, composition and groups")
    properties = property_records()
    verdicts = decide(
        list(NOTIONS), [(r.start, r.end) for r in arrows], [(r.start, r.end) for r in missing]
    )
    order = order_records(found, grid)
    return Notions(grid, n, found, order, arrows, missing, properties, verdicts)


def notion_rows() -> list[dict[str, Any]]:
    """One row a notion: the table.

    Examples
    --------
    >>> notion_rows()[0]["title"]
    'pure DP (eps)'
    """
    return [
        {"notion": key, **{column: getattr(notion, column) for column in COLUMNS}}
        for key, notion in NOTIONS.items()
    ]


def implication_rows(notions: Notions) -> list[dict[str, Any]]:
    """One row an ordered pair of notions: verdict, and the numbers where a record decides it."""
    arrows = {(r.start, r.end): r for r in notions.arrows}
    missing = {(r.start, r.end): r for r in notions.missing}
    rows = []
    for (start, end), verdict in notions.verdicts.items():
        if start == end:
            continue
        row: dict[str, Any] = {"from": start, "to": end, "verdict": verdict}
        if (start, end) in arrows:
            arrow = arrows[start, end]
            row |= {"statement": arrow.formula, "source": arrow.source}
            row |= {"from_value": arrow.start_value, "to_value": arrow.end_value}
            row |= {"bound": arrow.bound, "holds": arrow.holds}
        elif (start, end) in missing:
            found = missing[start, end]
            case = f"{found.family} ({found.parameter:g}): {FAMILIES[found.family][2]}"
            row |= {"statement": case, "source": "search", "from_value": found.start_value}
            row |= {"to_value": found.end_value, "holds": found.holds}
        rows.append(row)
    return rows


def property_rows(notions: Notions) -> list[dict[str, Any]]:
    """One row a record of the curves' order and of the table's columns."""
    return [record._asdict() for record in (*notions.order, *notions.properties)]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Align rows under their column names.

    Examples
    --------
    >>> print(table([{"a": 1, "b": "x"}, {"a": 10}]))
    a   b
    1   x
    10
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [columns, *[[_cell(row.get(name)) for name in columns] for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def save_tables(notions: Notions, folder: Path) -> list[Path]:
    """Write ``notions.csv``, ``implications.csv``, ``properties.csv`` and ``curves.csv``.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    frames = {
        "notions.csv": pd.DataFrame(notion_rows()),
        "implications.csv": pd.DataFrame(implication_rows(notions)),
        "properties.csv": pd.DataFrame(property_rows(notions)),
        "curves.csv": pd.DataFrame({"gamma": notions.gammas, **notions.curves}),
    }
    paths = []
    for name, frame in frames.items():
        with io.atomic_write(folder / name) as temporary:
            frame.to_csv(temporary, index=False)
        paths.append(folder / name)
    return paths
