"""Adversaries that see one bit of the output: on which side of a threshold, or of a line, it is.

The critics are ``a + b 1[x in A]`` for all numbers ``a`` and ``b`` and all sets ``A`` of a family.
For one set these are all functions of the bit ``x in A``, so that the restricted divergence of
Chaudhuri, Imola & Machanavajjhala (2019) is the ordinary one of two laws of a bit, and that of the
family is the largest over its sets. Of finitely many outputs a family has finitely many **splits**,
which are enumerated here. Metrics ("ipm") are over critics with values in ``[-1, 1]``.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched
from gibbs_dp.papers.capacity.bound import Divergence
from gibbs_dp.papers.capacity.closed_forms import above_one
from gibbs_dp.papers.capacity.polynomial import alpha_from_renyi

Splits = Bool[np.ndarray, "splits outcomes"]


class Split(NamedTuple):
    """What the best classifier sees, and the outcomes on one side of it."""

    # Nats; of "alpha" and "ipm" the divergence itself. Possibly infinite.
    value: float
    side: Bool[np.ndarray, " outcomes"]


def threshold_splits(outputs: ArrayLike) -> Splits:
    """List what thresholds can tell apart of outputs on a line, each split once.

    Parameters
    ----------
    outputs
        Finite numbers, ``[outcomes]``, in any order; equal ones stay together.

    Returns
    -------
    Splits
        ``[splits, outcomes]``: above the threshold or not. The first has nothing above.

    Raises
    ------
    ValueError
        If the outputs are not finite numbers, or too many.

    Examples
    --------
    >>> threshold_splits([0.0, 2.0, 1.0]).astype(int)
    array([[0, 0, 0],
           [0, 1, 0],
           [0, 1, 1]])
    """
    x = _finite("outputs", outputs, 1)
    require_cells("splits x outcomes", x.size**2)
    return np.asarray(x > np.unique(x)[::-1, None])


def linear_splits(points: ArrayLike) -> Splits:
    """List what lines can tell apart of outputs in the plane, each split once.

    Of two sets that a line separates, one line touches both and has, seen from one along it to the
    other, the first on its left and the other on its right. So each line through two or more points
    gives what is strictly on its left, with its own points up to each place on it, and each split
    comes once. Sides are told without rounding. ``m`` points of which no three are on a line have
    ``m (m - 1) / 2 + 1`` splits (Cover 1965).

    Parameters
    ----------
    points
        Finite numbers, ``[outcomes, 2]``; equal points stay together.

    Returns
    -------
    Splits
        ``[splits, outcomes]``, one side of each; never the first outcome's.

    Raises
    ------
    ValueError
        If the points are not finite numbers ``[outcomes, 2]``, or too many.

    Examples
    --------
    >>> linear_splits([[0, 0], [1, 0], [0, 1], [1, 1]]).shape  # all 8 but the exclusive or
    (7, 4)
    """
    x = _finite("points", points, 2)
    if x.shape[1] != 2:
        raise ValueError(f"points must be [outcomes, 2], got shape {list(x.shape)}; use a plane.")
    places, home = np.unique(x, axis=0, return_inverse=True)  # sorted along every line
    require_cells("splits x outcomes", len(places) ** 2 * len(x))
    found = [np.zeros(len(places), bool)]
    for i, j in combinations(range(len(places)), 2):
        side = _sides(places, i, j)
        on = np.flatnonzero(side == 0)
        if (on[0], on[1]) != (i, j):  # the line is met at its first two points
            continue
        for count in range(1, len(on)):
            found.append(side > 0)
            found[-1][on[:count]] = True
    splits = np.stack(found)[:, home.ravel()]
    return np.asarray(splits ^ splits[:, :1])


def classifier_divergence(
    splits: ArrayLike,
    p: ArrayLike,
    q: ArrayLike,
    divergence: Divergence = "kl",
    alpha: float | None = None,
) -> Split:
    """Restricted divergence of two laws for critics that see one split, exactly.

    Parameters
    ----------
    splits
        Of `threshold_splits`, `linear_splits`, or any sets of outcomes, ``[splits, outcomes]``.
    p, q
        Laws, ``[outcomes]``.
    divergence
        "kl", "renyi", "alpha" or "ipm".
    alpha
        Order, for "renyi" and "alpha" alone.

    Returns
    -------
    Split
        The largest over all splits, and where it is.

    Raises
    ------
    ValueError
        If the laws and splits do not fit, or the order is missing or without meaning.

    References
    ----------
    Chaudhuri, Imola & Machanavajjhala (2019), Definition 2, for families of classifiers.

    Examples
    --------
    >>> splits = threshold_splits([0, 1, 2])
    >>> found = classifier_divergence(splits, [0.5, 0.2, 0.3], [0.2, 0.2, 0.6])
    >>> round(found.value, 6), found.side.astype(int).tolist()
    (0.223144, [0, 1, 1])
    """
    sets = np.asarray(splits, dtype=bool)
    laws = checks.law("p", p), checks.law("q", q)
    checks.same_length("p", laws[0], "q", laws[1])
    if sets.ndim != 2 or not sets.size or sets.shape[1] != laws[0].size:
        raise ValueError(
            f"splits must be [splits, outcomes = {laws[0].size}], got shape {list(sets.shape)}; "
            "give one row per classifier."
        )
    is_ordered = divergence in ("renyi", "alpha")
    if is_ordered != (alpha is not None):
        raise ValueError(
            f"alpha must be given for 'renyi' and 'alpha' alone, got {alpha!r} for {divergence!r}."
        )
    # Both sides are summed, so that neither is 1 minus a rounded number.
    bits = [np.stack([sets @ law, ~sets @ law], axis=-1) for law in laws]
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(bits[0]), np.log(bits[1])
    if divergence == "ipm":
        values = 2 * batched.total_variation(log_p, log_q)
    elif divergence == "kl":
        values = batched.kl(log_p, log_q)
    elif is_ordered and alpha is not None:
        above_one(alpha)
        values = batched.renyi(log_p, log_q, alpha)
    else:
        raise ValueError(f"divergence must be 'kl', 'renyi', 'alpha' or 'ipm', got {divergence!r}.")
    best = int(np.argmax(values))
    value = float(values[best])
    if divergence == "alpha" and alpha is not None:
        value = alpha_from_renyi(value, alpha)
    return Split(value, sets[best])


def _finite(name: str, values: ArrayLike, ndim: int) -> Float[np.ndarray, ...]:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != ndim or not x.size or not np.isfinite(x).all():
        raise ValueError(
            f"{name} must be finite numbers along {ndim} axes, got shape {list(x.shape)}; give one "
            "row per outcome."
        )
    return x


def _sides(places: Float[np.ndarray, "places 2"], i: int, j: int) -> Float[np.ndarray, " places"]:
    """Tell the side of every place from the line through two of them: positive, negative or 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = places[j] - places[i], places - places[i]
        up, down = a[0] * b[:, 1], a[1] * b[:, 0]
        side = up - down
        is_sure = np.abs(side) > 1e-15 * (np.abs(up) + np.abs(down)) + 1e-300
    for k in np.flatnonzero(~is_sure):
        (x0, y0), (x1, y1), (x2, y2) = (map(Fraction, map(float, places[m])) for m in (i, j, k))
        exact = (x1 - x0) * (y2 - y0) - (y1 - y0) * (x2 - x0)
        side[k] = (exact > 0) - (exact < 0)
    return np.asarray(side)
