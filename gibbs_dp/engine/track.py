"""What a sweep knows about one gamma: its tuning and the blocks that are finished."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.engine.plan import Tuned
from gibbs_dp.engine.quantity import Controls, Settings, kept_kind
from gibbs_dp.engine.view import Block, GammaResult, Summary, concatenate, is_believed
from gibbs_dp.estimators import Average, average


@dataclass
class Track:
    """Everything known about one gamma so far."""

    settings: Settings
    gamma: float
    tuned: Tuned
    target: int
    blocks: dict[int, Summary] = field(default_factory=dict)
    kept: dict[str, dict[int, Any]] = field(default_factory=dict)  # by quantity
    num_reruns: int = 0
    missed_rel_error: bool = False
    controls: Controls | None = None  # of the leading quantity
    _whole: Summary | None = None  # of the completed datasets, until a block is added

    def add(self, first: int, block: Block) -> None:
        """Take in one block."""
        self.blocks[first] = block.summary
        self._whole = None
        for name, count in self.settings.num_kept.items():
            found = getattr(block.kept, name, None)
            if found is not None and first < count:
                self.kept.setdefault(name, {})[first] = found

    def _completed(self) -> tuple[list[int], int]:
        """Blocks up to the first that is missing, and how many datasets these are."""
        firsts, size = [], 0
        while size in self.blocks:
            firsts.append(size)
            size += self.blocks[size].size
        return firsts, size

    @property
    def num_completed(self) -> int:
        """Datasets up to the first that is missing."""
        return self._completed()[1]

    def summary(self) -> Summary | None:
        """Completed datasets, in order, up to the first block that is missing."""
        firsts, size = self._completed()
        if not firsts:
            return None
        if self._whole is None:
            self._whole = concatenate([self.blocks[first] for first in firsts], size)
            for first, end in zip(firsts, [*firsts[1:], size], strict=True):
                part = slice(first, end)  # a view: the numbers are there once
                self.blocks[first] = jax.tree.map(lambda a, part=part: a[part], self._whole)
        count = min(size, self.target)
        found = jax.tree.map(lambda a: a[:count], self._whole)
        return self.settings.fitted(found)

    def forget(self) -> None:
        """Drop all blocks: they are to be made again."""
        self.blocks.clear()
        self.kept.clear()
        self._whole = None

    def first_kept(self) -> Any:
        """Collect what the first completed datasets keep; None where nothing is kept."""
        firsts, size = self._completed()
        kind, found = kept_kind(self.settings.traced), {}
        for name in kind._fields:
            parts = [self.kept[name][first] for first in firsts if first in self.kept.get(name, {})]
            count = min(self.settings.num_kept[name], size, self.target)
            found[name] = concatenate(parts, count) if parts else None
        return kind(**found) if any(part is not None for part in found.values()) else None

    def reported(
        self,
    ) -> tuple[Summary, Bool[np.ndarray, " datasets"], Float[np.ndarray, " datasets"]]:
        """Completed datasets, which of them the leading quantity is a mean over, and its values."""
        summary, leading = self.summary(), self.settings.leading
        assert summary is not None
        of_estimators = getattr(summary.values, leading.name)
        found = leading.values_of(of_estimators, self.tuned.estimator, self.settings)
        values = np.array(found, np.float64)
        is_good = is_believed(summary) & np.isfinite(values)
        controls = None if self.controls is None else self.controls.of(self.gamma, summary.size)
        if controls is not None:
            values[is_good] = leading.refined(values[is_good], controls[is_good])
        return summary, is_good, values

    def result(self) -> GammaResult:
        """Collect what is known of the gamma, for quantities."""
        summary, is_good, leading = self.reported()
        return GammaResult(
            settings=self.settings,
            gamma=self.gamma,
            tuned=self.tuned,
            missed_rel_error=self.missed_rel_error,
            summary=summary,
            is_good=is_good,
            leading=leading,
            kept=self.first_kept(),
        )

    def estimate(self) -> Average:
        """Mean of the leading quantity over the datasets that did not fail."""
        _, is_good, values = self.reported()
        return average(values, is_good)
