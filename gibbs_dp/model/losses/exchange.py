"""How far the gradients of two examples can lie apart, for losses of a linear prediction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Slope = Callable[[Float[np.ndarray, " points"]], Float[np.ndarray, " points"]]

NUM_ANGLES = 6000
NUM_DIRECTIONS = 192
# Predictions near zero, where slopes bend, get points of their own.
REACH = 30.0


def largest_gap(slope: Slope, prediction_bound: float) -> float:
    """Bound ``|phi'(x·theta, y) x - phi'(x'·theta, y') x'|`` for ``|x|, |x'| <= 1``.

    For losses ``phi(prediction, y)``, convex in the prediction, that are the same for ``(x, y)``
    and a mirrored example ``(-x, y*)``. Then all that matters is the steepest upward slope at each
    prediction, ``g(p) = sup_y phi'(p, y)``, and with ``P`` the largest prediction the supremum is::

        max over A, B in [0, pi] of |g(P cos A) (cos A, sin A) + g(P cos B) (-cos B, sin B)|:

    for a given prediction the part of ``x`` across theta should be as long as ``|x| <= 1`` allows,
    the two parts opposite; and at given predictions the sum grows with ``|theta|``, which turns
    both ``x`` across theta. This is the largest width of the curve ``g(P cos A) (cos A, sin A)``
    and its mirror image. Here each piece of the curve is put inside a triangle of the larger of
    its radii, and the width between two directions is bounded by that at them: the result lies at
    or above the supremum, by less than a thousandth for slopes that bend within a unit or more.

    Parameters
    ----------
    slope
        ``g``: at least 0 and nondecreasing.
    prediction_bound
        ``P``; may be infinite.

    Returns
    -------
    float
        An upper bound; in units of slope.

    Examples
    --------
    >>> found = largest_gap(lambda p: 1 / (1 + np.exp(-p)), 2.0)      # logistic loss
    >>> 1.26984 < found < 1.2705
    True
    """
    p = float(prediction_bound)
    top = float(slope(np.array([p]))[0])
    if not np.isfinite(top):
        return np.inf
    if not np.isfinite(p):
        return 2 * top
    bends = np.clip(np.linspace(-REACH, REACH, NUM_ANGLES) / max(p, 1e-300), -1.0, 1.0)
    angles = np.union1d(np.linspace(0.0, np.pi, NUM_ANGLES), np.arccos(bends))
    # The slope falls along the curve: a piece lies within the radius at which it begins.
    radius = np.maximum(slope(p * np.cos(angles[:-1])), 0.0)
    ends = radius * np.stack([np.cos(angles[:-1]), np.sin(angles[:-1])])
    others = radius * np.stack([np.cos(angles[1:]), np.sin(angles[1:])])
    half, middle = 0.5 * np.diff(angles), 0.5 * (angles[1:] + angles[:-1])
    tips = radius / np.cos(half) * np.stack([np.cos(middle), np.sin(middle)])
    corners = np.concatenate([ends, others, tips], axis=1)
    directions = np.linspace(0.0, 0.5 * np.pi, NUM_DIRECTIONS)
    cosines, sines = np.cos(directions), np.sin(directions)
    width = np.array(
        [
            np.max(c * corners[0] + s * corners[1]) + np.max(-c * corners[0] + s * corners[1])
            for c, s in zip(cosines, sines, strict=True)
        ]
    )
    between = np.cos(0.5 * (directions[1] - directions[0]))
    return min(2 * top, float(width.max() / between) * (1 + 1e-9))


def largest_gap_of_squares(prediction_bound: float, y_bound: float) -> float:
    """Give the same for ``phi = (y - p)^2 / 2``, exactly: ``2 max_h sin h (Y + P cos h)``.

    With ``M = (A + B) / 2`` and ``D = (A - B) / 2`` the sum above is ``2 Y sin M (-sin D, cos D) +
    P sin 2M (-sin 2D, cos 2D)``, longest at ``D = 0``.

    Parameters
    ----------
    prediction_bound, y_bound
        ``P`` and ``Y``.

    Returns
    -------
    float
        The supremum; infinite if a bound is.

    Examples
    --------
    >>> round(2 * largest_gap_of_squares(2.0, 1.0), 4)                # squared loss, without 1/2
    7.0407
    """
    p, y = float(prediction_bound), float(y_bound)
    if not np.isfinite(p + y):
        return np.inf
    if p + y == 0:
        return 0.0
    # cos h, at which the derivative 2 P cos^2 h + Y cos h - P vanishes, without a difference.
    cosine = 2 * p / (np.hypot(y, np.sqrt(8.0) * p) + y)
    return float(2 * np.sqrt(1 - cosine**2) * (y + p * cosine))


def range_of_squares_on_a_line(prediction_bound: float, y_bound: float) -> float:
    """Exchange range of ``(y - x theta)^2`` for one parameter, exactly.

    ``8 Y P``, or ``P^2 r (2 - r)^3`` with ``r = (1 + sqrt(1 - 4 Y / P)) / 2`` where that is more:
    two examples differ by ``a theta^2 - 2 b theta``, ``a = x^2 - x'^2``, ``|b| <= Y (|x| + |x'|)``.

    Parameters
    ----------
    prediction_bound, y_bound
        ``P`` and ``Y``.

    Returns
    -------
    float
        The supremum; infinite if a bound is.

    Examples
    --------
    >>> round(range_of_squares_on_a_line(2.0, 0.2), 4), range_of_squares_on_a_line(2.0, 1.0)
    (4.8895, 16.0)
    """
    p, y = float(prediction_bound), float(y_bound)
    if not np.isfinite(p + y):
        return 0.0 if 0.0 in (p, y) and np.isinf(y) else np.inf
    linear = 8 * y * p
    if 4 * y > p:
        return linear
    r = 0.5 * (1 + np.sqrt(1 - 4 * y / p)) if p > 0 else 1.0
    return float(max(linear, p**2 * r * (2 - r) ** 3))
