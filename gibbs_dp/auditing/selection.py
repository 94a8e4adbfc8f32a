"""Numbers that stand for a selection of the datasets, as some of them failed."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from gibbs_dp.auditing.plotted import Plotted


def selected_rows(report: Plotted, name: str) -> Bool[np.ndarray, " gammas"]:
    """At which gammas a column is a mean over fewer datasets than were drawn.

    Columns without an error are no means over datasets.

    Examples
    --------
    >>> from gibbs_dp.auditing.report import Report
    >>> rows = [{"gamma": g, "on_average_kl": 1.0, "on_average_kl_se": 0.1} for g in (1.0, 2.0)]
    >>> selected_rows(Report((rows[0], rows[1] | {"failed_datasets": 3}), {}), "on_average_kl")
    array([False,  True])
    """
    if f"{name}_se" not in report.columns:
        return np.zeros(len(report), bool)
    found = np.array([row.get("failed_datasets", 0) > 0 for row in report.rows])
    for i, values in enumerate(report.per_dataset):
        if name in values:  # estimates fail one by one
            found[i] = bool(np.isnan(values[name][: _drawn(report, i)]).any())
    return found


def _drawn(report: Plotted, i: int) -> int | None:
    """Datasets of one row: what was saved is padded to the longest."""
    row = report.rows[i]
    if "num_datasets" not in row or "failed_datasets" not in row:
        return None
    return int(row["num_datasets"] + row["failed_datasets"])
