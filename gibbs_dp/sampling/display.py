"""Draws as notebooks and pages show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gibbs_dp.io import html, page
from gibbs_dp.io.html import Heading
from gibbs_dp.io.page import Page
from gibbs_dp.sampling import cautions, modes

# In notebooks.

# What a pointer on a column's title sees in a notebook.
MEANINGS = {
    "ess": "Effective number of draws: so many independent ones would know the mean as well.",
    "r_hat": "Split R-hat: about 1 where the chains agree.",
}
ONLY_SHOWN = (
    "ess and r_hat are computed for the coordinates above only; .warnings looks at all of them."
)


def as_html(
    title: str,
    rows: Sequence[dict[str, Any]],
    total: int,
    warnings: Sequence[str],
    is_batch: bool,
) -> str:
    """Show a row a coordinate.

    Parameters
    ----------
    title
        What they are of.
    rows
        What describes the first coordinates.
    total
        Coordinates of all datasets.
    warnings
        Of the coordinates in ``rows``.
    is_batch
        Whether they are of several datasets.

    Returns
    -------
    str
        HTML.
    """
    names = [name for name in rows[0] if name != "dataset" or is_batch]
    cells = [
        [f"{x:.4g}" if isinstance(x, float) else str(x) for x in map(row.get, names)]
        for row in rows
    ]
    marks: list[tuple[str, str]] = [("WARNING", text) for text in warnings]
    if total > len(rows):
        marks.append(("note:", ONLY_SHOWN))
    return html.block(
        title,
        html.table(
            [html.Heading(n, MEANINGS.get(n, ""), n == "parameter") for n in names],
            cells,
            total - len(rows),
            "coordinates",
        ),
        html.remarks(marks),
    )


# On a page.

TITLE = "Draws from a Gibbs posterior"
KINDS = (
    cautions.R_HAT,
    cautions.FEW_EFFECTIVE_DRAWS,
    cautions.STUCK_CHAINS,
    cautions.DIVERGED_CHAINS,
    cautions.BIASED_STEPS,
    modes.SEVERAL_MODES,
    modes.NESTED_SCALES,
)
COLUMNS = {
    "mean": "Mean of the draws.",
    "sd": "Their standard deviation.",
    "5%": "Their 5% quantile.",
    "95%": "Their 95% quantile.",
    "ess": "Effective number of draws: so many independent ones would know the mean as well.",
    "r_hat": "Split R-hat: about 1 where the chains agree.",
}
NO_PROMISE = (
    "The draws of a Markov chain are approximate. Diagnostics find chains that disagree; they "
    "cannot find a mode that no chain has visited.",
    "There is no privacy here: the draws are made with a known key and charged to no budget. What "
    "is to be published is released under declared bounds (gibbs-dp release).",
    "The numbers are computed from the data without noise: this page is as confidential as the "
    "data.",
)


def draws_page(
    what: str,
    how: str,
    rows: Sequence[Mapping[str, Any]],
    total: int,
    warnings: Sequence[str],
    settings: Mapping[str, Any],
    title: str | None = None,
    about: Iterable[str] = (),
) -> Page:
    """Say on a page how draws are distributed, and whether to trust them.

    Parameters
    ----------
    what
        What they are, in less than a line.
    how
        How they were made.
    rows
        What describes the first coordinates.
    total
        Coordinates of all datasets.
    warnings, settings
        Of the draws.
    title
        Its heading.
    about
        Sentences on what was sampled.

    Returns
    -------
    Page
        To be saved.
    """
    names = [name for name in rows[0] if name != "dataset" or rows[-1]["dataset"] > 0]
    cells = [[_cell(row[name]) for name in names] for row in rows]
    own = dict(settings)
    versions = own.pop("versions", None)
    computed = list(versions.items()) if isinstance(versions, Mapping) else page.installed()
    return Page(
        title or TITLE,
        what,
        verdict(rows, len(warnings)),
        (
            page.warned(warnings, KINDS),
            page.section("What was sampled", page.bullets(about)),
            page.section(
                "Draws",
                page.paragraphs([f"{what}, {how}."]),
                html.table(
                    [Heading(name, is_text=name == "parameter") for name in names],
                    cells,
                    total - len(rows),
                    "coordinates",
                ),
                page.meanings((name, COLUMNS[name]) for name in names if name in COLUMNS),
            ),
            page.section("What it does not promise", page.bullets(NO_PROMISE)),
            page.settings(own.items(), computed),
        ),
        is_warned=bool(warnings),
    )


def verdict(rows: Sequence[Mapping[str, Any]], num_warnings: int = 0) -> str:
    """Say in one sentence whether the draws look like the posterior's.

    Examples
    --------
    >>> verdict([{"r_hat": 1.002, "ess": 812.4}])
    'The chains agree: R-hat is at most 1.002, and every coordinate shown has at least 812 \
effective draws.'
    """
    worst = float(np.fmax.reduce([row["r_hat"] for row in rows]))
    fewest = float(np.fmin.reduce([row["ess"] for row in rows]))
    mark = f" ({html.counted(num_warnings, 'warning')} below)" if num_warnings else ""
    begin = "Do not trust these draws before reading the warnings" if mark else "The chains agree"
    return (
        f"{begin}{mark}: R-hat is at most {worst:.4g}, and every coordinate shown has at least "
        f"{fewest:.0f} effective draws."
    )


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
