"""Attacks as a page: what was reached, and what that does not promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gibbs_dp.auditing.explain import CAUTIONS
from gibbs_dp.experiments.attack_plot import plot_attack
from gibbs_dp.experiments.attack_shown import NOTES, cells
from gibbs_dp.experiments.tables import Row
from gibbs_dp.results import page
from gibbs_dp.results.page import Page, inline_svg
from gibbs_dp.results.table import Heading, TextTable, counted

TITLE = "Attacks on a Gibbs posterior"
CAPTION = (
    "Left: advantage, true minus false positive rate. Right: true positive rate where one in a "
    "hundred guesses against a dataset that was not trained on is wrong. 95% intervals over trials."
)


def attack_page(
    rows: Sequence[Row],
    settings: Mapping[str, Any],
    warnings: Sequence[str],
    title: str | None = None,
    about: Iterable[str] = (),
) -> Page:
    """Say on a page what attacks reached.

    Parameters
    ----------
    rows, settings, warnings
        Of the result.
    title
        Its heading.
    about
        Sentences on what was attacked.

    Returns
    -------
    Page
        To be saved.
    """
    told = cells(rows)
    headings = [Heading(name, is_text=name == "attacker") for name in told[0]]
    picture = inline_svg(
        plot_attack(rows), "Advantage and true positive rate over gamma", "attack-"
    )
    return Page(
        title or TITLE,
        f"n={settings['n']}, {settings['num_trials']:,} trials a gamma",
        verdict(rows, len(warnings)),
        (
            page.warned(warnings, [c for kinds in CAUTIONS.values() for c in kinds]),
            page.section("What was attacked", page.bullets(about)),
            page.section("Results", TextTable(headings, [list(row.values()) for row in told])),
            page.section("Picture", page.pictures([(picture, CAPTION)])),
            page.section("What the numbers mean", page.bullets(NOTES)),
            page.settings(settings),
        ),
        is_warned=bool(warnings),
    )


def verdict(rows: Sequence[Row], num_warnings: int = 0) -> str:
    """Say in one sentence how often the most successful attacker was right.

    Parameters
    ----------
    rows
        Of a result.
    num_warnings
        Of the result.

    Returns
    -------
    str
        At the largest gamma.

    Examples
    --------
    >>> verdict([{"gamma": 1.0, "attacker": "loss", "success_rate": 0.53, "on_average_tv": 0.08}])
    'At gamma = 1 the best attacker that was run (loss) guessed right in 53.0% of the trials; the \
best possible is 54.0% on average.'
    """
    last = [row for row in rows if row["gamma"] == max(r["gamma"] for r in rows)]
    best = max(last, key=lambda row: row["success_rate"])
    mark = "" if not num_warnings else f" ({counted(num_warnings, 'warning')} below)"
    return (
        f"At gamma = {best['gamma']:g} the best attacker that was run ({best['attacker']}) guessed "
        f"right in {best['success_rate']:.1%} of the trials; the best possible is "
        f"{0.5 + 0.5 * best['on_average_tv']:.1%} on average{mark}."
    )
