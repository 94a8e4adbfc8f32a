"""Sizes and results of a holdout experiment."""

from __future__ import annotations

from dataclasses import dataclass, field

from gibbs_dp.experiments.tables import Row


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
    """

    name: str
    rows: list[Row]
    summary: list[Row]
    notes: tuple[str, ...] = field(default=())


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
