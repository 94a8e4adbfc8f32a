"""What was inferred of a population from a private draw: draws, intervals, warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from gibbs_dp._cautions import Warned
from gibbs_dp.results.base import Remarks, Result
from gibbs_dp.results.table import Heading, TextTable
from gibbs_dp.sampling.cautions import AUXILIARY_DRIFT
from gibbs_dp.sampling.draws import Draws, in_arviz

# Standard errors of an auxiliary draw's drift that are warned of.
DRIFT_LIMIT = 4.0


@dataclass(frozen=True, eq=False, repr=False)
class PopulationPosterior(Result):
    """Draws of a population's parameters given what was released from its data.

    Parameters
    ----------
    draws
        By chain; ``draws.theta`` is the analyst's prior's pytree, leaves ``[chain, draw, ...]``.
        Their density is known up to a factor that depends on them, so ``draws.log_density`` is that
        of the prior alone.
    n
        Rows of the data.
    mechanism
        Of the release, as `gibbs_dp.Guarantee` names it.
    total_variation
        Of a released draw from the posterior that is assumed here; None: taken for exact.
    num_auxiliary
        Steps of an auxiliary chain.
    drift
        Largest change, in standard errors, of an auxiliary draw's mean when it moves as long again.
    """

    draws: Draws
    n: int
    mechanism: str
    total_variation: float | None
    num_auxiliary: int
    drift: float

    def interval(self, level: float = 0.95) -> PyTree:
        """Central interval of every parameter.

        Parameters
        ----------
        level
            Its posterior probability.

        Returns
        -------
        pytree
            As the prior, leaves ``[2, ...]``: the lower ends, then the upper ones.

        Raises
        ------
        ValueError
            Unless the level is in (0, 1).
        """
        if not 0 < level < 1:
            raise ValueError(f"level: must be in (0, 1), got {level}.")
        ends = (1 - level) / 2, (1 + level) / 2
        return jax.tree.map(lambda a: np.quantile(a, ends, axis=(0, 1)), self.draws.theta)

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """What makes the draws less than they seem, a sentence each."""
        told = self.draws.warnings
        if not self.drift <= DRIFT_LIMIT:
            told = (*told, AUXILIARY_DRIFT(steps=self.num_auxiliary, z=self.drift))
        return told

    def _head(self) -> str:
        chains, samples = self.draws.log_density.shape
        released = f"{self.mechanism} at gamma = {self.draws.gamma:.6g} from {self.n:,} rows"
        return f"population behind {released}: {chains} chains x {samples} draws"

    def _table(self, most: int | None = None) -> TextTable:
        diagnosed = self.draws.to_dataframe()
        names = ["mean", "sd", "2.5%", "25%", "75%", "97.5%", "ess", "r_hat"]
        ends = [float(name[:-1]) / 100 for name in names if name.endswith("%")]
        flat = [np.quantile(leaf, ends, axis=(0, 1)) for leaf in self.draws.named.values()]
        quantiles = np.concatenate([leaf.reshape(len(ends), -1) for leaf in flat], axis=1).T
        found = [
            [
                str(name),
                *(f"{x:.4g}" for x in (row["mean"], row["sd"], *between, row.ess, row.r_hat)),
            ]
            for (name, row), between in zip(diagnosed.iterrows(), quantiles, strict=True)
        ]
        headings = [Heading("parameter", is_text=True), *map(Heading, names)]
        return TextTable(headings, found[:most], len(found[most:]) if most else 0, "coordinates")

    def _remarks(self) -> Remarks:
        how = self.draws.settings
        told = [("WARNING", str(text)) for text in self.warnings]
        law = "is taken for an exact draw of the Gibbs posterior"
        if self.total_variation is not None:
            law = f"is within total variation {self.total_variation:.3g} of the Gibbs posterior"
        return [
            *told,
            ("assumed", f"the population and its prior are the analyst's; what was released {law}"),
            (
                "note",
                f"accepted {how['accept_parameters']:.0%} of parameters with noise kept, and "
                f"{how['accept_rows']:.0%} of fresh noise in {how['share_of_rows']:.0%} of rows",
            ),
        ]

    def to_xarray(self) -> Any:
        """Tree with group ``posterior``, dims ``(chain, draw, ...)``."""
        tree = self.draws.to_xarray()
        return tree.filter(lambda node: node.name != "sample_stats")  # their density is not known

    def to_arviz(self) -> Any:
        """Return ArviZ's own container: InferenceData before 1.0, the same tree from 1.0 on.

        Raises
        ------
        ValueError
            If ArviZ is not installed (``pip install arviz``).
        """
        return in_arviz(self.to_xarray())
