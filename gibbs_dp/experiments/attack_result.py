"""What attacks reached, beside what was computed: tables, a picture, a page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from gibbs_dp import io
from gibbs_dp.experiments.attack_shown import NOTES, cells
from gibbs_dp.experiments.tables import Row

if TYPE_CHECKING:
    from gibbs_dp.results.plotting import Picture


@dataclass(frozen=True)
class AttackResult:
    """Attacks over gamma.

    Parameters
    ----------
    table
        A row for every gamma and attacker.
    settings
        What was asked for.
    warnings
        Where the numbers cannot be trusted, or refute what was declared.
    """

    table: tuple[Row, ...]
    settings: dict[str, Any]
    warnings: tuple[str, ...]

    def rows(self) -> list[Row]:
        """One dict per gamma and attacker.

        Measured: ``advantage``, ``success_rate``, ``auc`` and ``tpr_1pct`` (at a false positive
        rate of 1%; NaN for too few trials), with standard errors over trials in ``_se``. Computed
        for the best attacker: ``on_average_tv``, ``attack_auc`` and ``attack_tpr_1pct``. ``z``:
        advantage minus ``on_average_tv`` in standard errors. Where a worst-case epsilon is known,
        what it allows: ``dp_advantage`` and ``dp_tpr_1pct``.
        """
        return [dict(row) for row in self.table]

    def to_json_rows(self) -> list[str]:
        """One JSON object per row; infinite is the string ``"inf"``, absent stays absent."""
        return [json.dumps(io.json_row(row)) for row in self.table]

    def summary(self) -> str:
        """Return the numbers as a table, then warnings and notes."""
        text = pd.DataFrame(cells(self.table)).to_string(index=False)
        told = [f"WARNING  {w}" for w in self.warnings] + [f"note  {note}" for note in NOTES]
        return "\n".join([text, *told])

    def plot(self, title: str | None = None) -> Picture:
        """Draw advantages and true positive rates over gamma, measured beside computed.

        Parameters
        ----------
        title
            Of the whole picture.

        Returns
        -------
        Picture
            Two panels, with 95% intervals over trials; points of one gamma are moved sideways.
        """
        from gibbs_dp.experiments.attack_plot import plot_attack

        return plot_attack(self.table, title)

    def to_html(
        self,
        path: str | os.PathLike[str],
        title: str | None = None,
        about: Iterable[str] = (),
    ) -> None:
        """Write a page for a browser in one file, whole or not at all; it loads nothing else.

        Parameters
        ----------
        path
            The file, which ends in ``.html``.
        title
            Its heading.
        about
            Sentences on what was attacked, to be shown with it.

        Raises
        ------
        ValueError
            If the name does not end so.
        OSError
            If the folder cannot be written.
        """
        from gibbs_dp.experiments.attack_paged import attack_page

        attack_page(self.table, self.settings, self.warnings, title, about).save(path)
