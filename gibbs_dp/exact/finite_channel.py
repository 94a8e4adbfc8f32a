"""Finite channels: any randomized algorithm as a table ``P(W | S)`` over ordered datasets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from gibbs_dp.exact import laws, notions, supersample
from gibbs_dp.exact.attacker import Attacker, FinitePairs, Membership, membership_of_table
from gibbs_dp.exact.laws import WeightedLaws
from gibbs_dp.exact.supersample import SupersampleInformation
from gibbs_dp.exact.types import Neighbours, ordered_datasets, require_cells
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched

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


class FiniteChannel(ChannelTable):
    """Any algorithm on datasets of ``n`` independent examples, by its table of output laws.

    Adjacency is replace-one throughout; infinite values are returned as ``inf``. For algorithms
    that ignore the order of examples, `FiniteProblem` reaches far larger ``n``.

    Parameters
    ----------
    probabilities
        ``P(W | S)``, ``[datasets, outputs]`` in the order of `ordered_datasets`.
    data_probs
        Law of one example, ``[values]``. Values of probability zero still count in worst cases.
    n
        Number of examples, so that there are ``values^n`` datasets.

    Raises
    ------
    ValueError
        If the table has the wrong number of rows, a row is not a law, or it is too large.

    Examples
    --------
    >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
    >>> round(channel.dp_epsilon(), 6), channel.tv_privacy()
    (1.098612, 0.5)
    """

    def _neighbours(self) -> Iterator[Neighbours]:
        for i in range(self.n):
            yield from self.replacements([i])

    def on_average_kl(self, positions: Sequence[int] | None = None) -> float:
        """``E KL(A(Z) || A(Z~))`` in nats, ghosts at ``positions`` (default: mean over each one).

        Examples
        --------
        >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
        >>> round(channel.on_average_kl(), 6)
        0.274653
        """
        if positions is None:
            return sum(self.on_average_kl([i]) for i in range(self.n)) / self.n
        return sum(
            laws.average(pair.log_weight, batched.kl(pair.log_p, pair.log_q))
            for pair in self.replacements(positions)
        )

    def attacker(self, positions: Sequence[int] | None = None) -> Attacker:
        """Attack figures, the rest of the dataset known: ghosts at ``positions``, on average.

        By default one ghost, at a place drawn at random (and known to the attacker).

        Examples
        --------
        >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
        >>> round(channel.attacker().attack_auc, 6)
        0.6875
        """
        groups = [[i] for i in range(self.n)] if positions is None else [positions]
        return Attacker.of(
            FinitePairs.of(
                pair._replace(log_weight=pair.log_weight - math.log(len(groups)))
                for group in groups
                for pair in self.replacements(group)
            )
        )

    def membership(self, position: int) -> Membership:
        """Membership figures of the example at ``position``, the rest unknown.

        Examples
        --------
        >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
        >>> round(channel.membership(0).individual_information, 6)
        0.130812
        """
        table, group, rest = self._split([position])
        with np.errstate(divide="ignore"):
            averaged = np.log(np.einsum("gro,r->go", np.exp(table), np.exp(rest)))
        return membership_of_table(group, averaged)

    def dp_epsilon(self) -> float:
        """Exact pure DP ``epsilon``, replace-one, in nats; ``inf`` when a support differs."""
        return max(0.0, notions.worst(self._neighbours(), batched.max_divergence))

    def kl_privacy(self) -> float:
        """Largest KL over replace-one neighbours, in nats."""
        return notions.worst(self._neighbours(), batched.kl)

    def tv_privacy(self) -> float:
        """Largest total variation over replace-one neighbours."""
        return notions.worst(self._neighbours(), batched.total_variation)

    def privacy_curve(self, epsilons: Sequence[float]) -> Float[np.ndarray, " epsilons"]:
        """Exact ``delta`` of ``(epsilon, delta)``-DP at every ``epsilon``, replace-one."""
        return notions.privacy_curve(self._neighbours(), epsilons)

    def renyi_curve(self, orders: Sequence[float]) -> Float[np.ndarray, " orders"]:
        """Exact Rényi DP at every order, replace-one, in nats."""
        return notions.renyi_curve(self._neighbours(), orders)

    def zcdp(self) -> float:
        """Zero-concentrated DP ``rho``, replace-one, by search over orders."""
        return notions.zcdp(self._neighbours())

    def personalized_dp(self) -> Float[np.ndarray, " values"]:
        """``epsilon(z)``: worst privacy loss over datasets that contain ``z``, replace-one."""
        return notions.personalized_dp(self._neighbours(), self.data_probs.size)

    def random_dp_epsilon(self, omega: float, position: int = 0) -> float:
        """Least ``epsilon`` holding for a ``1 - omega`` fraction of datasets and ghosts."""
        checks.unit_interval("omega", omega)
        return notions.random_dp_epsilon(self.replacements([position]), omega)

    def _given_rest(self, position: int, divergence: batched.Divergence) -> float:
        """Average over the rest of the divergence from one example's laws to their mixture."""
        table, group, rest = self._split([position])
        with np.errstate(divide="ignore"):
            mixed = np.log(np.einsum("gro,g->ro", np.exp(table), np.exp(group)))
        return sum(
            laws.average(rest + group[a], divergence(table[a], mixed)) for a in range(group.size)
        )

    def erasure_mutual_information(self) -> float:
        """``I^- = sum_i I(W; Z_i | S^{-i})`` in nats."""
        return sum(self._given_rest(i, batched.kl) for i in range(self.n))

    def erasure_t_information(self) -> float:
        """``T^- = sum_i T(W; Z_i | S^{-i})``."""
        return sum(self._given_rest(i, batched.total_variation) for i in range(self.n))

    def subset_information(self, positions: Sequence[int]) -> float:
        """``I(W; examples at positions)`` in nats; a single position is individual-sample."""
        table, group, rest = self._split(positions)
        with np.errstate(divide="ignore"):
            averaged = np.log(np.einsum("gro,r->go", np.exp(table), np.exp(rest)))
        return laws.mutual_information(group, averaged)

    def generalization_error(self, loss_matrix: ArrayLike) -> float:
        """``E [R(W) - Rhat(W, S)]`` for a loss ``[outputs, values]``; ``inf`` losses stay infinite.

        Raises
        ------
        ValueError
            If the shape is not ``[outputs, values]``.
        """
        loss = self._loss(loss_matrix)
        gaps = []
        for i in range(self.n):
            table, group, rest = self._split([i])
            joint = np.exp(group)[:, None] * np.einsum("gro,r->go", np.exp(table), np.exp(rest))
            product = np.exp(group)[:, None] * joint.sum(axis=0)
            gaps.append(_masked_sum(product, loss.T) - _masked_sum(joint, loss.T))
        return math.fsum(gaps) / self.n

    def supersample_information(self, loss_matrix: ArrayLike) -> SupersampleInformation:
        """Conditional mutual information by supersamples, and its kin, in nats.

        Parameters
        ----------
        loss_matrix
            Loss ``[outputs, values]`` by which the output is evaluated.

        Returns
        -------
        SupersampleInformation
            By enumeration of supersamples and selections, for small ``n``.

        Raises
        ------
        ValueError
            If the shape is not ``[outputs, values]``, a loss is not finite, or ``n`` is too large.
        """
        loss = self._loss(loss_matrix)
        if not np.all(np.isfinite(loss)):
            raise ValueError("loss_matrix must be finite; clip it.")
        return supersample.of_channel(self.log_laws, self.data_probs, self.n, loss)

    def _loss(self, loss_matrix: ArrayLike) -> Float[np.ndarray, "outputs values"]:
        loss = np.asarray(loss_matrix, dtype=np.float64)
        if loss.shape != (self.num_outputs, self.data_probs.size):
            raise ValueError(
                f"loss_matrix must have shape [outputs, values] = "
                f"{[self.num_outputs, self.data_probs.size]}, got {list(loss.shape)}; transpose it."
            )
        return loss

    def post_process(self, kernel: ArrayLike) -> FiniteChannel:
        """Pass the output through a random map ``[outputs, new_outputs]``.

        Examples
        --------
        >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
        >>> channel.post_process([[1.0], [1.0]]).mutual_information()
        0.0
        """
        matrix = np.asarray(kernel, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != self.num_outputs:
            raise ValueError(
                f"kernel must have shape [outputs = {self.num_outputs}, new_outputs], got "
                f"{list(matrix.shape)}; give one row per output."
            )
        return FiniteChannel(self.probabilities @ matrix, self.data_probs, self.n)

    def then(self, kernel: ArrayLike) -> FiniteChannel:
        """Release this output and one more, which may depend on both it and the dataset.

        Parameters
        ----------
        kernel
            ``P(B | S, A)``, ``[datasets, outputs, new_outputs]``; or ``[datasets, new_outputs]``
            for a second algorithm that ignores the first (non-adaptive composition).

        Returns
        -------
        FiniteChannel
            Outputs are pairs, the second varying fastest; every exact quantity of the composition
            follows.

        Examples
        --------
        >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
        >>> round(channel.then(channel.probabilities).on_average_kl(), 6)  # twice 0.274653
        0.549306
        """
        second = np.asarray(kernel, dtype=np.float64)
        if second.ndim == 2:
            second = np.repeat(second[:, None, :], self.num_outputs, axis=1)
        if second.ndim != 3 or second.shape[:2] != self.log_laws.shape:
            raise ValueError(
                f"kernel must have shape [datasets, outputs, new_outputs] starting with "
                f"{list(self.log_laws.shape)}, got {list(second.shape)}."
            )
        require_cells("datasets x pairs of outputs", second.size)
        pairs = self.probabilities[:, :, None] * second
        return FiniteChannel(pairs.reshape(pairs.shape[0], -1), self.data_probs, self.n)


def _masked_sum(
    mass: Float[np.ndarray, "values outputs"], loss: Float[np.ndarray, "values outputs"]
) -> float:
    """``sum mass * loss`` where a mass of zero silences an infinite loss."""
    return float((mass * np.where(mass > 0, loss, 0.0)).sum())
