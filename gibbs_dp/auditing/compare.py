"""Reports side by side: differences with standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp.auditing.report import Report
from gibbs_dp.estimators import average
from gibbs_dp.results.base import Remarks, ResultWithExplorer
from gibbs_dp.results.page import Page
from gibbs_dp.results.table import Heading, TextTable, counted, in_paper, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRIVACY = ("on_average_kl", "on_average_kl_ghost")
RISKS = ("generalization_error", "empirical_risk", "population_risk", "excess_risk")
# What a pointer on a column's title sees in a notebook.
MEANINGS = {
    "value": "Of the report on this line: nats for KLs, units of the loss else.",
    "difference": "Value minus that of the first report, and its standard error over datasets.",
    "z": "Difference in standard errors.",
    "errors": "Paired: of differences between the same datasets; else added as independent ones.",
}


@dataclass(frozen=True, repr=False)
class Comparison(ResultWithExplorer):
    """Every report against the first.

    Parameters
    ----------
    reports
        By name, the first one the baseline.
    table
        A row per gamma, quantity and report but the first: ``value``, ``baseline`` (nats for KLs,
        units of the loss else), their ``difference``, its standard error ``se`` over datasets,
        ``z`` and whether it is ``paired``.
    notes
        What was left out, a sentence each.
    """

    reports: dict[str, Report]
    table: pd.DataFrame
    notes: tuple[str, ...] = ()

    def _begin(self) -> list[str]:
        return []

    def _head(self) -> str:
        first, *others = (plain(name, 20) for name in self.reports)
        named = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        gammas = counted(self.table["gamma"].nunique(), "gamma")
        return f"{named} with {first}, {gammas}, {len(self.table)} differences"

    def _table(self, most: int | None = None) -> TextTable:
        table = self.table if most is None else self.table.head(most)
        texts = {
            "gamma": [f"{g:g}" for g in table["gamma"]],
            "quantity": list(table["quantity"]),
            "report": list(table["report"]),
            "value": [f"{v:.4g}" for v in table["value"]],
            f"of {next(iter(self.reports))}": [f"{v:.4g}" for v in table["baseline"]],
            "difference": list(map(in_paper, table["difference"], table["se"])),
            "z": [f"{z:+.1f}" for z in table["z"]],
            "errors": ["paired" if p else "independent" for p in table["paired"]],
        }
        words = {"quantity", "report", "errors"}
        headings = [Heading(name, MEANINGS.get(name, ""), name in words) for name in texts]
        lines = list(zip(*texts.values(), strict=True))
        return TextTable(headings, lines, len(self.table) - len(lines), "differences")

    def _remarks(self) -> Remarks:
        return [("note", text) for text in self.notes]

    def plot(
        self, title: str | None = None, axes: Sequence[Axes] | np.ndarray | None = None
    ) -> Figure:
        """Draw privacy and risk of all reports, and below differences in standard errors.

        The differences are of on-average KL, and of the excess risk (of the population risk where
        there is none). Risks are left out where the losses differ.

        Parameters
        ----------
        title
            Of the figure.
        axes
            Two rows, a column a unit, to draw on in their style; by default those of a new figure.

        Returns
        -------
        Figure
            A column a unit.

        Raises
        ------
        ValueError
            If ``axes`` are not so many.
        """
        from gibbs_dp.auditing.plot import plot_comparison

        return plot_comparison(self.reports, self.table, title, axes)

    def _explorer(
        self, title: str | None, about: Iterable[str], files: Mapping[str, str] | None = None
    ) -> Page:
        from gibbs_dp.auditing.explore import explore_page

        differences = list(self.table["gamma"]), self._table()
        told = [*about, *self.notes]
        return explore_page(self.reports, self._head(), title, told, files, differences)


def compare(reports: Mapping[str, Report] | Sequence[Report]) -> Comparison:
    """Compare audits at the gammas that they share.

    Where two reports have one key and carry their datasets' numbers, dataset ``i`` of both came
    from one random key, and the error is that of the mean of paired differences: valid whatever
    the two have in common, and small where it is the same datasets. Otherwise the errors are
    added as independent ones.

    Parameters
    ----------
    reports
        By name, or a list (then called 0, 1, ...); the first is the baseline.

    Returns
    -------
    Comparison
        A table of differences, with standard errors.

    Raises
    ------
    ValueError
        For fewer than two reports, and reports whose numbers are of different things: other
        dataset sizes, other group sizes, no common gamma.

    Examples
    --------
    >>> row = {"gamma": 1.0, "on_average_kl": 0.5, "on_average_kl_se": 0.03}
    >>> other = {"gamma": 1.0, "on_average_kl": 0.6, "on_average_kl_se": 0.04}
    >>> found = compare({"a": Report((row,), {}), "b": Report((other,), {})}).table.iloc[0]
    >>> round(float(found["difference"]), 9), round(float(found["se"]), 9)
    (0.1, 0.05)
    """
    if not isinstance(reports, Mapping):
        reports = {str(i): report for i, report in enumerate(reports)}
    named = {str(name): report for name, report in reports.items()}
    if len(named) < 2:
        raise ValueError(f"reports: got {len(named)}; comparing needs at least two.")
    for name, report in named.items():
        if not isinstance(report, Report):
            raise ValueError(
                f"reports: {name!r} is a {type(report).__name__}; give what gibbs_dp.audit returns."
            )
    first, *others = named
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for name in others:
        _refuse_incomparable(first, named[first], name, named[name])
        quantities: tuple[str, ...] = PRIVACY
        losses = [named[n].settings.get("loss") for n in (first, name)]
        if losses[0] == losses[1]:
            quantities += RISKS
        else:
            notes.append(f"{name!r} has another loss than {first!r}: only KLs are compared.")
        rows += _differences(named[first], name, named[name], quantities)
    columns = ["gamma", "quantity", "report", "value", "baseline", "difference", "se", "z"]
    import pandas as pd

    table = pd.DataFrame(rows, columns=[*columns, "paired"])
    order = table.assign(place=table["quantity"].map([*PRIVACY, *RISKS].index))
    table = table.loc[order.sort_values(["place", "gamma"], kind="stable").index]
    return Comparison(named, table.reset_index(drop=True), tuple(notes))


def _refuse_incomparable(first: str, baseline: Report, name: str, report: Report) -> None:
    reasons = {
        "n": "gamma multiplies the total loss, so that one gamma is another temperature there",
        "group_size": "their on-average KL is about different numbers of examples replaced",
    }
    for setting, why in reasons.items():
        a, b = baseline.settings.get(setting), report.settings.get(setting)
        if a != b:
            raise ValueError(
                f"reports: {first!r} has {setting}={a} and {name!r} {setting}={b}; {why}. Audit "
                "both with the same."
            )
    if not set(baseline["gamma"]) & set(report["gamma"]):
        raise ValueError(
            f"reports: {first!r} and {name!r} share no gamma; audit both on a common grid."
        )


def _differences(
    baseline: Report, name: str, report: Report, quantities: Sequence[str]
) -> list[dict[str, Any]]:
    rows = []
    key = baseline.settings.get("key")
    is_one_key = key is not None and key == report.settings.get("key")
    places = {row["gamma"]: i for i, row in enumerate(report.rows)}
    for i, old in enumerate(baseline.rows):
        j = places.get(old["gamma"])
        if j is None:
            continue
        new = report.rows[j]
        for quantity in quantities:
            if quantity not in old or quantity not in new:
                continue
            difference = new[quantity] - old[quantity]
            se = float(np.hypot(old[f"{quantity}_se"], new[f"{quantity}_se"]))
            is_paired = is_one_key and bool(baseline.per_dataset and report.per_dataset)
            if is_paired:
                a, b = baseline.per_dataset[i][quantity], report.per_dataset[j][quantity]
                size = min(len(a), len(b))
                gaps = b[:size] - a[:size]
                found = average(gaps, np.isfinite(gaps))
                is_paired = found.num_datasets > 1
                if is_paired:
                    difference, se = found.value, found.se
            rows.append(
                {
                    "gamma": old["gamma"],
                    "quantity": quantity,
                    "report": name,
                    "value": new[quantity],
                    "baseline": old[quantity],
                    "difference": difference,
                    "se": se,
                    "z": difference / se if se > 0 else float("nan"),
                    "paired": is_paired,
                }
            )
    return rows
