"""What is kept of chains on minibatches, with its diagnostics, and folders of both."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float, PyTree
from scipy import special

from gibbs_dp._cautions import Warned
from gibbs_dp.results.base import Remarks, Result
from gibbs_dp.results.table import MOST_LINES, Heading, TextTable, counted
from gibbs_dp.sampling.cautions import (
    DIVERGED_CHAINS,
    ESS_LIMIT,
    FEW_EFFECTIVE_DRAWS,
    R_HAT,
    RHAT_LIMIT,
    STEP_BIAS,
)
from gibbs_dp.sampling.diagnostics import coordinates, describe
from gibbs_dp.sampling.draws import as_xarray, in_arviz
from gibbs_dp.sampling.minibatch_store import (
    DRAWS,
    HALVED,
    MinibatchState,
    Part,
    Stored,
    folder_to_write,
    leaves_of,
    let_go,
    load_part,
    named,
    writing_to,
)

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


# Draws of each chain, of which half a chain still has a variance.
LEAST_DRAWS = 4
# Kept numbers up to which diagnostics are computed unasked, and described at a time.
FEW_NUMBERS, NUMBERS_AT_ONCE = 512, 2**22
ONE_ARRAY = (["kept"], ["theta"])
# A bias of this many sd is warned of where it is so many standard errors, of 512 numbers at most.
# Of few effective draws it takes more of them: Student's quantile.
BIAS_LIMIT, SURE, TWO_SIDED = 0.1, 5.0, 0.975
LONGER = "raise num_warmup, thinning or num_samples, or keep what identifies the function"


@dataclass(frozen=True, eq=False, repr=False)
class MinibatchDraws(Result):
    """What was kept of chains on minibatches, and where they are.

    Parameters
    ----------
    kept
        What ``keep`` returned, a pytree whose leaves are ``[chains, draws, ...]``.
    loss
        Minibatch estimate of the total loss just before each draw, ``[chains, draws]``.
    state
        Where the chains are: ``continue_from=`` takes it.
    gamma
        Inverse temperature that was sampled.
    settings
        How, as plain numbers and strings.
    halved
        What was kept at half the step, to tell the step's bias by; None: nothing.
    """

    kept: PyTree
    loss: Float[np.ndarray, "chains draws"]
    state: MinibatchState
    gamma: float
    settings: dict[str, Any]
    halved: PyTree | None = None

    @property
    def named(self) -> dict[str, np.ndarray]:
        """Leaves of what was kept, by name; a single array that ``keep`` made is ``kept``."""
        return self._named(self.kept)

    def _named(self, kept: PyTree) -> dict[str, np.ndarray]:
        return {name: np.asarray(leaf) for name, leaf in named(kept, self.settings).items()}

    @property
    def num_coordinates(self) -> int:
        """Numbers that were kept of each draw."""
        return sum(math.prod(leaf.shape[2:]) for leaf in self.named.values())

    @cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        """Describe all numbers, some at a time."""
        return self._of_all(lambda values, *_: describe(values))

    def _of_all(self, function: Callable[..., dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        size = max(1, NUMBERS_AT_ONCE // self.loss.size)
        others = {} if self.halved is None else self._named(self.halved)
        parts = []
        for name, leaf in self.named.items():
            both = [leaf, others[name]] if others else [leaf]
            flat = [a.reshape(*a.shape[:2], -1) for a in both]
            columns = [slice(i, i + size) for i in range(0, flat[0].shape[2], size)]
            parts += [function(*(self._floats(a[..., some]) for a in flat)) for some in columns]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _floats(self, values: np.ndarray) -> Float[np.ndarray, "chains draws numbers"]:
        """Read some numbers of all draws, of a file no more draws at a time than fit in memory."""
        found = np.empty(values.shape)
        for draws in self._blocks(values.shape[1]):
            found[:, draws] = values[:, draws]
        return found

    def _blocks(self, num_draws: int) -> Iterator[slice]:
        """Go through all draws, and let go of each block's pages, where they are of a file."""
        size = max(1, NUMBERS_AT_ONCE // (len(self.loss) * max(1, self.num_coordinates)))
        for first in range(0, num_draws, size):
            yield slice(first, first + size)
            let_go((self.kept, self.halved))

    @cached_property
    def step_bias(self) -> dict[str, Float[np.ndarray, " numbers"]]:
        """What the step and the minibatch add to mean and sd of each kept number, with errors.

        Twice the difference to draws of half the step: to leading order the bias of both is
        proportional to the step. ``mean`` and ``sd`` are in units of the number, ``mean_se`` and
        ``sd_se`` their standard errors from effective draws, of which there are ``ess`` at half
        the step: with few, errors are as much larger as Student's quantile is, and still too small
        where chains are slow. Needs ``num_halved=``.

        Raises
        ------
        ValueError
            If there are no such draws.
        """
        if self.halved is None:
            raise ValueError(
                "step_bias: no draws were made at half the step; give num_halved=100 to "
                "sample_minibatches."
            )
        return self._of_all(_step_bias)

    def to_dataframe(self) -> pd.DataFrame:
        """Mean, sd, 5% and 95% quantiles, effective draws and split R-hat of each kept number.

        With ``num_halved=`` also `step_bias`: ``bias``, ``bias_se``, ``sd_bias``, ``sd_bias_se``,
        and the effective draws at half the step, ``bias_ess``.
        """
        import pandas as pd  # slow to import

        names = pd.Index(list(coordinates(self.named, 2)), name="parameter")
        return pd.DataFrame(self._shown, index=names)

    @property
    def _shown(self) -> dict[str, np.ndarray]:
        if self.halved is None:
            return self._columns
        titles = {"mean": "bias", "mean_se": "bias_se", "sd": "sd_bias", "sd_se": "sd_bias_se"}
        titles["ess"] = "bias_ess"
        return self._columns | {titles[name]: found for name, found in self.step_bias.items()}

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """One sentence for everything that makes these draws less than they seem."""
        found = diverged(self)
        r_hat, ess = self._columns["r_hat"], self._columns["ess"]
        if (r_hat > RHAT_LIMIT).any():
            found.append(R_HAT(worst=float(np.nanmax(r_hat)), remedy=LONGER))
        if (ess < ESS_LIMIT).any():
            found.append(FEW_EFFECTIVE_DRAWS(fewest=float(np.nanmin(ess)), remedy=LONGER))
        share = 0.0 if self.halved is None else self._largest_bias()
        if share > BIAS_LIMIT:
            found.append(STEP_BIAS(share=share))
        return tuple(found)

    def _largest_bias(self) -> float:
        """Largest bias in sd that chance does not explain; 0 where it may explain all."""
        bias, sd = self.step_bias, np.maximum(self._columns["sd"], np.finfo(float).tiny)
        sure = _longer(bias["ess"], special.ndtr(SURE)) / _longer(bias["ess"], TWO_SIDED)
        found = [
            np.where(
                np.abs(bias[name]) > SURE * sure * bias[f"{name}_se"], np.abs(bias[name]) / sd, 0.0
            )
            for name in ("mean", "sd")
        ]
        return float(np.max(found))

    def _head(self) -> str:
        chains, draws = self.loss.shape
        kept = counted(self.num_coordinates, "kept number")
        steps = f"after {int(self.state.num_steps):,} steps"
        return f"{kept}, gamma={self.gamma:g}, {chains} chains x {draws} draws, {steps}"

    def _table(self, most: int | None = None) -> TextTable:
        most = MOST_LINES if most is None else most
        columns, names = self._shown, coordinates(self.named, 2)
        rows = [
            [name, *(f"{values[i]:.4g}" for values in columns.values())]
            for i, name in zip(range(most), names, strict=False)
        ]
        headings = [Heading("parameter", is_text=True), *map(Heading, columns)]
        return TextTable(headings, rows, self.num_coordinates - len(rows), "numbers")

    def _remarks(self) -> Remarks:
        found = [("WARNING", str(text)) for text in self.warnings]
        if self.halved is None:
            found.append(("note", "bias of step and minibatch: num_halved=100 would tell it."))
        if self.num_coordinates > MOST_LINES:
            found.append(("note", f"the first {MOST_LINES} are shown; to_dataframe() has all."))
        return found

    def to_xarray(self) -> xr.DataTree:
        """Tree with groups ``posterior`` (what was kept) and ``sample_stats`` (``loss``).

        Returns
        -------
        xarray.DataTree
            Dims ``(chain, draw, ...)``. Arrays of a folder stay there until they are computed with.
        """
        about = {"gamma": self.gamma, "settings": json.dumps(self.settings)}
        return as_xarray(self.named, {"loss": self.loss}, about)

    def to_arviz(self) -> Any:
        """Return ArviZ's own container: InferenceData before 1.0, the same DataTree from 1.0 on.

        Raises
        ------
        ValueError
            If ArviZ is not installed (``pip install arviz``).
        """
        return in_arviz(self.to_xarray())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write draws and state to a folder, whole or not at all, a block at a time.

        Parameters
        ----------
        path
            The folder, in one that there is. Other draws in it are replaced.

        Raises
        ------
        ValueError
            If it holds other files, or cannot be one.
        OSError
            If it cannot be written.
        """
        folder, state = folder_to_write("path", path), self.state
        after = self.settings | {"after": int(state.num_steps)}
        with (
            writing_to("path", folder),
            tempfile.TemporaryDirectory(".part", f".{folder.name}.", folder.parent) as made,
        ):
            new = Path(made) / "new"
            self._written(self.kept, self.loss, self.settings, new, folder, DRAWS)
            if self.halved is not None:
                lead = jax.tree.leaves(self.halved)[0].shape[:2]
                unknown = np.full(lead, np.nan, self.loss.dtype)
                self._written(self.halved, unknown, after, new, folder, HALVED)
            old = Path(made) / "old"
            try:
                if folder.exists():
                    folder.rename(old)
                new.rename(folder)
            except BaseException:  # an interrupt in between
                if old.exists() and not folder.exists():
                    old.rename(folder)
                raise

    def _written(
        self,
        kept: PyTree,
        loss: Float[np.ndarray, "chains draws"],
        settings: dict[str, Any],
        into: Path,
        folder: Path,
        part: str,
    ) -> None:
        shapes = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct((a.shape[0], *a.shape[2:]), a.dtype), kept
        )
        about = self.state, shapes, loss.shape[1], self.gamma, settings
        to = Part(*about, into, part, called=("path", folder))
        to.copy(kept, loss)


def _step_bias(
    values: Float[np.ndarray, "chains draws numbers"],
    halved: Float[np.ndarray, "chains halved numbers"],
) -> dict[str, Float[np.ndarray, " numbers"]]:
    whole, half = _moments(values), _moments(halved)
    longer = _longer(half["ess"], TWO_SIDED)
    return {
        "mean": 2.0 * (whole["mean"] - half["mean"]),
        "mean_se": 2.0 * np.hypot(whole["mean_se"], longer * half["mean_se"]),
        "sd": 2.0 * (whole["sd"] - half["sd"]),
        "sd_se": 2.0 * np.hypot(whole["sd_se"], longer * half["sd_se"]),
        "ess": half["ess"],
    }


def _longer(ess: Float[np.ndarray, " numbers"], level: float) -> Float[np.ndarray, " numbers"]:
    """Student's quantile of so many effective draws over the normal one."""
    return special.stdtrit(np.maximum(ess - 1.0, 1.0), level) / special.ndtri(level)


def _moments(values: Float[np.ndarray, "chains draws numbers"]) -> dict[str, np.ndarray]:
    """Mean and sd with their errors; that of the sd is its square's, over twice itself."""
    of_mean = describe(values)
    of_square = describe((values - of_mean["mean"]) ** 2)
    sd = np.sqrt(of_square["mean"])
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "mean": of_mean["mean"],
            "sd": sd,
            "mean_se": of_mean["sd"] / np.sqrt(of_mean["ess"]),
            "sd_se": of_square["sd"] / np.sqrt(of_square["ess"]) / (2.0 * sd),
            "ess": np.minimum(of_mean["ess"], of_square["ess"]),
        }


def diverged(draws: MinibatchDraws) -> list[Warned]:
    """Warn of chains with a loss, or a kept number, that is not finite."""
    is_lost = np.zeros(len(draws.loss), bool)
    for block in draws._blocks(draws.loss.shape[1]):
        for leaf in (draws.loss, *draws.named.values()):
            is_finite = np.isfinite(leaf[:, block]).reshape(len(is_lost), -1)
            is_lost |= ~is_finite.all(axis=1)
    lost = int(is_lost.sum())
    return [DIVERGED_CHAINS(lost=lost, total=is_lost.size)] if lost else []


def told(draws: MinibatchDraws) -> Sequence[str]:
    """Return the warnings; of many numbers they take long, and are for whoever asks."""
    return draws.warnings if draws.num_coordinates <= FEW_NUMBERS else diverged(draws)


def load_minibatch_draws(path: str | os.PathLike[str]) -> MinibatchDraws:
    """Open what :meth:`MinibatchDraws.save` wrote, or ``store=``; runs no code from it.

    Arrays are maps of the folder's file: what is computed with is read then, and nothing kept in
    memory. A run that goes on meanwhile adds draws, which the next opening sees.

    Parameters
    ----------
    path
        The folder.

    Returns
    -------
    MinibatchDraws
        A single kept array comes back as an array, and anything else as a dict of named leaves;
        they are not to be written to.

    Raises
    ------
    ValueError
        If there is no such folder, or :class:`gibbs_dp.io.DamagedFileError`, one of them, if it is
        damaged or holds something else.
    """
    found, halved = load_part("path", path, DRAWS), None
    if (Path(path) / f"{HALVED}.npz").is_file():
        other = load_part("path", path, HALVED)
        is_of_it = (other.names, other.rows.dtype) == (found.names, found.rows.dtype)
        # Of a run that is still at them, and not those of one that was shorter.
        if is_of_it and other.settings.get("after") == int(found.state.num_steps):
            halved = _tree(other) if len(other.rows) >= LEAST_DRAWS else None
    loss = found.rows["loss"].T
    return MinibatchDraws(_tree(found), loss, found.state, found.gamma, found.settings, halved)


def _tree(found: Stored) -> PyTree:
    leaves = leaves_of(found.rows)
    return leaves[0] if found.names in ONE_ARRAY else dict(zip(found.names, leaves, strict=True))
