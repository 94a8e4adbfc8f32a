"""What the figures of one guarantee imply for each other, and sums of them that stay bounds.

A guarantee is read by people and by programs that take whichever figure they like, so all of them
must be of one release: figures that cannot have been derived together are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from scipy.special import ndtri_exp

from gibbs_dp.information import checks
from gibbs_dp.privacy.routes import LARGEST, GaussianDP, epsilon_at

# Begins a caveat that voids a guarantee.
NOT_COVERED = "NOT COVERED"
# Figures may differ by rounding and by the search for a root.
RELATIVE, ABSOLUTE = 1e-6, 1e-9
# A square of a smaller figure may be 0 in floating point.
UNDERFLOW = 1e-100
# Share by which a sum of rounded deltas may exceed a given one; the sum is what is told.
ALLOWANCE = 1e-14


def check_figures(
    epsilon: float,
    delta: float,
    *,
    pure_epsilon: float | None = None,
    zcdp: float | None = None,
    gdp: float | None = None,
    has_more: bool = False,
) -> None:
    """Refuse figures out of range, and figures that contradict each other.

    >>> check_figures(1.0, 0.0, pure_epsilon=1.0)
    >>> check_figures(5.0, 0.0, gdp=0.0)
    Traceback (most recent call last):
    ...
    ValueError: epsilon: it is 5, but gdp = 0 says that nothing is told; give the figures of one \
release.
    """
    checks.nonnegative("epsilon", epsilon, allow_infinite=True)
    checks.unit_interval("delta", delta)
    others = {"pure_epsilon": pure_epsilon, "zcdp": zcdp, "gdp": gdp}
    stated = {name: value for name, value in others.items() if value is not None}
    for name, value in stated.items():
        checks.nonnegative(name, value, allow_infinite=True)
    pair = {"epsilon": epsilon, **stated}
    zeros = [name for name, value in pair.items() if value == 0 and (name in stated or not delta)]
    for name, value in pair.items():
        if zeros and value > UNDERFLOW:
            _contradict(name, value, f"{zeros[0]} = 0 says that nothing is told")
    pure, by = pure_epsilon, "pure_epsilon"
    if delta == 0 and epsilon < math.inf:
        if pure_epsilon is not None:
            _at_most("pure_epsilon", pure_epsilon, epsilon, "epsilon at delta = 0")
        pure, by = epsilon, "epsilon at delta = 0"
    if epsilon < math.inf:  # which stands for none
        for name, bound in _implied(delta, pure_epsilon, zcdp, gdp).items():
            _at_most("epsilon", epsilon, bound, f"{name} at delta = {delta:g}")
    # Of a bounded range, rho by the known theorem may be above that of its mu.
    if zcdp is not None and gdp is not None and pure is None:
        _at_most("zcdp", zcdp, gdp * gdp / 2, "gdp")
    if pure is not None and pure < LARGEST:
        if zcdp is not None:
            _at_most("zcdp", zcdp, pure * pure / 2, by)
        if gdp is not None:
            # Through the corner of randomized response; group privacy and several draws, which
            # double or add up mu, lose less than a factor of 2.
            _at_most("gdp", gdp, 2 * gdp_from_pure(pure), by)
    is_gaussian = gdp is not None and pure is None and not has_more
    if is_gaussian and epsilon < LARGEST:
        assert gdp is not None
        needed = epsilon_at(GaussianDP(gdp), delta, 1)
        if epsilon < needed * (1 - RELATIVE) - ABSOLUTE:
            _contradict(
                "epsilon", epsilon, f"gdp = {gdp:.6g} gives {needed:.6g} at delta = {delta:g}"
            )


def least_epsilon(
    epsilon: float,
    delta: float,
    *,
    pure_epsilon: float | None = None,
    zcdp: float | None = None,
    gdp: float | None = None,
) -> float:
    """Return the smallest epsilon at ``delta`` that the figures of a release imply.

    >>> least_epsilon(3.0, 0.0, pure_epsilon=1.0)
    1.0
    """
    return min([epsilon, *_implied(delta, pure_epsilon, zcdp, gdp).values()])


def gdp_from_pure(epsilon: float) -> float:
    """``mu`` of Gaussian DP that ``epsilon``-DP implies: randomized response's corner.

    ``2 Phi^-1(e^eps / (1 + e^eps))``; no pure mechanism has a larger one, as randomized response
    has all of its trade-off curve (Dong, Roth & Su 2022).

    >>> round(gdp_from_pure(1.0), 6)
    1.232035
    """
    return -2 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))


def sum_up(values: Iterable[float]) -> float:
    """Add floats exactly and round up."""
    numbers = list(values)
    if math.inf in numbers:
        return math.inf
    return round_up(sum(map(Fraction, numbers), Fraction(0)))


def round_up(exact: Fraction) -> float:
    """Return the smallest float that is at least a fraction."""
    found = float(exact)
    return math.nextafter(found, math.inf) if Fraction(found) < exact else found


def _implied(
    delta: float, pure_epsilon: float | None, zcdp: float | None, gdp: float | None
) -> dict[str, float]:
    """Epsilon at ``delta`` by each currency alone (of zCDP: Bun & Steinke 2016)."""
    found = {}
    if pure_epsilon is not None:
        found["pure_epsilon"] = pure_epsilon
    found |= {name: 0.0 for name, value in (("zcdp", zcdp), ("gdp", gdp)) if value == 0}
    if delta > 0:
        if zcdp is not None:
            found["zcdp"] = zcdp + 2 * math.sqrt(-zcdp * math.log(delta))
        if gdp is not None:
            found["gdp"] = math.inf if gdp == math.inf else epsilon_at(GaussianDP(gdp), delta, 1)
    return found


def _at_most(name: str, value: float, bound: float, by: str) -> None:
    if value > bound * (1 + RELATIVE) + ABSOLUTE:
        _contradict(name, value, f"{by} implies at most {bound:.6g}")


def _contradict(name: str, value: float, but: str) -> None:
    raise ValueError(f"{name}: it is {value:.6g}, but {but}; give the figures of one release.")
