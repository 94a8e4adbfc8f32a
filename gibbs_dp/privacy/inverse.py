"""From ``delta(epsilon)`` to ``epsilon(delta)``, always from above, and to Gaussian DP."""

from __future__ import annotations

import math
from functools import lru_cache

from scipy.optimize import brentq

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import delta_from_gdp
from gibbs_dp.privacy.routes import Route

# Relative amount by which a root is raised, so that delta(epsilon) <= delta survives rounding.
NUDGE = 1e-12
# Beyond this, an epsilon says nothing and exponentials overflow.
LARGEST = 600.0


def meaningful_epsilon(epsilon: float) -> float:
    """Return ``epsilon``, refused unless it is positive and promises something.

    >>> meaningful_epsilon(1.0)
    1.0
    """
    if checks.positive("epsilon", epsilon) > LARGEST:
        raise ValueError(f"epsilon: one above {LARGEST:g} promises nothing; lower it.")
    return epsilon


def epsilon_at(route: Route, delta: float, num_draws: int) -> float:
    """Smallest ``epsilon`` with ``delta(epsilon) <= delta``; the pure one at ``delta = 0``.

    Parameters
    ----------
    route
        What is known about neighbours.
    delta
        In ``[0, 1)``.
    num_draws
        Independent draws.

    Returns
    -------
    float
        ``inf`` where no ``epsilon`` below 600 will do and there is no pure one.

    Raises
    ------
    ValueError
        If ``delta`` is not in ``[0, 1)``.

    Examples
    --------
    >>> from gibbs_dp.privacy.routes import GaussianDP
    >>> round(epsilon_at(GaussianDP(0.5), 1e-5, 10), 4)
    7.5113
    """
    checks.unit_interval("delta", delta)
    pure = route.pure(num_draws)
    if delta == 0 or pure == 0:
        return pure
    if route.delta(0.0, num_draws) <= delta:
        return 0.0
    high = min(pure, 1.0)
    while route.delta(high, num_draws) > delta:
        if high >= min(pure, LARGEST):
            return pure
        high = min(2 * high, pure, LARGEST)

    def excess(epsilon: float) -> float:
        # In logarithms the curve is nearly straight.
        return math.log(max(route.delta(epsilon, num_draws), 1e-300)) - math.log(delta)

    root = float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-13))
    step = NUDGE
    while route.delta(root, num_draws) > delta:
        root, step = min(root * (1 + step) + step, high), 4 * step
    return root


@lru_cache(maxsize=256)
def gdp_at(epsilon: float, delta: float) -> float:
    """``mu`` of the Gaussian DP that is worth ``(epsilon, delta)``-DP.

    Parameters
    ----------
    epsilon, delta
        Both above 0.

    Returns
    -------
    float
        To a relative 1e-13, from either side.

    Raises
    ------
    ValueError
        If it is not between 1e-9 and 1000.

    Examples
    --------
    >>> round(gdp_at(1.0, 1e-5), 4)
    0.2681
    """

    def excess(log_mu: float) -> float:
        reached = delta_from_gdp(math.exp(log_mu), epsilon)
        return math.log(max(reached, 1e-300)) - math.log(delta)

    low, high = math.log(1e-9), math.log(1e3)
    if not excess(low) <= 0 <= excess(high):
        raise ValueError(
            f"epsilon: no useful noise gives ({epsilon:g}, {delta:g})-DP; choose a moderate target."
        )
    return math.exp(float(brentq(excess, low, high, xtol=1e-13)))
