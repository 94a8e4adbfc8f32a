"""What a sweep knows about one gamma: its tuning and the blocks that are finished."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.audit.control import fit_control, fit_pairs
from gibbs_dp.audit.kept import Kept
from gibbs_dp.audit.pilot import Tuned, kept_datasets
from gibbs_dp.audit.plan import Plan, Summary
from gibbs_dp.audit.runner import concatenate
from gibbs_dp.audit.store.archive import pilot_digest
from gibbs_dp.estimators import Average, average


def kl_values(summary: Summary, estimator: str) -> Float[np.ndarray, " datasets"]:
    """Every dataset's estimate of on-average KL."""
    values = {
        "one-sided": summary.kl_direct,
        "two-sided": summary.kl_two_sided,
        "ghost": summary.kl_ghost,
    }
    return np.asarray(values[estimator])


@dataclass
class Track:
    """Everything known about one gamma so far."""

    gamma: float
    tuned: Tuned
    plan: Plan
    target: int
    blocks: dict[int, Summary] = field(default_factory=dict)
    kept: dict[int, Kept] = field(default_factory=dict)
    num_reruns: int = 0
    missed_rel_error: bool = False
    _whole: Summary | None = None  # of the completed datasets, until a block is added

    @property
    def pilot(self) -> str:
        """Digest of the tuning, which blocks belong to."""
        return pilot_digest(self.tuned)

    def add(self, first: int, summary: Summary, kept: Kept | None) -> None:
        """Take in one block."""
        self.blocks[first] = summary
        self._whole = None
        if kept is not None:
            self.kept[first] = kept

    def summary(self) -> Summary | None:
        """Completed datasets, in order, up to the first block that is missing."""
        firsts, size = [], 0
        while size in self.blocks:
            firsts.append(size)
            size += self.blocks[size].kl_direct.shape[0]
        if not firsts:
            return None
        if self._whole is None:
            self._whole = concatenate([self.blocks[first] for first in firsts], size)
            for first, end in zip(firsts, [*firsts[1:], size], strict=True):
                part = slice(first, end)  # a view: the numbers are there once
                self.blocks[first] = jax.tree.map(lambda a, part=part: a[part], self._whole)
        count = min(size, self.target)
        found = jax.tree.map(lambda a: a[:count], self._whole)
        kept = kept_datasets(found)
        return fit_pairs(fit_control(found, kept), kept)

    def forget(self) -> None:
        """Drop all blocks: they are to be made again."""
        self.blocks.clear()
        self.kept.clear()
        self._whole = None

    def draws(self, count: int) -> Kept | None:
        """Draws and normalizers of the first ``count`` datasets; None unless all are there."""
        parts = [self.kept[first] for first in sorted(self.kept)]
        return concatenate(parts, count) if parts else None

    def reported(self) -> tuple[Summary, Bool[np.ndarray, " datasets"]]:
        """Completed datasets, and which of them the on-average KL is a mean over."""
        summary = self.summary()
        assert summary is not None
        values = kl_values(summary, self.tuned.estimator)
        return summary, kept_datasets(summary) & np.isfinite(values)

    def kl(self) -> Average:
        """On-average KL over the datasets that did not fail."""
        summary, kept = self.reported()
        values = kl_values(summary, self.tuned.estimator)
        return average(np.asarray(values, np.float64), kept)
