r"""Max-influence on quilts of networks of any size: an upper bound by contraction.

For two values ``x, x'`` of row ``i``, what the rest of the network says is a likelihood ratio, and
the max-influence on ``Q`` given ``K`` is at most the largest change of its log when ``x_Q`` is
observed beside ``x_K`` (Hilbert's projective distance of two messages to ``i``). Call its supremum
over all ``K``, all values and all weights of single rows ``D(i)``. Then

    D(i) <= sum over factors f of i: F(Delta_f, sum over other members j of f: D(j without f)),
    F(Delta, D) = 4 artanh(tanh(Delta/4) tanh(D/4)),

with ``D = inf`` at rows of ``Q``, 0 at rows of ``K``, and ``Delta_f`` the factor's projective
diameter (`Factor.spreads`). Why: (1) moving from ``x`` to ``x'`` one factor at a time, each factor
with a copy of ``i`` of its own, splits the log ratio into a sum (Weitz 2006 does so for two
values); (2) a factor maps messages of its other members to one for ``i``, and contracts Hilbert's
distance as Birkhoff's theorem says, of which ``F`` is the form for a given distance (the extreme
case has two values); (3) the message of several members moves no more than the sum of what each
moves while the others are fixed, which only adds to ``K``; (4) fixing a row makes the diameters of
its factors no larger. Unrolled, this is a sum over paths; walks that do not turn back at once are
no fewer, so that messages along them, started from infinity, bound it at every step, whatever
the loops. In a tree they are the same paths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.sparse import csgraph

from gibbs_dp.adaptive.factors import Factor

# Rows whose distances to all others are held at once.
CHUNK = 256

Grid = Float[np.ndarray, "radii rows"]
Slots = Float[np.ndarray, " slots"]


def contract(diameter: Slots, distance: Slots) -> Slots:
    """Hilbert distance behind a factor: ``4 artanh(tanh(diameter/4) tanh(distance/4))``.

    >>> contract(np.array([1.0, np.inf, np.inf]), np.array([np.inf, 2.0, np.inf]))
    array([ 1.,  2., inf])
    """
    low, high = np.minimum(diameter, distance), np.maximum(diameter, distance)
    small = np.where(low < 1, low, 0.0)
    exact = 4 * np.arctanh(np.tanh(small / 4) * np.tanh(high / 4))
    with np.errstate(invalid="ignore"):
        apart = np.where(np.isinf(high), np.inf, high - low)
    # The same without tanh, which rounds to 1.
    large = low + 2 * np.log1p(np.exp(-(low + high) / 2)) - 2 * np.log1p(np.exp(-apart / 2))
    return np.asarray(np.where(low < 1, exact, large))


def sphere_influences(factors: list[Factor], num_rows: int, reach: int) -> tuple[Grid, Grid]:
    """Bound the max-influence of each row on the rows at each distance, whatever is known.

    Parameters
    ----------
    factors
        Of the law, none inside another.
    num_rows
        Number of rows.
    reach
        Largest distance.

    Returns
    -------
    whole, without_leaves
        Influence on all rows at distance ``1, ..., reach``, and on those that are in more than one
        factor; nats.
    """
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
    """Count rows within distances of each row.

    Parameters
    ----------
    factors, num_rows, reach
        As in `sphere_influences`.

    Returns
    -------
    inner, with_leaves, connected
        Rows nearer than ``1, ..., reach``, itself counted; the same and the rows of one factor only
        that are at that distance; and all that it is connected to.
    """
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
