"""Laws on the line, and quadrature that stays exact where a critic changes sign.

The integrals behind restricted alpha-divergences contain ``|g|^q`` and its derivatives, down to
``|g|^(q-2)``, which is unbounded at zeros of ``g``. Panels therefore end at the zeros of ``g``, and
the adjacent ones use a Gauss-Jacobi rule whose weight has that power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float
from scipy.special import roots_jacobi

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
