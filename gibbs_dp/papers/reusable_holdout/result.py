"""Sizes and results of a holdout experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gibbs_dp.papers.tables import Row

# Told the number of repetitions just done.
Advance = Callable[[int], None]


def uncounted(_: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Found:
    """Results of an experiment.

    Parameters
    ----------
    name
        Name of the experiment.
    rows
        One dict per point of the picture.
    summary
        The table to read: some rows, or a digest of them.
    notes
        What the numbers rest on.
    more
        Further tables of the picture, by a word for their file's name.
    """

    name: str
    rows: list[Row]
    summary: list[Row]
    notes: tuple[str, ...] = field(default=())
    more: Mapping[str, list[Row]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sizes:
    """Sizes given by the user; None stands for the experiment's own.

    Parameters
    ----------
    n, d
        Rows and attributes.
    repetitions
        Independent repetitions.
    is_full
        The published setting instead of the smaller default.
    key
        Integer seed.
    """

    n: int | None = None
    d: int | None = None
    repetitions: int | None = None
    is_full: bool = False
    key: int = 0

    def refuse(self, experiment: str, *names: str) -> None:
        """Raise ``ValueError`` if the experiment does not have a given size."""
        for name in names:
            if getattr(self, name):
                flag = "full" if name == "is_full" else name
                raise ValueError(
                    f"--{flag}: experiment {experiment!r} has no such size; leave it out."
                )


def mean_and_se(name: str, values: ArrayLike) -> dict[str, float]:
    """Mean over repetitions that were answered, its standard error, and how many were not.

    >>> mean_and_se("a", np.array([1.0, 3.0]))
    {'a': 2.0, 'a_se': 1.0}
    """
    every = np.asarray(values, dtype=np.float64)
    kept = every[np.isfinite(every)]
    found: dict[str, float] = {}
    if kept.size:
        found[name] = float(kept.mean())
    if kept.size > 1:
        found[f"{name}_se"] = float(kept.std(ddof=1) / kept.size**0.5)
    if kept.size < every.size:
        found[f"{name}_unanswered"] = float(every.size - kept.size)
    return found
