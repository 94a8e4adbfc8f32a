"""Any table: a CSV file, a target column and a loss."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
from jaxtyping import Float

from gibbs_dp.model import GibbsPosterior, losses, populations
from gibbs_dp.model.losses import Loss
from gibbs_dp.problems.base import Problem, normal_prior
from gibbs_dp.problems.columns import LossName, encode


def table(
    data: str | os.PathLike[str] | pd.DataFrame,
    target: str,
    loss: LossName = "logistic",
    features: Sequence[str] | None = None,
    prior_scale: float | None = 1.0,
    split: bool = False,
) -> Problem:
    """Regression or classification on the rows of a table.

    Numeric features are standardized, columns of text become 0/1 indicators (all levels but the
    first), and a column of ones is the intercept. A logistic target must have two values, the
    smaller (or alphabetically first) of which becomes 0; other targets are standardized, so that
    losses are in variances (squared) or standard deviations (absolute) of the target.

    Parameters
    ----------
    data
        A CSV file (tab-separated where its name ends in ``.tsv``) or a data frame.
    target
        The column to predict.
    loss
        "logistic", "squared" or "absolute".
    features
        Columns to predict from; all others by default.
    prior_scale
        Standard deviation of the Gaussian prior on each weight, intercept included; None or
        infinity for a flat one.
    split
        Training rows and ghosts are disjoint rows of the table, rather than drawn from it with
        replacement.

    Raises
    ------
    ValueError
        If the file cannot be read or its columns cannot be used.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [31, 45, 50, 62], "city": ["a", "b", "a", "b"],
    ...                       "ill": ["no", "yes", "no", "yes"]})
    >>> problem = table(frame, target="ill")
    >>> problem.notes
    ("target 'ill': no -> 0, yes -> 1.",)
    >>> problem.population.data[0].shape                         # intercept, age, city = b
    (4, 3)
    """
    if loss not in get_args(LossName):
        raise ValueError(f"loss: {loss!r} is not one of {', '.join(get_args(LossName))}.")
    frame = data.copy() if isinstance(data, pd.DataFrame) else read_csv(data)
    if frame.shape[0] == 0:
        raise ValueError("data: the table has no rows; give at least two.")
    encoded = encode(frame, target, loss, features)
    name = "table" if isinstance(data, pd.DataFrame) else Path(data).stem
    return table_problem(
        name=name,
        x=encoded.x,
        y=encoded.y,
        loss=getattr(losses, loss),
        prior_scale=prior_scale,
        split=split,
        description=f"{loss} regression of {target} on {encoded.x.shape[1]} features.",
        notes=encoded.notes,
    )


def table_problem(
    name: str,
    x: Float[np.ndarray, "rows features"],
    y: Float[np.ndarray, " rows"],
    loss: Loss,
    prior_scale: float | None,
    split: bool,
    description: str,
    notes: tuple[str, ...] = (),
) -> Problem:
    """Put an intercept, a Gaussian prior and a table population around encoded columns."""
    design = np.concatenate([np.ones((len(y), 1)), x], axis=1)
    return Problem(
        name=name,
        posterior=GibbsPosterior(loss, normal_prior(design.shape[1], prior_scale)),
        population=populations.Table((design, y), replace=not split),
        n=max(1, len(y) // 2),
        gammas=(0.01, 0.1, 1.0),
        num_datasets=512,
        description=description,
        notes=notes,
    )


def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a CSV file.

    Raises
    ------
    ValueError
        If it is missing, empty, or not a table.
    """
    shown = repr(os.fspath(path))
    if not Path(path).exists():
        raise ValueError(f"data: there is no file {shown}.")
    try:
        return pd.read_csv(path, sep="\t" if ".tsv" in Path(path).suffixes else ",")
    except pd.errors.EmptyDataError:
        raise ValueError(f"data: the file {shown} is empty.") from None
    except (ValueError, OSError, pd.errors.ParserError) as error:
        reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"data: {shown} cannot be read as a CSV table ({reason}).") from error
