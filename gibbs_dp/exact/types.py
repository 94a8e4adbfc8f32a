"""Multinomial types: how often each example value occurs in a dataset, and tables of them.

Anything that depends on the multiset of examples only, such as a Gibbs posterior, is a function of
the type, of which there are ``C(n + m - 1, m - 1)`` instead of ``m^n`` ordered datasets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, logsumexp, xlogy

from gibbs_dp.exact import laws
from gibbs_dp.exact.laws import WeightedLaws
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched

Counts = Int[np.ndarray, "types values"]

# Doubles held at once for one table of posteriors: 160 MB.
MAX_CELLS = 20_000_000


def num_types(n: int, num_values: int) -> int:
    """Count the types of ``n`` examples over ``num_values`` values, ``C(n + m - 1, m - 1)``."""
    return math.comb(n + num_values - 1, num_values - 1)


def require_cells(what: str, count: int, limit: int = MAX_CELLS) -> None:
    """Raise ``ValueError`` with the count when an exact sum would be too large.

    >>> require_cells("types x hypotheses", 100)
    """
    if count > limit:
        raise ValueError(
            f"too large to enumerate: {count:,} {what}, and the limit is {limit:,}; "
            "use fewer example values, hypotheses or examples, or sample instead."
        )


@lru_cache(maxsize=64)
def enumerate_types(n: int, num_values: int) -> Counts:
    """List every type, first counts descending."""
    checks.count("n", n, minimum=0)
    checks.count("num_values", num_values)
    require_cells("types x values", num_types(n, num_values) * num_values)
    columns: list[Int[np.ndarray, " prefixes"]] = []
    left = np.array([n], dtype=np.int64)
    for _ in range(num_values - 1):
        # A prefix that leaves r examples goes on with r, r - 1, ..., 0 of the next value.
        parent = np.repeat(np.arange(left.size), left + 1)
        starts = np.concatenate([[0], np.cumsum(left + 1)[:-1]])
        used = np.arange(parent.size) - starts[parent]
        columns = [column[parent] for column in columns]
        columns.append(left[parent] - used)
        left = used
    counts = np.stack([*columns, left], axis=1)
    counts.setflags(write=False)
    return counts


def type_index(counts: Counts) -> Int[np.ndarray, " types"]:
    """Rank types in the order of `enumerate_types`."""
    n, m = int(counts[0].sum()), counts.shape[1]
    # Types sharing a prefix and ahead in the next count: C(r - 1 + m - j, m - j), r what is left.
    binomial = np.zeros((n + 1, m), dtype=np.int64)
    binomial[1:, 0] = 1
    for k in range(1, m):
        binomial[:, k] = np.cumsum(binomial[:, k - 1])
    left = n - np.cumsum(counts[:, :-1], axis=1)
    columns = np.arange(m - 1, 0, -1)
    rank: Int[np.ndarray, " types"] = binomial[left, columns[None, :]].sum(axis=1)
    return rank


@lru_cache(maxsize=64)
def with_one_more(n: int, num_values: int) -> Int[np.ndarray, "bases values"]:
    """Index of ``base + one example of value a`` among the types of size ``n``."""
    checks.count("n", n)
    base = enumerate_types(n - 1, num_values)
    unit = np.eye(num_values, dtype=np.int64)
    columns = [type_index(base + unit[a]) for a in range(num_values)]
    index = np.stack(columns, axis=1)
    index.setflags(write=False)
    return index


def log_type_probabilities(
    counts: Counts, data_probs: Float[np.ndarray, " values"]
) -> Float[np.ndarray, " types"]:
    """Log-probabilities of all types of one size under independent examples."""
    n = counts[0].sum()
    log_multiplicity = gammaln(n + 1) - gammaln(counts + 1).sum(axis=1)
    with np.errstate(divide="ignore"):
        log_probability = log_multiplicity + xlogy(counts, data_probs).sum(axis=1)
    # gammaln(1000) is only good to 1e-12; normalizing removes the common part of its error.
    return np.asarray(log_probability - logsumexp(log_probability))


def ordered_datasets(n: int, num_values: int) -> Int[np.ndarray, "datasets n"]:
    """List every ordered dataset of value indices, the last example varying fastest.

    Examples
    --------
    >>> ordered_datasets(2, 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    checks.count("n", n)
    checks.count("num_values", num_values)
    require_cells("ordered datasets x examples", num_values**n * n)
    index = np.arange(num_values**n)
    powers = num_values ** np.arange(n - 1, -1, -1)
    return np.asarray(index[:, None] // powers % num_values)


# Output laws of a symmetric algorithm, one row per type, and its replace-one neighbours.


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

    Examples
    --------
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> table.t_information()
    0.25
    """

    n: int  # number of examples, at least 1
    data_probs: Float[np.ndarray, " values"]  # law of one example, ``[values]``
    # Log of the output law of each type, ``[types, outputs]``, in the order of `enumerate_types`.
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
        """``I(W; Z_1..Z_k)`` for ``k = 0..n``, in nats, ``[n + 1]``."""
        values = np.zeros(self.n + 1)
        current = self.log_laws
        for size in range(self.n, 0, -1):
            counts = enumerate_types(size, self.data_probs.size)
            weight = log_type_probabilities(counts, self.data_probs)
            values[size] = laws.mutual_information(weight, current)
            current = self._averaged_over_one(current, size)
        return values
