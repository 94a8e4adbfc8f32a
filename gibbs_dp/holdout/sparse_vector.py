"""The sparse vector technique: which of many answers are above a threshold, for a few of them."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.privacy.composition import composed_pure_dp, per_release_epsilon
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.mechanisms import declared, run_guarantee
from gibbs_dp.privacy.noise import add_laplace

# State of a running mechanism, which a copy, a fork or a pickle of it does not have. What was paid
# for once (an open round) must answer once; a plain attribute would be multiplied by ``copy``,
# ``pickle`` and ``os.fork``. Here each of them finds it lost.


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


# The technique.

COPIED = (
    "this is a copy of a run (or its process was forked), and positive answers are covered once; "
    "ask the original, or start another run, which costs its own epsilon."
)


class SparseHaltedError(ValueError):
    """No positive answer is left here; another would not be private."""


@dataclass(frozen=True)
class Sparse:
    """``c`` rounds of AboveThreshold, for any number of queries (Dwork & Roth 2014, section 3.6).

    Threshold noise ``Lap(sigma)``, redrawn after each positive answer; query noise
    ``Lap(2 sigma)``, fresh for each query; stop after ``c`` positives. Each round is
    ``2 sensitivity/sigma``-DP, however many queries it has. Build one from a privacy target with
    `sparse_pure` and `sparse_approximate`.

    Parameters
    ----------
    sensitivity
        Largest move of any query between neighbours.
    num_above
        ``c``.
    sigma
        Scale of the noise, in the unit of the queries.
    adjacency
        Neighbours that the sensitivity is for; there is no default.

    Examples
    --------
    >>> Sparse(1.0, 4, 8.0, adjacency="replace-one").guarantee().epsilon
    1.0
    """

    sensitivity: float
    num_above: int
    sigma: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        checks.positive("sensitivity", self.sensitivity)
        checks.count("num_above", self.num_above)
        checks.positive("sigma", self.sigma)
        checks.adjacency(self.adjacency)

    @property
    def round_epsilon(self) -> float:
        """Pure DP of one round."""
        return 2 * self.sensitivity / self.sigma

    def guarantee(self, delta: float = 0.0) -> Guarantee:
        """``(epsilon, delta)``-DP of all rounds: exact composition of ``c`` pure-DP steps."""
        eps = composed_pure_dp(self.num_above, self.round_epsilon, delta=delta)
        return run_guarantee(
            "sparse vector",
            self.adjacency,
            eps,
            delta,
            zcdp=self.num_above * self.round_epsilon**2 / 2,
            assumption=declared(self.sensitivity),
        )

    def start(self, threshold: float) -> SparseRun:
        """Begin a release with secret noise, drawn exactly (`gibbs_dp.privacy.noise`)."""
        return SparseRun(self, threshold)


class SparseRun(Stateful):
    """One release of `Sparse`, one query at a time; its noise is never shown.

    A copy of it, by ``copy``, ``pickle`` or in a forked process, has no positive answers left: they
    are covered once. Threads that share a run wait for each other.
    """

    def __init__(self, mechanism: Sparse, threshold: float) -> None:
        _check_threshold(threshold)
        self.mechanism = mechanism
        self.threshold = threshold
        self._held = Held()
        self._held.open += [self._noisy_threshold() for _ in range(mechanism.num_above)]

    @property
    def num_left(self) -> int:
        """Positive answers that are left to this object."""
        return 0 if self._held.is_lost else len(self._held.open)

    def is_above(self, value: float, *, threshold: float | None = None) -> bool:
        """Answer one query; nothing else about its value is shown.

        ``threshold`` is this query's own, public or chosen from earlier answers; None: the run's.
        The noise of the thresholds is the round's, whatever they are (Lyu, Su & Li 2017, Algorithm
        1): ``value - threshold`` moves between neighbours as the value does.
        """
        own = self.threshold if threshold is None else threshold
        _check_threshold(own)
        held = self._held
        if held.is_lost:  # before the lock, which a fork may have copied while it was held
            raise SparseHaltedError(COPIED)
        checks.refuse_masked("value", value, is_private=True)
        noisy = add_laplace(value, 2 * self.mechanism.sigma)
        raised = Fraction(float(own)) - Fraction(float(self.threshold))
        with held.lock:
            mark = held.take()
            if mark is None:
                raise SparseHaltedError(
                    f"all {self.mechanism.num_above} positive answers have been given, and the "
                    "noise covers no more; start another run, which costs its own epsilon."
                )
            # Exactly: rounded differences may tell what these do not.
            is_above = bool(noisy > mark + raised)
            if not is_above:
                held.open.append(mark)
        if held.is_lost:  # forked in between
            raise SparseHaltedError(COPIED)
        return is_above

    def _noisy_threshold(self) -> Fraction:
        return add_laplace(self.threshold, self.mechanism.sigma)


def _check_threshold(threshold: float) -> None:
    if not math.isfinite(threshold):
        raise ValueError(f"threshold must be finite, got {threshold}; pass a number.")


def sparse_pure(
    epsilon: float, num_above: int, *, sensitivity: float, adjacency: Adjacency
) -> Sparse:
    """Sparse with ``sigma = 2 c s/epsilon``: ``epsilon``-DP.

    Parameters
    ----------
    epsilon
        Pure DP, nats.
    num_above, sensitivity, adjacency
        As in `Sparse`.

    Returns
    -------
    Sparse
        Its settings.

    Examples
    --------
    >>> sparse_pure(1.0, 4, sensitivity=1.0, adjacency="replace-one").sigma
    8.0
    """
    checks.positive("epsilon", epsilon)
    count = checks.count("num_above", num_above)
    return Sparse(sensitivity, count, 2 * count * sensitivity / epsilon, adjacency)


def sparse_approximate(
    epsilon: float, delta: float, num_above: int, *, sensitivity: float, adjacency: Adjacency
) -> Sparse:
    """Sparse with the least ``sigma`` at which ``c`` rounds are ``(epsilon, delta)``-DP together.

    Parameters
    ----------
    epsilon, delta
        Target, nats.
    num_above, sensitivity, adjacency
        As in `Sparse`.

    Returns
    -------
    Sparse
        Its settings.

    Examples
    --------
    >>> found = sparse_approximate(1.0, 1e-6, 100, sensitivity=1.0, adjacency="replace-one")
    >>> round(found.sigma, 2), round(found.guarantee(1e-6).epsilon, 6)
    (83.29, 1.0)
    """
    checks.unit_interval("delta", delta, open_left=True)
    each = per_release_epsilon(num_above, epsilon, delta=delta)
    return Sparse(sensitivity, num_above, 2 * sensitivity / each, adjacency)
