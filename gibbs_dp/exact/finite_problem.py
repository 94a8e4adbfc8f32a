"""Finite Gibbs problems: a posterior per type, and every notion of privacy of it."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from gibbs_dp.exact import notions, supersample
from gibbs_dp.exact.attacker import Attacker, FinitePairs, Membership, membership_of_table
from gibbs_dp.exact.notions import GroupPrivacy, expected_gap, group_privacy
from gibbs_dp.exact.supersample import SupersampleInformation
from gibbs_dp.exact.types import Neighbours, TypeTable, enumerate_types, num_types, require_cells
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.information.divergences import batched


class TypeProblem(abc.ABC):
    """A Gibbs algorithm over finitely many hypotheses, on examples with finitely many values.

    The total loss depends on the multiset of examples only. Subclasses say what it is; posteriors
    are ``p(theta | Z) ∝ exp(-gamma L(theta, Z)) pi(theta)``.

    Parameters
    ----------
    data_probs
        Law of one example, ``[values]``. Values of probability zero still count in worst cases.
    prior_probs
        Prior, ``[hypotheses]``; hypotheses of probability zero never matter.

    Raises
    ------
    ValueError
        If either is not a probability vector.
    """

    def __init__(self, data_probs: ArrayLike, prior_probs: ArrayLike) -> None:
        self.data_probs = checks.law("data_probs", data_probs)
        self.prior_probs = checks.law("prior_probs", prior_probs)
        self._tables: dict[tuple[float, int], TypeTable] = {}

    @abc.abstractmethod
    def total_loss(
        self, counts: Int[np.ndarray, "types values"]
    ) -> Float[np.ndarray, "types hypotheses"]:
        """Total loss of every hypothesis on every type, ``[types, hypotheses]``."""

    @cached_property
    def kept(self) -> Int[np.ndarray, " kept"]:
        """Hypotheses of positive prior probability: the outputs that can occur."""
        return np.flatnonzero(self.prior_probs)

    def table(self, gamma: float, n: int) -> TypeTable:
        """Posteriors of every type of ``n`` examples at inverse temperature ``gamma``.

        Parameters
        ----------
        gamma
            Inverse temperature, at least 0; multiplies the total loss.
        n
            Dataset size, at least 0.

        Returns
        -------
        TypeTable
            Log-probabilities of the outputs for each type.

        Raises
        ------
        ValueError
            If there are too many types.
        """
        checks.nonnegative("gamma", gamma)
        checks.count("n", n, minimum=0)
        key = (float(gamma), int(n))
        if key not in self._tables:
            cells = num_types(n, self.data_probs.size) * self.data_probs.size * self.kept.size
            require_cells("types x values x hypotheses", cells)
            counts = enumerate_types(n, self.data_probs.size)
            loss = self.total_loss(counts)[:, self.kept]
            exponent = -gamma * loss + np.log(self.prior_probs[self.kept])
            if len(self._tables) >= 4:  # a table may be large; keep the latest few
                self._tables.pop(next(iter(self._tables)))
            self._tables[key] = TypeTable(n, self.data_probs, log_softmax(exponent, axis=1))
        return self._tables[key]

    def neighbours(self, gamma: float, n: int, *, adjacency: Adjacency) -> Iterator[Neighbours]:
        """All pairs of neighbouring datasets, one of them of size ``n``.

        ``adjacency="add-remove"`` compares ``n`` examples with the ``n - 1`` others at the same
        ``gamma``.
        """
        checks.count("n", n)
        checks.adjacency(adjacency)
        table = self.table(gamma, n)
        if adjacency == "replace-one":
            return table.replacements()
        return table.removals(self.table(gamma, n - 1).log_laws)

    def dp_epsilon(self, gamma: float, n: int, *, adjacency: Adjacency) -> float:
        """Exact pure DP ``epsilon``: the largest log-ratio over neighbours and outputs, in nats."""
        pairs = self.neighbours(gamma, n, adjacency=adjacency)
        return max(0.0, notions.worst(pairs, batched.max_divergence))

    def kl_privacy(self, gamma: float, n: int, *, adjacency: Adjacency) -> float:
        """Largest KL over neighbours, in nats."""
        return notions.worst(self.neighbours(gamma, n, adjacency=adjacency), batched.kl)

    def tv_privacy(self, gamma: float, n: int, *, adjacency: Adjacency) -> float:
        """Largest total variation over neighbours."""
        pairs = self.neighbours(gamma, n, adjacency=adjacency)
        return notions.worst(pairs, batched.total_variation)

    def privacy_curve(
        self, gamma: float, n: int, epsilons: Sequence[float], *, adjacency: Adjacency
    ) -> Float[np.ndarray, " epsilons"]:
        """Exact ``delta`` of ``(epsilon, delta)``-DP at every ``epsilon`` in ``epsilons``."""
        return notions.privacy_curve(self.neighbours(gamma, n, adjacency=adjacency), epsilons)

    def renyi_curve(
        self, gamma: float, n: int, orders: Sequence[float], *, adjacency: Adjacency
    ) -> Float[np.ndarray, " orders"]:
        """Exact Rényi DP at every order in ``orders``, in nats."""
        return notions.renyi_curve(self.neighbours(gamma, n, adjacency=adjacency), orders)

    def zcdp(self, gamma: float, n: int, *, adjacency: Adjacency) -> float:
        """Zero-concentrated DP ``rho = sup_alpha D_alpha / alpha``, by search over orders."""
        return notions.zcdp(self.neighbours(gamma, n, adjacency=adjacency))

    def random_dp_epsilon(self, gamma: float, n: int, omega: float) -> float:
        """Least ``epsilon`` that holds for a ``1 - omega`` fraction of ``(Z, z')``, replace-one."""
        checks.unit_interval("omega", omega)
        pairs = self.neighbours(gamma, n, adjacency="replace-one")
        return notions.random_dp_epsilon(pairs, omega)

    def personalized_dp(
        self, gamma: float, n: int, *, adjacency: Adjacency
    ) -> Float[np.ndarray, " values"]:
        """``epsilon(z)`` of each value: the worst privacy loss over datasets that contain it."""
        pairs = self.neighbours(gamma, n, adjacency=adjacency)
        return notions.personalized_dp(pairs, self.data_probs.size)

    def average_removal_kl(self, gamma: float, n: int) -> float:
        """``E KL(P_s || P_{s^-i})`` in nats, ``s^-i`` being the ``n - 1`` other examples."""
        return notions.average_removal_kl(self.neighbours(gamma, n, adjacency="add-remove"))

    def on_average_kl(self, gamma: float, n: int) -> float:
        """``eps_KL = E KL(A(Z) || A(Z^(1)))`` in nats (Wang, Lei & Fienberg 2016, Def. 2)."""
        checks.count("n", n)
        return self.table(gamma, n).on_average_kl()

    def attacker(self, gamma: float, n: int) -> Attacker:
        """Attack figures, the rest of the dataset known: replace-one, on average over pairs."""
        checks.count("n", n)
        return Attacker.of(FinitePairs.of(self.table(gamma, n).replacements()))

    def membership(self, gamma: float, n: int) -> Membership:
        """Membership figures from one draw, the rest of the dataset unknown."""
        checks.count("n", n)
        table = self.table(gamma, n)
        return membership_of_table(table.log_data_probs, table.laws_given_one())

    def group_privacy(self, gamma: float, n: int) -> GroupPrivacy:
        """DP and on-average KL of groups of every size ``1..n``, replace-one."""
        checks.count("n", n)
        return group_privacy(self.table(gamma, n))

    def subset_information(self, gamma: float, n: int) -> Float[np.ndarray, " sizes"]:
        """``I(W; Z_1..Z_k)`` for ``k = 0..n``, in nats; see `TypeTable.subset_information`."""
        checks.count("n", n)
        return self.table(gamma, n).subset_information()

    def individual_information(self, gamma: float, n: int) -> float:
        """``I(W; Z_i)``, the same for every example, in nats."""
        return float(self.subset_information(gamma, n)[1])

    def conditional_information(
        self, gamma: float, n: int, *, num_targets: int, num_known: int
    ) -> float:
        """``I(W; num_targets examples | num_known others)`` in nats, by the chain rule."""
        checks.count("num_targets", num_targets)
        checks.count("num_known", num_known, minimum=0)
        if num_targets + num_known > n:
            raise ValueError(
                f"num_targets + num_known must be at most n = {n}, "
                f"got {num_targets + num_known}; lower one."
            )
        subset = self.subset_information(gamma, n)
        return float(subset[num_targets + num_known] - subset[num_known])

    def expected_loss_gap(self, gamma: float, n: int, group_size: int) -> float:
        """``E [L(theta, Z~) - L(theta, Z)]``, ``theta ~ A(Z)``, ``Z~`` with ``k`` ghosts.

        Remark 1: ``gamma`` times this is the on-average KL of groups of ``k``.
        """
        checks.count("n", n)
        checks.count("group_size", group_size)
        if group_size > n:
            raise ValueError(f"group_size must be at most n = {n}, got {group_size}; lower it.")
        table = self.table(gamma, n)
        return expected_gap(table, self.total_loss(table.counts)[:, self.kept], group_size)

    @abc.abstractmethod
    def generalization_error(self, gamma: float, n: int) -> float:
        """Mean loss on fresh examples minus mean loss on the dataset itself."""

    def quantities(self, gamma: float, n: int, beta: float) -> dict[str, float]:
        """Compute every exact quantity of theory section 5, replace-one.

        Parameters
        ----------
        gamma
            Inverse temperature, at least 0; multiplies the total loss.
        n
            Dataset size, at least 1.
        beta
            Mass given away by the approximate max-information, ``0 <= beta < 1``.

        Returns
        -------
        dict
            Nats, except the two ``max_information`` entries in bits and the ``t``, ``tv`` ones,
            which are probabilities.

        Raises
        ------
        ValueError
            If a number is out of range, or the problem is too large to enumerate.
        """
        checks.count("n", n)
        checks.unit_interval("beta", beta)
        table = self.table(gamma, n)
        return {
            "generalization_error": self.generalization_error(gamma, n),
            "on_average_kl": table.on_average_kl(),
            "mutual_information": table.mutual_information(),
            "lautum_information": table.lautum_information(),
            "dp_epsilon": self.dp_epsilon(gamma, n, adjacency="replace-one"),
            "kl_privacy": self.kl_privacy(gamma, n, adjacency="replace-one"),
            "tv_privacy": self.tv_privacy(gamma, n, adjacency="replace-one"),
            "max_information_bits": table.max_information_bits(),
            "approx_max_information_bits": table.approx_max_information_bits(beta),
            "erasure_mutual_information": table.erasure_mutual_information(),
            "erasure_t_information": table.erasure_t_information(),
            "t_information": table.t_information(),
        }


TotalLoss = Callable[[Int[np.ndarray, "types values"]], ArrayLike]


class FiniteProblem(TypeProblem):
    """A Gibbs posterior over finitely many hypotheses, with a sum of per-example losses.

    ``p(theta | Z) ∝ exp(-gamma sum_i loss(theta, z_i)) pi(theta)`` on ``n`` independent examples
    with finitely many values. Every answer is a finite sum over multinomial types.

    Parameters
    ----------
    loss_matrix
        ``[hypotheses, values]``, finite.
    data_probs
        Law of one example, ``[values]``. Values of probability zero still count in worst cases.
    prior_probs
        Prior, ``[hypotheses]``.

    Raises
    ------
    ValueError
        If shapes disagree, a loss is not finite, or a vector is not a law.

    Examples
    --------
    >>> theta, z = np.array([0.0, 0.25, 0.5, 0.75, 1.0]), np.array([0.0, 0.5, 1.0])
    >>> problem = FiniteProblem(
    ...     (theta[:, None] - z) ** 2, [0.5, 0.3, 0.2], np.full(5, 0.2))
    >>> answer = problem.quantities(gamma=1.0, n=4, beta=0.05)
    >>> round(answer["on_average_kl"], 6), round(answer["mutual_information"], 6)
    (0.04728, 0.087049)
    """

    def __init__(
        self, loss_matrix: ArrayLike, data_probs: ArrayLike, prior_probs: ArrayLike
    ) -> None:
        super().__init__(data_probs, prior_probs)
        self.loss_matrix = np.asarray(loss_matrix, dtype=np.float64)
        expected = (self.prior_probs.size, self.data_probs.size)
        if self.loss_matrix.shape != expected:
            raise ValueError(
                f"loss_matrix must have shape [hypotheses, values] = {list(expected)}, got "
                f"{list(self.loss_matrix.shape)}; transpose or extend it."
            )
        if not np.all(np.isfinite(self.loss_matrix)):
            raise ValueError("loss_matrix must be finite; clip it, or use FiniteChannel.")

    def total_loss(
        self, counts: Int[np.ndarray, "types values"]
    ) -> Float[np.ndarray, "types hypotheses"]:
        """Sum of the losses of every type, ``[types, hypotheses]``."""
        return np.asarray(counts @ self.loss_matrix.T)

    def generalization_error(self, gamma: float, n: int) -> float:
        """``gen = E [R(theta) - Rhat(theta, Z)]``, ``theta ~ A(Z)``."""
        checks.count("n", n)
        table = self.table(gamma, n)
        law = np.exp(table.log_laws)
        # Only the covariance of posterior and loss over datasets counts.
        law -= np.exp(table.log_weight) @ law
        gap = (self.data_probs - table.counts / n) @ self.loss_matrix[self.kept].T
        return float(np.exp(table.log_weight) @ (law * gap).sum(axis=1))

    def supersample_information(self, gamma: float, n: int) -> SupersampleInformation:
        """Conditional mutual information by supersamples, and its kin, in nats.

        By types of supersamples and all ``2^n`` selections, so for ``n`` up to about ten.

        Examples
        --------
        >>> problem = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.3, 0.7], [0.5, 0.5])
        >>> found = problem.supersample_information(gamma=1.0, n=4)
        >>> bool(np.isclose(found.evaluated, found.conditional_mutual_information))
        True
        """
        checks.count("n", n)
        return supersample.of_types(self.table(gamma, n), self.loss_matrix[self.kept])


class StructuredProblem(TypeProblem):
    """A Gibbs posterior with a structured loss: any function of the multiset of examples.

    For losses that depend on the order of the examples there is `gibbs_dp.papers.channels.gibbs`.

    Parameters
    ----------
    total_loss
        From counts ``[types, values]`` to total losses ``[types, hypotheses]``.
    data_probs, prior_probs
        As in `FiniteProblem`.

    Examples
    --------
    >>> theta = np.array([0.0, 0.5, 1.0])
    >>> mean = lambda counts: counts[:, 1] / counts.sum(axis=1)
    >>> problem = StructuredProblem(
    ...     lambda counts: np.abs(mean(counts)[:, None] - theta), [0.5, 0.5], np.full(3, 1 / 3))
    >>> kl = problem.group_privacy(gamma=2.0, n=4).on_average_kl
    >>> gap = problem.expected_loss_gap(gamma=2.0, n=4, group_size=3)
    >>> bool(np.isclose(kl[2], 2.0 * gap))  # Remark 1
    True
    """

    def __init__(
        self, total_loss: TotalLoss, data_probs: ArrayLike, prior_probs: ArrayLike
    ) -> None:
        super().__init__(data_probs, prior_probs)
        self._total_loss = total_loss

    def total_loss(
        self, counts: Int[np.ndarray, "types values"]
    ) -> Float[np.ndarray, "types hypotheses"]:
        """Total loss of every type, ``[types, hypotheses]``, checked."""
        loss = np.asarray(self._total_loss(counts), dtype=np.float64)
        expected = (counts.shape[0], self.prior_probs.size)
        if loss.shape != expected or not np.all(np.isfinite(loss)):
            raise ValueError(
                f"total_loss must return finite [types, hypotheses] = {list(expected)}, got shape "
                f"{list(loss.shape)}; return one row per type."
            )
        return loss

    def generalization_error(self, gamma: float, n: int) -> float:
        """``E [L(theta, Z~) - L(theta, Z)]``, with all ``n`` examples of ``Z~`` fresh.

        Times ``gamma`` it is ``I + lautum`` (Remark 1 and Lemma 9). For a sum of losses it would
        be ``n`` times the per-example ``gen``.
        """
        return self.expected_loss_gap(gamma, n, group_size=n)
