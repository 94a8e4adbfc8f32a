"""Queries on rows, checked, and the answers that a holdout gives to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree

from gibbs_dp.information import checks

Query = Callable[[Any], Any]


class HoldoutAnswers(NamedTuple):
    """Answers to a batch of queries, in order.

    Parameters
    ----------
    values
        Answers.
    from_holdout
        Where train and holdout were found to differ: such an answer is the noisy holdout mean and
        ends a round; the others are the training set's means.
    """

    values: Float[np.ndarray, " answered"]
    from_holdout: Bool[np.ndarray, " answered"]


class HoldoutSpentError(ValueError):
    """The budget is spent: the holdout answers no more.

    Parameters
    ----------
    message
        What happened.
    answers
        Those of the batch that were given before.
    """

    def __init__(self, message: str, answers: HoldoutAnswers) -> None:
        super().__init__(message)
        self.answers = answers


def count_rows(name: str, rows: PyTree) -> int:
    """Return how many rows a pytree has; a ValueError where its arrays disagree."""
    checks.refuse_masked(name, rows, is_private=True)
    sizes = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(rows)}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(
            f"{name}: its arrays must have one row an example along the first axis, and as many "
            f"rows each, got {sorted(sizes)}; give at least one row."
        )
    return int(sizes.pop())


def query_values(found: Any, num_rows: int, which: str, batch: bool) -> Float[np.ndarray, "rows q"]:
    """Return a query's values ``[rows, queries]``; a ValueError where their shape is wrong."""
    if which == "training":
        checks.refuse_masked("phi", found)
    elif isinstance(found, np.ma.MaskedArray):  # nothing is told of the holdout
        found = np.ma.filled(np.ma.asarray(found, np.float64), np.nan)
    values = np.asarray(found, dtype=np.float64)
    wanted = "[rows, queries]" if batch else "[rows]"
    if values.ndim != (2 if batch else 1) or values.shape[0] != num_rows or values.size == 0:
        raise ValueError(
            f"phi: on the {num_rows} {which} rows it gives shape {list(values.shape)}; give "
            f"{wanted}, a value for every row."
        )
    return values if batch else values[:, None]


def collect(given: list[tuple[float, bool]]) -> HoldoutAnswers:
    """Gather answers given one by one."""
    return HoldoutAnswers(
        np.array([value for value, _ in given], dtype=np.float64),
        np.array([flag for _, flag in given], dtype=bool),
    )
