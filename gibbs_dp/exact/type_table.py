"""Output laws of a symmetric algorithm, one row per type, and its replace-one neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from gibbs_dp.exact import laws
from gibbs_dp.exact.types import enumerate_types, log_type_probabilities, with_one_more
from gibbs_dp.exact.weighted_laws import WeightedLaws
from gibbs_dp.information.divergences import batched


class Neighbours(NamedTuple):
    """Pairs of neighbouring datasets that differ in one way, one row per shared rest.

    ``log_weight [bases]`` is the probability that a dataset is ``rest + value`` and its ghost is
    ``other`` (or that it is ``rest + value``, for removal); the laws are ``[bases, outputs]``.
    """

    value: int
    other: int | None
    log_weight: Float[np.ndarray, " bases"]
    log_p: Float[np.ndarray, "bases outputs"]
    log_q: Float[np.ndarray, "bases outputs"]


@dataclass(frozen=True)
class TypeTable(WeightedLaws):
    """Output laws of a symmetric algorithm on datasets of ``n`` independent examples.

    Parameters
    ----------
    n
        Number of examples, at least 1.
    data_probs
        Law of one example, ``[values]``.
    log_laws
        Log of the output law of each type, ``[types, outputs]``, in the order of
        `enumerate_types`.

    Examples
    --------
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> table.t_information()
    0.25
    """

    n: int
    data_probs: Float[np.ndarray, " values"]
    log_laws: Float[np.ndarray, "types outputs"]

    @cached_property
    def counts(self) -> Int[np.ndarray, "types values"]:
        """All types of ``n`` examples, ``[types, values]``."""
        return enumerate_types(self.n, self.data_probs.size)

    @cached_property
    def log_weight(self) -> Float[np.ndarray, " types"]:
        """Log-probability of each type, ``[types]``."""
        return log_type_probabilities(self.counts, self.data_probs)

    @cached_property
    def index(self) -> Int[np.ndarray, "bases values"]:
        """Row of ``rest + value``, ``[bases, values]``."""
        return with_one_more(self.n, self.data_probs.size)

    @cached_property
    def log_base_weight(self) -> Float[np.ndarray, " bases"]:
        """Log-probability of each type of the ``n - 1`` other examples, ``[bases]``."""
        bases = enumerate_types(self.n - 1, self.data_probs.size)
        return log_type_probabilities(bases, self.data_probs)

    @cached_property
    def log_data_probs(self) -> Float[np.ndarray, " values"]:
        """Log of the law of one example, ``[values]``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.data_probs))

    def replacements(self) -> Iterator[Neighbours]:
        """Yield ordered pairs of distinct values ``a -> b``: all replace-one neighbours."""
        for a in range(self.data_probs.size):
            log_p = self.log_laws[self.index[:, a]]
            for b in range(self.data_probs.size):
                if a != b:
                    weight = self.log_base_weight + self.log_data_probs[a] + self.log_data_probs[b]
                    yield Neighbours(a, b, weight, log_p, self.log_laws[self.index[:, b]])

    def removals(self, smaller: Float[np.ndarray, "bases outputs"]) -> Iterator[Neighbours]:
        """Yield removals of one example; ``smaller`` holds the laws of ``n - 1`` examples."""
        for a in range(self.data_probs.size):
            weight = self.log_base_weight + self.log_data_probs[a]
            yield Neighbours(a, None, weight, self.log_laws[self.index[:, a]], smaller)

    def on_average_kl(self) -> float:
        """``eps_KL = E KL(A(Z) || A(Z^(1)))`` in nats, replace-one with a ghost."""
        return sum(
            laws.average(pair.log_weight, batched.kl(pair.log_p, pair.log_q))
            for pair in self.replacements()
        )

    def _averaged_over_one(
        self, log_laws: Float[np.ndarray, "types outputs"], size: int
    ) -> Float[np.ndarray, "bases outputs"]:
        """Laws given ``size - 1`` examples, from laws given ``size``: a mixture over one more."""
        index = with_one_more(size, self.data_probs.size)
        with np.errstate(divide="ignore"):
            return np.asarray(
                logsumexp(log_laws[index] + self.log_data_probs[None, :, None], axis=1)
            )

    def erasure_mutual_information(self) -> float:
        """``I^- = sum_i I(W; Z_i | S^{-i})`` in nats."""
        given_rest = self._averaged_over_one(self.log_laws, self.n)
        return self.n * self._average_to_rest(given_rest, batched.kl)

    def erasure_t_information(self) -> float:
        """``T^- = sum_i T(W; Z_i | S^{-i})``."""
        given_rest = self._averaged_over_one(self.log_laws, self.n)
        return self.n * self._average_to_rest(given_rest, batched.total_variation)

    def _average_to_rest(
        self, given_rest: Float[np.ndarray, "bases outputs"], divergence: batched.Divergence
    ) -> float:
        return sum(
            laws.average(pair.log_weight, divergence(pair.log_p, given_rest))
            for pair in self.removals(given_rest)
        )

    def laws_given_one(self) -> Float[np.ndarray, "values outputs"]:
        """Log-laws of the output given one example, the others averaged out."""
        current = self.log_laws
        for size in range(self.n, 1, -1):
            current = self._averaged_over_one(current, size)
        return current  # types of one example are the values, in order

    def subset_information(self) -> Float[np.ndarray, " sizes"]:
        """``I(W; Z_1..Z_k)`` for ``k = 0..n``, in nats, ``[n + 1]``.

        By the chain rule ``I(W; j examples | k others) = subset[j + k] - subset[k]``; entry 1 is
        the individual-sample information of any one example.
        """
        values = np.zeros(self.n + 1)
        current = self.log_laws
        for size in range(self.n, 0, -1):
            counts = enumerate_types(size, self.data_probs.size)
            weight = log_type_probabilities(counts, self.data_probs)
            values[size] = laws.mutual_information(weight, current)
            current = self._averaged_over_one(current, size)
        return values
