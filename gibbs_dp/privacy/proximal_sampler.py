"""The proximal sampler as it runs: real numbers' decisions in doubles, and digits in close calls.

Why it is right, and for how many rounds, is in `gibbs_dp.privacy.proximal`. Every law here is
that of real numbers given doubles: the state, the anchor, the centre and deviation of proposals.
Whatever is computed of them in doubles comes with a bound on its error, and where that leaves a
decision open, `gibbs_dp.privacy.reals.is_below` makes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, getcontext
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.model.losses import LinearLoss, SoftmaxCrossEntropy
from gibbs_dp.privacy.noise import Noise
from gibbs_dp.privacy.proximal import (
    FAR,
    START_SLACK,
    UNIT,
    ProximalPlan,
    QuadraticPrior,
    Vector,
)
from gibbs_dp.privacy.reals import ACCURACY, Enclosed, Normals, Uniforms, is_below

# Slack of an anchor: it costs proposals.
ANCHOR_SLACK = 0.1

# Of rows; of rows and classes where there are several scores.
Predictions = Float[np.ndarray, " rows"] | Float[np.ndarray, "rows classes"]


class TotalLoss(NamedTuple):
    """``gamma sum_i loss(x_i theta, y_i)``, with what is public of it."""

    # In doubles; ``loss`` must have `LinearLoss.precise`, or be softmax cross-entropy, whose
    # parameter is a matrix ``[d, K]`` in one vector.
    loss: LinearLoss | SoftmaxCrossEntropy
    gamma: float
    x: Float[np.ndarray, "rows features"]
    y: Float[np.ndarray, " rows"]
    x_bound: float  # largest norm of a row

    @property
    def num_scores(self) -> int:
        """Linear predictions of a row."""
        return self.loss.num_classes if isinstance(self.loss, SoftmaxCrossEntropy) else 1

    def predict(self, theta: Vector) -> Predictions:
        """Linear predictions, or scores of the classes."""
        if self.num_scores == 1:
            return np.asarray(self.x @ theta)
        return np.asarray(self.x @ theta.reshape(-1, self.num_scores))

    def values(self, predicted: Predictions) -> Float[np.ndarray, " rows"]:
        """Losses of rows, times gamma."""
        return np.asarray(self.gamma * self.loss.value(predicted, self.y))

    def tangent(self, theta: Vector) -> _Tangent:
        """Slopes of the losses at a point."""
        predicted = self.predict(theta)
        slopes = self.gamma * self.loss.slope(predicted, self.y)
        return _Tangent(theta, predicted, slopes, (self.x.T @ slopes).reshape(-1))

    def precise(self, points: list[Decimal]) -> Decimal:
        """Its value to decimal's digits."""
        total, size = Decimal(0), self.num_scores
        for row, label in zip(self.x.tolist(), self.y.tolist(), strict=True):
            scores = [
                sum((Decimal(a) * b for a, b in zip(row, points[k::size], strict=True)), Decimal(0))
                for k in range(size)
            ]
            if isinstance(self.loss, SoftmaxCrossEntropy):
                total += self.loss.precise(scores, Decimal(label))
            else:
                total += self.loss.precise(scores[0], Decimal(label))
        return Decimal(self.gamma) * total


class _Tangent(NamedTuple):
    """Where the losses are touched: predictions and slopes of rows, gradient."""

    point: Vector
    predicted: Predictions
    slopes: Predictions
    gradient: Vector


class _Point:
    """A Gaussian proposal: its doubles, and the real numbers behind them."""

    def __init__(self, law: _Gaussian, values: Vector, origins: list[tuple[Normals, int]]) -> None:
        self.law, self.values, self._origins = law, values, origins

    def real(self, index: int, bits: int) -> Enclosed:
        """One coordinate and its error, which digits of the normal number leave."""
        ball, place = divmod(index, len(self.values) // len(self._origins))
        normals, attempt = self._origins[ball]
        z, error = normals.normal((attempt, ball, place), bits)
        sd = Decimal(float(self.law.deviation[index]))
        return Decimal(float(self.law.centre[index])) + sd * z, sd * error

    @property
    def error(self) -> float:
        """Distance of the doubles from the real numbers."""
        sd, centre = self.law.deviation, self.law.centre
        return float(
            (ACCURACY + 2 * UNIT) * (_norm(sd) + _norm(self.values - centre))
            + 2 * UNIT * _norm(self.values)
        )


class _Gaussian(NamedTuple):
    """``N(centre, deviation^2)``; inside balls times ``exp(tilt |x - middle|^2)``."""

    centre: Vector
    deviation: Vector
    tilt: Float[np.ndarray, " balls"]


class ProximalSampler:
    """Runs a plan on data, with random bits of the operating system for releases."""

    def __init__(
        self, prior: QuadraticPrior, total: TotalLoss | None, plan: ProximalPlan, source: Noise
    ) -> None:
        self.prior, self.total, self.plan, self.source = prior, total, plan, source
        self.num_proposals = 0
        self.is_bounded = not math.isinf(prior.radius)
        self.pull = 0.0 if math.isinf(plan.step) else 1 / plan.step
        self._slope = np.zeros(prior.dim)  # at the last anchor

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

    def _start(self) -> _Point:
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
        return self._inside(self._law(centre, upper**-0.5))

    def _move(self, y: Vector) -> _Point:
        """Draw from ``exp(-f(x) - |x - y|^2 / (2 h))`` on the set."""
        prior, total = self.prior, self.total
        stiff = prior.precision + self.pull
        base = prior.precision * prior.centre + self.pull * y
        if total is None:
            return self._inside(self._law(base / stiff, stiff**-0.5))
        tangent = self._anchor(total, base, stiff)
        law = self._law((base - tangent.gradient) / stiff, stiff**-0.5)
        test = _Test(self, total, y, tangent, law)
        while True:
            point = self._inside(law)
            self.num_proposals += 1
            if test.accepts(point):
                return point

    def _anchor(self, total: TotalLoss, base: Vector, stiff: Vector) -> _Tangent:
        """Descend until the tangent is nearly as good as at the minimum.

        A projected step over the mean of smallest and largest curvature takes at least a third off
        the distance. The slope at the last anchor is a good guess of where to begin.
        """
        prior = self.prior
        weight = stiff + 0.5 * self.plan.smoothness
        z = prior.project((base - self._slope) / stiff)
        while True:
            tangent = total.tangent(z)
            gradient = tangent.gradient + stiff * z - base
            slack = 0.5 * float(np.sum(gradient**2 / stiff))
            if slack > ANCHOR_SLACK and self.is_bounded:
                slack = prior.slack(z, gradient, stiff, None)
            if slack <= ANCHOR_SLACK:
                self._slope = tangent.gradient
                return tangent
            z = prior.project(z - gradient / weight)

    # Gaussian laws inside balls.

    def _law(self, centre: Vector, deviation: Vector) -> _Gaussian:
        """Choose what ``N(centre, deviation^2)`` restricted to the set is proposed by."""
        prior = self.prior
        if not self.is_bounded:
            return _Gaussian(centre, deviation, np.zeros(1))
        away, wide = prior.by_ball(centre - prior.middle), prior.by_ball(deviation)[:, 0]
        size = away.shape[1]
        square, spread = np.sum(away**2, axis=1), size * wide**2
        # The root of |v|^2 / c^2 + size s^2 / c = R^2: the mean square of what is proposed.
        root = np.sqrt(spread**2 + 4 * prior.radii**2 * square)
        shrink = np.maximum(1.0, (spread + root) / (2 * prior.radii**2))
        return _Gaussian(
            prior.middle + (away / shrink[:, None]).reshape(-1),
            np.repeat(wide / np.sqrt(shrink), size),
            (shrink - 1) / (2 * wide**2),
        )

    def _inside(self, law: _Gaussian) -> _Point:
        """Draw from a law restricted to the set."""
        prior = self.prior
        balls, size = len(prior.radii), prior.dim // len(prior.radii)
        if not self.is_bounded:
            normals = Normals((1, balls, size), self.source)
            values = law.centre + law.deviation * normals.values.reshape(-1)
            return _Point(law, values, [(normals, 0)])
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
        return _Point(law, values.reshape(-1), [origins[ball] for ball in range(balls)])

    def _cut_off(self, point: _Point) -> Vector:
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
                    return real - edge, error + _least(real)

                steps = near - 0.5 if is_below(margin) else near + 0.5
            found[j] = middle + math.trunc(steps) * spacing
        return found


class _Block:
    """Proposals for every ball at once, and which of them are kept inside."""

    def __init__(self, sampler: ProximalSampler, law: _Gaussian, count: int) -> None:
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
        of_short = law.tilt * of_gap + 8 * UNIT * (1 + chance + law.tilt * np.abs(gap))
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
        point = _Point(self.law, self.law.centre, [(self.normals, attempt)] * len(prior.radii))

        def gap(bits: int) -> Enclosed:
            square = error = Decimal(0)
            for j in range(ball * size, ball * size + size):
                real, off = point.real(j, bits)
                away = real - Decimal(float(prior.middle[j]))
                square, error = square + away * away, error + (2 * abs(away) + off) * off
            radius = Decimal(float(prior.radii[ball]))
            return radius * radius - square, error + _least(square + radius)

        def short(bits: int) -> Enclosed:
            (space, error), tilt = gap(bits), Decimal(float(self.law.tilt[ball]))
            chance, off = self.uniforms.exponential((attempt, ball), bits)
            return tilt * space - chance, tilt * error + off + _least(tilt * space)

        return not is_below(gap) and is_below(short)


class _Test:
    """Acceptance of proposals: what the losses are above their tangent, against an exponential.

    Exactly, with ``q`` the quadratics that make up prior, first step and proposals, it is what
    ``losses + q`` is above its value at the anchor, and a constant that no rounding of the tangent
    outweighs.
    """

    def __init__(
        self,
        sampler: ProximalSampler,
        total: TotalLoss,
        y: Vector,
        tangent: _Tangent,
        law: _Gaussian,
    ) -> None:
        self.sampler, self.total, self.y, self.law = sampler, total, y, law
        prior, pull, z = sampler.prior, sampler.pull, tangent.point
        self.anchor = z
        values = total.values(tangent.predicted)
        self.value, self.size = float(values.sum()), float(np.abs(values).sum())
        # Rounding: of sums of so many numbers, in any order, and of functions of them.
        self.unit = (sum(total.x.shape) + total.num_scores + 64) * 2 * UNIT
        self.length = _norm(z)
        self.largest = float(np.abs(total.y).max())
        # Differences of shares and labels, or of predictions and labels, err by units of what is
        # subtracted, however small they are.
        weight, bend = total.gamma * len(total.y), sampler.plan.smoothness / total.x_bound**2
        self.slopes = float(np.abs(tangent.slopes).sum()) + 2 * weight
        self.slopes += bend * (total.x_bound * self.length + self.largest)
        if total.num_scores > 1:
            self.largest += 1.0  # of logarithms of sums
        tilt = np.repeat(2 * law.tilt, prior.dim // len(law.tilt))
        narrow = law.deviation**-2.0
        self.linear = (
            prior.precision * (z - prior.centre)
            + pull * (z - y)
            - narrow * (z - law.centre)
            + tilt * (z - prior.middle)
        )
        self.heavy = float(np.max(prior.precision + narrow + tilt)) + pull
        far = sum(map(_norm, (z, prior.centre, y, law.centre, prior.middle)))
        self.force = self.heavy * far + total.x_bound * self.slopes
        self.reach = 2 * prior.radius
        if not sampler.is_bounded:
            self.reach = _norm(law.centre - z)
            self.reach += float(law.deviation.max()) * (math.sqrt(prior.dim) + 2 * FAR)
        # What the tangent's rounding may take away within reach, twice.
        self.constant = 2 * self.unit * self.reach * (self.force + self.heavy * self.reach)

    def accepts(self, point: _Point) -> bool:
        """Whether a proposal is taken."""
        sampler, total, x, z = self.sampler, self.total, point.values, self.anchor
        values = total.values(total.predict(x))
        above = float(values.sum()) - self.value + float(self.linear @ (x - z)) + self.constant
        move = _norm(x - z)
        length = total.x_bound * (_norm(x) + self.length) + self.largest
        steep = total.gamma * len(total.y) + self.slopes
        steep += sampler.plan.smoothness * move / total.x_bound
        doubt = self.unit * (
            float(np.abs(values).sum())
            + self.size
            + steep * length
            + (self.force + self.heavy * move) * move
        )
        error = point.error
        climb = sampler.plan.smoothness * (move + error) + 2 * self.unit * self.force
        doubt += climb * error
        uniform = Uniforms((1,), sampler.source)
        chance = -math.log(float(uniform.values[0]))
        doubt += 8 * UNIT * (1 + chance + abs(above))
        if abs(above - chance) > doubt:
            return above < chance

        def margin(bits: int) -> Enclosed:
            reals = [point.real(j, bits) for j in range(len(x))]
            at, off = [real for real, _ in reals], sum((e for _, e in reals), Decimal(0))
            exact = self._potential(at) - self._potential([Decimal(v) for v in z.tolist()])
            wait, error = uniform.exponential((0,), bits)
            # The slope in between, bounded as above.
            error += off * Decimal(2 * climb + 1)
            error += _least(
                Decimal(self.size + (self.force + self.heavy * self.reach) * self.reach)
            )
            return exact + Decimal(self.constant) - wait, error

        return is_below(margin)

    def _potential(self, point: list[Decimal]) -> Decimal:
        """Losses, prior and first step over the proposals' density, to decimal's digits."""
        prior, law = self.sampler.prior, self.law
        size = prior.dim // len(prior.radii)
        half, found = Decimal("0.5"), self.total.precise(point)
        h = None if self.sampler.pull == 0 else Decimal(self.sampler.plan.step)
        for j, at in enumerate(point):
            precision, sd = Decimal(float(prior.precision[j])), Decimal(float(law.deviation[j]))
            found += half * precision * (at - Decimal(float(prior.centre[j]))) ** 2
            if h is not None:
                found += half * (at - Decimal(float(self.y[j]))) ** 2 / h
            found -= half * ((at - Decimal(float(law.centre[j]))) / sd) ** 2
            tilt = Decimal(float(law.tilt[j // size]))
            found += tilt * (at - Decimal(float(prior.middle[j]))) ** 2
        return found


def _norm(vector: Vector) -> float:
    return math.sqrt(float(vector @ vector))


def _least(size: Decimal) -> Decimal:
    """Bound on what decimal's rounding does to sums of numbers of this size."""
    return (abs(size) + 1) * Decimal(10) ** (25 - getcontext().prec)


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
    """Descend by accelerated projected gradients until the slack is small enough.

    Nesterov 1983 with the restarts of O'Donoghue & Candès 2015; plain steps in the end.
    """
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
