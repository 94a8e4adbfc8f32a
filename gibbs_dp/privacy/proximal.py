r"""The proximal sampler: draws of a convex posterior, within a proven distance of it.

**The sampler** (Lee, Shen & Tian 2021). Of a density ``pi ~ exp(-f)`` on a convex set ``K``, two
steps with a constant ``h``: ``y ~ N(x, h I)``, then ``x`` from ``p(x | y) ~ exp(-f(x) - |x - y|^2
/ (2 h))`` on ``K``. It is a Gibbs sampler of a law whose first marginal is ``pi``, without bias
for any ``h``.

**How fast** (Chen, Chewi, Salim & Wibisono 2022). Both steps are a heat flow of variance ``h``,
of the law and of ``pi`` alike, one of them backwards. Where ``pi`` has a log-Sobolev inequality
``KL <= Fisher / (2 alpha)``, its convolution with ``N(0, t I)`` has one with ``alpha / (1 + alpha
t)``; KL falls at that rate, so that a round divides it by ``(1 + alpha h)^2``, and the Rényi
divergence of order 2 by ``1 + alpha h``. With a Poincaré constant ``C`` a round divides
chi-squared by ``(1 + h/C)^2``.

- A posterior that is ``m``-strongly convex on a convex set has ``alpha = m`` and ``C = 1/m``
  (Bakry & Émery 1985).
- On a set of radius ``R`` it has ``alpha = (m + 2 u / R^2) e^-u`` for every ``u >= 0``, best at
  ``u = 1 - m R^2 / 2``: ``|x|^2`` times ``u / R^2`` added, which Bakry & Émery's theorem is used
  for, and taken away again, which costs ``e^-u`` (Holley & Stroock 1987). And ``C = (2 R /
  pi)^2`` (Payne & Weinberger 1960; of log-concave laws by their proof, Ferone, Nitsch & Trombetti
  2012).

**The start** is the quadratic above ``f`` at a point ``x_0``: with ``g`` the gradient there, ``u
= x - x_0`` and the losses' total ``M``-smooth, ``rho_0 ~ exp(-g u - sum_j (lambda_j + M) u_j^2 /
2)`` on ``K``, where ``lambda`` are the prior's precisions. Since ``f`` lies above the same with
``M = 0``, ``log rho_0 / pi`` is at most the integral over ``t`` from 0 to ``M`` of ``E |u|^2 /
2`` under ``exp(-g u - sum_j (lambda_j + t) u_j^2 / 2)``. By the divergence theorem, ``K`` being
convex and ``x_0`` in it, that mean of ``g u + sum_j (lambda_j + t) u_j^2`` is at most ``d``; so
where ``-g u <= 1`` on ``K``, ``E |u|^2 <= min((d + 1)/(m + t), D^2)``. On all of space it is
``sum_j log(1 + M/lambda_j) / 2`` plus what the gradient adds, at most 1. No divergence of the
start is larger than this bound (``start``).

**The second step, exactly.** At any anchor ``z``, convexity puts the losses above their tangent.
Proposals are drawn from prior times tangent times ``exp(-|x - y|^2 / (2 h))``, which is Gaussian,
and accepted with probability ``exp(-`` losses above the tangent``)``. The anchor is near the
minimum, so that with ``h = 4/M``, or ``6/M``, few are rejected: by Jensen's inequality one needs
about ``exp(h M / 2)`` of them at most, as the trace of a Hessian of losses of a linear prediction
is its largest eigenvalue. Softmax cross-entropy of a row ``x`` has a Hessian ``(diag(p) - p p') (x)
x x'`` with eigenvalues of at most ``|x|^2 / 2`` and a trace of at most ``|x|^2 (1 - 1/K)``, up to
twice as much, which may cost proposals, and is nothing that a proof needs. On a ball of radius
``R`` proposals ``N(v, s^2 I)`` are drawn from ``N(v/c, s^2 I / c)`` and kept inside with
probability ``exp(-(c - 1)(R^2 - |x|^2) / (2 s^2))``, for a ``c`` that makes most fall near the
surface. Of many rows a few decide, as all of them would (`gibbs_dp.privacy.proximal_acceptance`).

**Rounding.** All that is compared is compared as real numbers are (`gibbs_dp.privacy.reals`):
doubles decide where their errors leave no doubt, and digits elsewhere. So, given the double that
was stored, the next state has exactly its law; only storing it rounds, and an error ``e`` in
``x`` costs at most a total variation of ``|e| / sqrt(2 pi h)`` in ``y``, which is Gaussian around
it, and no more the other way, as ``p(. | y)`` is ``1/h``-strongly convex and moves by a function
that is ``|e|/h``-Lipschitz (Gopi, Lee & Liu 2022). What is released is the real number cut off to
a public lattice.

What would be biased, and is not done: a step that depends on the state, stopping by the state,
and giving up after some number of proposals. Start and anchor depend on the data; numbers of
rounds and their step do not. Time does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.privacy.reals import ACCURACY

Vector = Float[np.ndarray, " dim"]

# Step of a round, over the losses' smoothness: proposals against rounds, of which each reads all
# rows once; of many rows longer ones.
STEP, STEP_OF_MANY, MANY = 4.0, 6.0, 20_000
# What the gradient at the start may add to its divergence, nats.
START_SLACK = 1.0
# States are longer than is counted on with less than e^-FAR a round.
FAR = 50.0
UNIT = 2.0**-53  # of rounding
# Steps of the lattice of released numbers within the step of a round.
FINENESS = 2**20
ROOT_TWO_PI = math.sqrt(2 * math.pi)


class QuadraticPrior(NamedTuple):
    """``exp(-sum_j precision_j (theta_j - centre_j)^2 / 2)`` on balls, or all of space."""

    # Of the Gaussian factor; precisions may be 0 on balls, and are the same within one.
    precision: Vector
    centre: Vector
    middle: Vector  # of the balls
    # Of the balls ``[balls]``, each of the next ``dim / balls`` coordinates; infinite for all of
    # space. A box is a product of intervals, balls of one coordinate.
    radii: Float[np.ndarray, " balls"]

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.precision)

    @property
    def radius(self) -> float:
        """Of a ball around the whole set."""
        return float(np.sqrt(np.sum(self.radii**2)))

    def by_ball(self, vector: Vector) -> Float[np.ndarray, "balls size"]:
        """Arrange coordinates by ball."""
        return vector.reshape(len(self.radii), -1)

    def project(self, vector: Vector) -> Vector:
        """Nearest point of the set."""
        if math.isinf(self.radius):
            return vector
        away = self.by_ball(vector - self.middle)
        length = np.sqrt(np.sum(away**2, axis=1))
        shrink = np.minimum(1.0, self.radii / np.maximum(length, 1e-300))
        return np.asarray(self.middle + (shrink[:, None] * away).reshape(-1))

    def slack(self, point: Vector, gradient: Vector, lower: Vector, upper: Vector | None) -> float:
        """Bound ``-gradient u`` over ``point + u`` in the set.

        On all of space return half of ``sum_j gradient_j^2 (1/lower_j - 1/upper_j)`` instead.
        """
        if math.isinf(self.radius):
            share = 1 / lower if upper is None else 1 / lower - 1 / upper
            return float(0.5 * np.sum(gradient**2 * share))
        steepest = np.sqrt(np.sum(self.by_ball(gradient) ** 2, axis=1))
        return float(gradient @ (point - self.middle) + steepest @ self.radii)


# How many rounds: from public facts alone.


@dataclass(frozen=True)
class ProximalPlan:
    """Rounds of the sampler and what they prove; free of the data."""

    # ``h``, the variance of the first step; infinite where one exact draw needs no rounds.
    step: float
    num_steps: int  # rounds
    smoothness: float  # ``M`` of the losses' total
    start: float  # bound on every divergence of the start from the posterior, nats
    mixing: float  # total variation after the rounds in real numbers
    rounding: float  # total variation that rounding of the states adds
    spacing: float  # of the lattice of released numbers
    # Largest ``|rho / pi - 1|`` in real numbers, where it was asked for.
    log_ratio: float | None = None

    @property
    def total_variation(self) -> float:
        """Distance of a released draw from the posterior, rounding included."""
        return self.mixing + self.rounding


def inequalities(prior: QuadraticPrior) -> tuple[float, float]:
    """Log-Sobolev and Poincaré constants of the posterior of any convex losses."""
    convexity, radius = float(prior.precision.min()), prior.radius
    if math.isinf(radius):
        return convexity, 1 / convexity
    u = max(0.0, 1 - convexity * radius**2 / 2)
    alpha = (convexity + 2 * u / radius**2) * math.exp(-u)
    return alpha, min(1 / alpha, (2 * radius / math.pi) ** 2)


def start_divergence(prior: QuadraticPrior, smoothness: float) -> float:
    """Bound on the log density ratio of start and posterior, nats."""
    if math.isinf(prior.radius):
        return float(np.sum(np.log1p(smoothness / prior.precision))) / 2 + START_SLACK
    low, size = float(prior.precision.min()), prior.dim + START_SLACK
    high, square = low + smoothness, (2 * prior.radius) ** 2
    bend = min(max(size / square, low), high)
    return (square * (bend - low) + size * math.log(high / bend)) / 2


def num_rounds(start: float, step: float, alpha: float, poincare: float, log_chi2: float) -> int:
    """Count rounds until ``log chi2 <= log_chi2``: Rényi 2 falls first, then chi-squared.

    Rényi 2 falls by ``1 + alpha h`` a round, to ``r``; then ``chi2 = e^r - 1`` by ``(1 + h/C)^2``.
    """
    best = math.inf
    rate, slow = 2 * math.log1p(step / poincare), math.log1p(alpha * step)
    first = 0
    while first < best:
        renyi = start * math.exp(-first * slow)
        # log(e^r - 1) without overflow; far below any goal where r underflows.
        log_now = renyi + math.log(-math.expm1(-renyi)) if renyi > 0 else log_chi2
        best = min(best, first + max(0, math.ceil((log_now - log_chi2) / rate)))
        first += max(1, first // 64)
    return int(best)


def plan_proximal(
    prior: QuadraticPrior,
    *,
    smoothness: float,
    farthest: float,
    rows: int = 0,
    total_variation: float | None = None,
    log_ratio: float | None = None,
) -> ProximalPlan:
    """Choose step and rounds for a distance from the posterior, in real numbers.

    By Pinsker's inequality ``KL <= 2 tau^2`` is enough for a total variation ``tau``, and so is
    ``chi2 <= 4 tau^2``; the fewer rounds count. On a set of diameter ``D`` a round's density is at
    most ``e^(D^2/h)`` times the posterior's, whatever it started from: ``|X - y|^2 - |x' - y|^2``
    in the ratio, averaged over ``y``, becomes ``|X - x|^2 - |x' - x|^2 + |X - x'|^2``. As a round
    is reversible, ``|rho_k / pi - 1| <= e^(D^2/(2 h)) sqrt(chi2_(k-1))`` everywhere; its largest
    value is ``log_ratio``, for bounded sets, which is given in place of ``total_variation``.
    ``smoothness`` is of gamma times the total loss, and no mode of a posterior is farther out than
    ``farthest``; ``rows`` is what is public of their number, for speed alone.
    """
    alpha, poincare = inequalities(prior)
    low = float(prior.precision.min())
    if smoothness == 0 and low > 0:
        rounding = _rounding_of_one_draw(prior, farthest)
        spacing = _spacing(1 / math.sqrt(float(prior.precision.max())))
        return ProximalPlan(math.inf, 1, 0.0, 0.0, 0.0, rounding, spacing, log_ratio and 0.0)
    if not math.isinf(prior.radius):
        smoothness = max(smoothness, (2 * prior.radius) ** -2)
    step = (STEP_OF_MANY if rows > MANY else STEP) / smoothness
    start = start_divergence(prior, smoothness)
    if log_ratio is not None:
        goal = 2 * math.log(log_ratio) - (2 * prior.radius) ** 2 / step
        count, mixing = 1 + num_rounds(start, step, alpha, poincare, goal), log_ratio / 2
    else:
        assert total_variation is not None
        mixing = total_variation
        log_square = 2 * math.log(mixing)  # whose square may underflow
        by_kl = (math.log(start / 2) - log_square) / (2 * math.log1p(alpha * step))
        by_chi2 = num_rounds(start, step, alpha, poincare, math.log(4) + log_square)
        count = max(1, min(math.ceil(by_kl), by_chi2))
    per_round = _rounding_of_a_round(prior, step, start, farthest)
    spacing = _spacing(math.sqrt(step))
    return ProximalPlan(
        step, count, smoothness, start, mixing, count * per_round, spacing, log_ratio
    )


def _spacing(scale: float) -> float:
    return 2.0 ** math.floor(math.log2(scale)) / FINENESS


def _rounding_of_a_round(
    prior: QuadraticPrior, step: float, start: float, farthest: float
) -> float:
    """Total variation that storing ``x`` and ``y`` costs.

    A stored number is off by ``(ACCURACY + UNIT) max(1, |z|)`` times the deviation of its normal
    number ``z``, and by ``UNIT`` of itself. The distance of ``x`` from the anchor has a mean square
    below ``(d + 1) h`` (the divergence theorem again), that of the anchor from the proposals'
    centre is below ``sqrt(h)``; inside balls both are below the diameter. A draw of an
    ``m``-strongly log-concave law is farther from its mode than ``sqrt(d/m) + sqrt(2 t/m)`` with
    probability at most ``e^-t``, a state with ``e^start`` times that.
    """
    dim, root = prior.dim, math.sqrt(step)
    if math.isinf(prior.radius):
        low = float(prior.precision.min())
        reach = farthest + (math.sqrt(dim) + math.sqrt(2 * (start + FAR))) / math.sqrt(low)
        moved, rare = root * (math.sqrt(dim) + math.sqrt(dim + 1) + 1), math.exp(-FAR)
    else:
        reach = farthest
        moved, rare = root * math.sqrt(dim) + 2 * prior.radius, 0.0
    noise = root * (2 * math.sqrt(dim) + 1)
    wide = reach + root * (math.sqrt(dim) + math.sqrt(2 * FAR))
    error = (ACCURACY + 2 * UNIT) * (moved + noise) + 2 * UNIT * (reach + wide)
    # The last two: of a length, and of the variance of the first step.
    return error / (ROOT_TWO_PI * root) + rare + math.exp(-FAR) + 2 * UNIT * dim


def _rounding_of_one_draw(prior: QuadraticPrior, farthest: float) -> float:
    """Bound the same of one draw of a Gaussian law whose centre and variance are rounded.

    Of the logarithm of the variance the law moves by half the deviation of ``|x - centre|^2`` over
    twice the variance, which inside a set too is below the distance over the deviation (Brascamp &
    Lieb 1976).
    """
    root = math.sqrt(float(prior.precision.max()))
    return 8 * UNIT * (root * (farthest + float(np.linalg.norm(prior.centre))) + prior.dim)
