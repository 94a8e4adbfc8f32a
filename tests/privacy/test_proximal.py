"""The proximal sampler: rounds against exact laws, draws against quadrature, broken copies."""

import math
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammainc

from gibbs_dp.model.losses import (
    GaussianNLL,
    Huber,
    Linear,
    Logistic,
    Poisson,
    SoftmaxCrossEntropy,
    Squared,
)
from gibbs_dp.privacy import proximal, proximal_acceptance, proximal_sampler, reals
from gibbs_dp.privacy.noise import SeededNoise
from gibbs_dp.privacy.proximal import (
    QuadraticPrior,
    inequalities,
    num_rounds,
    plan_proximal,
    start_divergence,
)
from gibbs_dp.privacy.proximal_acceptance import Acceptance, SecondStep, TotalLoss
from gibbs_dp.privacy.proximal_sampler import ProximalSampler


def vector(*values):
    return np.array(values, dtype=float)


def on_space(precision, centre=0.0):
    return QuadraticPrior(precision, 0 * precision + centre, 0 * precision, vector(np.inf))


def on_ball(dim, radius, precision=0.0):
    zeros = np.zeros(dim)
    return QuadraticPrior(zeros + precision, zeros, zeros, vector(radius))


def on_box(low, high, precision=0.0, centre=0.0):
    zeros = 0 * low
    return QuadraticPrior(zeros + precision, zeros + centre, (low + high) / 2, (high - low) / 2)


# Rounds, in one dimension and without a sampler.


@pytest.mark.parametrize(("m", "h", "tau"), [(1.0, 0.02, 1e-9), (0.3, 0.5, 1e-4), (4.0, 1.0, 1e-6)])
def test_rounds_are_the_exact_ones_where_the_rate_is_attained(monkeypatch, m, h, tau):
    """A shifted Gaussian: a round multiplies its mean by ``1 / (1 + m h)``, and nothing else."""
    shift = 3.0
    monkeypatch.setattr(proximal, "start_divergence", lambda prior, smoothness: m * shift**2 / 2)
    plan = plan_proximal(on_space(vector(m)), smoothness=4 / h, farthest=shift, total_variation=tau)
    assert plan.step == h
    mean, count = shift, 0
    while m * mean**2 / 2 > 2 * tau**2:  # Kullback-Leibler, and Pinsker's inequality
        spread = 1 / m
        mean, spread = (mean / h) / (m + 1 / h), (spread + h) / (1 + m * h) ** 2 + 1 / (m + 1 / h)
        assert spread == pytest.approx(1 / m)
        count += 1
    assert plan.num_steps == count


def test_the_start_on_space_is_as_far_as_is_said_where_losses_are_linear():
    """Normal laws of both curvatures, the slope as large as the search for the start leaves it."""
    m, smoothness = 2.0, 10.0
    upper = m + smoothness
    slope = math.sqrt(2 * 0.999 * proximal.START_SLACK / (1 / m - 1 / upper))
    x = np.linspace(-6, 6, 120_001)
    start, posterior = (stats.norm(-slope / p, p**-0.5).logpdf(x) for p in (upper, m))
    bound = start_divergence(on_space(vector(m)), smoothness)
    assert bound - 2e-3 <= (start - posterior).max() <= bound


def test_the_poincare_constant_of_an_interval_is_attained_by_a_sine():
    """Of the uniform law, which is that of no losses (Payne & Weinberger 1960)."""
    radius = 1.3
    x = (np.arange(100_000) + 0.5) / 50_000 - 1
    wave, slope = np.sin(0.5 * np.pi * x), np.pi / (2 * radius) * np.cos(0.5 * np.pi * x)
    _, poincare = inequalities(on_ball(1, radius))
    assert wave.var() / np.mean(slope**2) == pytest.approx(poincare, rel=1e-6)


def test_chi_squared_rounds_are_minimal():
    """Against all ways to split them, in plain arithmetic."""
    for start, step, alpha, poincare in ((5.0, 0.1, 0.7, 0.4), (60.0, 0.05, 0.2, 1.6)):
        goal = 4e-8
        ways = []
        for first in range(2000):
            renyi = start / (1 + alpha * step) ** first
            chi2, rounds = math.expm1(renyi), first
            while chi2 > goal and rounds < 2000:
                chi2, rounds = chi2 / (1 + step / poincare) ** 2, rounds + 1
            if rounds < 2000:
                ways.append(rounds)
        found = num_rounds(start, step, alpha, poincare, math.log(goal))
        assert min(ways) <= found <= min(ways) + 1  # not every split is tried


class Grid:
    """A posterior on a grid of one dimension, with the transition of a round."""

    def __init__(self, seed, radius, precision, pushes):
        rng = np.random.default_rng(seed)
        rows, signs = rng.uniform(-1, 1, 30), rng.choice([-1, 1], 30)
        rows *= np.abs(rows) * signs if pushes else 1.0  # to one end
        self.gamma, self.precision, self.radius = 0.6, precision, radius
        self.smoothness = self.gamma * 30 / 4
        end = radius if math.isfinite(radius) else 7.0
        self.x = np.linspace(-end, end, 801)
        self.width = np.full(801, self.x[1] - self.x[0])
        self.width[[0, -1]] /= 2
        margins = self.x[:, None] * rows
        potential = self.gamma * np.logaddexp(0, -margins).sum(axis=1) + precision * self.x**2 / 2
        slopes = -self.gamma * (rows / (1 + np.exp(margins))).sum(axis=1) + precision * self.x
        self.pi = self.normal(potential)
        best = potential.argmin()
        move = self.x - self.x[best]
        upper = (self.smoothness + precision) * move**2 / 2
        self.start = self.normal(slopes[best] * move + upper)

    def normal(self, potential):
        law = np.exp(-(potential - potential.min())) * self.width
        return law / law.sum()

    def round(self, h):
        reach = self.x[-1] + 7 * math.sqrt(h)
        y = np.linspace(-reach, reach, 1601)
        first = np.exp(-((self.x[:, None] - y) ** 2) / (2 * h))
        first /= first.sum(axis=1, keepdims=True)
        second = self.pi[:, None] * np.exp(-((self.x[:, None] - y) ** 2) / (2 * h))
        second /= second.sum(axis=0)
        return second @ first.T

    @property
    def prior(self):
        if math.isfinite(self.radius):
            return on_ball(1, self.radius, self.precision)
        return on_space(vector(self.precision))


GRIDS = {
    "Gaussian prior": (np.inf, 1.0, False),
    "interval": (1.5, 0.0, False),
    "at one end": (2.0, 0.0, True),
    "truncated": (1.0, 2.0, True),
}


@pytest.mark.parametrize("name", GRIDS)
def test_no_law_is_farther_than_is_proven(name):
    """Start, three divergences round by round, and the distance in the end, by quadrature."""
    grid = Grid(3, *GRIDS[name])
    plan = plan_proximal(grid.prior, smoothness=grid.smoothness, farthest=3.0, total_variation=1e-3)
    alpha, poincare = inequalities(grid.prior)
    pi, law, moves, h = grid.pi, grid.start, grid.round(plan.step), plan.step
    assert np.log(law / pi).max() <= start_divergence(grid.prior, grid.smoothness)

    def divergences(law):
        ratio = law / pi
        chi2 = float(pi @ (ratio - 1) ** 2)
        return float(law @ np.log(np.maximum(ratio, 1e-300))), chi2, math.log1p(chi2)

    rates = (1 + alpha * h) ** 2, (1 + h / poincare) ** 2, 1 + alpha * h
    for _ in range(plan.num_steps):
        new = moves @ law
        if divergences(law)[0] > 1e-9:
            for before, after, rate in zip(divergences(law), divergences(new), rates, strict=True):
                assert after * rate <= before * (1 + 1e-6)
        law = new
    assert 0.5 * np.abs(law - pi).sum() <= plan.mixing


def test_density_ratios_are_as_near_one_as_is_proven():
    grid = Grid(3, 0.8, 0.0, True)
    plan = plan_proximal(grid.prior, smoothness=grid.smoothness, farthest=0.8, log_ratio=1e-3)
    law, moves = grid.start, grid.round(plan.step)
    for _ in range(plan.num_steps):
        law = moves @ law
    assert np.abs(law / grid.pi - 1).max() <= 1e-3
    assert plan.num_steps > num_rounds(
        plan.start, plan.step, *inequalities(grid.prior), 2 * math.log(1e-3)
    )


@pytest.mark.parametrize("dim", [2, 5])
def test_the_start_is_as_near_as_is_proven_on_balls(dim):
    """A linear potential plus a parabola along one axis: the two normalizers by quadrature."""
    radius, smoothness = 1.3, 12.0
    u = np.linspace(-radius, radius, 40001)
    disc = np.maximum(radius**2 - u**2, 0.0)
    for slope in (0.0, 4.0, 30.0):  # towards u = -radius, where log rho / pi is largest
        place = -radius if slope else 0.0

        def log_mass(curvature, slope=slope, place=place):
            """Log of the integral of exp(-slope (u - place) - curvature |x - place|^2 / 2)."""
            half = (dim - 1) / 2
            across = (disc / 2) ** half / math.gamma(half + 1)
            if curvature:
                across = gammainc(half, curvature * disc / 2) / curvature**half
            along = np.exp(-slope * (u - place) - curvature * (u - place) ** 2 / 2)
            return math.log(np.sum(along * across))

        found = log_mass(0.0) - log_mass(smoothness)
        bound = start_divergence(on_ball(dim, radius), smoothness)
        assert found <= bound
        assert slope or found > 0.3 * bound


# Draws.

ROWS = np.random.default_rng(5).uniform(-1, 1, 30)
LABELS = (ROWS + np.random.default_rng(6).normal(size=30) > 0.4).astype(float)
SMOOTHNESS = {Logistic: 0.25, Huber: 1.0, Squared: 2.0, Poisson: math.e**2, GaussianNLL: 4.0}


def sampler(prior, loss=None, gamma=1.0, x=ROWS[:, None], y=LABELS, seed=0, tau=1e-3, smooth=None):
    curvature = SMOOTHNESS.get(type(loss), 0.0) if smooth is None else smooth
    plan = plan_proximal(
        prior, smoothness=gamma * len(x) * curvature, farthest=3.0, total_variation=tau
    )
    total = None if loss is None else TotalLoss(loss, gamma, x, y, 1.0)
    return ProximalSampler(prior, total, plan, SeededNoise(seed))


def conditional(run, y, ends):
    """Distribution function of the second step in one dimension, by quadrature."""
    x = np.linspace(*ends, 20001)
    total, prior = run.total, run.prior
    losses = total.gamma * total.loss.value(x[:, None] * total.x[:, 0], total.y).sum(axis=1)
    potential = losses + prior.precision[0] * (x - prior.centre[0]) ** 2 / 2
    if y is not None:
        potential = potential + (x - y) ** 2 / (2 * run.plan.step)
    weight = np.exp(-(potential - potential.min()))
    mass = np.concatenate([[0], np.cumsum(weight[1:] + weight[:-1])])
    return lambda at: np.interp(at, x, mass / mass[-1])


STEPS = {
    "Gaussian prior": (on_space(vector(1.0), 0.3), Logistic(), (-8, 8)),
    "interval": (on_box(vector(-0.5), vector(1.5)), Logistic(), (-0.5, 1.5)),
    "truncated Gaussian": (on_ball(1, 0.7, 2.0), Huber(0.5), (-0.7, 0.7)),
    "counts": (on_box(vector(-2.0), vector(1.0)), Poisson(), (-2.0, 1.0)),
    "steep": (on_space(vector(1.0)), Huber(0.3), (-8, 8)),
}


def second_steps(name, count=500):
    """Draw second steps from far away: the point, their law's distribution function, the run."""
    prior, loss, ends = STEPS[name]
    steep = name == "steep"
    run = sampler(prior, loss, x=np.abs(ROWS[:, None]) if steep else ROWS[:, None])
    y = prior.middle[0] + (3.0 if steep else 1.0)
    found = np.array([run._move(vector(y)).values[0] for _ in range(count)])
    return found, conditional(run, y, ends)


@pytest.mark.parametrize("is_thinned", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_the_second_step_has_its_law(monkeypatch, name, is_thinned):
    """500 of them against quadrature, far from where they go; a false alarm has 1e-6."""
    monkeypatch.setattr(proximal_acceptance, "FEW", -math.inf if is_thinned else math.inf)
    assert stats.kstest(*second_steps(name)).pvalue > 1e-6


def softmax_steps(y, count=500):
    """Second steps of two classes and one feature: their difference and sum, and their laws."""
    prior = on_space(vector(1.0, 1.0))
    run = sampler(prior, SoftmaxCrossEntropy(2), smooth=0.5)
    found = np.array([run._move(y).values for _ in range(count)])
    # theta_1 - theta_0 is a logistic regression's; the sum is free of the losses, and Gaussian.
    stiff = 1 + 1 / run.plan.step
    centre = y / (run.plan.step * stiff)
    d = np.linspace(-8, 8, 20001)
    losses = Logistic().value(d[:, None] * ROWS, LABELS).sum(axis=1)
    potential = losses + stiff * (d - (centre[1] - centre[0])) ** 2 / 4
    mass = np.cumsum(np.exp(potential.min() - potential))
    laws = (
        lambda at: np.interp(at, d, mass / mass[-1]),
        stats.norm(centre.sum(), math.sqrt(2 / stiff)).cdf,
    )
    return found @ np.array([[-1, 1], [1, 1]]), laws


def test_softmax_of_two_classes_is_logistic():
    """500 second steps against quadrature, far from where they go; a false alarm has 2e-6."""
    found, laws = softmax_steps(vector(-1.5, 1.0))
    for column, law in zip(found.T, laws, strict=True):
        assert stats.kstest(column, law).pvalue > 1e-6


def test_softmax_without_its_test_is_caught(monkeypatch):
    monkeypatch.setattr(Acceptance, "accepts", lambda self, point: True)
    monkeypatch.setattr(proximal_sampler, "ANCHOR_SLACK", 3.0)
    found, laws = softmax_steps(vector(-1.5, 1.0), 1500)
    assert stats.kstest(found[:, 0], laws[0]).pvalue < 1e-6


def test_softmax_is_that_of_the_posterior():
    """Values and gradients of a matrix in one vector, against the loss and JAX's derivatives."""
    loss, rng = SoftmaxCrossEntropy(3), np.random.default_rng(9)
    theta = rng.normal(size=9)
    total = TotalLoss(loss, 0.7, X3, CLASSES, 1.0)
    data = jnp.asarray(X3, jnp.float32), jnp.asarray(CLASSES, jnp.float32)
    expected = 0.7 * np.asarray(loss.batch(jnp.asarray(theta, jnp.float32), data))
    np.testing.assert_allclose(total.values(total.predict(theta)), expected, rtol=1e-5)
    slope = jax.grad(lambda t: 0.7 * loss.batch(t, data).sum())(jnp.asarray(theta, jnp.float32))
    np.testing.assert_allclose(total.tangent(theta).gradient, slope, rtol=1e-4, atol=1e-5)
    exact = total.precise([Decimal(float(t)) for t in theta])
    assert float(exact) == pytest.approx(float(expected.sum()), rel=1e-6)


@pytest.mark.trust
def test_a_dropped_tangent_is_caught(monkeypatch):
    real = ProximalSampler._anchor

    def flat(self, *given):
        tangent = real(self, *given)
        return tangent._replace(gradient=0 * tangent.gradient)

    monkeypatch.setattr(ProximalSampler, "_anchor", flat)
    assert stats.kstest(*second_steps("steep")).pvalue < 1e-6


def off_in_variance(count):
    """Excess of the variance of second steps, in standard errors."""
    found, law = second_steps("Gaussian prior", count)
    x = np.linspace(-8, 8, 200001)
    weight, middle = np.diff(law(x)), (x[1:] + x[:-1]) / 2
    mean = weight @ middle
    variance, fourth = (weight @ (middle - mean) ** power for power in (2, 4))
    return (np.mean((found - mean) ** 2) - variance) / math.sqrt((fourth - variance**2) / count)


def wider(monkeypatch, factor):
    real = proximal_sampler.Normals._fill

    def fill(self, words, source):
        real(self, words, source)
        self.values = math.sqrt(factor) * self.values

    monkeypatch.setattr(proximal_sampler.Normals, "_fill", fill)


def spread_of_proposals():
    run, sd = sampler(on_space(np.full(31, 1.0))), np.linspace(0.1, 1.0, 31)
    found = np.array([run._inside(run._law(np.full(31, 2.0), sd)).values for _ in range(600)])
    square = np.mean(((found - 2.0) / sd) ** 2)
    return (square - 1) * math.sqrt(found.size / 2)


def test_wide_proposals_are_caught(monkeypatch):
    """Of a variance 1.05 times too large: 18,600 numbers, 4.5 standard errors (7e-6)."""
    assert abs(spread_of_proposals()) < 4.5
    wider(monkeypatch, 1.05)
    assert spread_of_proposals() > 4.5


@pytest.mark.trust
def test_draws_of_wide_proposals_are_caught(monkeypatch):
    """Variance 1.2 times too large: 15,000 second steps; acceptance makes up for most of it."""
    assert abs(off_in_variance(15_000)) < 4.5
    wider(monkeypatch, 1.2)
    assert off_in_variance(15_000) > 4.5


@pytest.mark.trust
@pytest.mark.parametrize("name", ["Gaussian prior", "interval"])
def test_draws_have_the_posteriors_law(name):
    """300 whole draws against quadrature; a false alarm has 1e-6, the proven distance is 1e-3."""
    prior, loss, ends = STEPS[name]
    run = sampler(prior, loss)
    found = np.array([run.draw()[0] for _ in range(300)])
    assert stats.kstest(found, conditional(run, None, ends)).pvalue > 1e-6
    assert stats.kstest(found / 2, conditional(run, None, ends)).pvalue < 1e-6
    steps = (found - prior.middle[0]) / run.plan.spacing
    assert np.abs(steps - np.rint(steps)).max() < 1e-6


def two_dimensional(prior, gamma=1.0):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(40, 2))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    return sampler(prior, Logistic(), gamma, x, (rng.random(40) < 0.5 + 0.4 * x[:, 0]) * 1.0)


PLANES = {
    "ball": on_ball(2, 1.2),
    "box": on_box(vector(-1.0, 0.0), vector(0.5, 2.0)),
    "space": on_space(vector(0.5, 3.0), 0.2),
}


@pytest.mark.trust
@pytest.mark.parametrize("name", PLANES)
def test_planes_have_the_posteriors_law(name):
    """400 draws in 16 cells of the plane by chi-squared; a false alarm has 1e-6."""
    run = two_dimensional(PLANES[name])
    found = np.array([run.draw() for _ in range(400)])
    end = 5.0 if name == "space" else 2.0
    axis = (np.arange(1200) + 0.5) / 600 * end - end
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    away = np.abs(points - run.prior.middle)
    is_ball = len(run.prior.radii) == 1
    length = np.linalg.norm(away, axis=1)[:, None] if is_ball else away
    points = points[(length <= run.prior.radii).all(axis=1)]
    total, prior = run.total, run.prior
    potential = prior.precision @ (points.T - prior.centre[:, None]) ** 2 / 2
    for row, label in zip(total.x, total.y, strict=True):
        potential += total.gamma * total.loss.value(points @ row, label)
    weight = np.exp(-(potential - potential.min()))
    edges = [np.quantile(found[:, j], np.linspace(0, 1, 5)[1:-1]) for j in range(2)]

    def cell(points):
        first, second = (np.searchsorted(e, points[:, j]) for j, e in enumerate(edges))
        return 4 * first + second

    expected = np.bincount(cell(points), weight, 16)
    keep = expected / expected.sum() * 400 > 5
    seen = np.bincount(cell(found), minlength=16)
    share = np.append(expected[keep], expected[~keep].sum()) / expected.sum()
    counts = np.append(seen[keep], seen[~keep].sum())
    if share[-1] == 0:
        share, counts = share[:-1], counts[:-1]
    assert stats.chisquare(counts, share * 400).pvalue > 1e-6


@pytest.mark.trust
def test_ten_dimensions_have_the_posteriors_moments():
    """300 draws against 400,000 weighted proposals; 4.5 standard errors, 2e-4 in all."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=(120, 10)) / math.sqrt(10)
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    y = (rng.random(120) < 1 / (1 + np.exp(-4 * x[:, 0]))).astype(float)
    run = sampler(on_space(np.full(10, 1.0)), Logistic(), 1.0, x, y)
    found = np.array([run.draw() for _ in range(300)])

    mode = np.zeros(10)
    for _ in range(30):
        share = 1 / (1 + np.exp(-x @ mode))
        hessian = np.eye(10) + (x.T * share * (1 - share)) @ x
        mode = mode - np.linalg.solve(hessian, x.T @ (share - y) + mode)
    noise = rng.standard_t(8, size=(400_000, 10))
    lower = np.linalg.cholesky(np.linalg.inv(hessian))
    points = mode + noise @ lower.T
    scores = points @ x.T
    log_target = -(np.logaddexp(0, scores) - scores * y).sum(axis=1) - (points**2).sum(axis=1) / 2
    log_weight = log_target - stats.t.logpdf(noise, 8).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 40_000
    for power in (1, 2):
        features, truth = (found - mode) ** power, weight @ (points - mode) ** power
        spread = np.sqrt(weight @ ((points - mode) ** power - truth) ** 2 / 300)
        assert (np.abs(features.mean(axis=0) - truth) < 4.5 * spread * 1.05).all()


@pytest.mark.parametrize(("dim", "far"), [(3, 1.0), (31, 6.0), (31, 0.0), (200, 2.0)])
def test_gaussians_in_balls_have_their_law(dim, far):
    """The part along the centre and the length of the rest; a false alarm has 2e-6."""
    radius, sd, count = 1.0, 0.3, 400
    run = sampler(on_ball(dim, radius, 1.0))
    centre = np.zeros(dim)
    centre[0] = far
    found = np.array([run._inside(run._law(centre, np.full(dim, sd))).values for _ in range(count)])
    along, rest = found[:, 0], np.sum(found[:, 1:] ** 2, axis=1)
    assert (np.sum(found**2, axis=1) <= radius**2).all()
    u = np.linspace(-radius, radius, 20001)
    left = np.maximum(radius**2 - u**2, 0) / (2 * sd**2)
    log_density = -((u - far) ** 2) / (2 * sd**2) + np.log(
        np.maximum(gammainc((dim - 1) / 2, left), 1e-300)
    )
    mass = np.cumsum(np.exp(log_density - log_density.max()))
    assert stats.kstest(along, lambda a: np.interp(a, u, mass / mass[-1])).pvalue > 1e-6
    ratio = gammainc((dim - 1) / 2, rest / (2 * sd**2))
    ratio /= gammainc((dim - 1) / 2, (radius**2 - along**2) / (2 * sd**2))
    assert stats.kstest(ratio, stats.uniform.cdf).pvalue > 1e-6
    assert stats.kstest(ratio**1.6, stats.uniform.cdf).pvalue < 1e-6


# Decisions, digits, and what does not depend on the data.


@pytest.mark.parametrize(
    ("loss", "at", "slope"),
    [
        (Logistic(), 37.0, lambda u: -1 / (1 + u.exp())),  # 1 - 8.5e-17 is 1 in doubles
        (Huber(0.5), 1.0 + 2**-40, lambda u: u - 1),
    ],
)
def test_slopes_err_by_no_more_than_is_allowed_for(loss, at, slope):
    """However small they are: they are differences of larger numbers."""
    rows, gamma = 50, 0.7
    run = sampler(on_space(vector(1.0)), loss, gamma, np.ones((rows, 1)), np.ones(rows))
    tangent = run.total.tangent(vector(at))
    stiff = run.prior.precision + run.pull
    law = run._law((vector(at) - tangent.gradient) / stiff, stiff**-0.5)
    step = SecondStep(run.prior, run.plan, run.source, run.total, vector(at), tangent, law)
    test = Acceptance(step)
    exact = rows * Decimal(gamma) * slope(Decimal(at))
    error = abs(Decimal(float(tangent.gradient[0])) - exact)
    assert 0 < error < Decimal(test.unit * test.slopes)
    assert Decimal(test.unit * test.slopes) < Decimal("1e-9")


class TwoSources(SeededNoise):
    """Digits that are asked for later come from elsewhere: the first ones stay the same."""

    def __init__(self, seed):
        super().__init__(seed)
        self._later = SeededNoise(seed + 1000)

    def bits(self, count):
        return self._later.bits(count)


X3 = np.random.default_rng(7).normal(size=(12, 3))
X3 /= np.linalg.norm(X3, axis=1)[:, None]
SETS = {
    "space": on_space(vector(1.0, 2.0, 3.0), 0.2),
    "ball": on_ball(3, 1.5),
    "box": on_box(vector(-0.5, -0.5, -0.5), vector(1.1, 1.1, 1.1), vector(1.0, 0.0, 2.0), -1.0),
}
CLASSES = np.arange(12.0) % 3
LOSSES = (Logistic(), Huber(0.5), Squared(), Poisson(), GaussianNLL(0.5), Linear())
LOSSES += (SoftmaxCrossEntropy(3),)  # of one feature: three parameters too


@pytest.mark.parametrize("is_thinned", [False, True])
@pytest.mark.parametrize("name", SETS)
def test_digits_decide_as_doubles_do(monkeypatch, name, is_thinned):
    """All decisions of 4 rounds once by doubles and once by digits: the same points."""
    monkeypatch.setattr(proximal_acceptance, "FEW", -math.inf if is_thinned else math.inf)
    asked = []
    real = proximal_sampler.is_below

    def counted(margin):
        asked.append(margin)
        return real(margin)

    for module in (proximal_sampler, proximal_acceptance):
        monkeypatch.setattr(module, "is_below", counted)
    for loss in LOSSES:
        x, y = (X3[:, :1], CLASSES) if loss.labels == "classes" else (X3, LABELS[:12])
        run = sampler(SETS[name], loss, 0.7, x, y, smooth=SMOOTHNESS.get(type(loss), 1))
        points = []
        for accuracy in (2.0**-48, 1e3):  # what no double is good enough for
            # Of normal numbers and logarithms; how far proposals are, which thinning goes by, and
            # what it looks at stay the same.
            monkeypatch.setattr(proximal_sampler, "ACCURACY", accuracy)
            if not is_thinned:
                monkeypatch.setattr(proximal_acceptance, "ACCURACY", accuracy)
            monkeypatch.setattr(proximal_acceptance, "LOGARITHM", accuracy)
            monkeypatch.setattr(reals, "POISSON_DOUBT", min(accuracy / 4, 1.0))
            asked.clear()
            for seed in range(4):
                run.source, run._last = TwoSources(seed), None  # the same anchor
                point = run._move(vector(0.3, -0.2, 0.1))
                points.append((point.values, run._cut_off(point)))
            assert (len(asked) > 0) == (accuracy > 1)
        for (first, cut), (second, by_digits) in zip(points[:4], points[4:], strict=True):
            np.testing.assert_array_equal(first, second)
            np.testing.assert_array_equal(cut, by_digits)


def test_other_data_take_as_many_rounds(monkeypatch):
    counts = []
    real = ProximalSampler._move
    monkeypatch.setattr(ProximalSampler, "_move", lambda self, y: counts.append(1) or real(self, y))
    found = []
    for y in (LABELS, 1 - LABELS, 0 * LABELS):
        counts.clear()
        sampler(on_ball(1, 2.0), Logistic(), y=y).draw()
        found.append(len(counts))
    assert len(set(found)) == 1


def test_one_draw_without_losses_is_exact():
    """Half squared distances: a Gaussian law inside a box, in one step."""
    run = sampler(on_box(vector(0.0), vector(1.0), 9.0, 1.4))
    assert run.plan.num_steps == 1
    assert run.plan.mixing == 0
    found = np.array([run.draw()[0] for _ in range(1000)])
    law = stats.truncnorm(-1.4 * 3, -0.4 * 3, 1.4, 1 / 3)
    assert stats.kstest(found, law.cdf).pvalue > 1e-6  # its false-alarm rate


def test_rounding_grows_with_rounds_and_reach():
    plan = plan_proximal(
        on_space(np.full(31, 1.0)), smoothness=142.0, farthest=28.0, total_variation=1e-10
    )
    # By hand: 2^-48 of a normal vector twice, and 2^-53 of states of length up to 60.
    by_hand = plan.num_steps * 0.4 * (2.0**-48 * 4 * 31**0.5 + 4 * 2.0**-53 * 60 / plan.step**0.5)
    assert 0.5 * by_hand < plan.rounding < 2 * by_hand
