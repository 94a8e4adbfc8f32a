"""What a report says in a hundred columns: numbers, a verdict in a word; and every warning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from gibbs_dp._cautions import (
    LOOK,
    OK,
    REFUSE,
    VERDICTS,
    AuditWarning,
    Caution,
    DoNotUseWarning,
    names_of,
)
from gibbs_dp.auditing import certificate as certificates
from gibbs_dp.auditing import report_data
from gibbs_dp.auditing.report_data import ReportData, cell
from gibbs_dp.engine import runner
from gibbs_dp.engine.store import archive
from gibbs_dp.one_dataset import report as one_dataset
from gibbs_dp.quantities import attacker, certified_kl, exposure, mixing, risks, worst_case
from gibbs_dp.quantities import mutual_information as information
from gibbs_dp.quantities import on_average_kl as kl
from gibbs_dp.results.table import WIDTH, Column, Heading, TextTable, in_paper, interval, plain
from gibbs_dp.sampling import calibration, modes
from gibbs_dp.sampling import cautions as draws

# Warnings.

CAUTIONS: dict[str, tuple[Caution, ...]] = {
    "Of an audit": (
        report_data.FAILED_DATASETS,
        report_data.FEW_DATASETS,
        kl.ROUTES_DISAGREE,
        mixing.STARTS_DISAGREE,
        report_data.CHANGED_SAMPLER,
        modes.SEVERAL_MODES,
        modes.NESTED_SCALES,
        mixing.DRIFTING,
        mixing.SLOW_MIXING,
        mixing.UNEVEN_MIXING,
        mixing.LOW_ACCEPTANCE,
        mixing.VIRIAL,
        mixing.PATHS_DISAGREE,
        mixing.FEW_PARTICLES,
        mixing.POOR_PATH,
        kl.HEAVY_TAILS,
        kl.BEYOND_SUMS,
        attacker.ATTACK_TOO_WEAK,
        kl.RARE_EXAMPLES,
        kl.UNSEEN_EXAMPLES,
        kl.SKEWED_DATASETS,
        attacker.RENYI_LOWER_BOUND,
        risks.DOMINANT_DATASET,
        risks.BELOW_BEST,
        report_data.PARTLY_UNDEFINED,
        report_data.UNDEFINED,
        worst_case.OUTSIDE_DOMAIN,
        certified_kl.BEYOND_BOUNDS,
        report_data.REL_ERROR_MISSED,
        report_data.INTERRUPTED,
    ),
    "Of mutual information": (
        information.BOUNDS_CROSS,
        information.INFORMATION_CEILING,
        information.INDIVIDUAL_TOO_LARGE,
        information.IDENTITY_BROKEN,
        information.NORMALIZERS_DISAGREE,
        information.POOR_OVERLAP,
        information.NOISY_NORMALIZER,
    ),
    "Of the rows of a table": (exposure.SENSITIVE, exposure.FEW_HOLDERS, exposure.HEAVY_ROWS),
    "Of sums on a grid": (mixing.TOO_NARROW, mixing.TOO_COARSE),
    "Of draws from one posterior": (
        draws.R_HAT,
        draws.ISLANDS_DISAGREE,
        draws.FEW_EFFECTIVE_DRAWS,
        draws.STUCK_CHAINS,
        draws.DIVERGED_CHAINS,
        draws.BIASED_STEPS,
        draws.STEP_BIAS,
        draws.ROUNDED_LOSSES,
        draws.DRAWS_AT_AN_END,
        draws.HEAVY_TAILS,
        draws.AUXILIARY_DRIFT,
    ),
    "Of a model that is checked by simulation": (
        calibration.RANKS_NOT_UNIFORM,
        calibration.DEPENDENT_RANKS,
    ),
    "Of the audit of one posterior": (
        one_dataset.HIGH_K_HAT,
        one_dataset.CHAINS_DISAGREE,
        one_dataset.FEW_EFFECTIVE,
        one_dataset.ROUTES_DISAGREE,
    ),
    "Of certificates": (certificates.VACUOUS, certificates.NOISY_NORMALIZER),
    "Of gammas found for a purpose": (
        report_data.MINIMUM_AT_END,
        report_data.FLAT_CURVE,
        report_data.NEAR_CERTAINTY,
    ),
    "Of files and of the machine": (archive.DAMAGED_STORE, runner.OUT_OF_MEMORY),
}
"""Every warning, by what it is about."""


def explain_warnings() -> str:
    """Explain every warning: its sentence, what it means, and what to do.

    >>> print(explain_warnings().splitlines()[0])
    [failed-datasets] ... of ... datasets failed (...); the estimates are conditional on the \
others, which biases them.
    """
    return "\n\n".join(
        f"[{c.name}] {c.example}\n{c.meaning}\nWhat to do: {c.remedy}"
        for cautions in CAUTIONS.values()
        for c in cautions
    )


Row = Mapping[str, Any]
UNKNOWN = "unknown"
# Of a row that so many datasets failed of, whatever is left is another average.
FAILED_SHARE = 0.1
VERDICT = (
    f"{OK}: no check found anything; {LOOK}: read the warnings below, which say how the numbers "
    f"are less than they seem; {REFUSE}: a warning says that they are wrong; {UNKNOWN}: the row "
    "was not checked."
)

# The verdict.


@cache
def _verdicts() -> dict[str, str]:
    """Return what every warning leaves of a row, by its name."""
    return {c.name: c.verdict for cautions in CAUTIONS.values() for c in cautions}


def _verdict_of(text: str) -> str:
    """Return what a warning leaves of a row; of one that is not known, or has no name, a look."""
    return next((_verdicts().get(name, LOOK) for name in names_of([text])), LOOK)


def kind_of(text: str) -> type[AuditWarning]:
    """Return the class that a warning of a report has among Python's."""
    return DoNotUseWarning if _verdict_of(text) == REFUSE else AuditWarning


def verdicts_on(rows: Sequence[Row], warnings: Iterable[str]) -> list[str]:
    """Return the worst verdict on each row: "ok", "look", "do not use", or "unknown"."""
    found: dict[str, set[str]] = {}
    for text in warnings:
        gamma = text.partition(": ")[0] if text.startswith("gamma=") else ""
        found.setdefault(gamma, set()).add(_verdict_of(text))
    return [
        max(
            found.get("", set()) | found.get(f"gamma={row['gamma']:g}", set()) | _unseen(row),
            key=(OK, UNKNOWN, *VERDICTS[1:]).index,
            default=OK,
        )
        for row in rows
    ]


def _unseen(row: Row) -> set[str]:
    """Return what no warning says of a row: that it was not checked, or that datasets failed."""
    failed = row.get("failed_datasets", 0)
    too_many = failed and failed >= FAILED_SHARE * (failed + row.get("num_datasets", 0))
    return ({UNKNOWN} if "trust" not in row else set()) | ({REFUSE} if too_many else set())


# Columns that are shown: a name, those of a report that it is of (the first that there is), and how
# a row is written.

Writes = Callable[[Row, str], str]


def _interval(row: Row, name: str) -> str:
    ends = [row[f"{name}_{end}"] for end in ("low", "high") if f"{name}_{end}" in row]
    return interval(*ends) if len(ends) == 2 else "-"


def _guesses(row: Row, name: str) -> str:
    if name not in row:
        return "-"
    return in_paper(50 + 50 * row[name], 50 * row.get(f"{name}_se", 0.0))


def _limit(row: Row, name: str) -> str:
    return f"{row[name]:.4g}" if name in row else "-"


GUESSES = (
    "Right guesses in 100 of someone who knows all other examples, sees what is released and "
    "guesses which of two was in the data: 50 + 50 on_average_tv. A coin has 50."
)
INTERVAL = "95% interval of on_average_kl, which allows for skewed datasets."
SHOWN: tuple[tuple[str, str, str, Writes], ...] = (
    ("on-average KL", "on_average_kl", "", cell),
    ("95% interval", "on_average_kl", INTERVAL, _interval),
    ("odds in 100", "on_average_tv", GUESSES, _guesses),
    ("gen. error", "generalization_error", "", cell),
    ("risk", "population_risk", "", cell),
    ("worst case", "dp_epsilon", "", _limit),
)
# Left out in this order where numbers have so many digits that a line would be too long.
SPARED = ("gen. error", "95% interval", "risk")


def summary_of(report: ReportData, most: int | None = None) -> TextTable:
    """Return a line a gamma, which fits a terminal; columns of one's own where there is room."""
    rows, known = report.rows[:most], report._known_columns
    columns = {Heading("gamma", known["gamma"].meaning): [f"{row['gamma']:g}" for row in rows]}
    for title, name, meaning, write in SHOWN:
        texts = [write(row, name) for row in rows]
        if any(text != "-" for text in texts):
            columns[Heading(title, meaning or _meaning(known[name]))] = texts
    verdicts = verdicts_on(rows, report.warnings)
    last = {Heading("verdict", VERDICT): verdicts}
    for title in SPARED:
        if _width(columns | last) > WIDTH:
            columns = {head: texts for head, texts in columns.items() if head.text != title}
    for column in _own(report):
        more = {_heading_of(column): [cell(row, column.name) for row in rows]}
        if _width(columns | more | last) <= WIDTH:
            columns |= more
    columns |= last
    lines = list(zip(*columns.values(), strict=True))
    return TextTable(list(columns), lines, len(report) - len(rows), "gammas")


def _own(report: ReportData) -> list[Column]:
    """Return columns of one's own that have a title."""
    present = set(report.columns)
    return [c for c in report.own_columns if c.title is not None and c.name in present]


def _heading_of(column: Column) -> Heading:
    return Heading(plain(column.title or column.name), _meaning(column))


def _meaning(column: Column) -> str:
    return f"{column.name_and_unit}: {column.meaning}"


def _width(columns: Mapping[Heading, Sequence[str]]) -> int:
    return sum(1 + max(map(len, (head.text, *texts))) for head, texts in columns.items()) - 1


# All columns.


def all_columns(report: ReportData) -> TextTable:
    """Return every column under its name, a column a line: how many there are tells no width."""
    known, names = report._known_columns, _names(report)
    headings = [Heading("gamma", is_text=True)]
    headings += [Heading(f"{row['gamma']:g}") for row in report.rows]
    lines = [
        [known[name].name_and_unit if name in known else name]
        + [cell(row, name) for row in report.rows]
        for name in names
    ]
    verdicts = verdicts_on(report.rows, report.warnings)
    return TextTable(headings, [*lines, ["verdict", *verdicts]])


def _names(report: ReportData) -> list[str]:
    """Return columns that have a line: errors stand behind their values, trust is sentences."""
    names = report.columns
    errors = {f"{name}_se" for name in names}
    return [name for name in names if name not in errors and name not in ("gamma", "trust")]


def left_out(report: ReportData) -> int:
    """Count the columns that the summary does not show."""
    headings = {heading.text for heading in summary_of(report).headings}
    shown = {name for title, name, *_ in SHOWN if title in headings}
    if "95% interval" in headings:
        shown |= {"on_average_kl_low", "on_average_kl_high"}
    shown |= {c.name for c in _own(report) if _heading_of(c).text in headings}
    return sum(name not in shown for name in _names(report))
