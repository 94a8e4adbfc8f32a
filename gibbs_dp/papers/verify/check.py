"""Statements with numbers on both sides: records of exact ones, and checks of both kinds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from gibbs_dp.papers.tables import aligned

Relation = Literal["=", "<=", "not <="]


class Record(NamedTuple):
    """A statement with numbers on both sides.

    ``relation`` "not <=" marks a counterexample: a statement in print that is false, and holds
    here when its left side exceeds the right. ``notices`` is the least relative error of the right
    side that cannot pass: in either direction of an equality, downwards of a bound (of one that is
    too large only `reaches` can tell), upwards of a counterexample; NaN where that side is zero or
    infinite, so that no factor changes it.
    """

    name: str
    source: str
    relation: Relation
    left: float
    right: float
    tolerance: float
    holds: bool
    notices: float


# Absolute, for what is zero but for rounding.
ROUNDING = 1e-12


def _relative(room: float, right: float) -> float:
    return room / abs(right) if right and math.isfinite(right) else math.nan


def equality(name: str, source: str, left: float, right: float, tolerance: float = 1e-9) -> Record:
    """State ``left = right``, to a relative tolerance (absolute near 0)."""
    left, right = float(left), float(right)
    if not (math.isfinite(left) and math.isfinite(right)):
        return Record(name, source, "=", left, right, tolerance, left == right, math.nan)
    apart, room = abs(left - right), tolerance * max(abs(left), abs(right)) + ROUNDING
    notices = _relative(apart + room, right)
    return Record(name, source, "=", left, right, tolerance, apart <= room, notices)


def rounded(name: str, source: str, left: float, right: float, most: float) -> Record:
    """State ``left = right``, to an absolute error: the right side is rounded."""
    left, right = float(left), float(right)
    apart = abs(left - right)
    notices = _relative(apart + most, right)
    return Record(name, source, "=", left, right, most, apart <= most, notices)


def inequality(
    name: str, source: str, left: float, right: float, tolerance: float = 1e-9
) -> Record:
    """State ``left <= right``, with room for rounding."""
    left, right = float(left), float(right)
    room = (tolerance * abs(left) if math.isfinite(left) else tolerance) + ROUNDING
    notices = _relative(right - left + room, right)
    return Record(name, source, "<=", left, right, tolerance, left <= right + room, notices)


def counterexample(
    name: str, source: str, left: float, right: float, tolerance: float = 1e-9
) -> Record:
    """State that ``left <= right``, as printed somewhere, is false."""
    left, right = float(left), float(right)
    holds = left > right + tolerance * abs(right) + ROUNDING
    notices = _relative(left - right, right)
    return Record(name, source, "not <=", left, right, tolerance, holds, notices)


# How far a case may be from its known share of a bound: a constant that is 1% off is noticed.
SHARE_TOLERANCE = 0.005


def reaches(name: str, source: str, left: float, right: float, reached: float = 1.0) -> Record:
    """State ``left <= right``, and that the left side reaches a known share of the right one."""
    left, right = float(left), float(right)
    off = abs(left / right / reached - 1.0) if right else math.nan
    holds = left <= right + 1e-9 * abs(right) and off <= SHARE_TOLERANCE
    name = f"{name}: {'attained' if reached == 1.0 else f'reached to {reached:.3g}'}"
    notices = off + SHARE_TOLERANCE
    return Record(name, source, "<=", left, right, SHARE_TOLERANCE, holds, notices)


# Standard errors by which a sampled equality may be off: under a normal law a true one fails with
# probability 6e-5.
Z_LIMIT = 4.0


class Check(NamedTuple):
    """A statement checked on one case.

    ``relation`` is "=", "<=" or "not <=" (a false statement and its counterexample).
    ``standard_error`` and ``z`` are of ``left - right`` and None where both sides are exact;
    then ``tolerance`` is relative, otherwise it is the largest ``|z|`` that passes. ``notices`` is
    that of `Record`.
    """

    name: str
    source: str
    case: str
    relation: str
    left: float
    right: float
    difference: float
    standard_error: float | None
    z: float | None
    tolerance: float
    holds: bool
    notices: float


def exact_check(record: Record, case: str) -> Check:
    """Turn an exact record into a check."""
    same = record.left == record.right  # inf - inf is not a number
    difference = 0.0 if same else record.left - record.right
    return Check(**record._asdict(), case=case, difference=difference, standard_error=None, z=None)


def exact_checks(records: Iterable[Record], case: str) -> list[Check]:
    """Turn exact records into checks."""
    return [exact_check(record, case) for record in records]


def sampled_equality(
    name: str,
    source: str,
    case: str,
    left: float,
    right: float,
    *,
    left_se: float,
    right_se: float = 0.0,
    independent: bool = False,
) -> Check:
    """State that two sampled numbers are equal, to `Z_LIMIT` standard errors of the difference."""
    spread = math.hypot(left_se, right_se) if independent else left_se + right_se
    difference = left - right
    z = difference / spread if spread > 0 else math.nan
    holds = math.isfinite(z) and abs(z) <= Z_LIMIT
    notices = _relative(abs(difference) + Z_LIMIT * spread, right)
    return Check(
        name, source, case, "=", left, right, difference, spread, z, Z_LIMIT, holds, notices
    )


def table(checks: Sequence[Check]) -> str:
    """Lay out one line per statement: the number of its cases, and the closest of them.

    The closest case has the largest ``|z|`` of a sampled statement, the largest relative difference
    of an exact equality, or the least room in an inequality; failures come first. "notices" is of
    the case that notices least errors.

    >>> print(table([sampled_equality("a = b", "book", "coin", 1.0, 1.0, left_se=0.1)]))
    holds  cases  statement  left      right  difference  z     notices  source
    yes    1      a = b      1 +- 0.1  1      0           0.00  40%      book
    """
    rows = [
        ("holds", "cases", "statement", "left", "right", "difference", "z", "notices", "source")
    ]
    grouped: dict[tuple[str, str, bool], list[Check]] = {}
    for check in checks:
        grouped.setdefault((check.name, check.source, check.z is None), []).append(check)
    for (name, source, _), group in grouped.items():
        worst = min(group, key=_room)
        left = f"{worst.left:.6g}"
        if worst.standard_error is not None:
            left += f" +- {worst.standard_error:.2g}"
        relation = {"=": "", "<=": "", "not <=": "FALSE: "}[worst.relation]
        z = "exact" if worst.z is None else f"{worst.z:.2f}"
        rows.append(
            (
                "yes" if all(check.holds for check in group) else "NO",
                str(len(group)),
                relation + name,
                left,
                f"{worst.right:.6g}",
                f"{worst.difference:.2g}",
                z,
                _percent(least_noticed(group)),
                source,
            )
        )
    return aligned(rows)


def least_noticed(group: Sequence[Check]) -> float:
    """Least relative error of the right side that some case notices; NaN if there is none."""
    return min((c.notices for c in group if not math.isnan(c.notices)), default=math.nan)


def _percent(notices: float) -> str:
    if math.isnan(notices):
        return "-"
    return "<0.01%" if notices < 1e-4 else f"{min(100 * notices, 1e6):.2g}%"


def _room(check: Check) -> tuple[bool, float]:
    """Sort key: the closest case first."""
    if check.z is not None:
        return check.holds, -abs(check.z)
    if check.difference == 0 or not math.isfinite(check.difference):
        return check.holds, 0.0 if check.difference == 0 else math.inf
    gap = check.difference / max(1e-3, abs(check.left), abs(check.right))
    if check.relation == "=":
        return check.holds, -abs(gap)
    return check.holds, -gap if check.relation == "<=" else gap
