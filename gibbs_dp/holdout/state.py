"""State of a running mechanism, which a copy, a fork or a pickle of it does not have.

What was paid for once (an open round of sparse vector) must answer once. As a plain attribute it
would be multiplied by ``copy``, ``pickle`` and ``os.fork``; here each of them finds it lost.
"""

from __future__ import annotations

import os
import threading
from typing import Any


class _Process:
    """Mark of the process that runs; a forked child has another one."""

    mark = object()


def _renew() -> None:
    _Process.mark = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class Held:
    """What one object of one process holds: open rounds, how many there were, and a lock.

    A round is *taken* before it answers and put back if it stays open. Whoever comes in between, a
    thread, a signal or a query that asks the mechanism itself, finds none and pays for another.

    >>> import copy
    >>> held = Held()
    >>> held.open.append(0.5)
    >>> copy.deepcopy({"all": held})["all"].is_lost, held.is_lost
    (True, False)
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal or a query may come back in the same thread
        self.open: list[Any] = []
        self.num_started = 0
        self._mark: object = _Process.mark
        self._pid = os.getpid()

    @property
    def is_lost(self) -> bool:
        """Whether this is a copy, or of another process."""
        # The number too: a fork by foreign code runs no hook.
        return self._mark is not _Process.mark or self._pid != os.getpid()

    def take(self) -> Any | None:
        """Take an open round, which nobody else finds from now on; None where there is none."""
        try:
            return None if self.is_lost else self.open.pop()
        except IndexError:
            return None

    def __reduce__(self) -> tuple[Any, ...]:
        return _lost, ()


def _lost() -> Held:
    held = Held()
    held._mark = None
    return held


class Stateful:
    """Base of what runs and remembers: its settings stay, and its copies hold nothing.

    ``copy``, ``deepcopy`` and ``pickle`` return an object with the same settings whose ``_held`` is
    lost; in a forked process it is lost as well. What that means is said by each class.

    >>> import pickle
    >>> from gibbs_dp.holdout import sparse_pure
    >>> run = sparse_pure(1.0, 2, sensitivity=1.0, adjacency="replace-one").start(0.0)
    >>> pickle.loads(pickle.dumps(run))._held.is_lost
    True
    """

    _held: Held

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": _lost()}

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and "_held" in self.__dict__:
            raise AttributeError(
                f"{name}: the settings of a running {type(self).__name__} are fixed; make another."
            )
        super().__setattr__(name, value)
