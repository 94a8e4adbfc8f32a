"""All gammas of a finished sweep, for quantities that look at them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gibbs_dp.engine.asked import Asked
from gibbs_dp.engine.result import Result

# From what is looked for (a named tuple), a name that says what it depends on beside the blocks,
# at which gammas, and a function that finds it at one: to what was found, None elsewhere.
Find = Callable[[type, str, Sequence[bool], Callable[[int], Any]], list[Any]]


@dataclass(frozen=True)
class Explored:
    """What a finished sweep knows.

    Attributes
    ----------
    settings
        What was asked for.
    results
        One a gamma.
    find
        Finds something at every gamma: what a store has is read, and what is new is stored;
        processes that share the store share the work.
    """

    settings: Asked
    results: Sequence[Result]
    find: Find
