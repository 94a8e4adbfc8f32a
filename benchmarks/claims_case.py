"""A claim of privacy that is attacked: how to run it on two neighbours, and what breaks it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from lower_bounds import LEVEL, Runs, Scores, lower_bound

from gibbs_dp.privacy.routes import GaussianDP, epsilon_at

# A copy of the library: what is patched while it runs.
Copy = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Case:
    """One claim.

    Parameters
    ----------
    name
        Of the mechanism and its setting.
    path
        The public call that draws.
    neighbours
        The two that are told apart, in words.
    epsilon, delta
        Claimed, nats.
    run
        From a number of runs to the runs on both neighbours, ``[runs, numbers]``.
    broken
        Copies that must be caught, by what is wrong with them.
    weaker
        From a factor to a copy whose noise is divided by it, or whose gamma is multiplied by it;
        None where another case asks how small a violation is seen.
    harmless
        Copies that are wrong but private all the same, by a proof; they must not be caught.
    mu
        Gaussian DP where it is claimed; then the bound is on it, and shown as epsilon at delta.
    scores
        What events are thresholds of.
    """

    name: str
    path: str
    neighbours: str
    epsilon: float
    run: Callable[[int], tuple[Runs, Runs]]
    broken: Mapping[str, Copy]
    weaker: Callable[[float], AbstractContextManager[Any]] | None = None
    delta: float = 0.0
    harmless: Mapping[str, Copy] = field(default_factory=dict)
    mu: float | None = None
    scores: Scores | None = None

    def at_least(
        self, count: int, copy: Copy = contextlib.nullcontext, level: float = LEVEL
    ) -> float:
        """Lower bound on epsilon of the library, or of a copy of it, from new runs."""
        with copy():
            first, second = self.run(count)
        found = lower_bound(
            first, second, self.delta, level, scores=self.scores, in_mu=self.mu is not None
        )
        return found if self.mu is None else epsilon_of_mu(found, self.delta)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Epsilon at delta of Gaussian DP."""
    return epsilon_at(GaussianDP(mu), delta, 1) if mu > 0 else 0.0


def patched(*what: tuple[Any, str, Any]) -> Copy:
    """Copy in which attributes ``(of what, which, by what)`` are replaced."""

    @contextlib.contextmanager
    def copy() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for target, name, value in what:
                stack.enter_context(mock.patch.object(target, name, value))
            yield

    return copy


def quieter(module: Any, factor: float) -> AbstractContextManager[Any]:
    """Copy in which all noise that a file adds is divided by a factor."""
    names = (
        "add_laplace",
        "laplace_release",
        "gaussian_release",
        "argmax_release",
        "exponential_release",
    )
    return patched(
        *(
            (module, name, _divided(getattr(module, name), factor))
            for name in names
            if hasattr(module, name)
        )
    )()


def _divided(release: Callable[..., Any], factor: float) -> Callable[..., Any]:
    return lambda values, scale: release(values, scale / factor)
