"""All notions of privacy: over gamma on one problem, in a table, and what implies what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gibbs_dp import io
from gibbs_dp.exact import FiniteProblem
from gibbs_dp.exact.record import Record
from gibbs_dp.experiments.notions_arrows import ArrowRecord, check_arrows
from gibbs_dp.experiments.notions_curves import Curves, curves, order_records
from gibbs_dp.experiments.notions_logic import Pair, Verdict, decide
from gibbs_dp.experiments.notions_measures import NOTIONS
from gibbs_dp.experiments.notions_missing import FAMILIES, MissingRecord, check_missing
from gibbs_dp.experiments.notions_properties import property_records
from gibbs_dp.experiments.tables import Row
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
        The order among the curves; each record is the closest case over gamma.
    arrows, missing
        Implications with their inequalities, and missing ones with their counterexamples.
    properties
        Post-processing, composition and groups.
    verdicts
        The verdict on every ordered pair of notions.
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
        """What does not hold, a line each, undecided pairs included."""
        named = [*self.order, *self.properties]
        found = [f"{record.name} [{record.source}]" for record in named if not record.holds]
        found += [f"{r.start} => {r.end} [{r.formula}]" for r in self.arrows if not r.holds]
        found += [f"{r.start} =/=> {r.end} [{r.family}]" for r in self.missing if not r.holds]
        undecided = [pair for pair, verdict in self.verdicts.items() if verdict == "open"]
        return found + [f"{a} => {b} is open" for a, b in undecided]

    def parts(self) -> dict[str, list[Row]]:
        """Rows by kind."""
        records = (*self.order, *self.properties)
        return {
            "notion": notion_rows(),
            "implication": implication_rows(self),
            "property": [record._asdict() for record in records],
            "curve": [
                {"gamma": gamma, **{name: float(v[i]) for name, v in self.curves.items()}}
                for i, gamma in enumerate(self.gammas)
            ],
        }


def compare_notions(
    problem: FiniteProblem | None = None,
    n: int = FIXTURE_N,
    gammas: Sequence[float] = GAMMAS,
    say: io.Say = io.silent,
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
        Called with a line of text at every step.

    Returns
    -------
    Notions
        Curves, records of every check, and the verdict on every pair.

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


def notion_rows() -> list[Row]:
    """One row per notion: the table.

    Examples
    --------
    >>> notion_rows()[0]["title"]
    'pure DP (eps)'
    """
    return [
        {"notion": key, **{column: getattr(notion, column) for column in COLUMNS}}
        for key, notion in NOTIONS.items()
    ]


def implication_rows(notions: Notions) -> list[Row]:
    """One row per ordered pair of notions: the verdict, and the numbers of the record behind it."""
    arrows = {(r.start, r.end): r for r in notions.arrows}
    missing = {(r.start, r.end): r for r in notions.missing}
    rows = []
    for (start, end), verdict in notions.verdicts.items():
        if start == end:
            continue
        row: Row = {"from": start, "to": end, "verdict": verdict}
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
