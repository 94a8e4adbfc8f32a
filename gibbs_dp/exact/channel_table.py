"""The table of a finite channel: a law of the output for every ordered dataset, and its slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from gibbs_dp.exact.types import Neighbours, ordered_datasets, require_cells
from gibbs_dp.exact.weighted_laws import WeightedLaws
from gibbs_dp.information import checks

DatasetTable = Float[np.ndarray, "datasets outputs"]


class ChannelTable(WeightedLaws):
    """``P(W | S)`` over ordered datasets of ``n`` independent examples; base of `FiniteChannel`.

    Parameters are those of `FiniteChannel`.

    Raises
    ------
    ValueError
        If the table has the wrong number of rows, a row is not a law, or it is too large.

    Examples
    --------
    >>> table = ChannelTable([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
    >>> [(pair.value, pair.other) for pair in table.replacements([0])]
    [(0, 1), (1, 0)]
    """

    def __init__(self, probabilities: ArrayLike, data_probs: ArrayLike, n: int) -> None:
        self.n = checks.count("n", n)
        self.data_probs = checks.law("data_probs", data_probs)
        table = np.asarray(probabilities, dtype=np.float64)
        rows = self.data_probs.size**n
        if table.ndim != 2 or table.shape[0] != rows:
            raise ValueError(
                f"probabilities must have shape [values^n = {rows}, outputs], got "
                f"{list(table.shape)}; give one row per ordered dataset."
            )
        require_cells("datasets x outputs", table.size)
        sums = table.sum(axis=1)
        if not np.all(table >= 0) or not np.all(np.abs(sums - 1) < checks.SUM_TOLERANCE):
            raise ValueError("probabilities must have rows that are laws; normalize each row.")
        with np.errstate(divide="ignore"):
            self.log_laws: DatasetTable = np.log(table / sums[:, None])

    @property
    def probabilities(self) -> DatasetTable:
        """The table ``P(W | S)``, ``[datasets, outputs]``."""
        return np.asarray(np.exp(self.log_laws))

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return int(self.log_laws.shape[1])

    @cached_property
    def datasets(self) -> Int[np.ndarray, "datasets n"]:
        """Every ordered dataset as value indices, ``[datasets, n]``."""
        return ordered_datasets(self.n, self.data_probs.size)

    @cached_property
    def log_weight(self) -> Float[np.ndarray, " datasets"]:
        """Log-probability of every dataset, ``[datasets]``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.data_probs)[self.datasets].sum(axis=1))

    def joint(self) -> Float[np.ndarray, ...]:
        """Joint law of output and examples, axes ``[W, z_1, ..., z_n]``."""
        table = np.exp(self.log_laws + self.log_weight[:, None]).T
        return np.asarray(table.reshape(self.num_outputs, *[self.data_probs.size] * self.n))

    def _split(
        self, positions: Sequence[int]
    ) -> tuple[Float[np.ndarray, "group rest outputs"], Float[np.ndarray, " group"], np.ndarray]:
        """Laws by values at ``positions`` and by the rest, and the log-weights of both."""
        m, k = self.data_probs.size, len(positions)
        if k == 0 or len(set(positions)) != k or not all(0 <= i < self.n for i in positions):
            raise ValueError(
                f"positions must be distinct examples from 0 to {self.n - 1}, got {positions}."
            )
        tensor = self.log_laws.reshape(*[m] * self.n, self.num_outputs)
        moved = np.moveaxis(tensor, list(positions), list(range(k)))
        table = moved.reshape(m**k, m ** (self.n - k), self.num_outputs)

        def weight(size: int) -> Float[np.ndarray, " combinations"]:
            if size == 0:
                return np.zeros(1)
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(self.data_probs)[ordered_datasets(size, m)].sum(axis=1))

        return table, weight(k), weight(self.n - k)

    def replacements(self, positions: Sequence[int]) -> Iterator[Neighbours]:
        """Yield ordered pairs of datasets that differ exactly in values at ``positions``."""
        table, group, rest = self._split(positions)
        for a, b in itertools.permutations(range(group.size), 2):
            yield Neighbours(a, b, rest + group[a] + group[b], table[a], table[b])
