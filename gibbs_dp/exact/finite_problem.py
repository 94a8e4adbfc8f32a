"""Finite Gibbs problems: a sum of per-example losses, or any loss of the multiset."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from gibbs_dp.exact import supersample
from gibbs_dp.exact.problem import TypeProblem
from gibbs_dp.exact.supersample import SupersampleInformation
from gibbs_dp.information import checks

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

    For losses that depend on the order of the examples use `FiniteChannel.gibbs`.

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
