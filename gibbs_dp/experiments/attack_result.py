"""What attacks reached, beside what was computed: tables, a picture, a page."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from gibbs_dp.auditing.shown import with_error
from gibbs_dp.experiments.tables import Row

if TYPE_CHECKING:
    from gibbs_dp.plotting import Picture

NOTES = (
    "advantage is true minus false positive rate; on_average_tv is what the best attacker reaches "
    "on average over datasets and examples, and z the difference in standard errors.",
    "attackers know the other examples and one draw; several draws tell more.",
    "an attack that fails is no guarantee, and on-average numbers are none for any one person.",
)


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

    def cells(self) -> list[dict[str, str]]:
        """Rows as texts, under the titles that people read."""
        return [
            {
                "gamma": f"{row['gamma']:g}",
                "attacker": row["attacker"],
                "advantage": with_error(row["advantage"], row["advantage_se"]),
                "computed": with_error(row["on_average_tv"], row["on_average_tv_se"]),
                "z": f"{row['z']:+.1f}",
                "right": with_error(row["success_rate"], row["success_rate_se"]),
                "AUC": with_error(row["auc"], row["auc_se"]),
                "TPR at 1%": with_error(row["tpr_1pct"], row["tpr_1pct_se"]),
                "DP allows": f"{row['dp_advantage']:.4g}" if "dp_advantage" in row else "-",
            }
            for row in self.table
        ]

    def summary(self) -> str:
        """Return the numbers as a table, then warnings and notes."""
        text = pd.DataFrame(self.cells()).to_string(index=False)
        told = [f"WARNING  {w}" for w in self.warnings] + [f"note  {note}" for note in NOTES]
        return "\n".join([text, *told])

    def plot(self, title: str | None = None) -> Picture:
        """Draw advantages and true positive rates over gamma, measured beside computed.

        Parameters
        ----------
        title
            Of the whole picture.
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

        attack_page(self, title, about).save(path)
