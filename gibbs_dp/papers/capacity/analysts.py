"""Theorem 6 at a real size: analysts who ask hundreds of queries of one dataset.

An example is ``T`` fair signs: whether each attribute agrees with the label. In round ``t`` the
analyst asks the mean of a query with values in [-1, 1] and is told the sign of it plus normal
noise; the analyst then weights the attribute by that sign. What comes out is one more query, the
weighted vote, whose population mean is 0 and whose mean on the data is how much it overfits.

- "linear": the queries are the attributes, and the vote is their weighted mean. The bits are
  independent and the critics ``q -> q(x)`` span a box of linear functions of them, so that the
  restricted KL of Theorem 6 is a sum of one-dimensional closed forms, exact over all neighbours.
- "adaptive": the query of a round is the attribute on the examples that the vote so far leaves
  undecided, and the output is the majority. Its restricted KL has no closed form; the chain rule
  bounds the KL of all answers, and so what any class sees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy import stats
from scipy.special import log_ndtr, ndtr, xlogy

from gibbs_dp.estimators import average
from gibbs_dp.information import bounds, checks
from gibbs_dp.model.check import as_key
from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity import CapacityBound
from gibbs_dp.papers.capacity.adversaries import QueryHull
from gibbs_dp.papers.capacity.bound import Status, ipm_from_kl_by_hoeffding
from gibbs_dp.papers.tables import Row

N, NUM_QUERIES, NUM_DATASETS = 2_000, 512, 64
# Standard deviation of the noise in those of a query's mean on the data, 1 / sqrt(n).
NOISE = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
ANALYSTS = ("linear", "adaptive")
_BITS = 32


def analyst_rows(
    noise: Sequence[float] = NOISE,
    *,
    n: int = N,
    num_queries: int = NUM_QUERIES,
    num_datasets: int = NUM_DATASETS,
    key: int = 0,
) -> list[Row]:
    """Measure the overfitting of both analysts beside Theorem 6, one dict per analyst and noise."""
    checks.count("n", n)
    checks.count("num_queries", num_queries)
    checks.count("num_datasets", num_datasets, minimum=2)
    if num_queries % _BITS:
        raise ValueError(
            f"num_queries: must be a multiple of {_BITS}, got {num_queries}; round it up."
        )
    sizes = [checks.positive("noise", s) / math.sqrt(n) for s in noise]
    if not sizes:
        raise ValueError("noise: must hold at least one number; give one, such as [4.0].")
    gaps = _measure(as_key(key), np.asarray(sizes), n, num_queries, num_datasets)
    rows: list[Row] = []
    for k, analyst in enumerate(ANALYSTS):
        for j, sigma in enumerate(sizes):
            measured = average(gaps[:, j, k], np.ones(num_datasets, bool))
            row = {"analyst": analyst, "noise": float(noise[j]), "sigma": sigma, "n": n}
            row |= {"num_queries": num_queries, "num_datasets": num_datasets}
            row |= {"gap": measured.value, "gap_se": measured.se}
            rows.append(row | _bounds(analyst, n, num_queries, sigma))
    return rows


def _bounds(analyst: str, n: int, num_queries: int, sigma: float) -> Row:
    is_linear = analyst == "linear"
    whole = bits_kl(n, num_queries, sigma)
    seen = linear_vote_kl(n, num_queries, sigma) if is_linear else whole
    status: Status = "exact" if is_linear else "bound"
    row: Row = {"status": status}
    for name, value in (("", seen), ("_unrestricted", whole)):
        # What no adversary exceeds, those of the hull do not either.
        bound = CapacityBound(value, "kl", QueryHull(), status="bound" if name else status)
        row["unrestricted_kl" if name else "restricted_kl"] = value
        row[f"theorem_6{name}"] = capacity.generalization_from_kl(bound)
        row[f"hoeffding{name}"] = ipm_from_kl_by_hoeffding(bound).value
    if is_linear:
        gap, information = linear_vote_truth(n, num_queries, sigma)
        row["gap_exact"] = gap
        row["mutual_information"] = bounds.generalization_from_mutual_information(
            information, n, sigma=1.0
        )
    return row


def _neighbours(n: int, step: int) -> tuple[Float[np.ndarray, " means"], float]:
    """Possible means of a query, multiples of ``step / n``, and how far a neighbour's can be."""
    return np.arange(-n, n + 1, step) / n, 2 / n


def _pairs(
    n: int, sigma: float, step: int
) -> tuple[Float[np.ndarray, "laws pairs"], Float[np.ndarray, "laws pairs"]]:
    """Log-probabilities of a plus and of a minus on all neighbours that are farthest apart."""
    means, move = _neighbours(n, step)
    up = means[means + move <= 1 + 1e-9 / n]
    first, second = np.concatenate([up, up + move]), np.concatenate([up + move, up])
    ends = np.stack([first, second]) / sigma
    return log_ndtr(ends), log_ndtr(-ends)


def bits_kl(n: int, num_queries: int, sigma: float) -> float:
    """Largest KL of all answers' signs over neighbours (replace-one), by the chain rule, nats."""
    plus, minus = _pairs(n, sigma, 1)
    each = np.exp(plus[0]) * (plus[0] - plus[1]) + np.exp(minus[0]) * (minus[0] - minus[1])
    return num_queries * float(each.max())


def linear_vote_kl(n: int, num_queries: int, sigma: float) -> float:
    """Restricted KL of the linear vote for `QueryHull`, the largest over neighbours, in nats.

    ``q_w(x) = w . x / T``, so that mixtures of ``+-(q -> q(x))`` are all ``w -> l . w`` with
    ``|l_t| <= 1 / T``: the value is ``T`` times that of one sign with a slope in that interval.

    >>> linear_vote_kl(100, 320, 0.1) < 0.3 * bits_kl(100, 320, 0.1)
    True
    """
    plus, minus = _pairs(n, sigma, 2)
    free = ((plus[0] - minus[0]) - (plus[1] - minus[1])) / 2
    slope = np.clip(free, -1 / num_queries, 1 / num_queries)
    mean = np.exp(plus[0]) - np.exp(minus[0])
    each = slope * mean - np.logaddexp(plus[1] + slope, minus[1] - slope)
    return num_queries * float(each.max())


def linear_vote_truth(n: int, num_queries: int, sigma: float) -> tuple[float, float]:
    """Exact expected overfitting of the linear vote, and the information of its bits on the data.

    Sums over the mean of ``n`` fair signs; information in nats.

    >>> gap, information = linear_vote_truth(1, 32, 1.0)  # one example, always +-1
    >>> bool(abs(gap - (2 * ndtr(1.0) - 1)) < 1e-12)
    True
    """
    count = np.arange(n + 1)
    mass = stats.binom.pmf(count, n, 0.5)
    mean = 2 * count / n - 1
    plus, minus = ndtr(mean / sigma), ndtr(-mean / sigma)
    gap = float(mass @ (mean * (plus - minus)))
    entropy = -(xlogy(plus, plus) + xlogy(minus, minus))
    return gap, num_queries * max(0.0, math.log(2) - float(mass @ entropy))


def _measure(
    key: PRNGKeyArray,
    sigmas: Float[np.ndarray, " noises"],
    n: int,
    num_queries: int,
    num_datasets: int,
) -> Float[np.ndarray, "datasets noises analysts"]:
    """Mean of the last query on the data, for every dataset, noise and analyst."""

    def one(data: PRNGKeyArray, sigma: Float[Array, ""], window: Float[Array, ""]) -> Array:
        examples_key, noise_key = jax.random.split(data)

        def block(votes: Array, at: Array) -> tuple[Array, None]:
            words = jax.random.bits(jax.random.fold_in(examples_key, at), (n,), jnp.uint32)
            draws = jax.random.normal(jax.random.fold_in(noise_key, at), (_BITS,), sigma.dtype)

            def ask(votes: Array, now: tuple[Array, Array]) -> tuple[Array, None]:
                index, draw = now
                sign = 2 * ((words >> index) & 1).astype(jnp.int32) - 1
                undecided = jnp.abs(votes) <= window
                total = jnp.sum(jnp.where(undecided, sign, 0))
                told = jnp.where(total / n + sigma * draw > 0, 1, -1)
                return votes + told * sign, None

            return jax.lax.scan(ask, votes, (jnp.arange(_BITS, dtype=jnp.uint32), draws))[0], None

        start = jnp.zeros((n,), jnp.int32)
        votes, _ = jax.lax.scan(block, start, jnp.arange(num_queries // _BITS))
        linear, majority = jnp.sum(votes) / n / num_queries, jnp.sum(jnp.sign(votes)) / n
        return jnp.where(jnp.isinf(window), linear, majority)

    # In the order of ANALYSTS; the second asks where the vote is within a standard deviation.
    windows = jnp.asarray([math.inf, math.sqrt(num_queries)])
    over = jax.vmap(jax.vmap(jax.vmap(one, (None, None, 0)), (None, 0, None)), (0, None, None))
    found = jax.jit(over)(jax.random.split(key, num_datasets), jnp.asarray(sigmas), windows)
    return np.asarray(found, np.float64)
