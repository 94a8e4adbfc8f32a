"""What is kept of chains on minibatches, with its diagnostics, and files of both."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt32

from gibbs_dp import io
from gibbs_dp._cautions import Warned
from gibbs_dp.results.base import Remarks, Result
from gibbs_dp.results.table import MOST_LINES, Heading, TextTable, counted
from gibbs_dp.sampling.cautions import (
    DIVERGED_CHAINS,
    ESS_LIMIT,
    FEW_EFFECTIVE_DRAWS,
    R_HAT,
    RHAT_LIMIT,
)
from gibbs_dp.sampling.diagnostics import coordinates, describe, named_leaves
from gibbs_dp.sampling.kernels.stochastic import StochasticState

if TYPE_CHECKING:
    import pandas as pd


class MinibatchState(NamedTuple):
    """All that chains need to go on: numbers, no code.

    Attributes
    ----------
    chains
        Positions in the posterior's unconstrained coordinates, momenta in their own standard
        deviations, and squared gradients, each ``[chains, dim]``; None for what a kernel has not.
    key
        Two words for each chain, ``[chains, 2]``; with the count of steps they make its random
        numbers.
    num_steps, num_learnt
        Steps made so far, and those that the preconditioner was learnt in.
    """

    chains: StochasticState
    key: UInt32[Array, "chains 2"]
    num_steps: Int[Array, ""]
    num_learnt: Int[Array, ""]


# Kept numbers up to which diagnostics are computed unasked, and described at a time.
FEW_NUMBERS, NUMBERS_AT_ONCE = 512, 2**22
LABELS = {"gibbs_dp_kind": "minibatch draws", "format": 1}
LONGER = "raise num_warmup, thinning or num_samples, or keep what identifies the function"


class _Saved(NamedTuple):
    state: MinibatchState
    loss: Float[np.ndarray, "chains draws"]
    kept: np.ndarray  # bytes of all leaves
    layout: str  # their names, types and shapes
    gamma: float
    settings: str


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
    """

    kept: PyTree
    loss: Float[np.ndarray, "chains draws"]
    state: MinibatchState
    gamma: float
    settings: dict[str, Any]

    @property
    def named(self) -> dict[str, np.ndarray]:
        """Leaves of what was kept, by name; a single array that ``keep`` made is ``kept``."""
        found = {name: np.asarray(leaf) for name, leaf in named_leaves(self.kept)}
        is_single = hasattr(self.kept, "shape") and self.settings["keep"] is not None
        return {"kept": np.asarray(self.kept)} if is_single else found

    @property
    def num_coordinates(self) -> int:
        """Numbers that were kept of each draw."""
        return sum(math.prod(leaf.shape[2:]) for leaf in self.named.values())

    @cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        """Describe all numbers, some at a time."""
        size = max(1, NUMBERS_AT_ONCE // self.loss.size)
        parts = []
        for leaf in self.named.values():
            flat = leaf.reshape(*self.loss.shape, -1).astype(float)
            starts = range(0, flat.shape[2], size)
            parts += [describe(flat[..., first : first + size]) for first in starts]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def to_dataframe(self) -> pd.DataFrame:
        """Mean, sd, 5% and 95% quantiles, effective draws and split R-hat of each kept number."""
        import pandas as pd  # slow to import

        names = pd.Index(list(coordinates(self.named, 2)), name="parameter")
        return pd.DataFrame(self._columns, index=names)

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """One sentence for everything that makes these draws less than they seem."""
        found = diverged(self)
        r_hat, ess = self._columns["r_hat"], self._columns["ess"]
        if np.isfinite(r_hat).any() and not np.nanmax(r_hat) <= RHAT_LIMIT:
            found.append(R_HAT(worst=float(np.nanmax(r_hat)), remedy=LONGER))
        if np.isfinite(ess).any() and not np.nanmin(ess) >= ESS_LIMIT:
            found.append(FEW_EFFECTIVE_DRAWS(fewest=float(np.nanmin(ess)), remedy=LONGER))
        return tuple(found)

    def _head(self) -> str:
        chains, draws = self.loss.shape
        kept = counted(self.num_coordinates, "kept number")
        steps = f"after {int(self.state.num_steps):,} steps"
        return f"{kept}, gamma={self.gamma:g}, {chains} chains x {draws} draws, {steps}"

    def _table(self, most: int | None = None) -> TextTable:
        most = MOST_LINES if most is None else most
        columns, names = self._columns, coordinates(self.named, 2)
        rows = [
            [name, *(f"{values[i]:.4g}" for values in columns.values())]
            for i, name in zip(range(most), names, strict=False)
        ]
        headings = [Heading("parameter", is_text=True), *map(Heading, columns)]
        return TextTable(headings, rows, self.num_coordinates - len(rows), "numbers")

    def _remarks(self) -> Remarks:
        found = [("WARNING", str(text)) for text in self.warnings]
        if self.num_coordinates > MOST_LINES:
            found.append(("note", f"the first {MOST_LINES} are shown; to_dataframe() has all."))
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write draws and state to an ``.npz`` file, whole or not at all; nothing is pickled.

        Parameters
        ----------
        path
            The file.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        leaves = self.named
        layout = [[name, leaf.dtype.str, list(leaf.shape)] for name, leaf in leaves.items()]
        content = b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in leaves.values())
        record = _Saved(
            self.state,
            self.loss,
            np.frombuffer(content, np.uint8),
            json.dumps(layout),
            self.gamma,
            json.dumps(self.settings),
        )
        io.save_record(path, record, LABELS)


def diverged(draws: MinibatchDraws) -> list[Warned]:
    """Warn of chains with a loss, or a kept number, that is not finite."""
    is_lost = ~np.isfinite(draws.loss).all(axis=1)
    for leaf in draws.named.values():
        is_lost |= ~np.isfinite(leaf.reshape(len(is_lost), -1)).all(axis=1)
    lost = int(is_lost.sum())
    return [DIVERGED_CHAINS(lost=lost, total=is_lost.size)] if lost else []


def told(draws: MinibatchDraws) -> Sequence[str]:
    """Return the warnings; of many numbers they take long, and are for whoever asks."""
    return draws.warnings if draws.num_coordinates <= FEW_NUMBERS else diverged(draws)


def load_minibatch_draws(path: str | os.PathLike[str]) -> MinibatchDraws:
    """Read what :meth:`MinibatchDraws.save` wrote; runs no code from the file.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    MinibatchDraws
        A single kept array comes back as an array, and anything else as a dict of named leaves.

    Raises
    ------
    ValueError
        If the file is missing, or :class:`gibbs_dp.io.DamagedFileError`, one of them, if it is
        damaged or holds something else.
    """
    try:
        saved = io.load_record(path, _Saved, LABELS)
    except OSError as error:
        raise ValueError(
            f"path: {os.fspath(path)!r} cannot be read ({io.reason(error)}); give a file that "
            "MinibatchDraws.save wrote."
        ) from error
    try:
        kept = _unpacked(saved.kept.tobytes(), io.parse_json(saved.layout, list))
        settings = io.parse_json(saved.settings, dict)
        state = saved.state  # in NumPy: JAX might make its numbers shorter
        (chains, _), lead = state.chains.position.shape, saved.loss.shape
        if len(lead) != 2 or lead[0] != chains or state.key.shape != (chains, 2):
            raise ValueError("its chains do not agree in number")
        if len({leaf.shape for leaf in jax.tree.leaves(state.chains)}) > 1:
            raise ValueError("its chains do not agree in size")
        if any(leaf.shape[:2] != lead for leaf in kept.values()):
            raise ValueError("what it keeps is no table of chains and draws")
        if "keep" not in settings:
            raise ValueError("its settings are not complete")
    except (KeyError, TypeError, ValueError) as error:
        raise io.DamagedFileError(f"{os.fspath(path)}: damaged ({io.reason(error)}).") from error
    is_single = set(kept) in ({"kept"}, {"theta"})
    found = next(iter(kept.values())) if is_single else kept
    return MinibatchDraws(found, saved.loss, state, saved.gamma, settings)


def _unpacked(content: bytes, layout: list[Any]) -> dict[str, np.ndarray]:
    found, start = {}, 0
    for name, kind, shape in layout:
        dtype = np.dtype(kind)
        if dtype.kind not in "biuf":
            raise ValueError(f"it holds {dtype}, which is no number")
        end = start + dtype.itemsize * math.prod(shape)
        found[str(name)] = np.frombuffer(bytearray(content[start:end]), dtype).reshape(shape)
        start = end
    if start != len(content) or not found:
        raise ValueError("its arrays are not as long as they should be")
    return found
