"""Queries on rows, checked, and the answers that a holdout gives to them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from gibbs_dp.information import checks

Query = Callable[[Any], Any]

# Pairs of training rows that a query is asked about once more, and how close it must come.
NUM_PAIRS, CLOSE = 8, 1e-4


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


def check_alike(train: PyTree, holdout: PyTree) -> None:
    """Raise a ValueError unless both have the same arrays, of the same shape but for the rows."""
    kinds = []
    for rows in (train, holdout):
        leaves, structure = jax.tree.flatten(rows)
        kinds.append((str(structure), [np.shape(leaf)[1:] for leaf in leaves]))
    if kinds[0] != kinds[1]:
        raise ValueError(
            "holdout: its rows have other arrays, or arrays of another shape, than those of train; "
            "give the same columns in both."
        )


def read_only(rows: PyTree) -> PyTree:
    """Show rows to queries, which can then not write into them by mistake."""

    def view(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        shown = leaf.view()
        shown.flags.writeable = False
        return shown

    return jax.tree.map(view, rows)


def take(rows: PyTree, index: Any) -> PyTree:
    """Rows of a slice or of some numbers."""
    return jax.tree.map(lambda a: a.iloc[index] if hasattr(a, "iloc") else a[index], rows)


def query_values(found: Any, num_rows: int, which: str, batch: bool) -> Float[np.ndarray, "rows q"]:
    """Return a query's values ``[rows, queries]``; a ValueError where they are something else."""
    checks.refuse_masked("phi", found, is_private=True)
    values = np.asarray(found)
    wanted = "[rows, queries]" if batch else "[rows]"
    if values.ndim != (2 if batch else 1) or values.shape[0] != num_rows or values.size == 0:
        raise ValueError(
            f"phi: on {num_rows} {which} rows it gives shape {list(values.shape)}; give {wanted}, "
            "a value for every row."
        )
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"phi: its values must be plain numbers, got {values.dtype}; convert them."
        )
    values = values.astype(np.float64)
    return values if batch else values[:, None]


def some_pairs(rows: PyTree, num_rows: int) -> list[tuple[Int[np.ndarray, " pair"], PyTree]]:
    """Numbers of a few pairs of rows, and the rows."""
    rng = np.random.default_rng(0)
    found = [rng.choice(num_rows, size=min(2, num_rows), replace=False) for _ in range(NUM_PAIRS)]
    return [(pair, take(rows, pair)) for pair in found]


def train_values(
    phi: Query,
    rows: PyTree,
    pairs: list[tuple[Int[np.ndarray, " pair"], PyTree]],
    batch: bool,
) -> Float[np.ndarray, "rows queries"]:
    """Values on training rows, about which errors may tell everything.

    A value must be of its row alone; centred, ranked or random ones are found by asking again about
    a few pairs of rows.

    >>> rows = np.arange(10.0)
    >>> train_values(lambda x: x > x.mean(), rows, some_pairs(rows, 10), batch=False)
    Traceback (most recent call last):
    ...
    ValueError: phi: a training row has another value when phi is asked about two rows alone; a \
value must be of its row alone, so use constants in place of means, ranks or random numbers.
    """
    values = query_values(phi(rows), count_rows("train", rows), "training", batch)
    if not np.all((values >= 0) & (values <= 1)):  # NaN too
        raise ValueError("phi: its values must lie in [0, 1] on every row; rescale or clip it.")
    for pair, two in pairs:
        again = query_values(phi(two), len(pair), "training", batch)
        same = again.shape[1] == values.shape[1]
        if not (same and np.all(np.abs(again - values[pair]) <= CLOSE)):
            raise ValueError(
                "phi: a training row has another value when phi is asked about two rows alone; a "
                "value must be of its row alone, so use constants in place of means, ranks or "
                "random numbers."
            )
    return values


def holdout_values(
    phi: Query, rows: PyTree, num_rows: int, num_queries: int, batch: bool
) -> Float[np.ndarray, "rows queries"]:
    """Values in [0, 1] on rows about which nothing may be told: no error, no warning, no shape.

    Where ``phi`` fails on some rows, or gives something else, they are halved until single rows
    are left, which count as 0. So a row's value is its own, whatever the others are.

    >>> holdout_values(lambda x: 1 / x if x.all() else 1 / 0, np.array([1, 0, 2]), 3, 1, False).T
    array([[1. , 0. , 0.5]])
    """
    values = np.zeros((num_rows, num_queries))
    left = [(0, num_rows)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        while left:
            start, stop = left.pop()
            part = rows if stop - start == num_rows else take(rows, slice(start, stop))
            found = _values_or_none(phi, part, stop - start, batch)
            if found is not None and found.shape[1] == num_queries:
                values[start:stop] = np.clip(np.nan_to_num(found, nan=0.0), 0.0, 1.0)
            elif stop - start > 1:
                middle = (start + stop) // 2
                left += [(start, middle), (middle, stop)]
    return values


def _values_or_none(
    phi: Query, rows: PyTree, num_rows: int, batch: bool
) -> Float[np.ndarray, "rows queries"] | None:
    try:
        return query_values(phi(rows), num_rows, "holdout", batch)
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever a query raises, it raises it because of these rows
        return None


def collect(given: list[tuple[float, bool]]) -> HoldoutAnswers:
    """Gather answers given one by one."""
    return HoldoutAnswers(
        np.array([value for value, _ in given], dtype=np.float64),
        np.array([flag for _, flag in given], dtype=bool),
    )
