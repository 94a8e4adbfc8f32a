"""Projected Langevin chains: their guarantee against exact laws on an interval, and their runs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.special import ndtr

import gibbs_dp as gdp
from gibbs_dp.information import bounds
from gibbs_dp.privacy import ChainDraw, calibrate_chain, chain_guarantee
from gibbs_dp.privacy.chain import chain_constants
from gibbs_dp.sampling.unadjusted import in_theta, project, run_langevin

NODES, WEIGHTS = np.polynomial.legendre.leggauss(500)
DOMAIN = gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0))
RUN = {"n": 50, "adjacency": "replace-one", "domain": DOMAIN}
BALL = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0)))
INTERVAL = gdp.GibbsPosterior(gdp.losses.linear, gdp.Flat(gdp.supports.box(-0.5, 1.0, 1)))


def exact_law(slope, low, high, h, num_steps, start):
    """Masses at Gauss-Legendre nodes and, last, at the two ends, of the chain on an interval."""
    points = np.append(0.5 * (low + high) + 0.5 * (high - low) * NODES, [low, high])
    weights, deviation = 0.5 * (high - low) * WEIGHTS, math.sqrt(2 * h)
    moved = points - h * slope(points)
    step = stats.norm.pdf((points[None, :-2] - moved[:, None]) / deviation) / deviation * weights
    ends = np.stack([ndtr((low - moved) / deviation), ndtr((moved - high) / deviation)], axis=1)
    step = np.concatenate([step, ends], axis=1)
    first = start - h * slope(np.array([start]))
    law = stats.norm.pdf((points[:-2] - first) / deviation) / deviation * weights
    law = np.append(law, [ndtr((low - first[0]) / deviation), ndtr((first[0] - high) / deviation)])
    for _ in range(num_steps - 1):
        law = law @ step
    return points, law


def test_no_exact_law_of_a_chain_exceeds_the_bound():
    """100 pairs of convex potentials, at four epsilons and in both orders: 800 hockey sticks."""
    rng = np.random.default_rng(12)
    largest = 0.0
    for _ in range(100):
        diameter, deviation = rng.choice([0.5, 1.0, 3.0]), math.exp(rng.uniform(-2.3, 0.5))
        h, num_steps = (deviation * diameter) ** 2 / 2, int(rng.integers(1, 30))
        smooth = rng.choice([0.0, 0.3, 1.0, 2.0]) / h
        m = smooth * rng.choice([0.0, 0.3, 1.0])
        pull = math.exp(rng.uniform(-1.5, 2.5)) * diameter * deviation / h
        low, tilt = -diameter * rng.uniform(), rng.uniform(-1, 0) * pull
        bend, knee = rng.uniform(0.05, 1.0) * diameter, low + rng.uniform() * diameter

        def slope(x, tilt, m=m, smooth=smooth, bend=bend, knee=knee):
            return m * x + (smooth - m) * np.clip(x - knee, -bend, bend) + tilt

        laws = [
            exact_law(lambda x, t=t: slope(x, t), low, low + diameter, h, num_steps, low)[1]
            for t in (tilt, tilt + pull)
        ]
        np.testing.assert_allclose([law.sum() for law in laws], 1.0, atol=1e-9)
        mu = bounds.projected_langevin_gdp(
            num_steps,
            h,
            gradient_sensitivity=pull,
            gamma=1.0,
            diameter=diameter,
            strong_convexity=m,
            smoothness=smooth,
        )
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            claimed = bounds.delta_from_gdp(mu, epsilon)
            for p, q in (laws, laws[::-1]):
                found = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
                assert found <= claimed + 2e-5  # the kink between two nodes
                largest = max(largest, found / claimed if claimed > 1e-2 else 0.0)
    assert largest > 0.95


def test_the_closed_form_is_the_smallest_over_all_numbers_of_steps():
    rng = np.random.default_rng(3)
    for _ in range(500):
        k, h, apart, s = int(rng.integers(1, 60)), *np.exp(rng.uniform(-3, 3, 3))
        smooth = rng.choice([0.0, 1.0, 2.0]) / h * rng.choice([1.0, rng.uniform()])
        m = smooth * rng.choice([0.0, 1.0, rng.uniform()])
        c = max(abs(1 - h * m), abs(1 - h * smooth))

        def mu(t, d, c=c, h=h, s=s):
            powers = c ** np.arange(t)
            return (c**t * d + h * s * powers.sum()) / math.sqrt(2 * h * (powers**2).sum())

        found = bounds.projected_langevin_gdp(
            k,
            h,
            gradient_sensitivity=s,
            gamma=1.0,
            diameter=apart,
            strong_convexity=m,
            smoothness=smooth,
        )
        assert found == pytest.approx(min([mu(k, 0.0)] + [mu(t, apart) for t in range(1, k)]))


def test_limits_of_the_bound():
    convex = {"gradient_sensitivity": 2.0, "gamma": 3.0, "strong_convexity": 0.0, "smoothness": 9.0}
    saturated = bounds.projected_langevin_gdp(10**9, 1e-7, diameter=0.5, **convex)
    assert saturated == pytest.approx(bounds.bounded_convex_gdp(3.0, lipschitz=2.0, diameter=0.5))
    unbounded = bounds.projected_langevin_gdp(40, 0.01, diameter=math.inf, **convex)
    trajectory = bounds.langevin_trajectory_gdp(40, 0.01, gradient_sensitivity=2.0, gamma=3.0)
    assert unbounded == pytest.approx(trajectory)
    for change, message in (
        ({"smoothness": 1e3}, "step_size must be at most"),
        ({"strong_convexity": 10.0}, "smoothness must be at least"),
        ({"diameter": 0.0}, "diameter must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            bounds.projected_langevin_gdp(5, 0.01, **({"diameter": 1.0} | convex | change))


def test_a_run_on_an_interval_has_its_exact_law():
    """20,000 chains: both atoms, mean and variance within 4 standard errors (2.5e-4)."""
    x, y, gamma, kernel = np.full((3, 1), 0.9), np.array([1.0, -0.4, 0.8]), 0.8, gdp.ULA(0.05, 6)
    tilt = -gamma * float(x[:, 0] @ y)
    points, law = exact_law(lambda t: 0 * t + tilt, -0.5, 1.0, 0.05, 6, 0.0)
    draws = np.asarray(
        run_langevin(INTERVAL, (x, y), gamma=gamma, kernel=kernel, num_draws=20_000, key=5)
    )[:, 0].astype(np.float64)
    assert draws.min() == -0.5
    assert draws.max() == 1.0
    for end, mass in ((-0.5, law[-2]), (1.0, law[-1])):
        assert abs(np.mean(draws == end) - mass) < 4 * math.sqrt(mass * (1 - mass) / 20_000)
    mean = float(law @ points)
    variance, fourth = (float(law @ (points - mean) ** k) for k in (2, 4))
    assert abs(draws.mean() - mean) < 4 * math.sqrt(variance / 20_000)
    assert abs(draws.var() - variance) < 4 * math.sqrt((fourth - variance**2) / 20_000)


def test_a_step_on_a_ball_is_a_gaussian_moved_along_its_ray():
    """Mass inside against the noncentral chi-square law (4 standard errors), rest at radius 1."""
    data = (jnp.array([[0.6, 0.8]] * 4), jnp.array([1.0, 1.0, 0.0, 1.0]))
    start = jnp.array([0.3, -0.2])
    kernel = gdp.ULA(0.2, 1)
    draws = run_langevin(BALL, data, gamma=0.5, kernel=kernel, num_draws=20_000, key=2, start=start)
    lengths = np.linalg.norm(np.asarray(draws, np.float64), axis=1)
    sigmoid = 1 / (1 + math.exp(-(0.6 * 0.3 - 0.8 * 0.2)))
    moved = np.asarray(start) - 0.2 * 0.5 * (4 * sigmoid - 3) * np.array([0.6, 0.8])
    inside = stats.ncx2.cdf(1 / 0.4, 2, moved @ moved / 0.4)
    assert abs(np.mean(lengths < 1 - 1e-5) - inside) < 4 * math.sqrt(inside / 20_000)
    assert lengths.max() < 1 + 1e-6


PRIORS = {
    "box": gdp.Flat(gdp.supports.box(-1.0, 2.0, 3)),
    "away from zero": gdp.Flat(gdp.supports.box(1.0, 2.0, 3)),
    "balls": gdp.Flat(gdp.supports.l2_ball((2, 3), 0.5)),
    "uniform": dist.Uniform(jnp.array([-1.0, 0.0]), jnp.array([1.0, 0.5])).to_event(1),
    "truncated": dist.TruncatedNormal(0.2, 1.0, low=-1.0, high=1.0).expand([2]).to_event(1),
    "in a ball": gdp.priors.normal_in_ball(3, radius=1.0, scale=0.7),
    "parts": {"a": gdp.Flat(gdp.supports.box(0.0, 1.0)), "b": dist.Normal(jnp.zeros(2), 1.0)},
}


@pytest.mark.parametrize("name", PRIORS)
def test_projection_is_the_nearest_point(name):
    """No point of the support is nearer: the way back makes no acute angle with any other."""
    prior = gdp.GibbsPosterior(lambda theta, z: z, PRIORS[name]).prior
    flat = in_theta(gdp.GibbsPosterior(lambda theta, z: z, PRIORS[name]))
    rng = np.random.default_rng(4)
    others = [flat.unconstrain(prior.initial(jax.random.key(k))) for k in range(20)]
    for _ in range(20):
        far = jnp.asarray(rng.normal(size=flat.dim) * 3, jnp.float32)
        near = project(prior, far)
        assert jnp.allclose(project(prior, near), near, atol=1e-6)
        for other in others:
            assert float((far - near) @ (other - near)) <= 1e-4
    inside = flat.constrain(others[0])
    assert jnp.array_equal(project(prior, others[0]), others[0])
    assert jax.tree.structure(inside) == jax.tree.structure(prior.initial(jax.random.key(0)))


def test_the_prior_pulls_in_thetas_own_coordinates():
    """Without data: the drift of one step is minus the gradient of -log prior (4 errors)."""
    prior = dist.TruncatedNormal(0.2, 0.5, low=-1.0, high=1.0).expand([1]).to_event(1)
    posterior = gdp.GibbsPosterior(gdp.losses.linear, prior)
    data, kernel = (jnp.zeros((2, 1)), jnp.zeros(2)), gdp.ULA(0.005, 1)
    draws = run_langevin(posterior, data, gamma=1.0, kernel=kernel, num_draws=20_000, key=8)
    drift = 0.005 * 0.2 / 0.25
    assert abs(float(draws.mean()) - drift) < 4 * 0.1 / math.sqrt(20_000)
    assert drift > 5 * 0.1 / math.sqrt(20_000)


def test_the_guarantee_of_a_projected_chain():
    given = {"gamma": 8.0, "delta": 1e-6, **RUN}
    found = chain_constants(BALL, gamma=8.0, clip=None, **RUN)
    assert found.strong_convexity == 0
    h = 1 / found.smoothness
    mus = []
    for steps in (1, 100, 10_000, 1_000_000):
        told = chain_guarantee(BALL, gdp.ULA(h, steps), **given)
        mus.append(told.gdp)
        expected = bounds.projected_langevin_gdp(
            steps,
            h,
            gradient_sensitivity=found.gradient_sensitivity,
            gamma=8.0,
            diameter=2.0,
            strong_convexity=0.0,
            smoothness=found.smoothness,
        )
        assert told.gdp == expected
    assert mus == sorted(mus)
    assert mus[2] == mus[3]  # it stops growing without strong convexity
    assert "0-strongly convex" in told.assumptions[0]
    assert "on a convex set of diameter 2" in told.assumptions[0]
    trajectory = chain_guarantee(BALL, gdp.ULA(2.1 * h, 50), **given)  # h > 2 / M
    assert "composition" in trajectory.assumptions[0]
    pulled = gdp.GibbsPosterior(
        gdp.losses.logistic, gdp.priors.normal_in_ball(2, radius=1.0, scale=0.3)
    )
    assert chain_guarantee(pulled, gdp.ULA(h / 4, 10_000), **given).gdp < mus[3]
    own = gdp.GibbsPosterior(lambda t, z: jnp.sum(jnp.sin(t * z)), PRIORS["box"])
    told = chain_guarantee(own, gdp.ULA(0.01, 40, clip=0.3), **given)
    assert "composition" in told.assumptions[0]  # no convexity, but projection costs nothing


@pytest.mark.trust
def test_private_runs_and_releases_stay_in_the_set(tmp_path):
    rng = np.random.default_rng(0)
    data = (rng.normal(size=(50, 2)), rng.integers(0, 2, 50).astype(float))
    kernel = gdp.ULA(0.05, 30)
    ledger = gdp.Ledger.create(tmp_path / "m", zcdp=1e6, adjacency="replace-one")
    run = gdp.release(
        BALL,
        data,
        method=ChainDraw(kernel, gamma=1.0),
        delta=1e-6,
        num_draws=40,
        accept="float-arithmetic",
        domain=DOMAIN,
        adjacency="replace-one",
        ledger=ledger,
    )
    assert run.theta.shape == (40, 2)
    assert np.linalg.norm(run.theta, axis=1).max() <= 1 + 1e-6
    assert run.guarantee.mechanism == "chain"
    ledger = gdp.Ledger.create(tmp_path / "l", zcdp=1.0, adjacency="replace-one")
    asked = (
        {"epsilon": 0.5, "method": ChainDraw()},
        {"method": ChainDraw(gdp.ULA(0.01, 20), gamma=0.3)},
    )
    for prior, settings in zip((PRIORS["away from zero"], PRIORS["in a ball"]), asked, strict=True):
        posterior = gdp.GibbsPosterior(gdp.losses.logistic, prior)
        x = rng.normal(size=(50, 3))
        out = gdp.release(
            posterior,
            (x, data[1]),
            ledger=ledger,
            **settings,
            delta=1e-6,
            accept="float-arithmetic",
            domain=DOMAIN,
            adjacency="replace-one",
        )
        assert out.theta.shape == (1, 3)
        assert out.guarantee.epsilon <= 0.5 * (1 + 1e-9)
    assert ledger.left()["zcdp"] < 1.0


def test_a_start_outside_begins_at_the_nearest_point():
    data = (jnp.zeros((2, 2)), jnp.zeros(2))
    kernel = gdp.ULA(1e-8, 1)
    draws = run_langevin(BALL, data, gamma=1.0, kernel=kernel, key=0, start=jnp.array([3.0, 4.0]))
    np.testing.assert_allclose(draws[0], [0.6, 0.8], atol=1e-3)


@pytest.mark.trust(but=["linear-away from zero", "linear-balls"])
@pytest.mark.parametrize(
    ("loss", "prior"),
    [
        ("logistic", "balls"),
        ("linear", "away from zero"),
        ("half_squared_distance", "in a ball"),
        ("linear", "balls"),
    ],
)
def test_calibration_meets_its_target_and_no_rival_beats_it(loss, prior):
    law = gdp.Flat(gdp.supports.l2_ball(3, 0.5)) if prior == "balls" else PRIORS[prior]
    posterior = gdp.GibbsPosterior(getattr(gdp.losses, loss), law)

    def accuracy(kernel, gamma):
        return 1 / gamma + 1 / (gamma * kernel.step_size * kernel.num_steps)

    run = {"n": 200, "adjacency": "replace-one", "domain": DOMAIN}
    for measure in (None, accuracy):
        found = calibrate_chain(
            posterior, epsilon=0.5, delta=1e-6, max_steps=16, accuracy=measure, **run
        )
        assert found.guarantee.epsilon == pytest.approx(0.5, rel=1e-6)
        assert math.isfinite(found.inaccuracy)
    promise = {"delta": 1e-6, **run}
    for gamma in found.gamma * np.array([0.5, 1.0, 2.0]):
        largest = chain_constants(posterior, gamma=gamma, clip=None, **run).smoothness
        for reach in (0.03, 0.3, 0.9):
            for steps in (1, 4, 16):
                rival = gdp.ULA(reach / max(largest, 0.1), steps)
                if accuracy(rival, gamma) < 0.98 * found.inaccuracy:
                    assert chain_guarantee(posterior, rival, gamma=gamma, **promise).epsilon > 0.5


@pytest.mark.trust
@pytest.mark.parametrize("prior", ["box", "truncated"])
def test_the_default_bound_holds_for_the_run_it_describes(prior):
    """Mean excess of 2000 runs over the best parameter of the set, on copied rows, below it."""
    law = gdp.Flat(gdp.supports.box(-1.0, 1.0, 2)) if prior == "box" else PRIORS[prior]
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, law)
    run = {"n": 500, "adjacency": "replace-one", "domain": DOMAIN}
    found = calibrate_chain(posterior, epsilon=4.0, delta=1e-6, max_steps=64, **run)
    x = np.full((500, 2), math.sqrt(0.5))
    y = np.arange(500) % 5 < 3  # the best parameter is inside, where log odds are log(3/2)
    data = (jnp.asarray(x), jnp.asarray(y, jnp.float32))
    draws = run_langevin(
        posterior, data, gamma=found.gamma, kernel=found.kernel, num_draws=2000, key=0
    )
    odds = np.asarray(draws, np.float64) @ x[0]
    losses = np.logaddexp(0.0, odds) - 0.6 * odds
    excess = float(np.mean(losses) - stats.entropy([0.6, 0.4]))
    assert excess <= found.inaccuracy
    assert found.inaccuracy < 100 * excess  # a bound that says something


def test_what_cannot_be_calibrated_says_why():
    absolute = gdp.GibbsPosterior(gdp.losses.absolute, gdp.Flat(gdp.supports.l2_ball(2, 1.0)))
    with pytest.raises(ValueError, match="not known to be convex and smooth"):
        calibrate_chain(absolute, epsilon=1.0, delta=1e-6, **RUN)
    simplex = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.simplex(2)))
    with pytest.raises(ValueError, match="only a box or a ball is projected onto"):
        calibrate_chain(simplex, epsilon=1.0, delta=1e-6, **RUN)
