"""Where a sweep is kept, and which part of it this process does."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gibbs_dp.model.check import positive_count


@dataclass(frozen=True)
class Store:
    """A folder that keeps a sweep's finished blocks, and this process's share of the sweep.

    Several processes, on one machine or many that share the folder, each do the blocks of their
    own number and never talk to each other: the folder is all that connects them. A process that
    was lost is made up for by running it again, or by one process without a share.

    Parameters
    ----------
    path
        The folder; made if missing. It holds one configuration.
    num_processes
        Processes that share the sweep, ``P``.
    process_id
        Which of them this is, from 0 to ``P - 1``. None: none of them; it only puts together
        what they made.
    wait
        Seconds to wait for blocks of other processes while none appears, before giving up with
        :class:`AuditIncomplete`. Where more datasets are needed (``rel_error``, chains that
        drift), they can only be shared out once all earlier blocks are there.

    Raises
    ------
    ValueError
        If the numbers make no sense.

    Examples
    --------
    >>> Store("sweep", num_processes=4, process_id=4)
    Traceback (most recent call last):
        ...
    ValueError: process_id: 4 is not one of 4 processes; they are numbered 0 to 3.
    """

    path: str | os.PathLike[str]
    num_processes: int = 1
    process_id: int | None = 0
    wait: float = 0.0

    def __post_init__(self) -> None:
        count = positive_count("num_processes", self.num_processes)
        if self.process_id is not None:
            positive_count("process_id", self.process_id, least=0)
            if self.process_id >= count:
                raise ValueError(
                    f"process_id: {self.process_id} is not one of {count} processes; they are "
                    f"numbered 0 to {count - 1}."
                )
        if not self.wait >= 0:
            raise ValueError(f"wait: must be 0 seconds or more, got {self.wait}.")

    def owner(self, rank: int) -> int:
        """Which process does the ``rank``-th piece of work of a stage."""
        return rank % self.num_processes


class AuditIncomplete(RuntimeError):  # noqa: N818  (no error: other processes are still at work)
    """Blocks of other processes are missing; ``missing`` names them."""

    def __init__(self, message: str, missing: tuple[str, ...]) -> None:
        super().__init__(message)
        self.missing = missing


class StoreError(OSError):
    """A store that cannot be written: no room, no permission."""
