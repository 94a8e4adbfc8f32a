"""A report of one posterior as a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gibbs_dp.one_dataset import cautions, shown
from gibbs_dp.one_dataset.columns import AVERAGES
from gibbs_dp.one_dataset.plot import plot_panels
from gibbs_dp.results import page
from gibbs_dp.results.page import Page, inline_svg
from gibbs_dp.results.table import Heading, TextTable, counted, plain

TITLE = "What one example changes in a posterior"
# Most exposed examples on a page.
LISTED = 10
NO_PROMISE = (
    "The averages are over the examples of this dataset: they are no guarantee for any one of "
    "them, and the most exposed one loses far more than the average.",
    "There is no worst case here, and no differential privacy: that is a statement about all "
    "datasets of a declared domain.",
    "All of it is about one draw of the posterior. Several draws give away more.",
    "The numbers are computed from the data without noise, and name examples: this page is as "
    "confidential as the data.",
)
KINDS = (
    cautions.HIGH_K_HAT,
    cautions.CHAINS_DISAGREE,
    cautions.FEW_EFFECTIVE,
    cautions.ROUTES_DISAGREE,
)


def one_dataset_page(
    averages: Mapping[str, float],
    examples: Mapping[str, np.ndarray],
    settings: Mapping[str, Any],
    warnings: Sequence[str],
    exposed: Iterable[tuple[Any, float, float]],
    title: str | None = None,
    about: Iterable[str] = (),
) -> Page:
    """Say on a page what the audit of one posterior found.

    Parameters
    ----------
    averages, examples, settings, warnings
        Of the report.
    exposed
        The most exposed examples: name, exposure (nats) and ``k_hat`` of each.
    title
        Its heading.
    about
        Sentences on what was audited.

    Returns
    -------
    Page
        To be saved.
    """
    unit = str(settings["unit"])
    headings = [Heading(text, is_text=k == 0) for k, text in enumerate(shown.HEADINGS)]
    listed = [
        [plain(str(name), shown.WIDTH), f"{exposure:.4g}", f"{k_hat:.3g}"]
        for name, exposure, k_hat in exposed
    ]
    of_exposed = [Heading(unit, is_text=True), Heading("exposure (nats)"), Heading("k_hat")]
    return Page(
        title or TITLE,
        shown.one_line(settings, warnings),
        verdict(averages, unit, len(warnings)),
        (
            page.warned(warnings, KINDS),
            page.section("What was audited", page.bullets(about)),
            page.section("Results", TextTable(headings, shown.rows(averages))),
            page.section(
                f"The most exposed {unit}s (sensitive)",
                page.paragraphs(
                    [
                        "Ranked by half of the draws, estimated from the other: the largest of "
                        "many estimates overstates itself."
                    ]
                ),
                TextTable(of_exposed, listed),
            ),
            page.section("Pictures", page.pictures(_pictures(averages, examples, settings))),
            page.section("What the numbers rest on", page.bullets(shown.assumptions(settings))),
            page.section("Notes", page.bullets(shown.notes(averages, settings))),
            page.section("What it does not promise", page.bullets(NO_PROMISE)),
            page.section("What the numbers are", page.meanings(_meanings(averages))),
            page.settings(settings),
        ),
        is_warned=bool(warnings),
    )


def verdict(averages: Mapping[str, float], unit: str, num_warnings: int = 0) -> str:
    """Say in one sentence what a draw gives away of these data.

    Examples
    --------
    >>> verdict({"on_average_kl": 0.0067, "on_average_kl_mcse": 0.0001}, "patient")
    'One draw of this posterior gives away 0.0067 ± 0.0001 nats (Monte Carlo error) about a \
patient of this dataset on average; the most exposed lose more, and no worst case is bounded.'
    """
    value, error = averages["on_average_kl"], averages.get("on_average_kl_mcse", float("nan"))
    mark = "" if not num_warnings else f" ({counted(num_warnings, 'warning')} below)"
    if not np.isfinite(value):
        return f"What a draw gives away could not be estimated{mark}."
    close = f" ± {error:.2g} nats (Monte Carlo error)" if np.isfinite(error) else " nats"
    name = plain(unit, shown.WIDTH)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return (
        f"One draw of this posterior gives away {value:.4g}{close} about {article} {name} of this "
        f"dataset on average; the most exposed lose more, and no worst case is bounded{mark}."
    )


def _pictures(
    averages: Mapping[str, float], examples: Mapping[str, np.ndarray], settings: Mapping[str, Any]
) -> list[tuple[str, str]]:
    captions = {
        "exposure": "KL to the posterior with another example in its place.",
        "k_hat": "Shape of the tail of the weights that remove an example.",
    }
    drawn = plot_panels(averages, examples, settings)
    return [(inline_svg(drawn[k], f"{k} of every example", f"{k}-"), captions[k]) for k in captions]


def _meanings(averages: Mapping[str, float]) -> list[tuple[str, str]]:
    return [
        (
            AVERAGES[name].title.strip()
            + (f" ({AVERAGES[name].unit})" * bool(AVERAGES[name].unit)),
            AVERAGES[name].text,
        )
        for name in averages
        if name in AVERAGES and AVERAGES[name].title
    ]
