"""Whether a proposal of the proximal sampler is taken: by all rows, or by a few.

A proposal ``x`` is accepted with probability ``exp(-E)``, where ``E`` is what the losses are above
their tangent at an anchor ``z``, for real numbers ``x``; the laws are those of
`gibbs_dp.privacy.proximal`. Doubles decide where their errors leave no doubt, and digits elsewhere.
Either all rows are added up (`Acceptance`), or a few are looked at, which decide with the same
probability (`ThinnedAcceptance`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, getcontext
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.model.losses import LinearLoss, SoftmaxCrossEntropy
from gibbs_dp.privacy.noise import Noise
from gibbs_dp.privacy.proximal import FAR, UNIT, ProximalPlan, QuadraticPrior, Vector
from gibbs_dp.privacy.reals import (
    ACCURACY,
    LOGARITHM,
    RATE,
    Enclosed,
    Normals,
    Uniforms,
    is_below,
    poissons,
    whole_numbers,
)

# Numbers of the rows that a tangent takes at a time.
BLOCK = 2**16
# Rows that a Hessian takes, over their length.
ROWS_A_PARAMETER = 20
# Rows are thinned where so many times those that are looked at, and some more, are fewer than all.
THINNED, FEW = 4, 2_000
# Of a thinned acceptance, Poisson numbers of rows that are looked at first, and then twice as many.
FIRST_PIECES = 8

# Of rows; of rows and classes where there are several scores.
Predictions = Float[np.ndarray, " rows"] | Float[np.ndarray, "rows classes"]
# From real coordinates and what they err by.
Exact = Callable[[list[Decimal], Decimal], Enclosed]


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

    def rows(self, which: slice | Int[np.ndarray, " k"]) -> TotalLoss:
        """Total of some rows."""
        return self._replace(x=self.x[which], y=self.y[which])

    @property
    def block(self) -> int:
        """Rows that a tangent takes at a time: they are read once, and then lie in the cache."""
        return max(1, BLOCK // self.x.shape[1])

    def tangent(self, theta: Vector) -> Tangent:
        """Slopes of the losses at a point."""
        parts, gradient = [], np.zeros((self.x.shape[1], self.num_scores))
        for begin in range(0, max(1, len(self.y)), self.block):
            part = self.rows(slice(begin, begin + self.block))
            predicted = part.predict(theta)
            slopes = self.gamma * self.loss.slope(predicted, part.y)
            gradient += (part.x.T @ slopes).reshape(gradient.shape)
            parts.append((predicted, slopes))
        predicted, slopes = map(np.concatenate, zip(*parts, strict=True))
        return Tangent(theta, predicted, slopes, gradient.reshape(-1))

    def hessian(self, tangent: Tangent) -> Float[np.ndarray, "dim dim"]:
        """Second derivatives at a point, from some rows: nothing that is drawn depends on them."""
        size, dim = self.num_scores, self.x.shape[1]
        every = max(1, len(self.y) // (ROWS_A_PARAMETER * dim))
        part = self.rows(slice(None, None, every))
        bends = every * part.gamma * part.loss.curvature(tangent.predicted[::every], part.y)
        bends = bends.reshape(-1, size, size)
        found = np.empty((dim, size, dim, size))
        for k, j in np.ndindex(size, size):
            found[:, k, :, j] = part.x.T @ (bends[:, k, j, None] * part.x)
        return found.reshape(dim * size, dim * size)

    def scores(self, points: list[Decimal]) -> Iterator[list[Decimal]]:
        """Linear predictions of a row after another, to decimal's digits."""
        size = self.num_scores
        for row in self.x.tolist():
            numbers = [Decimal(a) for a in row]
            yield [
                sum((a * b for a, b in zip(numbers, points[k::size], strict=True)), Decimal(0))
                for k in range(size)
            ]

    def precise(self, points: list[Decimal]) -> Decimal:
        """Its value to decimal's digits."""
        total, loss = Decimal(0), self.loss
        for scores, label in zip(self.scores(points), self.y.tolist(), strict=True):
            given = scores if isinstance(loss, SoftmaxCrossEntropy) else scores[0]
            total += loss.precise(given, Decimal(label))  # type: ignore[arg-type]
        return Decimal(self.gamma) * total

    def rise(self, slopes: Predictions, points: list[Decimal], anchor: list[Decimal]) -> Decimal:
        """Sum of predictions' differences times slopes, to decimal's digits."""
        moves = [a - b for a, b in zip(points, anchor, strict=True)]
        total, found = Decimal(0), slopes.reshape(len(slopes), -1)
        for scores, steep in zip(self.scores(moves), found, strict=True):
            total += sum((a * b for a, b in zip(scores, decimals(steep), strict=True)), Decimal(0))
        return total


class Tangent(NamedTuple):
    """Where the losses are touched: predictions and slopes of rows, gradient."""

    point: Vector
    predicted: Predictions
    slopes: Predictions
    gradient: Vector


class Gaussian(NamedTuple):
    """``N(centre, deviation^2)``; inside balls times ``exp(tilt |x - middle|^2)``."""

    centre: Vector
    deviation: Vector
    tilt: Float[np.ndarray, " balls"]


class Proposal:
    """A Gaussian proposal: its doubles, and the real numbers behind them."""

    def __init__(self, law: Gaussian, values: Vector, origins: list[tuple[Normals, int]]) -> None:
        self.law, self.values, self._origins = law, values, origins

    def real(self, index: int, bits: int) -> Enclosed:
        """One coordinate and its error, which digits of the normal number leave."""
        ball, place = divmod(index, len(self.values) // len(self._origins))
        normals, attempt = self._origins[ball]
        z, error = normals.normal((attempt, ball, place), bits)
        sd = Decimal(float(self.law.deviation[index]))
        return Decimal(float(self.law.centre[index])) + sd * z, sd * error

    def reals(self, bits: int) -> tuple[list[Decimal], Decimal]:
        """All coordinates, and their errors' sum."""
        found = [self.real(j, bits) for j in range(len(self.values))]
        return [real for real, _ in found], sum((error for _, error in found), Decimal(0))

    @cached_property
    def error(self) -> float:
        """Distance of the doubles from the real numbers."""
        sd, centre = self.law.deviation, self.law.centre
        return float(
            (ACCURACY + 2 * UNIT) * (norm(sd) + norm(self.values - centre))
            + 2 * UNIT * norm(self.values)
        )


class SecondStep(NamedTuple):
    """What is drawn from, and what proposals are drawn by."""

    prior: QuadraticPrior
    plan: ProximalPlan
    source: Noise
    total: TotalLoss
    y: Vector
    tangent: Tangent
    law: Gaussian

    def acceptance(self) -> Acceptance:
        """Choose how to accept: both are right, and one is faster."""
        move, law = norm(self.law.centre - self.tangent.point), self.law
        looked_at = 0.5 * self.plan.smoothness * (move**2 + float(law.deviation @ law.deviation))
        is_thinned = len(self.total.y) > THINNED * looked_at + FEW
        return ThinnedAcceptance(self) if is_thinned else Acceptance(self)


class Acceptance:
    """Acceptance of proposals: what the losses are above their tangent, against an exponential.

    Exactly, with ``q`` the quadratics that make up prior, first step and proposals, it is what
    ``losses + q`` is above its value at the anchor, and a constant that no rounding of the tangent
    outweighs.
    """

    def __init__(self, step: SecondStep) -> None:
        self.step = step
        prior, plan, _, total, y, tangent, law = step
        pull, z = 1 / plan.step, tangent.point
        # Rounding: of sums of so many numbers, in any order, and of functions of them.
        self.unit = (self.summed(total) + total.x.shape[1] + total.num_scores + 64) * 2 * UNIT
        self.length = norm(z)
        self.largest = float(np.abs(total.y).max(initial=0.0))
        # Differences of shares and labels, or of predictions and labels, err by units of what is
        # subtracted, however small they are.
        weight, bend = total.gamma * len(total.y), plan.smoothness / total.x_bound**2
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
        far = sum(map(norm, (z, prior.centre, y, law.centre, prior.middle)))
        self.force = self.heavy * far + total.x_bound * self.slopes
        self.reach = 2 * prior.radius
        if math.isinf(prior.radius):
            self.reach = norm(law.centre - z)
            self.reach += float(law.deviation.max()) * (math.sqrt(prior.dim) + 2 * FAR)
        # What the tangent's rounding may take away within reach, twice.
        self.constant = 2 * self.unit * self.reach * (self.force + self.heavy * self.reach)

    @staticmethod
    def summed(total: TotalLoss) -> int:
        """Count numbers that are added up one after another."""
        return len(total.y)

    @cached_property
    def values(self) -> Float[np.ndarray, " rows"]:
        """Losses of all rows at the anchor."""
        return self.step.total.values(self.step.tangent.predicted)

    @cached_property
    def value(self) -> tuple[float, float]:
        """Their sum, and that of their sizes."""
        return float(self.values.sum()), float(np.abs(self.values).sum())

    def accepts(self, point: Proposal) -> bool:
        """Whether a proposal is taken."""
        total, x, z = self.step.total, point.values, self.step.tangent.point
        values, (value, size) = total.values(total.predict(x)), self.value
        above = float(values.sum()) - value + float(self.linear @ (x - z)) + self.constant
        move = norm(x - z)
        length = total.x_bound * (norm(x) + self.length) + self.largest
        steep = total.gamma * len(total.y) + self.slopes
        smoothness = self.step.plan.smoothness
        steep += smoothness * move / total.x_bound
        doubt = self.unit * (
            float(np.abs(values).sum()) + size + steep * length + self._pull(move) * move
        )
        error = point.error
        climb = smoothness * (move + error) + 2 * self.unit * self.force
        doubt += climb * error

        exact = partial(self._exact, climb=climb, size=size)
        return self._outlasts(point, above, doubt, exact)

    def _exact(self, at: list[Decimal], off: Decimal, climb: float, size: float) -> Enclosed:
        """Return what is above the tangent, in digits; ``off`` is the coordinates' error."""
        total, anchor = self.step.total, decimals(self.step.tangent.point)
        exact = total.precise(at) - total.precise(anchor)
        exact += self._quadratic(at) - self._quadratic(anchor) + Decimal(self.constant)
        # The slope in between, bounded as above.
        return exact, off * Decimal(2 * climb + 1) + self._least(size)

    def _outlasts(self, point: Proposal, above: float, doubt: float, exact: Exact) -> bool:
        """Whether an exponential number is larger than what is ``above``, or is exactly."""
        uniform = Uniforms((1,), self.step.source)
        chance = -math.log(float(uniform.values[0]))
        doubt += LOGARITHM * (1 + chance + abs(above))
        if abs(above - chance) > doubt:
            return above < chance

        return is_below(partial(self._outlast_by, exact, point, uniform))

    @staticmethod
    def _outlast_by(exact: Exact, point: Proposal, uniform: Uniforms, bits: int) -> Enclosed:
        """Return what is above, less the exponential number."""
        value, error = exact(*point.reals(bits))
        wait, off = uniform.exponential((0,), bits)
        return value - wait, error + off

    def _pull(self, move: float) -> float:
        return self.force + self.heavy * move

    def _least(self, size: float) -> Decimal:
        return least(Decimal(size + self._pull(self.reach) * self.reach))

    def _quadratic(self, point: list[Decimal]) -> Decimal:
        """Prior and first step over the proposals' density, to decimal's digits."""
        prior, plan, _, _, y, _, law = self.step
        size, half, found = prior.dim // len(prior.radii), Decimal("0.5"), Decimal(0)
        for j, at in enumerate(point):
            precision, sd = Decimal(float(prior.precision[j])), Decimal(float(law.deviation[j]))
            found += half * precision * (at - Decimal(float(prior.centre[j]))) ** 2
            found += half * (at - Decimal(float(y[j]))) ** 2 / Decimal(plan.step)
            found -= half * ((at - Decimal(float(law.centre[j]))) / sd) ** 2
            tilt = Decimal(float(law.tilt[j // size]))
            found += tilt * (at - Decimal(float(prior.middle[j]))) ** 2
        return found


class ThinnedAcceptance(Acceptance):
    """The same acceptance by a few rows: a Poisson process of them, none of which may hit.

    Let ``a_i >= 0`` be what row ``i`` is above its tangent, and ``b`` bound them all. If every row
    comes up at rate ``b``, and hits with probability ``a_i / b`` when it does, then hits of row
    ``i`` have rate ``a_i`` (thinning), and there is none at all with probability ``exp(-sum_i
    a_i)``: exactly, whatever ``b`` is. Smoothness ``M`` of the total gives ``b = M |x - z|^2 /
    (2 rows)``, so that ``M |x - z|^2 / 2`` rows are looked at on average, a few times ``dim``
    however many there are, and fewer before most rejections.

    A row's tangent has the slope that was stored, and is lifted by more than its rounding may take
    away. The rest of the exponent, which is rounding alone, is tested as without thinning.
    """

    def __init__(self, step: SecondStep) -> None:
        super().__init__(step)
        total, slopes = step.total, np.abs(step.tangent.slopes)
        # Of one row: curvature, slope with what it may err by, unit of rounding.
        self.bend = step.plan.smoothness / len(total.y)
        self.slope = float((slopes if slopes.ndim == 1 else slopes.sum(axis=1)).max())
        self.slope += 2 * total.gamma
        self.slope += self.bend / total.x_bound**2 * (total.x_bound * self.length + self.largest)
        self.row_unit = (total.x.shape[1] + total.num_scores + 64) * 2 * UNIT
        # Of a tangent, by distance from the anchor.
        self.lift = self.row_unit * total.x_bound * self.slope
        self.constant += 2 * len(total.y) * self.lift * self.reach

    @staticmethod
    def summed(total: TotalLoss) -> int:
        """Blocks, and rows of one."""
        return total.block + -(-len(total.y) // total.block)

    def accepts(self, point: Proposal) -> bool:
        """Whether a proposal is taken."""
        total, source, z = self.step.total, self.step.source, self.step.tangent.point
        num_rows = len(total.y)
        move = norm(point.values - z) * (1 + 2**-20) + point.error  # no less than it is
        bound = (0.5 * self.bend * move + 2 * self.lift) * move * (1 + 2**-20)
        pieces = left = math.ceil(num_rows * bound / RATE)
        lift, at_once = self.lift * move, FIRST_PIECES
        while left > 0:
            at_once = min(at_once, left)
            left -= at_once
            count = int(poissons(at_once, source).sum())
            which = whole_numbers(num_rows, count, source)
            if self._is_hit(point, which, lift, move, Decimal(pieces * RATE) / num_rows):
                return False
            at_once *= 2

        # Within reach it is neither negative nor more than twice the constant.
        return self._outlasts(point, self.constant, self.constant, partial(self._rest, lift=lift))

    def _rest(self, at: list[Decimal], off: Decimal, lift: float) -> Enclosed:
        """Return what thinned rows leave of the exponent, in digits."""
        step, total, anchor = self.step, self.step.total, decimals(self.step.tangent.point)
        exact = Decimal(self.constant) - len(total.y) * Decimal(lift)
        exact += self._quadratic(at) - self._quadratic(anchor)
        exact += total.rise(step.tangent.slopes, at, anchor)
        slope = self._pull(self.reach) + total.x_bound * self.slopes
        return exact, off * Decimal(2 * slope + 1) + self._least(self.slopes)

    def _is_hit(
        self, point: Proposal, which: Int[np.ndarray, " k"], lift: float, move: float, rate: Decimal
    ) -> bool:
        """Whether one of these rows hits: a uniform number times the rate is below what it adds."""
        step, part, x = self.step, self.step.total.rows(which), point.values
        before, slopes = step.tangent.predicted[which], step.tangent.slopes[which]
        after, most = part.predict(x), float(rate)
        old, new, rise = part.values(before), part.values(after), slopes * (after - before)
        above = new - old - (rise if rise.ndim == 1 else rise.sum(axis=1)) + lift
        uniforms = Uniforms(which.shape, step.source)
        steep = part.gamma + self.slope + self.bend * move / part.x_bound
        length = part.x_bound * (norm(x) + self.length) + self.largest
        climb = self.bend * (move + point.error) + 2 * self.row_unit * part.x_bound * self.slope
        doubt = self.row_unit * (np.abs(old) + np.abs(new) + steep * length + most)
        doubt += climb * point.error + LOGARITHM * most
        if (above > most + doubt).any():
            raise ValueError("loss: it bends more than its constants say; correct them.")
        excess = above - uniforms.values * most
        if (excess > doubt).any():
            return True

        doubtful = np.flatnonzero(excess >= -doubt).tolist()
        if not doubtful:
            return False

        def is_one(i: int) -> bool:
            row, anchor = part.rows(slice(i, i + 1)), decimals(step.tangent.point)

            def margin(bits: int) -> Enclosed:
                at, off = point.reals(bits)
                found = row.precise(at) - row.precise(anchor) + Decimal(lift)
                found -= row.rise(slopes[i : i + 1], at, anchor)
                share, error = uniforms.uniform((i,), bits)
                error = error * rate + off * Decimal(2 * climb + 1)
                return share * rate - found, error + self._least(self.slope)

            return is_below(margin)

        return any(map(is_one, doubtful))


def norm(vector: Vector) -> float:
    """Euclidean length."""
    return math.sqrt(float(vector @ vector))


def decimals(vector: Float[np.ndarray, " k"]) -> list[Decimal]:
    """Write doubles out, exactly."""
    return [Decimal(value) for value in vector.tolist()]


def least(size: Decimal) -> Decimal:
    """Bound on what decimal's rounding does to sums of numbers of this size."""
    return (abs(size) + 1) * Decimal(10) ** (25 - getcontext().prec)
