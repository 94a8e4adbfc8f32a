"""What attacks reached, beside what was computed: tables, a picture, a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp import io
from gibbs_dp.auditing.summary import CAUTIONS as OF_AUDITS
from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.papers.attack.trial import CAUTIONS
from gibbs_dp.papers.tables import Row, column
from gibbs_dp.results import page
from gibbs_dp.results.base import Remarks, ResultWithPage
from gibbs_dp.results.page import Page
from gibbs_dp.results.plotting import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    Picture,
    legend_of_figure,
    panels,
    styled,
    tidy_logs,
)
from gibbs_dp.results.table import Heading, TextTable, counted, with_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class AttackResult(ResultWithPage):
    """Attacks over gamma."""

    table: tuple[Row, ...]
    settings: dict[str, Any]
    warnings: tuple[str, ...]

    def rows(self) -> list[Row]:
        """One dict per gamma and attacker.

        Measured: ``advantage``, ``success_rate``, ``auc`` and ``tpr_1pct`` (at a false positive
        rate of 1%; NaN for too few trials), with standard errors over trials in ``_se``. Computed
        for the best attacker: ``on_average_tv``, ``attack_auc`` and ``attack_tpr_1pct``. ``z``:
        advantage minus ``on_average_tv`` in standard errors. Where a worst-case epsilon is known,
        what it allows: ``dp_advantage`` and ``dp_tpr_1pct``. In nats, ``shown_epsilon``: a lower
        bound on epsilon at ``dp_delta`` (or 0) that holds with 95% for each row, and ``shown_mu``
        on mu of Gaussian DP (`gibbs_dp.privacy.epsilon_shown`, whose events the separate trials
        choose), beside ``dp_epsilon`` that is claimed and ``on_average_kl`` of the same pairs;
        ``refuted``: whether a bound that fails 6 times in 100,000 is above the claim.
        """
        return [dict(row) for row in self.table]

    def to_json_rows(self) -> list[str]:
        """One JSON object per row; infinite is the string ``"inf"``, absent stays absent."""
        return [json.dumps(io.json_row(row)) for row in self.table]

    def _head(self) -> str:
        return f"n={self.settings['n']}, {self.settings['num_trials']:,} trials a gamma"

    def _begin(self) -> list[str]:
        return []

    def _table(self, most: int | None = None) -> TextTable:
        told = cells(self.table)
        headings = [Heading(name, is_text=name == "attacker") for name in told[0]]
        rows = [list(row.values()) for row in told]
        shown = rows if most is None else rows[:most]
        return TextTable(headings, shown, len(rows) - len(shown))

    def _remarks(self) -> Remarks:
        return [*(("WARNING", w) for w in self.warnings), *(("note", note) for note in NOTES)]

    def plot(self, title: str | None = None) -> Picture:
        """Draw advantages, true positive rates and epsilon over gamma, measured beside computed."""
        return plot_attack(self.table, title)

    def _page(self, title: str | None, about: Iterable[str]) -> Page:
        kinds = (OF_AUDITS | CAUTIONS).values()
        picture = page.inline_svg(
            plot_attack(self.table), "Advantage and true positive rate over gamma", "attack-"
        )
        return Page(
            title or TITLE,
            self._head(),
            verdict(self.table, len(self.warnings)),
            (
                page.warned(self.warnings, [c for some in kinds for c in some]),
                page.section("What was attacked", page.bullets(about)),
                page.section("Results", self._table()),
                page.section("Picture", page.pictures([(picture, CAPTION)])),
                page.section("What the numbers mean", page.bullets(NOTES)),
                page.settings(self.settings),
            ),
            is_warned=bool(self.warnings),
        )


NOTES = (
    "advantage is true minus false positive rate; on_average_tv is what the best attacker reaches "
    "on average over datasets and examples, and z the difference in standard errors.",
    "epsilon shown is a lower bound on epsilon, with 95%, from the attacker's scores; what is "
    "claimed bounds every attacker, and average KL (nats) is what one draw tells on average.",
    "attackers know the other examples and one draw; several draws tell more.",
    "an attack that fails is no guarantee, and on-average numbers are none for any one person.",
)


def cells(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return rows as texts, under the titles that people read."""
    return [
        {
            "gamma": f"{row['gamma']:g}",
            "attacker": row["attacker"],
            "advantage": with_error(row["advantage"], row["advantage_se"]),
            "computed": with_error(row["on_average_tv"], row["on_average_tv_se"]),
            "z": f"{row['z']:+.1f}",
            "right": with_error(row["success_rate"], row["success_rate_se"]),
            "AUC": with_error(row["auc"], row["auc_se"]),
            "TPR at 1%": _or_dash(row["tpr_1pct"], row["tpr_1pct_se"]),
            "DP allows": f"{row['dp_advantage']:.4g}" if "dp_advantage" in row else "-",
            "epsilon shown": f"{row['shown_epsilon']:.2f}",
            "claimed": f"{row['dp_epsilon']:.4g}" if "dp_epsilon" in row else "-",
            "average KL": with_error(row["on_average_kl"], row["on_average_kl_se"]),
        }
        for row in rows
    ]


def _or_dash(value: float, se: float) -> str:
    return with_error(value, se) if value == value else "-"


TITLE = "Attacks on a Gibbs posterior"
CAPTION = (
    "First: advantage, true minus false positive rate. Second: true positive rate where one in a "
    "hundred guesses against a dataset that was not trained on is wrong. 95% intervals over "
    "trials. Third: the epsilon that is claimed, lower bounds on it that attacks have shown (with "
    "95%), and on-average KL."
)


def verdict(rows: Sequence[Row], num_warnings: int = 0) -> str:
    """Say in one sentence how often the most successful attacker was right.

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


# Pictures of attacks: what was reached, what was computed, what the worst case allows.

MARKS = {
    "optimal": ("optimal attack", BLUE, "o", -1),
    "loss": ("loss threshold", ORANGE, "s", 0),
    "lira": ("shadow draws (LiRA)", GREEN, "^", 1),
}
# Points of one gamma stand beside each other, this share of the axis' decades apart.
APART, LEAST_DECADES = 0.025, 1.5
CHANCE = 0.01


@styled()
def plot_attack(rows: Sequence[Row], title: str | None = None) -> Picture:
    """Draw advantages, true positive rates at 1% and epsilon over gamma, with 95% intervals."""
    figure, grid = panels((12.0, 4.4), 1, 3)
    left, right, nats = grid[0]
    draw_advantage(left, rows)
    draw_rate(right, rows)
    draw_epsilon(nats, rows)
    if title is not None:
        figure.suptitle(title)
    legend_of_figure(figure, (left, right, nats), columns=4)
    return figure


def draw_advantage(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw the measured advantages over the computed one."""
    _draw(axes, rows, "advantage", "on_average_tv", "dp_advantage")
    axes.set(ylabel="advantage (TPR − FPR)", ylim=(-0.03, 1.03))


def draw_rate(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw true positive rates where the false one is 1%."""
    _draw(axes, rows, "tpr_1pct", "attack_tpr_1pct", "dp_tpr_1pct")
    axes.axhline(CHANCE, color="0.6", lw=1, ls=":", label="guessing")
    axes.set(ylabel="true positive rate at 1% false ones", yscale="log", ylim=(0.006, 1.2))


def draw_epsilon(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw what the worst case allows, what attacks have shown, and the average, in nats."""
    axes.set(xscale="log", xlabel="gamma (inverse temperature)", yscale="log", ylabel="nats")
    first = [row for row in rows if row["attacker"] == rows[0]["attacker"]]
    gamma, mark = column(first, "gamma"), _mark(len(first))
    claimed, kl = column(first, "dp_epsilon"), column(first, "on_average_kl")
    if np.isfinite(claimed).any():
        axes.plot(gamma, claimed, "--", color=VERMILION, lw=1.5, label="DP epsilon allows", **mark)
    axes.plot(gamma, kl, ":", color=BLACK, lw=1.8, label="on-average KL", **mark)
    for own, (label, color, _, place) in _by_attacker(rows):
        shown = column(own, "shown_epsilon")
        is_seen = shown > 0
        if is_seen.any():  # upwards: epsilon is at least that
            look: dict[str, Any] = {"ls": "none", "marker": "^", "ms": 6, "color": color}
            x = (column(own, "gamma") * _aside(gamma, place))[is_seen]
            axes.plot(x, shown[is_seen], label=f"{label}, epsilon at least", **look)
    tidy_logs(axes)


def _mark(count: int) -> dict[str, Any]:
    """Mark single points, as a line of one is not seen."""
    return {"marker": "_", "ms": 22, "mew": 1.8} if count == 1 else {}


def _aside(gamma: Any, place: int) -> float:
    """Move points of one gamma apart."""
    decades = max(LEAST_DECADES, float(np.log10(gamma.max() / gamma.min())))
    return float(10 ** (place * APART * decades))


def _by_attacker(rows: Sequence[Row]) -> Iterator[tuple[list[Row], tuple[str, str, str, int]]]:
    for name, look in MARKS.items():
        own = [row for row in rows if row["attacker"] == name]
        if own:
            yield own, look


def _draw(axes: Axes, rows: Sequence[Row], measured: str, computed: str, bound: str) -> None:
    axes.set(xscale="log", xlabel="gamma (inverse temperature)")
    first = [row for row in rows if row["attacker"] == rows[0]["attacker"]]
    gamma = column(first, "gamma")
    value, error = column(first, computed), LIMIT_Z * column(first, f"{computed}_se")
    mark = _mark(len(gamma))
    axes.plot(gamma, value, color=BLACK, lw=1.8, label="best possible, computed", **mark)
    axes.fill_between(gamma, value - error, value + error, color=BLACK, alpha=0.15, lw=0)
    limit = column(first, bound)
    if np.isfinite(limit).any():
        axes.plot(gamma, limit, "--", color=VERMILION, lw=1.5, label="DP epsilon allows", **mark)
    for own, (label, color, marker, place) in _by_attacker(rows):
        axes.errorbar(
            column(own, "gamma") * _aside(gamma, place),
            column(own, measured),
            LIMIT_Z * column(own, f"{measured}_se"),
            ls="none",
            color=color,
            marker=marker,
            ms=5,
            label=label,
            zorder=3,
        )
    tidy_logs(axes)
