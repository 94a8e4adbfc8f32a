"""Gaussian differential privacy: strongly convex posteriors, bounded sets, and conversions.

``mu``-GDP means no easier to tell apart than ``N(0, 1)`` and ``N(mu, 1)`` (Dong, Roth & Su 2022).
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtr

from gibbs_dp.information import checks


def strongly_convex_gdp(gamma: float, *, lipschitz: float, strong_convexity: float) -> float:
    """``mu = gamma G / sqrt(m)`` for one exact draw (Gopi, Lee & Liu 2022, Thm 4).

    Parameters
    ----------
    gamma
        Inverse temperature.
    lipschitz
        ``G``: ``loss(., z) - loss(., z')`` is ``G``-Lipschitz; at most twice the Lipschitz constant
        of the loss, replace-one.
    strong_convexity
        ``m`` of both potentials ``gamma L - log pi``, on a convex set.

    Returns
    -------
    float
        The parameter ``mu`` of Gaussian DP.

    Examples
    --------
    >>> strongly_convex_gdp(1.0, lipschitz=2.0, strong_convexity=16.0)
    0.5
    """
    checks.positive("gamma", gamma)
    checks.nonnegative("lipschitz", lipschitz)
    return gamma * lipschitz / math.sqrt(checks.positive("strong_convexity", strong_convexity))


def bounded_convex_gdp(
    gamma: float, *, lipschitz: float, diameter: float, strong_convexity: float = 0.0
) -> float:
    """``mu = sqrt(2 gamma G D - m D^2)`` for one exact draw on a convex set of diameter ``D``.

    Where ``gamma G < m D``, the set is too wide to matter and `strongly_convex_gdp` holds instead.
    It is the limit, for small steps and many of them, of the last iterate of projected Langevin
    steps (shifted interpolation: Bok, Su & Altschuler 2024), minimized over how long ago both
    chains are taken to have been anywhere in the set: ``min over a in [0, 1) of (a D + (1 - a)
    gamma G / m) sqrt(m / (1 - a^2))``, at ``a = 1 - m D / (gamma G)``.

    Parameters
    ----------
    gamma
        Inverse temperature.
    lipschitz
        ``G``, as in `strongly_convex_gdp`.
    diameter
        ``D`` of the convex set, the prior's support.
    strong_convexity
        ``m`` of both potentials; 0 where they are only convex.

    Returns
    -------
    float
        The parameter ``mu`` of Gaussian DP.

    Examples
    --------
    >>> bounded_convex_gdp(2.0, lipschitz=1.0, diameter=4.0)
    4.0
    >>> bounded_convex_gdp(1.0, lipschitz=2.0, diameter=4.0, strong_convexity=16.0)
    0.5
    """
    checks.positive("gamma", gamma)
    pull = gamma * checks.nonnegative("lipschitz", lipschitz)
    diameter = checks.positive("diameter", diameter)
    m = checks.nonnegative("strong_convexity", strong_convexity)
    if pull < m * diameter:
        return pull / math.sqrt(m)
    return math.sqrt(diameter * (2 * pull - m * diameter))


def zcdp_from_gdp(mu: float) -> float:
    """``mu``-GDP implies ``mu^2 / 2`` zero-concentrated DP.

    Examples
    --------
    >>> zcdp_from_gdp(1.0)
    0.5
    """
    return checks.nonnegative("mu", mu) ** 2 / 2


def delta_from_gdp(mu: float, epsilon: float) -> float:
    """``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` (Balle & Wang 2018).

    Examples
    --------
    >>> round(delta_from_gdp(1.0, epsilon=1.0), 6)
    0.126937
    """
    checks.nonnegative("epsilon", epsilon)
    if checks.nonnegative("mu", mu) == 0:
        return 0.0
    first = float(ndtr(mu / 2 - epsilon / mu))
    return max(0.0, first - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))


# Gaussian differential privacy of Langevin chains that are actually run, converged or not.


def langevin_last_iterate_gdp(
    num_steps: int,
    step_size: float,
    *,
    gradient_sensitivity: float,
    gamma: float,
    strong_convexity: float,
    smoothness: float,
) -> float:
    """Last iterate of noisy gradient descent (ULA), full batch (Bok, Su & Altschuler 2024).

    ``theta <- theta - h grad U(theta) + sqrt(2 h) xi`` from a start free of the data is GDP with
    ``mu_K = sqrt( (1-c^K)(1+c) / ((1+c^K)(1-c)) ) a / sqrt(2 h)``, where
    ``c = max(|1 - h m|, |1 - h M|)`` and ``a = h gamma S``. Exact for quadratic potentials with
    ``m = M`` and ``h m <= 1``.

    Parameters
    ----------
    num_steps, step_size
        ``K`` and ``h < 2 / M``; neither may depend on the data.
    gradient_sensitivity
        ``S = sup |grad loss(theta, z) - grad loss(theta, z')|``.
    gamma
        Inverse temperature.
    strong_convexity, smoothness
        ``m`` and ``M`` of ``U = gamma L - log pi``.

    Returns
    -------
    float
        ``mu`` of Gaussian DP.

    Raises
    ------
    ValueError
        If ``h >= 2 / M`` or ``m > M``.

    Examples
    --------
    >>> mu = langevin_last_iterate_gdp(1, 0.5, gradient_sensitivity=1.0, gamma=1.0,
    ...                                strong_convexity=1.0, smoothness=1.0)
    >>> round(mu, 9)  # one step is one Gaussian mechanism: a / sqrt(2 h)
    0.5
    """
    k = checks.count("num_steps", num_steps)
    h = checks.positive("step_size", step_size)
    m = checks.positive("strong_convexity", strong_convexity)
    if not m <= smoothness:
        raise ValueError(f"smoothness must be at least strong_convexity {m}; got {smoothness}.")
    if not h < 2 / smoothness:
        raise ValueError(f"step_size must be below 2 / smoothness = {2 / smoothness:g}; got {h}.")
    c = max(abs(1 - h * m), abs(1 - h * smoothness))
    a = (
        h
        * checks.positive("gamma", gamma)
        * checks.nonnegative("gradient_sensitivity", gradient_sensitivity)
    )
    # (1 - c^K) / (1 - c) is a finite sum, also at c = 0.
    factor = (1 - c**k) * (1 + c) / ((1 + c**k) * (1 - c))
    return math.sqrt(factor) * a / math.sqrt(2 * h)


def projected_langevin_gdp(
    num_steps: int,
    step_size: float,
    *,
    gradient_sensitivity: float,
    gamma: float,
    diameter: float,
    strong_convexity: float,
    smoothness: float,
) -> float:
    """Last iterate of projected ULA on a convex set, full batch (Bok, Su & Altschuler 2024).

    ``theta <- Proj(theta - h grad U(theta) + sqrt(2 h) xi)`` from a start free of the data. With
    ``c = max(|1 - h m|, |1 - h M|)`` and ``s = h gamma S`` it is GDP with

        ``mu_K = min over t of (c^t D_t + s (1-c^t)/(1-c)) sqrt((1-c^2)/(1-c^{2t})) / sqrt(2h)``,

    ``D_K = 0`` and ``D_t = D`` for fewer steps: ``t`` steps ago both chains were somewhere in the
    set, and Gaussian shifts that interpolate between them close the gap. ``t = K`` is
    `langevin_last_iterate_gdp`. Where ``U`` is only convex it stops growing, at about ``sqrt(2
    gamma S D)`` for small steps: `bounded_convex_gdp`.

    Parameters
    ----------
    num_steps, step_size
        ``K`` and ``h <= 2 / M``; neither may depend on the data.
    gradient_sensitivity
        ``S = sup |grad loss(theta, z) - grad loss(theta, z')|`` on the set.
    gamma
        Inverse temperature.
    diameter
        ``D`` of the convex set; infinite where it is not bounded.
    strong_convexity, smoothness
        ``m >= 0`` and ``M`` of ``U = gamma L - log pi`` on the set.

    Returns
    -------
    float
        ``mu`` of Gaussian DP.

    Raises
    ------
    ValueError
        If ``h > 2 / M`` or ``m > M``.

    Examples
    --------
    >>> settings = {"gradient_sensitivity": 1.0, "gamma": 8.0, "diameter": 1.0,
    ...             "strong_convexity": 0.0, "smoothness": 4.0}
    >>> [round(projected_langevin_gdp(k, 0.01, **settings), 4) for k in (1, 10, 100, 10_000)]
    [0.5657, 1.7889, 4.0008, 4.0008]
    """
    k = checks.count("num_steps", num_steps)
    h = checks.positive("step_size", step_size)
    m = checks.nonnegative("strong_convexity", strong_convexity)
    if not m <= smoothness:
        raise ValueError(f"smoothness must be at least strong_convexity {m}; got {smoothness}.")
    if not h * smoothness <= 2:
        raise ValueError(f"step_size must be at most 2 / smoothness; got {h} at {smoothness}.")
    if not diameter > 0:
        raise ValueError(f"diameter must be positive, got {diameter}; give that of the set.")
    shift = (
        h
        * checks.positive("gamma", gamma)
        * checks.nonnegative("gradient_sensitivity", gradient_sensitivity)
    )
    if shift == 0:
        return 0.0
    gap = min(h * m, 2 - h * smoothness)  # 1 - c, without its rounding

    def after(steps: int, apart: float) -> float:
        if gap == 0:
            return (apart + steps * shift) / math.sqrt(steps)
        log_power = steps * math.log1p(-gap) if gap < 1 else -math.inf
        total = (math.exp(log_power) * apart if apart else 0.0) - shift * (
            math.expm1(log_power) / gap
        )
        return total * math.sqrt(gap * (2 - gap) / -math.expm1(2 * log_power))

    found = [after(k, 0.0)]
    if math.isfinite(diameter) and k > 1:
        # As a function of u = c^t it falls to u = 1 - D (1 - c) / s, and rises from there.
        if gap == 0:
            best = diameter / shift
        elif gap * diameter < shift and gap < 1:
            best = math.log1p(-gap * diameter / shift) / math.log1p(-gap)
        else:
            best = math.inf if gap < 1 else 1.0
        near = min(max(best, 1.0), k - 1.0)
        found += [after(t, diameter) for t in {math.floor(near), math.ceil(near)}]
    return min(found) / math.sqrt(2 * h)


def langevin_trajectory_gdp(
    num_steps: int, step_size: float, *, gradient_sensitivity: float, gamma: float
) -> float:
    """Whole trajectory of ULA, any loss with finite ``S``: ``mu = sqrt(K) a / sqrt(2 h)``.

    Composition of ``K`` Gaussian mechanisms with shift ``a = h gamma S``; clip per-example
    gradients to get a finite ``S``. Parameters are those of `langevin_last_iterate_gdp`.

    Examples
    --------
    >>> langevin_trajectory_gdp(4, 0.5, gradient_sensitivity=1.0, gamma=1.0)
    1.0
    """
    k = checks.count("num_steps", num_steps)
    h = checks.positive("step_size", step_size)
    a = (
        h
        * checks.positive("gamma", gamma)
        * checks.nonnegative("gradient_sensitivity", gradient_sensitivity)
    )
    return math.sqrt(k) * a / math.sqrt(2 * h)
