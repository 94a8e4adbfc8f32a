"""The proximal sampler as it runs: real numbers' decisions in doubles, and digits in close calls.

Why it is right, and for how many rounds, is in `gibbs_dp.privacy.proximal`. Every law here is
that of real numbers given doubles: the state, the anchor, the centre and deviation of proposals.
Whatever is computed of them in doubles comes with a bound on its error, and where that leaves a
decision open, `gibbs_dp.privacy.reals.is_below` makes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
from jaxtyping import Float

from gibbs_dp.privacy.noise import Noise
from gibbs_dp.privacy.proximal import START_SLACK, UNIT, ProximalPlan, QuadraticPrior, Vector
from gibbs_dp.privacy.proximal_acceptance import (
    Gaussian,
    Proposal,
    SecondStep,
    Tangent,
    TotalLoss,
    least,
)
from gibbs_dp.privacy.reals import ACCURACY, LOGARITHM, Enclosed, Normals, Uniforms, is_below

# Slack of an anchor: it costs proposals.
ANCHOR_SLACK = 0.1
# On balls Newton's steps take as long as a tangent of so many numbers.
LONG = 200_000
# Newton's steps to an anchor, and the most parameters that it is computed for.
NEWTON, LARGEST = 3, 1000


class ProximalSampler:
    """Runs a plan on data, with random bits of the operating system for releases."""

    def __init__(
        self, prior: QuadraticPrior, total: TotalLoss | None, plan: ProximalPlan, source: Noise
    ) -> None:
        self.prior, self.total, self.plan, self.source = prior, total, plan, source
        self.num_proposals = 0
        self.is_bounded = not math.isinf(prior.radius)
        self.pull = 0.0 if math.isinf(plan.step) else 1 / plan.step
        self._last: Tangent | None = None  # at the last anchor
        # Hessian of ``f + |. - y|^2 / (2 h)`` at the start; on all of space its inverse.
        self._hessian: Float[np.ndarray, "dim dim"] | None = None

    def draw(self) -> Vector:
        """Draw once, on the lattice."""
        prior, root = self.prior, math.sqrt(self.plan.step)
        if math.isinf(self.plan.step):
            return self._cut_off(self._move(prior.centre))
        x = self._start().values
        for _ in range(self.plan.num_steps):
            # The first step's numbers need no digits: nothing is decided by them.
            noise = Normals((prior.dim,), self.source).values
            point = self._move(x + root * noise)
            x = point.values
        return self._cut_off(point)

    # The start and the two steps.

    def _start(self) -> Proposal:
        """Draw from the quadratic above the potential, at a point near the minimum."""
        prior, total = self.prior, self.total
        assert total is not None
        upper = prior.precision + self.plan.smoothness

        def gradient(theta: Vector) -> Vector:
            return total.tangent(theta).gradient + prior.precision * (theta - prior.centre)

        place = _minimize(
            gradient,
            prior,
            upper,
            lambda at, slope: prior.slack(at, slope, prior.precision, upper),
            0.999 * START_SLACK,  # the rest is for rounding
            prior.project(prior.centre),
        )
        centre = place - gradient(place) / upper
        self._last = total.tangent(place)
        is_long = (prior.dim + 10) * len(total.y) > LONG
        if prior.dim <= LARGEST and (is_long or not self.is_bounded):
            found = np.diag(prior.precision + self.pull) + total.hessian(self._last)
            self._hessian = found if self.is_bounded else np.linalg.inv(found)
            self._top = float(np.linalg.norm(found, 2))
        return self._inside(self._law(centre, upper**-0.5))

    def _move(self, y: Vector) -> Proposal:
        """Draw from ``exp(-f(x) - |x - y|^2 / (2 h))`` on the set."""
        prior, total = self.prior, self.total
        stiff = prior.precision + self.pull
        base = prior.precision * prior.centre + self.pull * y
        if total is None:
            return self._inside(self._law(base / stiff, stiff**-0.5))
        tangent = self._anchor(total, base, stiff)
        law = self._law((base - tangent.gradient) / stiff, stiff**-0.5)
        step = SecondStep(prior, self.plan, self.source, total, y, tangent, law)
        acceptance = step.acceptance()
        while True:
            point = self._inside(law)
            self.num_proposals += 1
            if acceptance.accepts(point):
                return point

    def _anchor(self, total: TotalLoss, base: Vector, stiff: Vector) -> Tangent:
        """Descend until the tangent is nearly as good as at the minimum."""
        prior, last = self.prior, self._last
        weight, count = stiff + 0.5 * self.plan.smoothness, 0
        z, slope = (prior.centre, 0.0) if last is None else (last.point, last.gradient)
        gradient = slope + stiff * z - base
        while True:
            if self._hessian is not None and count < NEWTON:
                z = self._newton(z, gradient, stiff)
            else:
                z = prior.project(z - gradient / (weight if count else stiff))
            count += 1
            tangent = total.tangent(z)
            gradient = tangent.gradient + stiff * z - base
            slack = 0.5 * float(np.sum(gradient**2 / stiff))
            if slack > ANCHOR_SLACK and self.is_bounded:
                slack = prior.slack(z, gradient, stiff, None)
            if slack <= ANCHOR_SLACK:
                self._last = tangent
                return tangent

    def _newton(self, z: Vector, gradient: Vector, stiff: Vector) -> Vector:
        """Minimum on the set of the quadratic at a point, about."""
        hessian, prior = self._hessian, self.prior
        assert hessian is not None
        if not self.is_bounded:
            return np.asarray(z - hessian @ gradient)
        return _minimize(
            lambda at: gradient + hessian @ (at - z),
            prior,
            np.full(prior.dim, self._top),
            lambda at, slope: prior.slack(at, slope, stiff, None),
            0.25 * ANCHOR_SLACK,
            z,
        )

    # Gaussian laws inside balls.

    def _law(self, centre: Vector, deviation: Vector) -> Gaussian:
        """Choose what ``N(centre, deviation^2)`` restricted to the set is proposed by."""
        prior = self.prior
        if not self.is_bounded:
            return Gaussian(centre, deviation, np.zeros(1))
        away, wide = prior.by_ball(centre - prior.middle), prior.by_ball(deviation)[:, 0]
        size = away.shape[1]
        square, spread = np.sum(away**2, axis=1), size * wide**2
        # The root of |v|^2 / c^2 + size s^2 / c = R^2: the mean square of what is proposed.
        root = np.sqrt(spread**2 + 4 * prior.radii**2 * square)
        shrink = np.maximum(1.0, (spread + root) / (2 * prior.radii**2))
        return Gaussian(
            prior.middle + (away / shrink[:, None]).reshape(-1),
            np.repeat(wide / np.sqrt(shrink), size),
            (shrink - 1) / (2 * wide**2),
        )

    def _inside(self, law: Gaussian) -> Proposal:
        """Draw from a law restricted to the set."""
        prior = self.prior
        balls, size = len(prior.radii), prior.dim // len(prior.radii)
        if not self.is_bounded:
            normals = Normals((1, balls, size), self.source)
            values = law.centre + law.deviation * normals.values.reshape(-1)
            return Proposal(law, values, [(normals, 0)])
        values, origins = np.empty((balls, size)), {}
        is_open = np.ones(balls, bool)
        count = 4
        while is_open.any():
            found = _Block(self, law, count)
            for ball in np.flatnonzero(is_open).tolist():
                attempt = found.first(ball)
                if attempt is not None:
                    values[ball] = found.values[attempt, ball]
                    origins[ball] = (found.normals, attempt)
                    is_open[ball] = False
            count = min(2 * count, 64)
        return Proposal(law, values.reshape(-1), [origins[ball] for ball in range(balls)])

    def _cut_off(self, point: Proposal) -> Vector:
        """Round the real number to the lattice, towards the middle of its ball."""
        spacing, found = self.plan.spacing, np.empty(self.prior.dim)
        for j, value in enumerate(point.values.tolist()):
            middle = float(self.prior.middle[j])
            steps = (value - middle) / spacing
            near = round(steps)
            if abs(steps - near) * spacing <= 2 * point.error + 4 * UNIT * (
                abs(value) + abs(middle)
            ):

                def margin(bits: int, j: int = j, near: int = near) -> Enclosed:
                    real, error = point.real(j, bits)
                    edge = Decimal(float(self.prior.middle[j])) + near * Decimal(spacing)
                    return real - edge, error + least(real)

                steps = near - 0.5 if is_below(margin) else near + 0.5
            found[j] = middle + math.trunc(steps) * spacing
        return found


class _Block:
    """Proposals for every ball at once, and which of them are kept inside."""

    def __init__(self, sampler: ProximalSampler, law: Gaussian, count: int) -> None:
        prior = sampler.prior
        self.prior, self.law = prior, law
        shape = (count, len(prior.radii), prior.dim // len(prior.radii))
        self.normals = Normals(shape, sampler.source)
        self.uniforms = Uniforms(shape[:2], sampler.source)
        centre, sd = prior.by_ball(law.centre), prior.by_ball(law.deviation)
        self.values = centre + sd * self.normals.values
        length = np.sqrt(np.sum(self.values**2, axis=2))
        moved = np.sqrt(np.sum((self.values - centre) ** 2, axis=2))
        away = np.sqrt(np.sum((self.values - prior.by_ball(prior.middle)) ** 2, axis=2))
        middle = np.sqrt(np.sum(prior.by_ball(prior.middle) ** 2, axis=1))
        error = (ACCURACY + 2 * UNIT) * (math.sqrt(shape[2]) * sd[:, 0] + moved)
        error += 4 * UNIT * (length + middle)
        gap = prior.radii**2 - away**2
        of_gap = (2 * away + error) * error + (shape[2] + 8) * UNIT * (prior.radii**2 + away**2)
        chance = -np.log(self.uniforms.values)
        short = law.tilt * gap - chance
        of_short = law.tilt * of_gap + LOGARITHM * (1 + chance + law.tilt * np.abs(gap))
        self.is_kept = (gap > of_gap) & (short < -of_short)
        self.is_open = ~self.is_kept & (gap >= -of_gap) & (short <= of_short)

    def first(self, ball: int) -> int | None:
        """Return the first proposal that is kept."""
        for attempt in np.flatnonzero(self.is_kept[:, ball] | self.is_open[:, ball]).tolist():
            if self.is_kept[attempt, ball] or self._decide(attempt, ball):
                return int(attempt)
        return None

    def _decide(self, attempt: int, ball: int) -> bool:
        """Whether it is inside and kept there, by digits."""
        prior, size = self.prior, self.values.shape[2]
        point = Proposal(self.law, self.law.centre, [(self.normals, attempt)] * len(prior.radii))

        def gap(bits: int) -> Enclosed:
            square = error = Decimal(0)
            for j in range(ball * size, ball * size + size):
                real, off = point.real(j, bits)
                away = real - Decimal(float(prior.middle[j]))
                square, error = square + away * away, error + (2 * abs(away) + off) * off
            radius = Decimal(float(prior.radii[ball]))
            return radius * radius - square, error + least(square + radius)

        def short(bits: int) -> Enclosed:
            (space, error), tilt = gap(bits), Decimal(float(self.law.tilt[ball]))
            chance, off = self.uniforms.exponential((attempt, ball), bits)
            return tilt * space - chance, tilt * error + off + least(tilt * space)

        return not is_below(gap) and is_below(short)


# Steps before acceleration is given up for what is sure to arrive, and steps between two looks.
ACCELERATED, BETWEEN = 10_000, 8


def _minimize(
    gradient: Callable[[Vector], Vector],
    prior: QuadraticPrior,
    weight: Vector,
    slack: Callable[[Vector, Vector], float],
    goal: float,
    place: Vector,
) -> Vector:
    """Descend by accelerated projected gradients until the slack is small enough."""
    ahead, momentum, count = place, 1.0, 0
    while slack(place, gradient(place)) > goal:
        for _ in range(BETWEEN):
            count += 1
            new = prior.project(ahead - gradient(ahead) / weight)
            if count > ACCELERATED or (weight * (ahead - new)) @ (new - place) > 0:
                ahead, momentum = new, 1.0
            else:
                following = 0.5 * (1 + math.sqrt(1 + 4 * momentum**2))
                ahead = prior.project(new + (momentum - 1) / following * (new - place))
                momentum = following
            place = new
    return place
