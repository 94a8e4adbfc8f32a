"""State of a running mechanism, which a copy, a fork or a pickle of it does not have.

What was paid for once (an open round of sparse vector) must answer once. As a plain attribute it
would be multiplied by ``copy``, ``pickle`` and ``os.fork``; here each of them finds it lost.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.privacy.guarantee import Guarantee


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

    Examples
    --------
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

    Examples
    --------
    >>> import pickle
    >>> from gibbs_dp.holdout import Ladder
    >>> pickle.loads(pickle.dumps(Ladder(0.1)))._held.is_lost
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


# What a run of a mechanism promises: proven figures, for the adjacency that they hold for.

EXACT_NOISE = "for noise that is drawn exactly, from secret random bits"


def run_guarantee(
    mechanism: str,
    adjacency: Adjacency,
    epsilon: float,
    delta: float = 0.0,
    *,
    assumption: str,
    zcdp: float | None = None,
    gdp: float | None = None,
) -> Guarantee:
    """Make the guarantee of one run of a mechanism.

    >>> print(run_guarantee("coin", "replace-one", 0.5, assumption="sensitivity 1 (declared)"))
    (0.5, 0)-DP, replace-one neighbours
    also pure epsilon 0.5
    holds    for noise that is drawn exactly, from secret random bits
    assumes  sensitivity 1 (declared)
    """
    return Guarantee(
        adjacency,
        mechanism,
        1,
        None,
        epsilon,
        delta,
        pure_epsilon=None if delta else epsilon,
        zcdp=zcdp,
        gdp=gdp,
        assumptions=(assumption,),
        caveats=(),
        holds=EXACT_NOISE,
    )


def declared(sensitivity: float) -> str:
    """Word the assumption that every mechanism here makes.

    >>> declared(1.0)
    'sensitivity 1 (declared)'
    """
    return f"sensitivity {sensitivity:g} (declared)"


@dataclass(frozen=True)
class PureMechanism:
    """What mechanisms with a pure-DP target are told; their docstrings describe the fields."""

    sensitivity: float
    epsilon: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        checks.positive("sensitivity", self.sensitivity)
        checks.positive("epsilon", self.epsilon)
        checks.adjacency(self.adjacency)

    def _promise(self, mechanism: str, *, zcdp: float, more: str = "") -> Guarantee:
        assumption = declared(self.sensitivity) + more
        return run_guarantee(
            mechanism, self.adjacency, self.epsilon, zcdp=zcdp, assumption=assumption
        )
