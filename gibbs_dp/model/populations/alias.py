"""Walker's alias method: weighted rows in constant time."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike


def alias_table(weights: ArrayLike) -> tuple[Float[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
    """Split weights into cells of equal probability (Walker 1977, Vose 1991).

    Draw a row uniformly; keep it with probability ``share``, else take ``other``. Cumulative sums
    cannot tell a million rows apart in single precision; shares, each rounded alone, can.

    Parameters
    ----------
    weights
        Numbers >= 0 that are not all 0.

    Returns
    -------
    share, other
        For each row, the probability of keeping it, and the row to take instead.

    Raises
    ------
    ValueError
        If one is negative or not finite, or all are 0.

    Examples
    --------
    >>> share, other = alias_table([1.0, 3.0])
    >>> share.tolist(), other.tolist()
    ([0.5, 1.0], [1, 1])
    """
    given = np.asarray(weights, dtype=np.float64)
    total = given.sum()
    if not (np.isfinite(total) and total > 0 and given.min() >= 0):
        raise ValueError("weights: must be finite, at least 0, and not 0 everywhere.")
    scaled = given * (given.size / total)
    share, other = np.ones(given.size), np.arange(given.size)
    small = np.flatnonzero(scaled < 1).tolist()
    large = np.flatnonzero(scaled >= 1).tolist()
    rest = scaled.tolist()
    while small and large:
        low, high = small.pop(), large[-1]
        share[low], other[low] = rest[low], high
        rest[high] -= 1.0 - rest[low]
        if rest[high] < 1:
            small.append(large.pop())
    return share, other
