"""Draws from one posterior, or from a batch of them, with their diagnostics."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree

from gibbs_dp import io
from gibbs_dp._cautions import Warned
from gibbs_dp._version import __version__
from gibbs_dp.io import html
from gibbs_dp.sampling.cautions import (
    BIASED_STEPS,
    DIVERGED_CHAINS,
    FEW_EFFECTIVE_DRAWS,
    R_HAT,
    STUCK_CHAINS,
)
from gibbs_dp.sampling.coordinates import coordinates, describe, named_leaves

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

RHAT_LIMIT = 1.01
ESS_LIMIT = 100.0
INFLATION_LIMIT = 0.05
# What a pointer on a column's title sees in a notebook.
MEANINGS = {
    "ess": "Effective number of draws: so many independent ones would know the mean as well.",
    "r_hat": "Split R-hat: about 1 where the chains agree.",
}
ONLY_SHOWN = (
    "ess and r_hat are computed for the coordinates above only; .warnings looks at all of them."
)


@dataclass(frozen=True, eq=False)
class Draws:
    """Posterior draws, chain by chain.

    Parameters
    ----------
    theta
        The prior's pytree; leaves are ``[chain, draw, ...]``, with a leading ``dataset`` axis
        for a batch.
    log_density
        Unnormalized log density of each draw in unconstrained coordinates, relative to the mode;
        ``[chain, draw]`` or ``[dataset, chain, draw]``.
    accept_rate
        Mean acceptance probability, ``[chain]`` or ``[dataset, chain]``; NaN for kernels without
        an acceptance step.
    is_stuck
        Chains that never moved; same shape. Their draws are kept, and counted in ``warnings``.
    gamma
        Inverse temperature that was sampled.
    settings
        How, as plain numbers and strings.
    """

    theta: PyTree
    log_density: Float[np.ndarray, "*batch chain draw"]
    accept_rate: Float[np.ndarray, "*batch chain"]
    is_stuck: Bool[np.ndarray, "*batch chain"]
    gamma: float
    settings: dict[str, Any]

    @property
    def is_batch(self) -> bool:
        """Whether the draws are of several datasets."""
        return self.log_density.ndim == 3

    @property
    def named(self) -> dict[str, np.ndarray]:
        """Leaves of theta by name: ``theta`` for a single array, the path for a tree."""
        return {name: np.asarray(leaf) for name, leaf in named_leaves(self.theta)}

    # -- diagnostics ----------------------------------------------------------------------

    def to_dataframe(self) -> pd.DataFrame:
        """Mean, sd, 5% and 95% quantiles, effective draws and split R-hat, a row a coordinate."""
        import pandas as pd  # slow to import

        frame = pd.DataFrame(self._rows(None))
        if not self.is_batch:
            return frame.drop(columns="dataset").set_index("parameter")
        return frame.set_index(["dataset", "parameter"])

    def _rows(self, most: int | None) -> list[dict[str, Any]]:
        """Describe the first coordinates, or all of them."""
        every = (
            (i, name, values)
            for i, tree in enumerate(self._datasets())
            for name, values in coordinates(tree)
        )
        return [
            {"dataset": i, "parameter": name, **describe(values)}
            for i, name, values in islice(every, most)
        ]

    def _datasets(self) -> Iterator[dict[str, np.ndarray]]:
        if not self.is_batch:
            yield self.named
            return
        for i in range(self.log_density.shape[0]):
            yield {name: leaf[i] for name, leaf in self.named.items()}

    @property
    def variance_inflation(self) -> float | None:
        """Estimated relative excess of the draws' variance over the posterior's.

        From the theory of Gaussian posteriors at the chains' last draws, a mean over coordinates,
        first order in the step: an estimate and no bound. None for kernels that have no such bias.
        """
        value = self.settings.get("variance_inflation")
        return None if value is None else float(value)

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """One sentence for everything that makes these draws less than they seem."""
        return self._warnings(self._rows(None))

    def _warnings(self, rows: Sequence[dict[str, Any]]) -> tuple[Warned, ...]:
        """Warn of the chains, and of what these rows say of them."""
        found = []
        if self.is_stuck.any():
            found.append(STUCK_CHAINS(stuck=int(self.is_stuck.sum()), total=self.is_stuck.size))
        lost = ~np.isfinite(self.log_density).all(axis=-1)
        if lost.any():
            found.append(DIVERGED_CHAINS(lost=int(lost.sum()), total=lost.size))
        inflation = self.variance_inflation
        if inflation is not None and not inflation <= INFLATION_LIMIT:
            found.append(BIASED_STEPS(share=inflation))
        worst = float(np.fmax.reduce([row["r_hat"] for row in rows]))
        if not worst <= RHAT_LIMIT:
            found.append(R_HAT(worst=worst))
        fewest = float(np.fmin.reduce([row["ess"] for row in rows]))
        if not fewest >= ESS_LIMIT:
            found.append(FEW_EFFECTIVE_DRAWS(fewest=fewest))
        return tuple(found)

    def summary(self) -> str:
        """Return the diagnostics table as text, then the warnings."""
        marks = [f"WARNING  {w}" for w in self.warnings]
        table = self.to_dataframe().to_string(float_format=lambda x: f"{x:.4g}")
        return html.visible("\n".join([f"{self._head()}, {self._how()}", table, *marks]))

    def _head(self) -> str:
        chains, draws = self.log_density.shape[-2:]
        return f"gamma={self.gamma:g}, {chains} chains x {draws} draws"

    def _how(self) -> str:
        if self.variance_inflation is not None:
            return f"no acceptance step: variance too large by {self.variance_inflation:.1%} (est.)"
        return f"accepted {float(self.accept_rate.mean()):.0%}"

    def __str__(self) -> str:
        return self.summary()

    @property
    def _num_coordinates(self) -> int:
        """Of one dataset."""
        skipped = self.log_density.ndim
        return sum(math.prod(np.shape(x)[skipped:]) for x in jax.tree.leaves(self.theta))

    def __repr__(self) -> str:
        batch = f"{self.log_density.shape[0]:,} datasets, " if self.is_batch else ""
        return f"Draws({batch}{html.counted(self._num_coordinates, 'coordinate')}, {self._head()})"

    def _repr_html_(self) -> str:
        rows = self._rows(html.MOST_LINES // 2)
        total = self._num_coordinates * (self.log_density.shape[0] if self.is_batch else 1)
        names = [name for name in rows[0] if name != "dataset" or self.is_batch]
        cells = [
            [f"{x:.4g}" if isinstance(x, float) else str(x) for x in map(row.get, names)]
            for row in rows
        ]
        marks: list[tuple[str, str]] = [("WARNING", text) for text in self._warnings(rows)]
        if total > len(rows):
            marks.append(("note:", ONLY_SHOWN))
        return html.block(
            f"{repr(self)[:-1]}, {self._how()})",
            html.table(
                [html.Heading(n, MEANINGS.get(n, ""), n == "parameter") for n in names],
                cells,
                total - len(rows),
                "coordinates",
            ),
            html.remarks(marks),
        )

    # -- other formats --------------------------------------------------------------------

    def to_xarray(self) -> xr.DataTree:
        """Tree with groups ``posterior`` and ``sample_stats``, dims ``(chain, draw, ...)``."""
        import xarray as xr  # slow to import

        lead = ("dataset",) * self.is_batch + ("chain", "draw")
        posterior = {
            name: ((*lead, *(f"{name}_dim_{k}" for k in range(leaf.ndim - len(lead)))), leaf)
            for name, leaf in self.named.items()
        }
        stats = {
            "lp": (lead, self.log_density),
            "acceptance_rate": (lead[:-1], self.accept_rate),
            "stuck": (lead[:-1], self.is_stuck),
        }
        sizes = dict(zip(lead, self.log_density.shape, strict=True))
        coordinates = {name: np.arange(size) for name, size in sizes.items()}
        chains = {name: x for name, x in coordinates.items() if name != "draw"}
        attributes = {
            "gibbs_dp_kind": "draws",
            "gibbs_dp_version": __version__,
            "gamma": self.gamma,
            "settings": json.dumps(self.settings),
        }
        return xr.DataTree.from_dict(
            {
                "/": xr.Dataset(attrs=attributes),
                "/posterior": xr.Dataset(posterior, coordinates),
                "/sample_stats": xr.Dataset(stats, coordinates | chains),
            }
        )

    def to_arviz(self) -> Any:
        """Return ArviZ's own container: InferenceData before 1.0, the same DataTree from 1.0 on.

        Raises
        ------
        ImportError
            If ArviZ is not installed (``pip install arviz``).
        """
        import arviz

        tree = self.to_xarray()
        if arviz.__version__.startswith("0."):
            return arviz.InferenceData.from_datatree(tree)
        return tree

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to NetCDF, whole or not at all.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        tree = self.to_xarray()
        # NetCDF has no booleans of its own, and no names with slashes.
        tree["sample_stats"]["stuck"] = tree["sample_stats"]["stuck"].astype(np.int8)
        io.save_netcdf(tree, path)
