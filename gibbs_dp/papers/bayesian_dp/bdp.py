"""Bayesian differential privacy of a DP mechanism on dependent rows: Lemmas 2, 3 and 4.

Zhao 2019 (*Adaptive statistical learning with Bayesian differential privacy*), with the supremum
over everything that the adversary may know. Nats; the mechanism's DP is replace-one.

Of a Markov chain, Lemma 4's quilt is ``{i-a, i+b}``. Each side is a matrix over pairs ``(x, x')``
of values of row ``i``; sides are added for the same pair, then maximized over pairs. Exact where
the start law excludes no state; otherwise excluded values of earlier rows are counted, which is an
upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.sparse import csgraph

from gibbs_dp.information import checks
from gibbs_dp.papers.bayesian_dp.row_law import (
    MAX_ROWS,
    ChainLaw,
    Factor,
    FactorLaw,
    NodeSet,
    RowLaw,
    adversaries,
    max_influence,
)

Form = Literal["exact", "spectral", "contraction"]
Pairs = Float[np.ndarray, "states states"]
Sides = Float[np.ndarray, "lags states states"]


class ChainInfluence:
    """Max-influence of a row on a quilt, for adversaries who may know any other rows."""

    def __init__(self, chain: ChainLaw, reach: int, knows_others: bool = True) -> None:
        self.chain = chain
        self.knows_others = knows_others
        self.reach = max(1, min(reach, chain.length - 1))
        # Beyond this lag all powers are positive, and what is further away tells less.
        self.memory = self.reach + (chain.num_states - 1) ** 2 + 2
        self._powers = _powers(chain.matrix, self.memory)
        # [lag, x, x']: what the quilt's node tells, and what a known node beyond it adds.
        self._future_told, self._future_known = _pair_ratios(self._powers)
        self._past_told, self._past_known = _pair_ratios(self._powers.transpose(0, 2, 1))

    def future(self, row: int) -> Sides:
        """Sides of the nodes ``row + b``, ``b`` from 1, ``[b, states, states]``."""
        count = min(self.reach, self.chain.length - 1 - row)
        side = self._future_told[1 : count + 1]
        if not self.knows_others:
            return side
        last = min(self.chain.length - 1 - row, self.memory)
        return side + np.maximum(_beyond(self._future_known, count, last), 0.0)

    def past(self, row: int) -> Sides:
        """Sides of the nodes ``row - a``, ``a`` from 1, ``[a, states, states]``."""
        count = min(self.reach, row)
        law = self.chain.marginal(row)
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.log(law)[None, :] - np.log(law)[:, None]  # log mu(x')/mu(x)
        known = own
        if self.knows_others:
            known = np.maximum(own, _beyond(self._past_known, count, min(row, self.memory)))
        return self._past_told[1 : count + 1] + known

    def two_sided(self, row: int) -> Float[np.ndarray, "past future"]:
        """Influence on ``{row - a, row + b}`` for all ``a`` and ``b`` from 1."""
        both = self.past(row)[:, None] + self.future(row)[None]
        return self._largest(both, row)

    def one_sided(
        self, row: int
    ) -> tuple[Float[np.ndarray, " past"], Float[np.ndarray, " future"]]:
        """Influence on ``{row - a}`` alone, and on ``{row + b}`` alone."""
        return self._largest(self.past(row), row), self._largest(self.future(row), row)

    def _largest(self, sides: Float[np.ndarray, "*b s s"], row: int) -> Float[np.ndarray, "*b"]:
        """Maximum over pairs of values that the row can have, at least 0."""
        possible = self.chain.marginal(row) > 0
        both = possible[:, None] & possible[None, :]
        return np.asarray(np.where(both, sides, 0.0).max(axis=(-2, -1), initial=0.0))


def spectral_side(chain: ChainLaw, lag: int, *, knows_others: bool, is_past: bool) -> float:
    """Bound of one side by the absolute spectral gap, for long reversible chains, nats.

    ``2 ln(1/(1 - D))``, ``D = e^{-g lag}/pi_min``: any start and anything known. Only for an
    adversary who knows nothing beyond, and a stationary start where the side is the past, the
    single count ``ln((pi_min + e^{-g lag})/(pi_min - e^{-g lag}))``, which is **[as printed]** for
    everyone.
    """
    lowest = float(chain.stationary.min())
    far = math.exp(-chain.absolute_gap * lag) / lowest
    if far >= 1:
        return math.inf
    if knows_others or (is_past and not chain.is_stationary):
        return -2 * math.log1p(-far)
    return math.log1p(far) - math.log1p(-far)


def _powers(matrix: Pairs, last: int) -> Sides:
    """``P^0 .. P^last``."""
    found = [np.eye(matrix.shape[0])]
    for _ in range(last):
        found.append(found[-1] @ matrix)
    return np.stack(found)


def _pair_ratios(laws: Float[np.ndarray, "lags states outcomes"]) -> tuple[Sides, Sides]:
    """``max_q log l(x,q)/l(x',q)``; and the negative, over outcomes that both rows allow.

    The first is infinite where ``x`` allows what ``x'`` excludes; the second asks which outcome,
    once known, speaks most for ``x`` in the ratio's denominator: ``log l(x',q)/l(x,q)``.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(laws)
    here, other = logs[:, :, None, :], logs[:, None, :, :]
    with np.errstate(invalid="ignore"):
        ratio = here - other
    told = np.where(np.isneginf(here), -np.inf, ratio)  # impossible outcomes do not count
    both = np.isfinite(here) & np.isfinite(other)
    known = np.where(both, -ratio, -np.inf)
    return told.max(axis=3), known.max(axis=3)


def _beyond(sides: Sides, count: int, last: int) -> Float[np.ndarray, "some states states"]:
    """Largest entry over lags above ``t`` and up to ``last``, for ``t`` from 1 to ``count``."""
    empty = np.full((1, *sides.shape[1:]), -np.inf)
    padded = np.concatenate([sides[: last + 1], empty])
    suffix = np.maximum.accumulate(padded[::-1], axis=0)[::-1]  # from each lag on
    return np.asarray(suffix[2 : count + 2])


# Max-influence on quilts of networks of any size: an upper bound by contraction.
#
# For two values ``x, x'`` of row ``i``, what the rest of the network says is a likelihood ratio,
# and the max-influence on ``Q`` given ``K`` is at most the largest change of its log when ``x_Q``
# is observed beside ``x_K`` (Hilbert's projective distance of two messages to ``i``). Call its
# supremum over all ``K``, all values and all weights of single rows ``D(i)``. Then
#
#     D(i) <= sum over factors f of i: F(Delta_f, sum over other members j of f: D(j without f)),
#     F(Delta, D) = 4 artanh(tanh(Delta/4) tanh(D/4)),
#
# with ``D = inf`` at rows of ``Q``, 0 at rows of ``K``, and ``Delta_f`` the factor's projective
# diameter (`Factor.spreads`). Why: (1) moving from ``x`` to ``x'`` one factor at a time, each
# factor with a copy of ``i`` of its own, splits the log ratio into a sum (Weitz 2006 does so for
# two values); (2) a factor maps messages of its other members to one for ``i``, and contracts
# Hilbert's distance as Birkhoff's theorem says, of which ``F`` is the form for a given distance
# (the extreme case has two values); (3) the message of several members moves no more than the sum
# of what each moves while the others are fixed, which only adds to ``K``; (4) fixing a row makes
# the diameters of its factors no larger. Unrolled, this is a sum over paths; walks that do not turn
# back at once are no fewer, so that messages along them, started from infinity, bound it at every
# step, whatever the loops. In a tree they are the same paths.

# Rows whose distances to all others are held at once.
CHUNK = 256

Grid = Float[np.ndarray, "radii rows"]
Slots = Float[np.ndarray, " slots"]


def contract(diameter: Slots, distance: Slots) -> Slots:
    """Hilbert distance behind a factor: ``4 artanh(tanh(diameter/4) tanh(distance/4))``."""
    low, high = np.minimum(diameter, distance), np.maximum(diameter, distance)
    small = np.where(low < 1, low, 0.0)
    exact = 4 * np.arctanh(np.tanh(small / 4) * np.tanh(high / 4))
    with np.errstate(invalid="ignore"):
        apart = np.where(np.isinf(high), np.inf, high - low)
    # The same without tanh, which rounds to 1.
    large = low + 2 * np.log1p(np.exp(-(low + high) / 2)) - 2 * np.log1p(np.exp(-apart / 2))
    return np.asarray(np.where(low < 1, exact, large))


def sphere_influences(factors: list[Factor], num_rows: int, reach: int) -> tuple[Grid, Grid]:
    """Bound the max-influence of each row on the rows at each distance, whatever is known."""
    members = [(f, v) for f, factor in enumerate(factors) for v in factor.scope]
    home, row = np.array(members, dtype=np.int64).T
    diameter = np.concatenate([factor.spreads() for factor in factors])
    ones = np.ones(row.size)
    slots = np.arange(row.size)
    by_factor = sparse.csr_array((ones, (home, slots)), (len(factors), row.size))
    by_row = sparse.csr_array((ones, (row, slots)), (num_rows, row.size))
    others_of_factor = _without_diagonal(by_factor.T @ by_factor)
    others_of_row = _without_diagonal(by_row.T @ by_row)
    is_leaf = np.diff(others_of_row.indptr) == 0
    found: list[Grid] = []
    for start in (np.full(row.size, np.inf), np.where(is_leaf, 0.0, np.inf)):
        distance, radii = start, []
        for _ in range(reach):
            told = contract(diameter, others_of_factor @ distance)
            radii.append(by_row @ told)
            distance = others_of_row @ told
        found.append(np.stack(radii))
    return found[0], found[1]


def sphere_counts(factors: list[Factor], num_rows: int, reach: int) -> tuple[Grid, Grid, Grid]:
    """Count rows within distances of each row."""
    members = [(f, v) for f, factor in enumerate(factors) for v in factor.scope]
    home, row = np.array(members, dtype=np.int64).T
    incidence = sparse.csr_array((np.ones(row.size), (home, row)), (len(factors), num_rows))
    graph = sparse.csr_array(incidence.T @ incidence)
    _, label = csgraph.connected_components(graph, directed=False)
    connected = np.bincount(label)[label].astype(np.float64)
    is_leaf = np.bincount(row, minlength=num_rows) == 1
    inner = np.empty((reach, num_rows))
    leaves = np.empty((reach, num_rows))
    for first in range(0, num_rows, CHUNK):
        some = np.arange(first, min(first + CHUNK, num_rows))
        away = csgraph.dijkstra(graph, directed=False, indices=some, unweighted=True, limit=reach)
        inner[:, some] = np.cumsum(_histograms(away, reach), axis=1)[:, :reach].T
        at = _histograms(np.where(is_leaf, away, np.inf), reach)
        leaves[:, some] = at[:, 1:].T
    return inner, inner + leaves, np.broadcast_to(connected, inner.shape)


def _histograms(away: Float[np.ndarray, "some rows"], reach: int) -> Int[np.ndarray, "some far"]:
    """How many rows are at each distance from 0 to ``reach``."""
    where, _ = near = np.nonzero(np.isfinite(away))
    far = away[near].astype(np.int64)
    flat = np.bincount(where * (reach + 1) + far, minlength=away.shape[0] * (reach + 1))
    return flat.reshape(away.shape[0], reach + 1)


def _without_diagonal(matrix: Any) -> sparse.csr_array:
    found = sparse.csr_array(matrix - sparse.diags_array(matrix.diagonal()))
    found.eliminate_zeros()
    return found


Lemma = Literal[2, 3, 4]
REACH = 128


@dataclass(frozen=True, eq=False)
class QuiltProfile:
    r"""For each adversary or row, what each quilt costs: ``counts * epsilon + influences``."""

    # ``|N| + 1`` (or ``|N \ K| + 1``), ``[groups, quilts]``.
    counts: Float[np.ndarray, "groups quilts"]
    # Nats, ``[groups, quilts]``; infinite where a group has fewer quilts.
    influences: Float[np.ndarray, "groups quilts"]
    # How the influences were found: "exact", or "spectral" or "contraction", which are upper
    # bounds.
    form: Form = "exact"

    def bdp_epsilon(self, dp_epsilon: float) -> float:
        """``max over groups, min over quilts`` of the cost."""
        checks.nonnegative("dp_epsilon", dp_epsilon)
        return float((self.counts * dp_epsilon + self.influences).min(axis=1).max())

    def noise_scale(self, epsilon: float) -> float:
        """``max over groups, min over quilts`` of ``counts / (epsilon - influences)``."""
        room = checks.positive("epsilon", epsilon) - self.influences
        with np.errstate(divide="ignore"):
            scales = np.where(room > 0, self.counts / np.where(room > 0, room, 1.0), np.inf)
        return float(scales.min(axis=1).max())


class QuiltedRows(RowLaw):
    """Rows whose Bayesian DP is known, on as many rows as the law has."""

    _kind = ""  # what a message calls the law

    @cached_property
    def _quilt_profile(self) -> QuiltProfile:
        return quilt_profile(self)

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Bayesian DP, on these ``n`` rows, of a ``dp_epsilon``-DP (replace-one) mechanism.

        As `gibbs_dp.papers.bayesian_dp.bdp_epsilon`, by Lemma 4 for a chain and Lemma 2 for a
        network. For ``rows=`` of `gibbs_dp.privacy.account`.

        Raises
        ------
        ValueError
            If ``n`` is not the number of these rows.
        """
        if n != self.length:
            raise ValueError(
                f"rows: the {self._kind} has {self.length} rows and the dataset {n}; give one of "
                "the dataset's length."
            )
        return self._quilt_profile.bdp_epsilon(dp_epsilon)


def bdp_epsilon(
    dp_epsilon: float,
    model: RowLaw,
    *,
    lemma: Lemma | None = None,
    form: Form | None = None,
    reach: int = REACH,
) -> float:
    """Bayesian DP of any ``dp_epsilon``-DP mechanism on rows of a model, against every adversary.

    Parameters
    ----------
    dp_epsilon
        Pure DP, replace-one, nats.
    model
        A `MarkovChain`, a `BayesianNetwork` or a `MarkovNetwork`.
    lemma
        2: every quilt against every ``K`` (small models; the tightest). 3: the blanket alone. 4:
        chains of any length, from transition powers. By default 4 for a chain and 2 for a network.
    form
        How influences are found. "exact": by enumeration, or Lemma 4's powers. "spectral": Lemma 4
        for reversible chains, from the gap alone. "contraction": Lemmas 2 and 3 for networks of any
        size, on quilts that are spheres, with the upper bound of `contraction` on influences.
        "exact" by default, "contraction" for networks of more than 10 rows.
    reach
        Largest distance of a quilt that Lemma 4 and "contraction" look at; a larger one can only
        be tighter.

    Returns
    -------
    float
        Nats; at most ``n dp_epsilon`` but for Lemma 3.

    Raises
    ------
    ValueError
        If the lemma is not for this model, the model is too large to enumerate, or a spectral form
        is asked of a chain that is not reversible.

    Examples
    --------
    >>> from gibbs_dp.papers.bayesian_dp import MarkovChain
    >>> chain = MarkovChain([[0.7, 0.3], [0.3, 0.7]], 100)
    >>> round(bdp_epsilon(0.01, chain), 6), round(bdp_epsilon(0.01, chain, form="spectral"), 6)
    (0.132938, 0.206297)
    """
    profile = quilt_profile(model, lemma=lemma, form=form, reach=reach)
    return profile.bdp_epsilon(dp_epsilon)


def quilt_profile(
    model: RowLaw,
    *,
    lemma: Lemma | None = None,
    form: Form | None = None,
    reach: int = REACH,
    knows_others: bool = True,
) -> QuiltProfile:
    """Compute the costs of all quilts once, for use at many epsilons.

    Parameters
    ----------
    model, lemma, form, reach
        As in `bdp_epsilon`.
    knows_others
        Whether the adversary may know other rows; False is the adversary of Pufferfish privacy,
        who knows the model alone.

    Returns
    -------
    QuiltProfile
        Costs of all quilts, for each adversary or row.

    Raises
    ------
    ValueError
        As in `bdp_epsilon`.
    """
    chosen = lemma or (4 if isinstance(model, ChainLaw) else 2)
    if chosen not in (2, 3, 4):
        raise ValueError(f"lemma must be 2, 3 or 4, got {lemma}.")
    if form is None:
        is_large = isinstance(model, FactorLaw) and model.length > MAX_ROWS
        form = "contraction" if is_large and chosen != 4 else "exact"
    if form not in ("exact", "spectral", "contraction"):
        raise ValueError(f"form must be 'exact', 'spectral' or 'contraction', got {form!r}.")
    checks.count("reach", reach)
    if form == "contraction":
        if not isinstance(model, FactorLaw) or chosen == 4:
            raise ValueError(
                "form: contraction is for Lemmas 2 and 3 on a BayesianNetwork or MarkovNetwork; "
                "use 'exact'."
            )
        return _sphere_profile(model, 1 if chosen == 3 else reach, only_blanket=chosen == 3)
    if chosen == 4 and isinstance(model, ChainLaw):
        return _stack(_chain_groups(model, form, reach, knows_others), form)
    if chosen == 4 or form == "spectral":
        raise ValueError("lemma: Lemma 4 and its spectral form are for a MarkovChain; use 2 or 3.")
    return _stack(_enumerated_groups(model, chosen == 3, knows_others), form)


def _sphere_profile(model: FactorLaw, reach: int, only_blanket: bool) -> QuiltProfile:
    """Quilts around each row, at every distance; ``|N|`` for ``|N minus K|``, for any ``K``."""
    n = model.length
    # Beyond the longest path nothing is left.
    reach = min(reach, n)
    told = sphere_influences(model.factors, n, reach)
    inner, with_leaves, connected = sphere_counts(model.factors, n, reach)
    if only_blanket:
        return QuiltProfile(inner.T, told[0].T, "contraction")
    sizes = [inner, with_leaves, connected[:1]]
    influences = [
        *(np.where(c == connected, 0.0, t) for c, t in zip(sizes, told, strict=False)),
        np.zeros((1, n)),
    ]
    return QuiltProfile(np.concatenate(sizes).T, np.concatenate(influences).T, "contraction")


def _enumerated_groups(
    model: RowLaw, only_blanket: bool, knows_others: bool
) -> Iterator[list[tuple[float, float]]]:
    law = model.joint()
    pairs: Iterable[tuple[int, NodeSet]] = adversaries(model.length)
    if not knows_others:
        pairs = [(i, frozenset()) for i in range(model.length)]
    quilts: list[dict[NodeSet, NodeSet]] = [
        {model.blanket(i): frozenset()} if only_blanket else model.quilts(i)
        for i in range(model.length)
    ]
    for i, known in pairs:
        yield [
            (len(near - known) + 1.0, max_influence(law, i, quilt - known, known))
            for quilt, near in quilts[i].items()
        ]


def _chain_groups(
    chain: ChainLaw, form: Form, reach: int, knows_others: bool
) -> Iterator[list[tuple[float, float]]]:
    """One group per kind of row; rows far from both ends of a stationary chain are one kind."""
    n = chain.length
    exact = ChainInfluence(chain, reach, knows_others) if form == "exact" else None
    near = exact.memory if exact is not None else reach
    seen = set()
    for row in _kinds_of_rows(chain, near):
        before, after = min(row, near), min(n - 1 - row, near)
        # The law of late rows has settled, to the last digits that are compared.
        kind = (before, after, chain.marginal(row).round(12).tobytes())
        if kind in seen:
            continue
        seen.add(kind)
        if exact is not None:
            both, (past, future) = exact.two_sided(row), exact.one_sided(row)
        else:
            sides = [
                np.array(
                    [
                        spectral_side(chain, t, knows_others=knows_others, is_past=is_past)
                        for t in range(1, count + 1)
                    ]
                )
                for is_past, count in ((True, before), (False, after))
            ]
            past, future = sides
            both = past[:, None] + future[None]
        yield _row_group(n, row, both, past, future, is_inner=before == near == after)


def _kinds_of_rows(chain: ChainLaw, near: int) -> Iterable[int]:
    """Rows to look at: all, or of a long stationary chain the two ends and one row between."""
    n = chain.length
    if not chain.is_stationary or n <= 2 * near + 1:
        return range(n)
    return [*range(near + 1), *range(n - near, n)]


def _row_group(
    n: int,
    row: int,
    both: Float[np.ndarray, "past future"],
    past: Float[np.ndarray, " past"],
    future: Float[np.ndarray, " future"],
    is_inner: bool,
) -> list[tuple[float, float]]:
    """Quilts of one row, trivial one included, without those that another beats in both costs."""
    a, b = np.arange(1, past.size + 1), np.arange(1, future.size + 1)
    counts = [(a[:, None] + b - 1).ravel(), np.array([n])]
    influences = [both.ravel(), np.zeros(1)]
    if not is_inner:  # what a one-sided quilt costs depends on the row itself
        counts += [n - 1 - row + a, row + b]
        influences += [past, future]
    size, told = np.concatenate(counts), np.concatenate(influences)
    order = np.lexsort((told, size))
    best, kept = np.inf, []
    for k in order:
        if told[k] < best:
            best = told[k]
            kept.append((float(size[k]), float(told[k])))
    return kept


def _stack(groups: Iterable[list[tuple[float, float]]], form: Form) -> QuiltProfile:
    rows = list(groups)
    width = max(len(row) for row in rows)
    counts, influences = np.ones((len(rows), width)), np.full((len(rows), width), np.inf)
    for i, row in enumerate(rows):
        counts[i, : len(row)], influences[i, : len(row)] = zip(*row, strict=True)
    return QuiltProfile(counts, influences, form)
