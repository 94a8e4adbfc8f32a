"""Any divergence of two one-dimensional densities, by turning them into finite laws.

Composite Gauss-Legendre nodes turn two log-densities into two probability vectors, on which the
functions of `finite` are quadrature rules of the integrals. Panels double until two successive
values agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from gibbs_dp.information import checks

LogDensity = Callable[[Float[np.ndarray, " nodes"]], Float[np.ndarray, " nodes"]]
Divergence = Callable[[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]], float]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def _panels(lower: float, upper: float, breakpoints: Sequence[float], num: int) -> np.ndarray:
    """Edges, in the variable ``t`` in [-1, 1] when an end is infinite, else in ``x``."""
    inner = sorted(b for b in breakpoints if lower < b < upper)
    if math.isinf(lower) or math.isinf(upper):
        inner = [_to_unit(b) for b in inner]
        lower = -1.0 if math.isinf(lower) else _to_unit(lower)
        upper = 1.0 if math.isinf(upper) else _to_unit(upper)
    corners = [lower, *inner, upper]
    pieces = [np.linspace(a, b, num + 1)[:-1] for a, b in pairwise(corners)]
    return np.concatenate([*pieces, np.array([upper])])


def _to_unit(x: float) -> float:
    """Inverse of ``x = t / (1 - t^2)``."""
    return 2 * x / (1 + math.sqrt(1 + 4 * x * x))


def quadrature_law(
    log_density: LogDensity,
    lower: float,
    upper: float,
    breakpoints: Sequence[float] = (),
    num_panels: int = 64,
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Nodes and log-masses of a density, possibly unnormalized, on ``num_panels`` panels.

    Parameters
    ----------
    log_density
        Vectorized log-density, up to a constant.
    lower, upper
        Ends of the support; either may be infinite.
    breakpoints
        Points where the density has a kink or a jump: panels end there.
    num_panels
        Panels of 16 nodes between consecutive breakpoints.

    Returns
    -------
    nodes, log_masses
        ``[nodes]`` each; the masses sum to 1.

    Raises
    ------
    ValueError
        If the interval is empty, or the density is nowhere positive or not finite.

    Examples
    --------
    >>> x, log_mass = quadrature_law(lambda x: -x * x / 2, -math.inf, math.inf)
    >>> round(float(np.exp(log_mass) @ x**2), 9)
    1.0
    """
    if not lower < upper:
        raise ValueError(f"lower must be below upper, got {lower} and {upper}; swap them.")
    checks.count("num_panels", num_panels)
    edges = _panels(lower, upper, breakpoints, num_panels)
    half = np.diff(edges) / 2
    t = (edges[:-1] + half)[:, None] + half[:, None] * _NODES
    log_weight = np.log(half[:, None] * _WEIGHTS)
    if math.isinf(lower) or math.isinf(upper):
        gap = 1 - t**2
        x = t / gap
        log_weight = log_weight + np.log1p(t**2) - 2 * np.log(gap)
    else:
        x = t
    values = np.asarray(log_density(x.ravel()), dtype=np.float64) + log_weight.ravel()
    total = float(logsumexp(values))
    if np.any(np.isnan(values)) or not math.isfinite(total):
        raise ValueError(
            "log_density must be a number on the support, -inf where it vanishes, and integrable; "
            "give the ends of its support as lower and upper."
        )
    return x.ravel(), values - total


def divergence_by_quadrature(
    divergence: Divergence,
    log_density_p: LogDensity,
    log_density_q: LogDensity,
    lower: float,
    upper: float,
    *,
    breakpoints: Sequence[float] = (),
    rtol: float = 1e-9,
    max_panels: int = 1 << 15,
) -> float:
    """Integrate a divergence of two one-dimensional densities.

    Parameters
    ----------
    divergence
        A function of two probability vectors, such as `finite.kl_divergence`, or a
        ``functools.partial`` of one that needs a parameter.
    log_density_p, log_density_q
        Vectorized log-densities, up to constants.
    lower, upper
        Ends of the support; either may be infinite.
    breakpoints
        Points where either density has a kink or a jump.
    rtol
        Relative agreement that two successive refinements must reach.
    max_panels
        Most panels, after which it gives up.

    Returns
    -------
    float
        In the divergence's own unit.

    Raises
    ------
    ValueError
        If the refinements do not agree by ``max_panels``.

    Examples
    --------
    >>> from gibbs_dp.information.divergences import kl_divergence
    >>> shifted = lambda x: -((x - 1) ** 2) / 2
    >>> value = divergence_by_quadrature(
    ...     kl_divergence, shifted, lambda x: -x * x / 2, -math.inf, math.inf)
    >>> round(value, 9)
    0.5
    """
    checks.positive("rtol", rtol)
    previous, num_panels = math.nan, 16
    while num_panels <= max_panels:
        _, log_p = quadrature_law(log_density_p, lower, upper, breakpoints, num_panels)
        _, log_q = quadrature_law(log_density_q, lower, upper, breakpoints, num_panels)
        value = divergence(np.exp(log_p), np.exp(log_q))
        if abs(value - previous) <= rtol * abs(value) or value == previous:
            return value
        previous, num_panels = value, 2 * num_panels
    raise ValueError(
        f"the integral did not settle to rtol={rtol} with {max_panels} panels; "
        "name the kinks in breakpoints, or the true ends of the support."
    )
