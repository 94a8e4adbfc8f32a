"""What a holdout experiment is asked for and what it found."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from gibbs_dp import io

Row = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """What an experiment found.

    Parameters
    ----------
    name
        Of the experiment.
    rows
        Everything, one dict per point of the picture.
    summary
        The table to read: some rows, or a digest of them.
    notes
        What the figures rest on.
    """

    name: str
    rows: list[Row]
    summary: list[Row]
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Sizes:
    """Sizes given by the user; None leaves them to the experiment.

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
        """Raise ``ValueError`` if a size was given that the experiment has not."""
        for name in names:
            if getattr(self, name):
                flag = "full" if name == "is_full" else name
                raise ValueError(
                    f"--{flag}: experiment {experiment!r} has no such size; leave it out."
                )


def save_tables(found: Found, folder: Path) -> list[Path]:
    """Write ``holdout_NAME.csv``, every row.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    path = folder / f"holdout_{found.name}.csv"
    with io.atomic_write(path) as temporary:
        pd.DataFrame(found.rows).to_csv(temporary, index=False)
    return [path]
