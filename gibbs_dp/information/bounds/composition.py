"""Composition of ``(eps, delta)`` guarantees, and what an approximate draw costs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from gibbs_dp.information import checks


class ApproximateDP(NamedTuple):
    """A pair ``(eps, delta)``, for the adjacency of whatever it was made from."""

    eps: float
    delta: float


def basic_composition(eps: ArrayLike, delta: ArrayLike) -> ApproximateDP:
    """Adaptive releases add: ``(sum eps_i, sum delta_i)`` (Dwork et al. 2006).

    Parameters
    ----------
    eps, delta
        Vectors of one length, one entry a release.

    Examples
    --------
    >>> basic_composition([0.1, 0.2], [0.0, 0.01])
    ApproximateDP(eps=0.30000000000000004, delta=0.01)
    """
    e, d = np.asarray(eps, dtype=np.float64), np.asarray(delta, dtype=np.float64)
    if e.ndim != 1 or e.shape != d.shape or not (np.all(e >= 0) and np.all(d >= 0)):
        raise ValueError("eps and delta must be vectors >= 0 of one length; pass both per release.")
    return ApproximateDP(float(e.sum()), min(1.0, float(d.sum())))


def advanced_composition(
    num_releases: int, eps: float, delta: float = 0.0, *, delta_slack: float
) -> ApproximateDP:
    """``k`` adaptive ``(eps, delta)`` releases (Dwork, Rothblum & Vadhan 2010).

    ``eps' = sqrt(2 k ln(1/delta')) eps + k eps (e^eps - 1)``, ``delta = k delta + delta'``.

    Parameters
    ----------
    num_releases
        ``k``.
    eps, delta
        Of each release.
    delta_slack
        ``delta'``, in ``(0, 1)``.

    Examples
    --------
    >>> round(advanced_composition(100, 0.1, delta_slack=1e-5).eps, 6)
    5.850235
    """
    k = checks.count("num_releases", num_releases)
    checks.nonnegative("eps", eps)
    checks.unit_interval("delta", delta)
    checks.unit_interval("delta_slack", delta_slack, open_left=True)
    total = math.sqrt(2 * k * math.log(1 / delta_slack)) * eps + k * eps * checks.expm1(eps)
    return ApproximateDP(total, min(1.0, k * delta + delta_slack))


def advanced_composition_inverse(
    num_releases: int, total_eps: float, *, delta_slack: float
) -> float:
    """Solve for the per-release ``eps`` at which `advanced_composition` reaches ``total_eps``.

    Examples
    --------
    >>> eps = advanced_composition_inverse(10000, 1.0, delta_slack=math.exp(-32))
    >>> round(1 / eps)  # against 10000 by basic composition
    812
    """
    checks.positive("total_eps", total_eps)

    def excess(eps: float) -> float:
        return advanced_composition(num_releases, eps, delta_slack=delta_slack).eps - total_eps

    # The linear term alone already exceeds the total at the upper end.
    high = total_eps / math.sqrt(2 * num_releases * math.log(1 / delta_slack))
    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14))


def advanced_composition_inverse_small_eps(
    num_releases: int, total_eps: float, *, delta_slack: float
) -> float:
    """**As printed** in lectures: ``eps'/sqrt(2 k ln(1/delta'))``, dropping ``k eps (e^eps - 1)``.

    Slightly too large an ``eps``, so not a guarantee: `advanced_composition_inverse` solves.

    Examples
    --------
    >>> round(1 / advanced_composition_inverse_small_eps(10000, 1.0, delta_slack=math.exp(-32)))
    800
    """
    k = checks.count("num_releases", num_releases)
    checks.unit_interval("delta_slack", delta_slack, open_left=True)
    return checks.positive("total_eps", total_eps) / math.sqrt(2 * k * math.log(1 / delta_slack))


def approximate_draw(eps: float, delta: float, *, total_variation: float) -> ApproximateDP:
    """Guarantee a draw within total variation ``tau``: ``(eps, delta + (1 + e^eps) tau)``-DP.

    ``tau`` must hold for every dataset, and for a Markov chain it is rarely known.

    Examples
    --------
    >>> round(approximate_draw(0.0, 0.0, total_variation=0.01).delta, 6)
    0.02
    """
    checks.nonnegative("eps", eps)
    checks.unit_interval("delta", delta)
    tau = checks.nonnegative("total_variation", total_variation)
    return ApproximateDP(eps, min(1.0, delta + (2 + checks.expm1(eps)) * tau if tau > 0 else delta))
