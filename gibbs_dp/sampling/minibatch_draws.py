"""What is kept of chains on minibatches, with its diagnostics, and files of both."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
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
    STEP_BIAS,
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
ONE_ARRAY = ({"kept"}, {"theta"})
# A bias of this many sd is warned of where it is so many standard errors, of 512 numbers at most.
BIAS_LIMIT, SURE = 0.1, 5.0
LONGER = "raise num_warmup, thinning or num_samples, or keep what identifies the function"


class _Saved(NamedTuple):
    state: MinibatchState
    loss: Float[np.ndarray, "chains draws"]
    kept: np.ndarray  # bytes of all leaves
    layout: str  # their names, types and shapes
    halved: np.ndarray
    layout_of_halved: str
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
        found = {name: np.asarray(leaf) for name, leaf in named_leaves(kept)}
        is_single = hasattr(kept, "shape") and self.settings["keep"] is not None
        return {"kept": np.asarray(kept)} if is_single else found

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
            values = [_flat(leaf), *([_flat(others[name])] if others else [])]
            starts = range(0, values[0].shape[2], size)
            parts += [function(*(a[..., first : first + size] for a in values)) for first in starts]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    @cached_property
    def step_bias(self) -> dict[str, Float[np.ndarray, " numbers"]]:
        """What the step and the minibatch add to mean and sd of each kept number, with errors.

        Twice the difference to draws of half the step: to leading order the bias of both is
        proportional to the step. ``mean`` and ``sd`` are in units of the number, ``mean_se`` and
        ``sd_se`` their standard errors from effective draws. Needs ``num_halved=``.

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

        With ``num_halved=`` also `step_bias`: ``bias``, ``bias_se``, ``sd_bias``, ``sd_bias_se``.
        """
        import pandas as pd  # slow to import

        names = pd.Index(list(coordinates(self.named, 2)), name="parameter")
        return pd.DataFrame(self._shown, index=names)

    @property
    def _shown(self) -> dict[str, np.ndarray]:
        if self.halved is None:
            return self._columns
        titles = {"mean": "bias", "mean_se": "bias_se", "sd": "sd_bias", "sd_se": "sd_bias_se"}
        return self._columns | {titles[name]: found for name, found in self.step_bias.items()}

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """One sentence for everything that makes these draws less than they seem."""
        found = diverged(self)
        r_hat, ess = self._columns["r_hat"], self._columns["ess"]
        if np.isfinite(r_hat).any() and not np.nanmax(r_hat) <= RHAT_LIMIT:
            found.append(R_HAT(worst=float(np.nanmax(r_hat)), remedy=LONGER))
        if np.isfinite(ess).any() and not np.nanmin(ess) >= ESS_LIMIT:
            found.append(FEW_EFFECTIVE_DRAWS(fewest=float(np.nanmin(ess)), remedy=LONGER))
        share = 0.0 if self.halved is None else self._largest_bias()
        if share > BIAS_LIMIT:
            found.append(STEP_BIAS(share=share))
        return tuple(found)

    def _largest_bias(self) -> float:
        """Largest bias in sd that chance does not explain; 0 where it may explain all."""
        bias, sd = self.step_bias, np.maximum(self._columns["sd"], np.finfo(float).tiny)
        found = [
            np.where(np.abs(bias[name]) > SURE * bias[f"{name}_se"], np.abs(bias[name]) / sd, 0.0)
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
        record = _Saved(
            self.state,
            self.loss,
            *_packed(self.named),
            *_packed({} if self.halved is None else self._named(self.halved)),
            self.gamma,
            json.dumps(self.settings),
        )
        io.save_record(path, record, LABELS)


def _flat(leaf: np.ndarray) -> Float[np.ndarray, "chains draws numbers"]:
    return leaf.reshape(*leaf.shape[:2], -1).astype(float)


def _step_bias(
    values: Float[np.ndarray, "chains draws numbers"],
    halved: Float[np.ndarray, "chains halved numbers"],
) -> dict[str, Float[np.ndarray, " numbers"]]:
    whole, half = _moments(values), _moments(halved)
    return {
        "mean": 2.0 * (whole["mean"] - half["mean"]),
        "mean_se": 2.0 * np.hypot(whole["mean_se"], half["mean_se"]),
        "sd": 2.0 * (whole["sd"] - half["sd"]),
        "sd_se": 2.0 * np.hypot(whole["sd_se"], half["sd_se"]),
    }


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
        }


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
        halved = _unpacked(saved.halved.tobytes(), io.parse_json(saved.layout_of_halved, list))
        settings = io.parse_json(saved.settings, dict)
        state = saved.state  # in NumPy: JAX might make its numbers shorter
        (chains, _), lead = state.chains.position.shape, saved.loss.shape
        if len(lead) != 2 or lead[0] != chains or state.key.shape != (chains, 2):
            raise ValueError("its chains do not agree in number")
        if len({leaf.shape for leaf in jax.tree.leaves(state.chains)}) > 1:
            raise ValueError("its chains do not agree in size")
        if any(leaf.shape[:2] != lead for leaf in kept.values()):
            raise ValueError("what it keeps is no table of chains and draws")
        if halved and {n: (a.shape[0], a.shape[2:]) for n, a in halved.items()} != {
            n: (a.shape[0], a.shape[2:]) for n, a in kept.items()
        }:
            raise ValueError("what it keeps of half the step is something else")
        if not kept:
            raise ValueError("it keeps nothing")
        if "keep" not in settings:
            raise ValueError("its settings are not complete")
    except (KeyError, TypeError, ValueError) as error:
        raise io.DamagedFileError(f"{os.fspath(path)}: damaged ({io.reason(error)}).") from error
    found = [
        None if not each else next(iter(each.values())) if set(each) in ONE_ARRAY else each
        for each in (kept, halved)
    ]
    return MinibatchDraws(found[0], saved.loss, state, saved.gamma, settings, found[1])


def _packed(leaves: dict[str, np.ndarray]) -> tuple[np.ndarray, str]:
    layout = [[name, leaf.dtype.str, list(leaf.shape)] for name, leaf in leaves.items()]
    content = b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in leaves.values())
    return np.frombuffer(content, np.uint8), json.dumps(layout)


def _unpacked(content: bytes, layout: list[Any]) -> dict[str, np.ndarray]:
    found, start = {}, 0
    for name, kind, shape in layout:
        dtype = np.dtype(kind)
        if dtype.kind not in "biuf":
            raise ValueError(f"it holds {dtype}, which is no number")
        end = start + dtype.itemsize * math.prod(shape)
        found[str(name)] = np.frombuffer(bytearray(content[start:end]), dtype).reshape(shape)
        start = end
    if start != len(content):
        raise ValueError("its arrays are not as long as they should be")
    return found
