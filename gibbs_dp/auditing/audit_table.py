"""The front door of a table: from a data frame, or a file, to a report."""

from __future__ import annotations

import inspect
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gibbs_dp._cautions import warns
from gibbs_dp.auditing.audit import audit
from gibbs_dp.auditing.report import Report
from gibbs_dp.auditing.summary import kind_of
from gibbs_dp.model.check import check_keywords
from gibbs_dp.model.losses import Loss
from gibbs_dp.problems.source import Frame
from gibbs_dp.problems.table import days_of, table

if TYPE_CHECKING:
    import pandas as pd

OF_TABLE = frozenset(inspect.signature(table).parameters) - {"data", "target"}
OF_AUDIT = frozenset(inspect.signature(audit).parameters) - {"posterior", "population"}


@warns(kind_of)
def audit_table(
    data: str | os.PathLike[str] | pd.DataFrame | Frame,
    target: Hashable,
    *,
    loss: str | Loss | None = None,
    date: Mapping[str, str] | Sequence[Sequence[str]] | None = None,
    **options: Any,
) -> Report:
    """Audit a linear model of one column of a table by all others.

    The table is the population, and datasets are drawn from its rows with replacement. Numbers are
    standardized, texts become indicators of their levels, dates numbers of days; an intercept is
    added, and weights have a Gaussian prior. What was decided is in the report's ``notes``.

    Parameters
    ----------
    data
        A data frame of pandas, or with ``to_pandas`` as those of polars and Arrow have it; or the
        path of a CSV or Parquet file.
    target
        The column to predict.
    loss
        A name, such as "logistic", "squared" or "huber", or a loss. None: logistic for two values,
        squared for numbers, softmax for up to 100 other values.
    date
        Columns of dates, each with a day that days are counted from. None: columns whose values
        are dates, or texts spelled as YYYY-MM-DD, from their earliest day on.
    options
        Of the table, as ``gibbs_dp.problems.build_problem("table", ...)`` and ``gibbs-dp audit
        --data`` have them (``features``, ``prior_scale``, ``missing="drop"``, ``categorical`` and
        others), and of `gibbs_dp.audit` (``gammas``, 0.01, 0.1 and 1 by default; ``n``, half of the
        rows and at most 1,000; ``num_datasets``, 512; ``learn``, ``domain``, ``key`` and others).

    Returns
    -------
    Report
        As of `gibbs_dp.audit`. It is as confidential as the table.

    Raises
    ------
    TypeError
        For an option that neither has.
    ValueError
        If the table cannot be used, or an option has a wrong value.

    Examples
    --------
    >>> import numpy as np, pandas as pd, gibbs_dp as gdp
    >>> age = np.arange(20.0, 80.0)
    >>> frame = pd.DataFrame({"age": age, "town": ["a", "b", "c"] * 20, "income": 2 * age})
    >>> report = gdp.audit_table(frame, "income", gammas=[1.0], num_datasets=8, progress=False)
    >>> print(report.notes[0])
    the loss is squared, as 'income' holds numbers (loss= takes another).
    """
    known = OF_TABLE | OF_AUDIT
    check_keywords("audit_table", options, known, "see help(gibbs_dp.audit_table).")
    reading = {name: value for name, value in options.items() if name in OF_TABLE}
    sampling = {name: value for name, value in options.items() if name in OF_AUDIT}
    if date is None:
        date = days_of(data, reading)
    problem = table(data, str(target), loss=loss, date=date, **reading)
    sizes = {"n": problem.n, "gammas": problem.gammas, "num_datasets": problem.num_datasets}
    report = audit(problem.posterior, problem.population, **{**sizes, **sampling})
    return replace(report, notes=(*problem.notes, *report.notes))
