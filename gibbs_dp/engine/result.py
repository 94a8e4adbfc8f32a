"""What host methods of quantities see of one gamma."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.engine.health import is_believed
from gibbs_dp.engine.jobs import Asked
from gibbs_dp.engine.plan import Tuned
from gibbs_dp.engine.summary import Summary
from gibbs_dp.sampling.diagnostics import Pooled, pool

_NO_CHAINS = Pooled(r_hat=1.0, r_hat_exceed=0.0, ess_min=np.inf, drift_z=0.0, drift_size=0.0)


@dataclass(frozen=True)
class Result:
    """One gamma of a finished (or interrupted) sweep.

    Attributes
    ----------
    settings
        What was asked for.
    gamma
        Inverse temperature.
    tuned
        What pilots decided.
    missed_rel_error
        Whether ``rel_error`` was out of reach.
    summary
        Of all completed datasets.
    is_good
        Datasets that the leading quantity is a mean over.
    leading
        Its value for every dataset, finite or not.
    kept
        What the first datasets keep, a named tuple by quantity; None where nothing is kept.
    found
        What :meth:`~gibbs_dp.engine.quantity.Quantity.explore` found, by quantity.
    """

    settings: Asked
    gamma: float
    tuned: Tuned
    missed_rel_error: bool
    summary: Summary
    is_good: Bool[np.ndarray, " datasets"]
    leading: Float[np.ndarray, " datasets"]
    kept: Any
    found: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def good(self) -> Summary:
        """Only the datasets that count."""
        return self.summary.only(self.is_good)

    @cached_property
    def pooled(self) -> Pooled:
        """Convergence of the chains, pooled over datasets."""
        s = self.settings
        return (
            _NO_CHAINS if s.is_exact else pool(self.good.health.spread, s.num_chains, s.num_samples)
        )

    def only_believed(
        self, values: Float[np.ndarray, " datasets"]
    ) -> Float[np.ndarray, " datasets"]:
        """Values of single datasets in double precision; NaN for failed ones."""
        found = np.asarray(values, np.float64)
        return np.where(is_believed(self.summary) & np.isfinite(found), found, np.nan)


# All gammas of a finished sweep, for quantities that look at them together.

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
