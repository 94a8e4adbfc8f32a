"""Rows that form a Markov chain on a few states: stationary law, gap, and the laws of each row."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.holdout.promise import hoeffding
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.papers.bayesian_dp.bdp import REACH, QuiltedRows, QuiltProfile, quilt_profile
from gibbs_dp.papers.bayesian_dp.row_law import ChainLaw, NodeSet
from gibbs_dp.papers.bounds import adaptive_event_tail
from gibbs_dp.papers.on_average_kl.counterexamples import markov_chain_probs
from gibbs_dp.privacy.composition import Rule, composed_pure_dp, per_release_epsilon

# Detailed balance and stationarity hold to this.
TOLERANCE = 1e-10
# Length of a chain whose ends no quilt reaches.
LONG = 10**15


@dataclass(frozen=True, eq=False)
class MarkovChain(QuiltedRows, ChainLaw):
    """The first ``length`` states of a homogeneous Markov chain, one a row.

    Rows may hold more than their state, as long as what they add depends on the state alone.

    Parameters
    ----------
    transition
        ``P(next | state)``, ``[states, states]``, each row a law.
    length
        Number of rows ``n``.
    start
        Law of the first state; the stationary law by default.

    Raises
    ------
    ValueError
        If a row is not a law, shapes disagree, or the chain is not irreducible and aperiodic.

    Examples
    --------
    >>> chain = MarkovChain([[0.9, 0.1], [0.3, 0.7]], 5)
    >>> chain.stationary.round(6), chain.is_reversible, round(chain.absolute_gap, 6)
    (array([0.75, 0.25]), True, 0.4)
    """

    _kind = "chain"
    transition: ArrayLike
    length: int
    start: ArrayLike | None = None

    def __post_init__(self) -> None:
        checks.count("length", self.length)
        table = np.asarray(self.transition, dtype=np.float64)
        if table.ndim != 2 or table.shape[0] != table.shape[1]:
            raise ValueError(
                f"transition must have shape [states, states], got {list(table.shape)}; give one "
                "row per state."
            )
        for row in table:
            checks.law("transition: each row", row)
        _require_primitive(table)
        if self.start is not None and checks.law("start", self.start).size != table.shape[0]:
            raise ValueError(
                f"start must have {table.shape[0]} entries, one per state, got "
                f"{np.size(self.start)}."
            )

    @cached_property
    def matrix(self) -> Float[np.ndarray, "states states"]:
        """Transition matrix, rows renormalized in their last digits."""
        table = np.asarray(self.transition, dtype=np.float64)
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    @property
    def num_states(self) -> int:
        """Number of states."""
        return int(self.matrix.shape[0])

    @cached_property
    def stationary(self) -> Float[np.ndarray, " states"]:
        """The law that a step leaves unchanged."""
        size = self.num_states
        equations = np.vstack([self.matrix.T - np.eye(size), np.ones((1, size))])
        right = np.append(np.zeros(size), 1.0)
        found = np.clip(np.linalg.lstsq(equations, right, rcond=None)[0], 0.0, None)
        return np.asarray(found / found.sum())

    @cached_property
    def start_law(self) -> Float[np.ndarray, " states"]:
        """Law of the first row."""
        return self.stationary if self.start is None else checks.law("start", self.start)

    @cached_property
    def is_stationary(self) -> bool:
        """Whether every row has the stationary law."""
        return bool(np.allclose(self.start_law, self.stationary, rtol=0, atol=TOLERANCE))

    @cached_property
    def is_reversible(self) -> bool:
        """Whether ``pi(x) P(x, y) = pi(y) P(y, x)``."""
        flow = self.stationary[:, None] * self.matrix
        return bool(np.allclose(flow, flow.T, rtol=0, atol=TOLERANCE))

    @cached_property
    def absolute_gap(self) -> float:
        """``1 - max(|lambda_2|, |lambda_min|)``, of a reversible chain.

        Raises
        ------
        ValueError
            If the chain is not reversible.
        """
        if not self.is_reversible:
            raise ValueError(
                "transition: it is not reversible, and the spectral forms are proved for "
                "reversible chains; use the exact form."
            )
        root = np.sqrt(self.stationary)
        symmetric = root[:, None] * self.matrix / root
        values = np.sort(np.abs(np.linalg.eigvalsh((symmetric + symmetric.T) / 2)))
        return float(1 - (values[-2] if values.size > 1 else 0.0))

    def marginal(self, row: int) -> Float[np.ndarray, " states"]:
        """Law of a row, counted from 0.

        Raises
        ------
        ValueError
            If there is no such row.
        """
        if not 0 <= row < self.length:
            raise ValueError(f"row must lie in 0..{self.length - 1}, got {row}.")
        if self.is_stationary:
            return self.stationary
        return np.asarray(self.start_law @ np.linalg.matrix_power(self.matrix, row))

    def blanket(self, row: int) -> NodeSet:
        """Markov blanket: the rows next to it."""
        self.marginal(row)
        return frozenset({row - 1, row + 1} & set(range(self.length)))

    def quilts(self, row: int) -> dict[NodeSet, NodeSet]:
        """Every Markov quilt of a row and its nearby set, the trivial one (empty quilt) first.

        ``{row - a, row + b}``, or one of the two, and as nearby all that is not beyond them.
        """
        self.marginal(row)
        found = {}
        for low in (None, *range(row - 1, -1, -1)):
            for high in (None, *range(row + 1, self.length)):
                first = 0 if low is None else low + 1
                last = self.length if high is None else high
                quilt = frozenset(v for v in (low, high) if v is not None)
                found[quilt] = frozenset(range(first, last)) - {row}
        return found

    def joint(self) -> Float[np.ndarray, ...]:
        """Law of all rows, an axis each: small chains only.

        Raises
        ------
        ValueError
            If there are too many datasets.
        """
        probs = markov_chain_probs(self.start_law, self.matrix, self.length)
        return probs.reshape((self.num_states,) * self.length)


@dataclass(frozen=True)
class ReversibleChainRows:
    """Rows that form a stationary reversible Markov chain: ``2 exp(-2 n tau^2 (1-l)/(1+l))``.

    ``l = 1 - absolute_gap`` (Fan, Jiang & Sun 2021, Thm 1).

    Parameters
    ----------
    absolute_gap
        ``1 - max(|lambda_2|, |lambda_min|)``, as of `MarkovChain.absolute_gap`.
    bdp
        Function ``(n, dp_epsilon) -> Bayesian DP`` of a ``dp_epsilon``-DP mechanism on them.

    Raises
    ------
    ValueError
        If the gap is not in ``(0, 1]``.

    Examples
    --------
    >>> rows = ReversibleChainRows(0.1, lambda n, epsilon: n * epsilon)  # flips one row in 20
    >>> round(rows.tail(200, 0.1), 3)
    1.0
    """

    absolute_gap: float
    bdp: Callable[[int, float], float]

    def __post_init__(self) -> None:
        if not 0 < self.absolute_gap <= 1:
            raise ValueError(
                f"absolute_gap must lie in (0, 1], got {self.absolute_gap}; a chain without a gap "
                "does not forget, and nothing concentrates."
            )

    @property
    def variance_inflation(self) -> float:
        """``(1 + l)/(1 - l)``: rows per effective row."""
        return (2 - self.absolute_gap) / self.absolute_gap

    def tail(self, n: int, tau: float) -> float:
        """Bound on ``P[|E_S phi - P phi| > tau]`` for one fixed query into [0, 1]."""
        return min(1.0, 2 * math.exp(-2 * n * tau**2 / self.variance_inflation))

    def deviation(self, n: int, log_probability: float) -> float:
        """Invert `tail`."""
        return hoeffding(n / self.variance_inflation, log_probability)

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Evaluate ``bdp``."""
        return self.bdp(n, dp_epsilon)


def chain_rows(chain: MarkovChain, *, reach: int = REACH) -> ReversibleChainRows:
    """Declare that rows form this chain, at every length: its gap, and Lemma 4.

    Parameters
    ----------
    chain
        Stationary and reversible; its own length does not matter.
    reach
        As in `bdp_epsilon`.

    Returns
    -------
    ReversibleChainRows
        For ``rows=`` of promises and plans.

    Raises
    ------
    ValueError
        If it is not stationary or not reversible.

    Examples
    --------
    >>> rows = chain_rows(MarkovChain([[0.7, 0.3], [0.3, 0.7]], 100))
    >>> round(rows.variance_inflation, 6), round(rows.bdp_epsilon(100, 0.01), 6)
    (2.333333, 0.132938)
    """
    if not chain.is_stationary:
        raise ValueError("chain: it does not start from its stationary law; leave start out.")

    @cache
    def profile(n: int) -> QuiltProfile:
        return quilt_profile(MarkovChain(chain.transition, n), reach=reach)

    short = 4 * (reach + chain.num_states**2)

    def bdp_epsilon(n: int, dp_epsilon: float) -> float:
        if n <= short:
            return profile(n).bdp_epsilon(dp_epsilon)
        # Beyond, rows in a much longer chain have the same quilts, but for those of about n rows.
        return min(profile(LONG).bdp_epsilon(dp_epsilon), n * dp_epsilon)

    return ReversibleChainRows(chain.absolute_gap, bdp_epsilon)


def _require_primitive(table: Float[np.ndarray, "states states"]) -> None:
    """Refuse chains that are reducible or periodic."""
    size = table.shape[0]
    step = (table > 0).astype(np.int64)
    reach = np.linalg.matrix_power(np.eye(size, dtype=np.int64) + step > 0, max(1, size - 1))
    if not np.all(reach):
        raise ValueError(
            "transition: the chain is not irreducible (some state cannot be reached from some "
            "other); model its parts separately."
        )
    power = step
    # Wielandt: a primitive matrix is positive from the power (s - 1)^2 + 1 on.
    for _ in range(math.ceil(math.log2((size - 1) ** 2 + 1)) + 1):
        power = (power @ power > 0).astype(np.int64)
    if not np.all(power):
        raise ValueError(
            "transition: the chain is periodic, so rows never forget when they were; make some "
            "state able to stay, or model every other row."
        )


# Adaptive queries on dependent rows: what holds, and the printed theorem that does not.
#
# Max-information of a Bayesian-DP algorithm is bounded whatever the rows' law (Zhao 2019, Thm 3).
# What remains is how one fixed query concentrates, and there Hoeffding's inequality for independent
# rows fails.


def dependent_event_tail(n: int, *, fixed_tail: float, bdp_epsilon: float) -> float:
    """Bound ``P[S in R(A(S))]``: the best ``2^k fixed_tail + beta`` over ``beta``.

    `adaptive_event_tail` with Bayesian DP in place of DP, which is all that its max-information
    needs of the rows' dependence; the tail of the fixed event must hold for the dependent law.

    >>> round(dependent_event_tail(1000, fixed_tail=1e-6, bdp_epsilon=0.05), 6)
    7.1e-05
    """
    return adaptive_event_tail(n, fixed_tail=fixed_tail, epsilon=bdp_epsilon)


def chain_tail(chain: MarkovChain, tau: float) -> float:
    """``2 exp(-2 n tau^2 (1 - l)/(1 + l))`` for a fixed query, ``l = 1 - absolute gap``.

    Fan, Jiang & Sun 2021, Thm 1: a stationary reversible chain, any query into [0, 1].
    """
    checks.nonnegative("tau", tau)
    if not chain.is_stationary:
        raise ValueError("chain: it does not start from its stationary law; leave start out.")
    gap = chain.absolute_gap
    return min(1.0, 2 * math.exp(-2 * chain.length * tau**2 * gap / (2 - gap)))


def printed_fixed_tail(n: int, tau: float) -> float:
    """**As printed**: ``2 exp(-2 n tau^2)`` for a fixed query on arbitrarily dependent rows.

    False without independence: `copied_rows_tail` and `two_state_tail` exceed it.

    Examples
    --------
    >>> round(printed_fixed_tail(200, 0.1), 3)
    0.037
    """
    return min(1.0, 2 * math.exp(-2 * checks.count("n", n) * tau**2))


def copied_rows_tail(tau: float, probability: float = 0.5) -> float:
    """``P[|E_S phi - P phi| >= tau]``, exactly, where all rows are copies of one bit.

    An algorithm that ignores the rows has Bayesian DP of 0, and nothing concentrates.

    Examples
    --------
    >>> copied_rows_tail(0.4)
    1.0
    """
    p = checks.unit_interval("probability", probability)
    return p * float(1 - p >= tau) + (1 - p) * float(p >= tau)


def two_state_tail(flip: float, n: int, tau: float) -> float:
    """``P[|mean - 1/2| >= tau]``, exactly, for a stationary bit that flips at this rate.

    By the law of the count of ones, a convolution over rows.

    Parameters
    ----------
    flip
        Probability that a row differs from the one before, in ``(0, 1)``.
    n
        Number of rows.
    tau
        Deviation.

    Returns
    -------
    float
        The probability.

    Examples
    --------
    >>> round(two_state_tail(0.05, 200, 0.1), 3)
    0.53
    """
    checks.unit_interval("flip", flip, open_left=True)
    checks.count("n", n)
    law = np.zeros((2, n + 1))  # [bit, ones so far]
    law[0, 0] = law[1, 1] = 0.5
    for _ in range(n - 1):
        zero = (1 - flip) * law[0] + flip * law[1]
        one = flip * law[0] + (1 - flip) * law[1]
        law = np.stack([zero, np.concatenate([[0.0], one[:-1]])])
    return _outside(law.sum(axis=0), tau)


def independent_tail(n: int, tau: float) -> float:
    """`two_state_tail` for independent fair bits."""
    from scipy.stats import binom  # slow to import

    return _outside(np.asarray(binom.pmf(np.arange(n + 1), n, 0.5)), tau)


def _outside(count_law: Float[np.ndarray, " counts"], tau: float) -> float:
    n = count_law.size - 1
    far = np.abs(np.arange(n + 1) / n - 0.5) >= tau - 1e-12
    return float(count_law[far].sum())


# Many counting queries under one budget: their error, and how many a table can answer.
#
# A counting query asks for the fraction of rows with a property. Replacing a row moves it by
# ``1/n``; Laplace noise of scale ``1/(n eps_0)`` makes one answer ``eps_0``-DP under replace-one.


def counting_sensitivity(
    num_queries: int, adjacency: Adjacency, *, is_disjoint: bool = False
) -> float:
    """L1 sensitivity of ``m`` counts taken together.

    Disjoint counts (a histogram): 1 under add/remove, 2 under replace-one; any others: ``m``.

    >>> counting_sensitivity(10, "replace-one", is_disjoint=True)
    2.0
    """
    m = checks.count("num_queries", num_queries)
    checks.adjacency(adjacency)
    if not is_disjoint:
        return float(m)
    # A single count moves by 1 when a row is exchanged; two disjoint ones move by 1 each.
    return 2.0 if adjacency == "replace-one" and m > 1 else 1.0


def counting_error(
    num_queries: int, n: int, *, epsilon: float, delta: float, rule: Rule, worst: bool = False
) -> float:
    """Compute the expected absolute error of noise in ``m`` fractions, under one total budget."""
    each = per_release_epsilon(num_queries, epsilon, delta=delta, rule=rule)
    scale = 1 / (checks.count("n", n) * each)
    return scale * (math.fsum(1 / j for j in range(1, num_queries + 1)) if worst else 1.0)


def answerable_queries(n: int, *, epsilon: float, delta: float, rule: Rule) -> int:
    """Count the queries that ``n`` rows answer before noise exceeds sampling error."""
    needed = 2 * math.sqrt(2 / checks.count("n", n))  # smallest eps_0

    def enough(m: int) -> bool:
        return composed_pure_dp(m, needed, delta=delta, rule=rule) <= epsilon

    if not enough(1):
        return 0
    low, high = 1, 2
    while enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
