"""The summary of a report for a paper and for a spreadsheet."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gibbs_dp import io
from gibbs_dp._extras import require
from gibbs_dp.auditing.report_data import ReportData
from gibbs_dp.auditing.summary import SHOWN, summary_of
from gibbs_dp.results.table import plain

# A number of the summary, in its parts; siunitx reads it as it is.
_NUMBER = re.compile(r"-?(\d+)(?:\.(\d+))?(?:\((\d+)\))?(?:e[-+]?(\d+))?")
_SPECIAL = {c: rf"\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
PACKAGES = r"% \usepackage{booktabs, siunitx}"


def latex_of(report: ReportData) -> str:
    """Return the summary as a LaTeX table whose numbers stand under each other by their points."""
    table = summary_of(report)
    kinds = [_kind([row[i] for row in table.rows]) for i in range(len(table.headings))]
    head = [f"{{{_escaped(heading.text)}}}" for heading in table.headings]
    lines = [list(map(_cell, row, kinds)) for row in table.rows]
    return "\n".join(
        [
            PACKAGES,
            rf"\begin{{tabular}}{{{' '.join(kinds)}}}",
            r"\toprule",
            " & ".join(head) + r" \\",
            r"\midrule",
            *(" & ".join(line) + r" \\" for line in lines),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _kind(texts: Sequence[str]) -> str:
    """Return a column's kind: of numbers with room for the longest of each part, or of texts."""
    found = [match for match in map(_NUMBER.fullmatch, texts) if match]
    if not found:
        return "r" if any(text.startswith("[") for text in texts) else "l"
    whole, decimals, error, power = (max(len(m[i] or "") for m in found) for i in range(1, 5))
    kind = f"{whole}.{decimals}" if decimals else f"{whole}"
    kind += f"({error})" * (error > 0) + f"e-{power}" * (power > 0)
    return f"S[table-format={kind}]"


def _cell(text: str, kind: str) -> str:
    if text == "inf":
        return r"{$\infty$}"
    if kind.startswith("S"):
        return text if _NUMBER.fullmatch(text) else f"{{{_escaped(text)}}}"
    if text.startswith("["):
        ends = (_power(end) for end in text.strip("[]").split(", "))
        return f"$[{', '.join(ends)}]$"
    return _escaped(text)


def _power(number: str) -> str:
    digits, mark, power = number.partition("e")
    return rf"{digits} \times 10^{{{int(power)}}}" if mark else digits


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in plain(text))


def save_excel(report: ReportData, path: str | os.PathLike[str]) -> None:
    """Write the summary as a sheet of numbers, errors in columns of their own, and the warnings."""
    if Path(path).suffix.lower() != ".xlsx":
        raise ValueError(f"path: {os.fspath(path)!r} is no name of a sheet; let it end in .xlsx.")
    book = require("openpyxl").Workbook()
    sheet = book.active
    sheet.title = "summary"
    titles = [heading.text for heading in summary_of(report).headings]
    own = [c for c in report.own_columns if c.title in titles]
    columns = {"gamma": [row["gamma"] for row in report.rows]}
    for title, name, *_ in SHOWN:
        if title in titles:
            columns |= _numbers(report, title, name)
    for column in own:
        columns |= _numbers(report, str(column.title), column.name)
    columns["verdict"] = [line[-1] for line in summary_of(report).rows]
    lines = [list(columns), *zip(*columns.values(), strict=True), []]
    lines += [["WARNING", text] for text in report.warnings]
    lines += [["note", text] for text in report.notes]
    for i, line in enumerate(lines, 1):
        for j, value in enumerate(line, 1):
            cell = sheet.cell(i, j)
            if isinstance(value, float | int):
                cell.value = value if math.isfinite(value) else str(value)
            elif value is not None:
                cell.value = plain(value)
                cell.data_type = "s"  # never a formula, whatever a stranger wrote
    for j, (title, values) in enumerate(columns.items(), 1):
        letter = sheet.cell(1, j).column_letter
        sheet.column_dimensions[letter].width = max(len(title), 10) + 2
        known = [abs(x) for x in values if isinstance(x, float) and math.isfinite(x) and x]
        if known:  # four digits of the smallest, so that points stand under each other
            digits = max(3 - math.floor(math.log10(min(known))), 0)
            for i in range(2, len(values) + 2):
                sheet.cell(i, j).number_format = f"0.{'0' * min(digits, 10)}" if digits else "0"
    with io.atomic_write(path) as temporary:
        book.save(temporary)


def _numbers(report: ReportData, title: str, name: str) -> dict[str, list[Any]]:
    """Return a shown column as numbers, and its errors where it has them."""
    if title == "95% interval":
        ends = {"low": "95% low", "high": "95% high"}
        return {told: [r.get(f"{name}_{end}") for r in report.rows] for end, told in ends.items()}
    offset, factor = (50.0, 50.0) if title == "odds in 100" else (0.0, 1.0)
    values = [offset + factor * row[name] if name in row else None for row in report.rows]
    errors = [factor * row[s] if (s := f"{name}_se") in row else None for row in report.rows]
    has_errors = any(error is not None for error in errors)
    return {title: values} | ({f"{title}, standard error": errors} if has_errors else {})
