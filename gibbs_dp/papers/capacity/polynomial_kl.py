"""Polynomial adversaries on the line: the restricted KL divergence."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.basis import orthonormal_basis
from gibbs_dp.papers.capacity.line import Line

_MAX_NEWTON = 500
_SETTLED = 1e-15


def polynomial_kl(p: Line, q: Line, degree: int) -> float:
    """Restricted KL divergence for polynomials of at most ``degree``, constants included, in nats.

    ``sup_h E_P[h] - log E_Q[e^h]``: with constants in the class this Donsker-Varadhan value equals
    ``sup_h E_P[h] - E_Q[e^{h-1}]`` of Chaudhuri, Imola & Machanavajjhala (2019).

    Parameters
    ----------
    p, q
        The two laws. On the whole line polynomials of odd degree above 1 have no exponential
        moments; one degree less attains the same supremum.
    degree
        At least 1; 1 is the linear adversary.

    Returns
    -------
    float
        In nats.

    Raises
    ------
    ValueError
        If ``degree`` is below 1, or a law lacks the moments.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity.line import laplace_line
    >>> round(polynomial_kl(laplace_line(1.0, 1.0), laplace_line(0.0, 1.0), 1), 9)
    0.225987156
    """
    checks.count("degree", degree)
    if degree > 1 and degree % 2 and math.isinf(q.lower) and math.isinf(q.upper):
        degree -= 1
    basis = orthonormal_basis(q, degree)
    target = p.expectations(basis.values)[1:]
    x, mass = q.weighted_nodes
    terms = basis.values(x)[1:]
    with np.errstate(divide="ignore"):
        log_mass = np.log(mass)

    def evaluate(c: Float[np.ndarray, " degree"]) -> tuple[float, np.ndarray, np.ndarray]:
        exponent = log_mass + c @ terms
        total = float(logsumexp(exponent))
        tilted = np.exp(exponent - total)
        mean = terms @ tilted
        covariance = (terms * tilted) @ terms.T - np.outer(mean, mean)
        return float(c @ target) - total, target - mean, covariance

    c, value = np.zeros(degree), 0.0
    # Started at the best critic of each lower degree: from afar Newton leaves the domain.
    for used in range(1, degree + 1):
        c, value = _climb(evaluate, c, used)
    return max(0.0, value)


def _climb(
    evaluate: Callable[[Float[np.ndarray, " degree"]], tuple[float, np.ndarray, np.ndarray]],
    start: Float[np.ndarray, " degree"],
    used: int,
) -> tuple[Float[np.ndarray, " degree"], float]:
    """Maximize over the first ``used`` coefficients by Newton's method."""
    c = start.copy()
    value, gradient, covariance = evaluate(c)
    for _ in range(_MAX_NEWTON):
        step = np.zeros_like(c)
        step[:used] = np.linalg.lstsq(covariance[:used, :used], gradient[:used])[0]
        gain = float(gradient @ step)
        if gain <= _SETTLED * max(value, 1e-300):
            break
        # Outside the domain of the exponential moment the value is enormously negative.
        size = 1.0
        trial = evaluate(c + step)
        while trial[0] < value + 1e-4 * size * gain and size > 1e-12:
            size /= 2
            trial = evaluate(c + size * step)
        rise = trial[0] - value
        if rise <= 0:
            break
        c = c + size * step
        value, gradient, covariance = trial
        if rise <= _SETTLED * value:
            break
    return c, value
