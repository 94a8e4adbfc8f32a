"""The sparse vector technique: which of many answers are above a threshold, for a few of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from gibbs_dp.holdout.state import Held, Stateful
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.privacy.composition import composed_pure_dp, per_release_epsilon
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.mechanisms import declared, run_guarantee
from gibbs_dp.privacy.noise import add_laplace

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
        if not math.isfinite(threshold):
            raise ValueError(f"threshold must be finite, got {threshold}; pass a number.")
        self.mechanism = mechanism
        self.threshold = threshold
        self._held = Held()
        self._held.open += [self._noisy_threshold() for _ in range(mechanism.num_above)]

    @property
    def num_left(self) -> int:
        """Positive answers that are left to this object."""
        return 0 if self._held.is_lost else len(self._held.open)

    def is_above(self, value: float) -> bool:
        """Answer one query; nothing else about its value is shown."""
        held = self._held
        if held.is_lost:  # before the lock, which a fork may have copied while it was held
            raise SparseHaltedError(COPIED)
        checks.refuse_masked("value", value, is_private=True)
        noisy = add_laplace(value, 2 * self.mechanism.sigma)
        with held.lock:
            threshold = held.take()
            if threshold is None:
                raise SparseHaltedError(
                    f"all {self.mechanism.num_above} positive answers have been given, and the "
                    "noise covers no more; start another run, which costs its own epsilon."
                )
            is_above = bool(noisy > threshold)
            if not is_above:
                held.open.append(threshold)
        if held.is_lost:  # forked in between
            raise SparseHaltedError(COPIED)
        return is_above

    def _noisy_threshold(self) -> Fraction:
        return add_laplace(self.threshold, self.mechanism.sigma)


def above_threshold(epsilon: float, *, sensitivity: float, adjacency: Adjacency) -> Sparse:
    """AboveThreshold: ``Lap(2 s/epsilon)`` on the threshold, ``Lap(4 s/epsilon)`` on queries."""
    return sparse_pure(epsilon, 1, sensitivity=sensitivity, adjacency=adjacency)


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
