"""What rows of a table cost, as reports show it: a data frame, lines, a section of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from gibbs_dp import io
from gibbs_dp.auditing.shown import with_error
from gibbs_dp.engine.quantity import RowTable
from gibbs_dp.io import html, page
from gibbs_dp.io.html import Heading
from gibbs_dp.io.page import Section
from gibbs_dp.plotting import inline_svg
from gibbs_dp.quantities.exposure import COLUMNS, SENSITIVE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Most exposed rows that are printed and on pages.
LISTED = 10
ESTIMATES = ("on_average_kl", "advantage")
# So many gammas have a table each on a page.
MOST_GAMMAS = 6
Tables = Sequence[RowTable]


def exposure_frame(gammas: Sequence[float], tables: Tables) -> pd.DataFrame:
    """Return all rows of the table for each gamma, most exposed first.

    Parameters
    ----------
    gammas
        Of the report.
    tables
        A table of figures a gamma, with a number for every row.

    Returns
    -------
    DataFrame
        As ``Report.exposure`` says.

    Raises
    ------
    ValueError
        If there are no tables.
    """
    import pandas as pd  # slow to import

    if not tables:
        raise ValueError(
            "exposure: this report has no figures of rows; audit with exposure=True (--exposure)."
        )
    frames = []
    for gamma, table in zip(gammas, tables, strict=True):
        order = np.argsort(-table["ranked_by"], kind="stable")  # NaN is last
        frame = pd.DataFrame({"gamma": gamma, "rank": np.arange(1, order.size + 1)})
        for name, values in table.items():
            frame[name] = values[order]
        frames.append(frame)
    found = pd.concat(frames, ignore_index=True)
    for name in ESTIMATES:
        low, high = _interval(found[name], found[f"{name}_se"], found["num_datasets"])
        place = found.columns.get_loc(f"{name}_se")
        found.insert(place + 1, f"{name}_low", low)
        found.insert(place + 2, f"{name}_high", high)
    return found


def _interval(value: Any, se: Any, count: Any) -> tuple[Any, Any]:
    """Student's 95% interval; not below 0, as none of these is, unless the estimate is."""
    reach = se * special.stdtrit(np.maximum(count - 1.0, 1.0), 0.975)
    low = value - reach
    return low.where(value <= 0, low.clip(lower=0.0)), value + reach


def listed(gamma: float, table: RowTable) -> list[dict[str, Any]]:
    """Return the most exposed rows of one gamma as JSON can hold them.

    Parameters
    ----------
    gamma
        Of the table.
    table
        Figures of all rows.

    Returns
    -------
    list
        A dict a row, without gamma.
    """
    frame = exposure_frame([gamma], [table]).drop(columns="gamma").head(LISTED)
    return [io.json_row(row) for row in frame.to_dict("records")]


def exposure_summary(gammas: Sequence[float], tables: Tables) -> str:
    """Return the most exposed rows of every gamma as text, with errors.

    Parameters
    ----------
    gammas, tables
        Of the report.

    Returns
    -------
    str
        A table a gamma.
    """
    import pandas as pd

    parts = []
    for gamma, table in zip(gammas, tables, strict=True):
        cells = _cells(gamma, table)
        text = pd.DataFrame(cells).to_string(index=False)
        parts.append(f"{_title(gamma, table)}\n{html.visible(text)}")
    return "\n\n".join(parts)


def exposure_section(
    gammas: Sequence[float], tables: Tables, figure: Figure | None
) -> Section:
    """Return the most exposed rows as a section of a page; nothing of no tables.

    Parameters
    ----------
    gammas, tables
        Of the report.
    figure
        Of the largest gamma; None where there are no tables.

    Returns
    -------
    Section
        A table a gamma, the largest ones where gammas are many.
    """
    if not tables or figure is None:
        return page.section("Most exposed rows")
    parts = [page.paragraphs([SENSITIVE.meaning])]
    for gamma, table in list(zip(gammas, tables, strict=True))[-MOST_GAMMAS:]:
        cells = _cells(gamma, table)
        rows = zip(*cells.values(), strict=True)
        parts.append(page.paragraphs([_title(gamma, table)]))
        parts.append(html.table([Heading(name) for name in cells], rows))
    caption = f"What each row costs at gamma = {max(gammas):g}, over its rank."
    picture = (inline_svg(figure, caption, "exposure-"), caption)
    meanings = [(c.title, c.meaning) for c in COLUMNS if c.title is not None]
    return page.section(
        "Most exposed rows", *parts, page.pictures([picture]), page.meanings(meanings)
    )


def _title(gamma: float, table: RowTable) -> str:
    shown = min(LISTED, table["row"].size)
    return f"most exposed rows at gamma = {gamma:g} ({shown} of {table['row'].size:,})"


def _cells(gamma: float, table: RowTable) -> dict[str, list[str]]:
    frame = exposure_frame([gamma], [table]).head(LISTED)
    records = frame.to_dict("records")
    return {c.title: [_cell(row, c.name) for row in records] for c in COLUMNS if c.title}


def _cell(row: Mapping[Any, Any], name: str) -> str:
    value = row[name]
    if isinstance(value, float) and math.isnan(value):
        return "-"
    if f"{name}_se" in row:
        return with_error(value, row[f"{name}_se"])
    return f"{value:.4g}" if isinstance(value, float) else str(value)
