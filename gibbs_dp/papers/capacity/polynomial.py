"""Polynomial adversaries on the line: restricted Rényi, alpha- and KL divergences, exactly.

A class that is closed under scaling turns the alpha-divergence of Chaudhuri, Imola &
Machanavajjhala (2019) into a norm: with ``q = alpha / (alpha - 1)``,

    1 + alpha (alpha - 1) D_alpha^H(P, Q) = N^alpha,   N = sup_{g in H} E_P[g] / |g|_{L^q(Q)},

so that the restricted Rényi divergence is ``q log N``. Its dual is the smallest ``L^alpha(Q)`` norm
of a signed density that has the moments of P.

The integrals contain ``|g|^q`` and its derivatives, down to ``|g|^(q-2)``, which is unbounded at
zeros of ``g``. Panels therefore end at the zeros of ``g``, and the adjacent ones use a Gauss-Jacobi
rule whose weight has that power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float
from scipy.special import logsumexp, roots_jacobi

from gibbs_dp.information import checks

_NUM_NODES = 20
_NUM_PANELS = 32
_MAX_PASSES = 30


@dataclass(frozen=True)
class Line:
    """A law on the real line, by its log-density."""

    log_density: Callable[[Float[np.ndarray, " nodes"]], Float[np.ndarray, " nodes"]]
    lower: float = -math.inf
    upper: float = math.inf
    breakpoints: tuple[float, ...] = ()

    @cached_property
    def _chart(self) -> _Chart:
        """Coordinates in which the law is about one unit wide."""
        center, spread = 0.0, 1.0
        for _ in range(_MAX_PASSES):
            x, mass, _ = self._integrate(_Chart(self.lower, self.upper, center, spread))
            mean = float(mass @ x)
            width = float(np.sqrt(mass @ (x - mean) ** 2))
            is_settled = abs(width / spread - 1) + abs(mean - center) / width < 0.1
            center, spread = mean, width
            if is_settled:
                break
        return _Chart(self.lower, self.upper, center, spread)

    def _integrate(
        self, chart: _Chart
    ) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"], float]:
        """Return a smooth rule with total mass 1, and the log of the density's integral."""
        inner = [chart.to_t(b) for b in self.breakpoints if self.lower < b < self.upper]
        edges = _distinct([*np.linspace(*chart.ends, 8 * _NUM_PANELS + 1), *inner])
        half = np.diff(edges) / 2
        nodes, weights = _panel_rules(0.0)
        x, slope = chart.to_x(((edges[:-1] + half)[:, None] + half[:, None] * nodes[0]).ravel())
        values = np.asarray(self.log_density(x), np.float64)
        top = float(values.max())
        if np.isnan(values).any() or not math.isfinite(top):
            raise ValueError(
                "log_density must be a number on the support, -inf where it vanishes; give the "
                "ends of its support as lower and upper."
            )
        mass = (half[:, None] * weights[0]).ravel() * slope * np.exp(values - top)
        total = float(mass.sum())
        return x, mass / total, top + math.log(total)

    @cached_property
    def weighted_nodes(self) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
        """Nodes and their masses, for smooth integrands."""
        return self._integrate(self._chart)[:2]

    @cached_property
    def _log_constant(self) -> float:
        return self._integrate(self._chart)[2]

    @property
    def center(self) -> float:
        """Mean."""
        return self._chart.center

    @property
    def spread(self) -> float:
        """Standard deviation."""
        return self._chart.spread

    def edges(self, num_panels: int) -> Float[np.ndarray, " edges"]:
        """Return ends of panels on which the density is smooth, out to where no mass is left."""
        t = np.linspace(*self._chart.ends, num_panels + 1)
        if not self._chart.is_bounded:
            t = t[1 if math.isinf(self.lower) else 0 : -1 if math.isinf(self.upper) else None]
        inner = [b for b in self.breakpoints if self.lower < b < self.upper]
        return _distinct([*self._chart.to_x(t)[0], *inner])

    def expectations(
        self, functions: Callable[[Float[np.ndarray, " nodes"]], Float[np.ndarray, "k nodes"]]
    ) -> Float[np.ndarray, " k"]:
        """Integrate several smooth functions at once."""
        x, mass = self.weighted_nodes
        return np.asarray(functions(x) @ mass)

    def moments(self, degree: int) -> Float[np.ndarray, " moments"]:
        """Raw moments of orders 0 to ``degree``."""
        powers = np.arange(checks.count("degree", degree, 0) + 1)[:, None]
        return self.expectations(lambda x: x[None, :] ** powers)

    def rule(
        self, zeros: Sequence[complex], power: float
    ) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
        """Nodes and Q-masses for integrands with factors ``|x - zero|^power``, ``power > -1``."""
        unit = self._chart
        real = [z.real for z in zeros if abs(z.imag) <= 1e-9 * (1 + abs(z))]
        # A pair of complex zeros near the axis is a sharp dip: panels shrink towards it.
        dips = [
            z.real + side * reach * abs(z.imag)
            for z in zeros
            if 1e-9 * (1 + abs(z)) < abs(z.imag) < 0.5 * self.spread
            for side in (-1, 1)
            for reach in (0, 1, 3, 9)
        ]
        singular = _distinct([unit.to_t(x) for x in real if self.lower < x < self.upper])
        others = [unit.to_t(x) for x in (*self.breakpoints, *dips) if self.lower < x < self.upper]
        base = np.linspace(*unit.ends, _NUM_PANELS + 1)
        middles = (singular[1:] + singular[:-1]) / 2
        edges = _distinct([*base, *others, *singular, *middles])
        left, half = edges[:-1], np.diff(edges) / 2
        starts = np.isin(left, singular)
        stops = np.isin(edges[1:], singular) & ~starts
        nodes, weights = _panel_rules(power)
        kind = np.where(starts, 1, np.where(stops, 2, 0))
        t = (left + half)[:, None] + half[:, None] * nodes[kind]
        x, slope = unit.to_x(t.ravel())
        mass = (half[:, None] * weights[kind]).ravel() * slope
        # Not normalized by their sum: beside a zero the rule is wrong for the density alone.
        return x, mass * np.exp(np.asarray(self.log_density(x), np.float64) - self._log_constant)


@dataclass(frozen=True)
class _Chart:
    """A variable ``t`` on a bounded interval: ``x`` itself, or ``x = m + s t / (1 - t^2)``."""

    lower: float
    upper: float
    center: float
    spread: float

    @property
    def is_bounded(self) -> bool:
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    @property
    def ends(self) -> tuple[float, float]:
        return self._end(self.lower, -1.0), self._end(self.upper, 1.0)

    def _end(self, x: float, infinite: float) -> float:
        return self.to_t(x) if math.isfinite(x) else infinite

    def to_t(self, x: float) -> float:
        if self.is_bounded:
            return float(x)
        y = (x - self.center) / self.spread
        return float(2 * y / (1 + math.sqrt(1 + 4 * y * y)))

    def to_x(
        self, t: Float[np.ndarray, " nodes"]
    ) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
        """``x`` and ``dx/dt``."""
        if self.is_bounded:
            return t, np.ones_like(t)
        gap = 1 - t**2
        return self.center + self.spread * t / gap, self.spread * (1 + t**2) / gap**2


def _distinct(values: Sequence[float]) -> Float[np.ndarray, " values"]:
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if ordered.size < 2:
        return ordered
    return ordered[np.concatenate([[True], np.diff(ordered) > 1e-13])]


@lru_cache(maxsize=64)
def _panel_rules(
    power: float,
) -> tuple[Float[np.ndarray, "kinds nodes"], Float[np.ndarray, "kinds nodes"]]:
    """Rules on [-1, 1]: smooth, singular at the left end, singular at the right end."""
    u, w = roots_jacobi(_NUM_NODES, 0.0, 0.0)
    v, z = roots_jacobi(_NUM_NODES, 0.0, power)
    z = z * (1 + v) ** -power
    return np.stack([u, v, -v]), np.stack([w, z, z])


def laplace_line(location: float, scale: float) -> Line:
    """Return the Laplace law with density ``exp(-|x - location| / scale) / (2 scale)``.

    Raises
    ------
    ValueError
        If ``scale`` is not positive.
    """
    checks.positive("scale", scale)
    return Line(lambda x: -np.abs(x - location) / scale, breakpoints=(float(location),))


def gaussian_line(location: float, scale: float) -> Line:
    """Return the normal law with standard deviation ``scale``."""
    checks.positive("scale", scale)
    return Line(lambda x: -0.5 * ((x - location) / scale) ** 2)


class Basis(NamedTuple):
    """Orthonormal polynomials ``p_0 = 1, ..., p_k`` of a law Q."""

    # ``a_0 .. a_{k-1}``.
    diagonal: Float[np.ndarray, " degree"]
    # ``b_1 .. b_k``.
    side: Float[np.ndarray, " degree"]

    @property
    def degree(self) -> int:
        """The largest degree ``k``."""
        return len(self.diagonal)

    def values(self, x: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, "terms nodes"]:
        """Evaluate ``p_j(x)`` for ``j = 0..k``, one row each."""
        rows = [np.ones_like(x)]
        before = np.zeros_like(x)
        for j in range(self.degree):
            back = self.side[j - 1] * before if j else 0.0
            before = rows[-1]
            rows.append(((x - self.diagonal[j]) * before - back) / self.side[j])
        return np.stack(rows)

    def zeros(self, coefficients: Float[np.ndarray, " terms"]) -> Complex[np.ndarray, " zeros"]:
        """Zeros of ``sum_j c_j p_j``: eigenvalues of the comrade matrix."""
        size = np.abs(coefficients).max()
        used = np.flatnonzero(np.abs(coefficients) > 1e-14 * size)
        top = int(used[-1]) if used.size else 0
        if top == 0:
            return np.empty(0, np.complex128)
        inner = self.side[: top - 1]
        matrix = np.diag(self.diagonal[:top]) + np.diag(inner, 1) + np.diag(inner, -1)
        matrix[-1] -= self.side[top - 1] * coefficients[:top] / coefficients[top]
        return np.linalg.eigvals(matrix).astype(np.complex128)


def orthonormal_basis(law: Line, degree: int) -> Basis:
    """Recurrence of a law up to ``degree``, by the Stieltjes procedure.

    >>> from gibbs_dp.papers.capacity.polynomial import gaussian_line
    >>> orthonormal_basis(gaussian_line(0.0, 1.0), 3).side.round(6)  # Hermite: sqrt(j)
    array([1.      , 1.414214, 1.732051])
    """
    x, mass = law.weighted_nodes
    diagonal, side = np.empty(degree), np.empty(degree)
    before, current = np.zeros_like(x), np.ones_like(x)
    for j in range(degree):
        diagonal[j] = mass @ (x * current**2)
        back = side[j - 1] * before if j else 0.0
        raw = (x - diagonal[j]) * current - back
        with np.errstate(over="ignore", invalid="ignore"):
            norm = np.sqrt(mass @ raw**2)
        if not (np.isfinite(norm) and norm > 0):
            raise ValueError(
                f"degree: the law has no finite, positive moment of order {2 * (j + 1)}; "
                f"use a degree of at most {j}."
            )
        side[j] = norm
        before, current = current, raw / norm
    return Basis(diagonal, side)


_MAX_NEWTON = 200
# Newton's predicted decrease, relative to the value; one more step squares the rest.
_SETTLED = 1e-14
# Orders are reached in steps of this factor, each starting from the previous critic.
_STRIDE = 1.6


class PolynomialCritic(NamedTuple):
    """The best polynomial critic of one order, and its value."""

    renyi: float  # restricted Rényi divergence, nats
    # Restricted alpha-divergence, ``(e^{(alpha-1) renyi} - 1) / (alpha (alpha - 1))``.
    alpha_divergence: float
    # Coefficients of the critic ``g``, ``E_P[g] = 1``, in the orthonormal polynomials of Q.
    coefficients: Float[np.ndarray, " terms"]
    basis: Basis  # those polynomials
    # Largest distance of a moment of the dual density from that of P: 0 certifies optimality.
    residual: float


def alpha_from_renyi(renyi: float, alpha: float) -> float:
    """Alpha-divergence with the same information as a Rényi divergence of that order."""
    exponent = (alpha - 1) * renyi
    return math.inf if exponent > 700 else math.expm1(exponent) / (alpha * (alpha - 1))


def renyi_from_alpha(divergence: float, alpha: float) -> float:
    """Rényi divergence ``log(1 + alpha (alpha - 1) D) / (alpha - 1)`` of an alpha-divergence."""
    return math.log1p(alpha * (alpha - 1) * divergence) / (alpha - 1)


def order(alpha: float) -> float:
    """Return ``alpha`` if it is an order above 1 that quadrature can resolve, else raise."""
    if not 1.05 <= alpha <= 1000:
        raise ValueError(
            f"alpha must lie in [1.05, 1000], got {alpha}; for alpha = 1 use the KL functions."
        )
    return float(alpha)


def polynomial_renyi(p: Line, q: Line, alpha: float, degree: int) -> PolynomialCritic:
    """Restricted Rényi and alpha-divergence for polynomials of at most ``degree``.

    Minimizes ``E_Q |g|^q`` over polynomials with ``E_P[g] = 1`` by Newton's method. The integrals
    follow the zeros of ``g``, so nothing degrades for large orders, where ``q`` nears 1 and the
    problem on fixed nodes is no longer smooth.

    Parameters
    ----------
    p, q
        The two laws.
    alpha
        Order, in ``[1.05, 1000]``.
    degree
        At least 1; 1 is the linear adversary.

    Returns
    -------
    PolynomialCritic
        Both divergences, the best critic, and a certificate.

    Raises
    ------
    ValueError
        If an argument is out of range, or a law lacks the moments.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity.polynomial import laplace_line
    >>> found = polynomial_renyi(laplace_line(1.0, 1.0), laplace_line(0.0, 1.0), 2.0, 1)
    >>> round(found.renyi, 9)  # log(1 + 1/2)
    0.405465108
    """
    order(alpha)
    checks.count("degree", degree)
    basis = orthonormal_basis(q, degree)
    moments = p.expectations(basis.values)
    # E_P[g] = 1 leaves g = g0 + (directions that P does not see).
    free = np.linalg.svd(moments[None, :])[2][1:]
    origin = moments / float(moments @ moments)
    y = np.zeros(degree)
    steps = max(0, math.ceil(abs(math.log(alpha - 1)) / math.log(_STRIDE)))
    for fraction in np.linspace(0, 1, steps + 1)[1:] if steps else ():
        conjugate = 1 + 1 / (alpha - 1) ** fraction
        y = _newton(q, basis, origin, free, conjugate, y)
    coefficients = origin + y @ free
    conjugate = alpha / (alpha - 1)
    x, mass = q.rule(list(basis.zeros(coefficients)), conjugate - 2)
    terms = basis.values(x)
    g = coefficients @ terms
    norm = float(mass @ np.abs(g) ** conjugate)
    density = np.sign(g) * np.abs(g) ** (conjugate - 1) / norm
    residual = float(np.abs(terms @ (mass * density) - moments).max())
    renyi = max(0.0, -math.log(norm))  # q log N, N = norm^(-1/q)
    return PolynomialCritic(renyi, alpha_from_renyi(renyi, alpha), coefficients, basis, residual)


def _newton(
    law: Line,
    basis: Basis,
    origin: Float[np.ndarray, " terms"],
    free: Float[np.ndarray, "degree terms"],
    conjugate: float,
    start: Float[np.ndarray, " degree"],
) -> Float[np.ndarray, " degree"]:
    """Minimize ``E_Q |g|^q / q``, convex in the free coefficients."""

    def evaluate(y: Float[np.ndarray, " degree"]) -> tuple[float, np.ndarray, np.ndarray]:
        coefficients = origin + y @ free
        x, mass = law.rule(list(basis.zeros(coefficients)), conjugate - 2)
        terms = basis.values(x)
        g, directions = coefficients @ terms, free @ terms
        size = np.abs(g) + np.finfo(np.float64).tiny
        slope = mass * np.sign(g) * size ** (conjugate - 1)
        bend = (conjugate - 1) * mass * size ** (conjugate - 2)
        value = float(mass @ size**conjugate) / conjugate
        return value, directions @ slope, (directions * bend) @ directions.T

    y = start
    value, gradient, hessian = evaluate(y)
    for _ in range(_MAX_NEWTON):
        step = -np.linalg.solve(hessian, gradient)
        decrease = -float(gradient @ step)
        if decrease <= _SETTLED * value:
            return y + step
        size = 1.0
        while size > 1e-10:
            trial = evaluate(y + size * step)
            if trial[0] <= value - 1e-4 * size * decrease:
                break
            size /= 2
        else:
            break  # rounding: no step improves the value
        y = y + size * step
        value, gradient, hessian = trial
    return y


_MAX_NEWTON_KL = 500
_SETTLED_KL = 1e-15


def polynomial_kl(p: Line, q: Line, degree: int) -> float:
    """Restricted KL divergence for polynomials of at most ``degree``, constants included, in nats.

    ``sup_h E_P[h] - log E_Q[e^h]``: with constants in the class this Donsker-Varadhan value equals
    ``sup_h E_P[h] - E_Q[e^{h-1}]`` of Chaudhuri, Imola & Machanavajjhala (2019).
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
    for _ in range(_MAX_NEWTON_KL):
        step = np.zeros_like(c)
        step[:used] = np.linalg.lstsq(covariance[:used, :used], gradient[:used])[0]
        gain = float(gradient @ step)
        if gain <= _SETTLED_KL * max(value, 1e-300):
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
        if rise <= _SETTLED_KL * value:
            break
    return c, value
