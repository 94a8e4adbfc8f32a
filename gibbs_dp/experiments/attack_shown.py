"""Rows of attacks as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from gibbs_dp.experiments.tables import Row
from gibbs_dp.results.table import with_error

NOTES = (
    "advantage is true minus false positive rate; on_average_tv is what the best attacker reaches "
    "on average over datasets and examples, and z the difference in standard errors.",
    "attackers know the other examples and one draw; several draws tell more.",
    "an attack that fails is no guarantee, and on-average numbers are none for any one person.",
)


def cells(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return rows as texts, under the titles that people read.

    Parameters
    ----------
    rows
        Of a result.

    Returns
    -------
    list of dict
        One text a column.
    """
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
        }
        for row in rows
    ]


def _or_dash(value: float, se: float) -> str:
    return with_error(value, se) if value == value else "-"
