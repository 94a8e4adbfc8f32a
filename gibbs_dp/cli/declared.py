"""Options that declare the columns of a private table, and the schema that they make."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from gibbs_dp._options import Option
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.mistakes import is_number, number_remedy
from gibbs_dp.io.dates import ISO
from gibbs_dp.privacy.columns import Column, Levels, Number, Positive, Range
from gibbs_dp.privacy.date_column import Date
from gibbs_dp.privacy.schema import Schema

FEATURES = (
    Option(
        "range",
        "str",
        "feature whose numbers from LOW to HIGH are mapped to 0 to 1; may be repeated",
        is_repeatable=True,
        metavar=("COLUMN", "LOW", "HIGH"),
    ),
    Option(
        "levels",
        "str",
        "text feature: an indicator (0 or 1) of each level but the first; may be repeated",
        is_list=True,
        is_repeatable=True,
        metavar=("COLUMN", "LEVEL"),
    ),
    Option(
        "date",
        "str",
        "feature whose days from FIRST to LAST are mapped to 0 to 1; may be repeated",
        is_repeatable=True,
        metavar=("COLUMN", "FIRST", "LAST"),
    ),
    Option(
        "date_format",
        "str",
        "how the table spells dates, as DD/MM/YYYY",
        shown=ISO,
        metavar="FORMAT",
    ),
    Option(
        "numbers",
        "str",
        "features whose numbers are used as they are, with --x-bound",
        is_list=True,
        metavar="COLUMN",
    ),
    Option(
        "x_bound",
        "float",
        "largest norm of a feature vector, the intercept's 1 included: longer ones are shortened",
        shown="what --range, --levels and --date allow, the root of 1 + their number",
    ),
)
LABELS = (
    Option(
        "label",
        "str",
        "logistic loss: the label that is 0 and the one that is 1",
        metavar=("ZERO", "ONE"),
    ),
    Option("positive", "str", "instead: the label that is 1; any other is 0", metavar="ONE"),
    Option(
        "y_range",
        "float",
        "squared and absolute loss: smallest and largest label",
        metavar=("LOW", "HIGH"),
    ),
)


def schema_of(parsed: argparse.Namespace) -> Schema:
    """Build the schema of a command line, which declares every column by name.

    Returns
    -------
    Schema
        Features, target and label.

    Raises
    ------
    ValueError
        If a column is not declared, declared twice, or a declaration makes no sense.
    """
    columns = _feature_columns(parsed)
    names = list(dict.fromkeys(columns if parsed.features is None else parsed.features))
    undeclared = [name for name in names if name not in columns]
    if undeclared or not names:
        first = undeclared[0] if undeclared else "COLUMN"
        what = f"not declared: {', '.join(map(repr, undeclared))}" if names else "there are none"
        raise UsageError(
            f"--features: {what}; nothing about a column is learnt from the table, so give --range "
            f"{first} LOW HIGH, or --levels {first} FIRST SECOND, or --date {first} FIRST LAST, or "
            f"--numbers {first} with --x-bound."
        )
    for name in columns:
        if name == parsed.target:
            raise UsageError(
                f"--target: {name!r} is declared as a feature; declare it with --label, "
                "--positive or --y-range."
            )
        if name not in names:
            raise UsageError(f"--features: {name!r} is declared and not in the list; add it.")
    if parsed.numbers and parsed.x_bound is None:
        raise UsageError(
            f"--x-bound: {parsed.numbers[0]!r} is used as it is, so declare the largest norm of a "
            "feature vector, or give --range instead of --numbers."
        )
    features = {name: columns[name] for name in names}
    return Schema(features, parsed.target, _label(parsed), parsed.x_bound)


def _feature_columns(parsed: argparse.Namespace) -> dict[str, Column]:
    """Collect the declared features: ranges, levels, dates, numbers, each in the order given."""
    found: dict[str, Column] = {}

    def add(flag: str, name: str, column: Column) -> None:
        if name in found:
            raise UsageError(f"{flag}: {name!r} is declared twice; once is enough.")
        found[name] = column

    for name, low, high in parsed.range or ():
        try:
            ends = float(low), float(high)
        except ValueError:
            wrong = low if not is_number(low) else high
            raise UsageError(
                f"--range: {name!r} needs two numbers, got {low} {high}"
                f"{number_remedy(wrong, 'float')}."
            ) from None
        add("--range", name, _declared(f"--range {name}", Range, *ends))
    for name, *levels in parsed.levels or ():
        add("--levels", name, _declared(f"--levels {name}", Levels, levels))
    if parsed.date_format is not None and not parsed.date:
        raise UsageError("--date-format: it is of the columns that --date declares; leave it out.")
    for name, *days in parsed.date or ():
        spelled = [] if parsed.date_format is None else [parsed.date_format]
        add("--date", name, _declared(f"--date {name}", Date, *days, *spelled))
    for name in parsed.numbers or ():
        add("--numbers", name, Number())
    return found


def _label(parsed: argparse.Namespace) -> Column:
    flags = ("--label", "--positive", "--y-range")
    values = (parsed.label, parsed.positive, parsed.y_range)
    given = [flag for flag, value in zip(flags, values, strict=True) if value is not None]
    if parsed.loss == "logistic":
        if given == ["--label"]:
            return _declared("--label", Levels, parsed.label)
        if given == ["--positive"]:
            return _declared("--positive", Positive, parsed.positive)
        raise UsageError(
            "--label: the logistic loss needs its two labels declared; give --label ZERO ONE "
            "(--label no yes, --label 0 1), or --positive ONE, one of them and no --y-range."
        )
    if given != ["--y-range"]:
        raise UsageError(
            f"--y-range: the {parsed.loss} loss needs the smallest and the largest label declared, "
            "and neither --label nor --positive."
        )
    return _declared("--y-range", Number, *parsed.y_range)


def _declared(where: str, kind: Callable[..., Column], *values: Any) -> Column:
    """Make a column; an error names the option."""
    try:
        return kind(*values)
    except ValueError as error:
        raise UsageError(f"{where}: {str(error).partition(': ')[2]}") from None
