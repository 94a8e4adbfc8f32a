"""How much one row of a Markov chain tells about rows at a distance: exact and spectral.

Lemma 4's quilt ``{i-a, i+b}``. Each side is a matrix over pairs ``(x, x')`` of values of row
``i``; sides are added for the same pair, then maximized over pairs. Exact where the start law
excludes no state; otherwise excluded values of earlier rows are counted, which is an upper bound.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from jaxtyping import Float

from gibbs_dp.papers.bayesian_dp.row_law import ChainLaw

Form = Literal["exact", "spectral", "contraction"]
Pairs = Float[np.ndarray, "states states"]
Sides = Float[np.ndarray, "lags states states"]


class ChainInfluence:
    """Max-influence of a row on a quilt, for adversaries who may know any other rows.

    Parameters
    ----------
    chain
        The rows.
    reach
        Largest distance of a quilt from its row.
    knows_others
        Whether the adversary may know rows beyond the quilt (Bayesian DP), or nothing but the
        model (Pufferfish).

    Examples
    --------
    >>> from gibbs_dp.holdout import MarkovChain
    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]], 4)
    >>> round(float(ChainInfluence(chain, 3).two_sided(1)[0, 0]), 6)  # 2 log 9 + log(0.82/0.18)
    5.910797
    """

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

    Parameters
    ----------
    chain
        Reversible.
    lag
        Distance of the quilt's node.
    knows_others
        Whether the adversary may know rows beyond it.
    is_past
        Whether the node comes before the row.

    Returns
    -------
    float
        Bound in nats; ``inf`` where the row is too near.

    Raises
    ------
    ValueError
        If the chain is not reversible.

    Examples
    --------
    >>> from gibbs_dp.holdout import MarkovChain
    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]], 100)
    >>> round(spectral_side(chain, 20, knows_others=True, is_past=False), 6)
    0.074638
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
