"""What host methods of quantities see of one gamma."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.engine.health import is_believed
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.summary import Summary
from gibbs_dp.engine.track import Track
from gibbs_dp.sampling.diagnostics import Pooled, pool

_NO_CHAINS = Pooled(r_hat=1.0, r_hat_exceed=0.0, ess_min=np.inf, drift_z=0.0, drift_size=0.0)


@dataclass(frozen=True)
class Result:
    """One gamma of a finished (or interrupted) sweep.

    Attributes
    ----------
    settings, track
        What was asked for, and what is known.
    summary
        Of all completed datasets.
    is_good
        Datasets that the leading quantity is a mean over.
    found
        What :meth:`~gibbs_dp.engine.quantity.Quantity.explore` found, by quantity.
    """

    settings: Settings
    track: Track
    summary: Summary
    is_good: Bool[np.ndarray, " datasets"]
    found: dict[str, Any]

    @property
    def gamma(self) -> float:
        """Inverse temperature."""
        return self.track.gamma

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


def result_of(settings: Settings, track: Track, found: dict[str, Any] | None = None) -> Result:
    """Collect what is known of one gamma."""
    summary, is_good = track.reported()
    return Result(settings, track, summary, is_good, found or {})
