"""Rejection: its law against quadrature, its acceptance rate against the proven bound."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.privacy import ProvenDraw
from gibbs_dp.privacy.releases.methods import plan_proven, plan_rejection
from gibbs_dp.sampling import rejection
from gibbs_dp.sampling.rejection import draw_by_rejection

UNIT = gdp.Domain(x_bound=1.0)
LOGISTIC = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(1), 1.0))
X = np.linspace(-0.9, 0.9, 24)
DATA = (jnp.asarray(X, jnp.float32)[:, None], jnp.asarray(X > 0.3, jnp.float32))
GAMMA, M = 1.5, 1.0
BIG = 1.0 + GAMMA * 24 / 4


def exact_moments():
    theta = np.linspace(-8, 8, 20001)
    logits = theta[:, None] * X
    potential = GAMMA * (np.logaddexp(0, logits) - (X > 0.3) * logits).sum(axis=1) + theta**2 / 2
    weight = np.exp(-(potential - potential.min()))
    weight /= weight.sum()
    mean = float(weight @ theta)
    return mean, float(weight @ (theta - mean) ** 2)


def run(num_draws, num_tries, num_steps=40, convexity=M):
    keys = jax.random.split(jax.random.key(0), num_draws)
    return np.asarray(
        jax.vmap(
            lambda k: draw_by_rejection(
                LOGISTIC,
                DATA,
                jnp.asarray(GAMMA),
                jnp.asarray(convexity),
                jnp.asarray(BIG),
                k,
                num_steps=num_steps,
                num_tries=num_tries,
            )
        )(keys)
    )[:, 0]


def test_the_law_is_the_posteriors():
    """2000 draws against quadrature, within 4 standard errors."""
    mean, variance = exact_moments()
    draws = run(2000, 512)
    assert abs(draws.mean() - mean) < 4 * (variance / 2000) ** 0.5
    assert abs(draws.var() / variance - 1) < 5 * (2 / 2000) ** 0.5


def test_an_envelope_that_is_too_narrow_is_not_the_posterior():
    """Known-wrong variant: claiming more convexity than there is shrinks the spread."""
    variance = exact_moments()[1]
    draws = run(2000, 512, convexity=4.0 / variance)
    assert draws.var() < 0.6 * variance


NARROW = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(2), 1.0))


def outliers(precision=300.0):
    """Of 150 draws from N(0, 1/precision) by proposals of variance 1, those beyond 8 sd."""
    data, given = jnp.zeros((2, 2)), [jnp.asarray(a) for a in ((precision - 1) / 2, 1.0, precision)]
    draw_by_rejection.clear_cache()  # it was compiled with whatever noise there was
    draws = jax.vmap(
        lambda k: draw_by_rejection(NARROW, data, *given, k, num_steps=3, num_tries=5_000)
    )(jax.random.split(jax.random.key(3), 150))
    draw_by_rejection.clear_cache()
    return int((jnp.abs(draws).max(axis=1) > 8 / math.sqrt(precision)).sum())


def test_rare_proposals_are_never_waved_through(monkeypatch):
    """A uniform number that can be 0 accepts anything then: seen here with one of 12 bits."""
    assert outliers() == 0  # each has probability 1e-15, and 1e-7 of no proposal accepted

    def coarse(key, shape, dtype=None):
        return -jnp.log(jnp.floor(jax.random.uniform(key, shape) * 2.0**12) * 2.0**-12)

    monkeypatch.setattr(rejection, "exponentials", coarse)
    assert outliers() > 3


def test_the_noise_is_right_far_out(monkeypatch):
    """Exponentials and normals against their laws; with no random bit set they end, at 67."""
    key = jax.random.key(5)
    draws = np.asarray(rejection.exponentials(key, (100_000,)))
    pairs = np.asarray(rejection.normals(key, (50_000, 3)))
    for found, law in ((draws, stats.expon), (pairs.ravel(), stats.norm)):
        assert stats.kstest(found, law.cdf).pvalue > 1e-5
    products = (pairs[:, [0, 0, 1]] * pairs[:, [1, 2, 2]]).mean(axis=0)
    assert np.abs(products).max() < 4.5 / math.sqrt(50_000)  # 2e-5 in all
    with monkeypatch.context() as patch:
        patch.setattr(jax.random, "bits", lambda key, shape, kind: jnp.zeros(shape, kind))
        last = float(rejection.exponentials(key, (1,))[0])
    assert last == pytest.approx(97 * math.log(2), rel=1e-6)
    with monkeypatch.context() as patch:
        patch.setattr(jax.random, "bits", lambda key, shape, kind: ~jnp.zeros(shape, kind))
        assert 0 <= float(rejection.exponentials(key, (1,))[0]) < 1e-6


def test_the_noises_resolution_is_part_of_the_plan():
    given = {"strong_convexity": 1.0, "smoothness": 100.0, "first_gradient": 1.0, "dim": 4}
    for tau in (1e-9, 1e-20):
        plan = plan_rejection(**given, total_variation=tau)
        rate = plan.acceptance
        missed = (1 - rate + 2.0**-96) ** plan.num_tries
        assert missed + 3 * 2.0**-96 / rate == pytest.approx(plan.total_variation, rel=1e-6)
        assert plan.total_variation <= tau
    with pytest.raises(ValueError, match="resolution of the noise alone"):
        plan_rejection(**given, total_variation=5e-25)


def test_the_proven_rate_is_below_the_true_one():
    """Acceptance of the logistic problem, by quadrature of the ratio of the two densities."""
    theta = np.linspace(-8, 8, 20001)
    logits = theta[:, None] * X
    potential = GAMMA * (np.logaddexp(0, logits) - (X > 0.3) * logits).sum(axis=1) + theta**2 / 2
    best = potential.argmin()
    mass = np.exp(-(potential - potential[best])).sum() * (theta[1] - theta[0])
    true_rate = mass / math.sqrt(2 * math.pi / M)
    plan = plan_rejection(
        strong_convexity=M, smoothness=BIG, first_gradient=GAMMA * 24, dim=1, total_variation=1e-9
    )
    assert plan.acceptance <= true_rate
    assert plan.acceptance >= 0.98 * math.sqrt(M / BIG)
    assert (1 - plan.acceptance) ** plan.num_tries <= 1e-9
    quadratic = plan_rejection(
        strong_convexity=3.0, smoothness=3.0, first_gradient=9.0, dim=7, total_variation=1e-9
    )
    assert quadratic.acceptance == pytest.approx(1.0, abs=2e-6)


def test_a_release_has_the_posteriors_law(tmp_path):
    """200 released draws against quadrature at the calibrated gamma; 1e-7 a false alarm."""
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="replace-one", epsilon=200.0, delta=1e-3)
    out = gdp.release(
        LOGISTIC,
        DATA,
        domain=UNIT,
        adjacency="replace-one",
        ledger=ledger,
        epsilon=20.0,
        delta=1e-4,
        num_draws=200,
        accept="float-arithmetic",
        method=ProvenDraw(),
    )
    theta = np.linspace(-8, 8, 20001)
    logits = theta[:, None] * X
    losses = (np.logaddexp(0, logits) - (X > 0.3) * logits).sum(axis=1)

    def cdf(gamma):
        mass = np.exp(-gamma * (losses - losses.min()) - theta**2 / 2)
        return lambda x: np.interp(x, theta, np.cumsum(mass) / mass.sum())

    gamma = out.guarantee.gamma
    assert stats.kstest(out.theta[:, 0], cdf(gamma)).pvalue > 1e-7
    assert stats.kstest(out.theta[:, 0] / 4, cdf(gamma)).pvalue < 1e-7


def test_the_guarantee_adds_up_and_is_charged(tmp_path):
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency="replace-one", epsilon=1.0, delta=1e-5)
    out = gdp.release(
        LOGISTIC,
        DATA,
        domain=UNIT,
        adjacency="replace-one",
        ledger=ledger,
        epsilon=1.0,
        delta=1e-5,
        accept="float-arithmetic",
        method=ProvenDraw(),
    )
    g = out.guarantee
    exact = gdp.privacy.account(
        LOGISTIC, gamma=g.gamma, n=24, adjacency="replace-one", domain=UNIT
    ).delta(1.0)
    assert exact + (1 + math.e) * g.total_variation <= 1e-5 * (1 + 1e-9)
    assert any(a.startswith("proven: ") for a in g.assumptions)
    assert not any("declared, not measured" in a for a in g.assumptions)
    assert ledger.left() == {"epsilon": 0.0, "delta": 0.0}


def test_refusals():
    given = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one", "num_draws": 1}
    wide = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(200), 1.0))
    with pytest.raises(ValueError, match="a proven draw would take"):
        plan_proven(wide, n=10_000, domain=UNIT, **given)
    kinked = gdp.GibbsPosterior(gdp.losses.absolute, dist.Normal(jnp.zeros(1), 1.0))
    with pytest.raises(ValueError, match="strongly convex and smooth"):
        plan_proven(kinked, n=10, domain=gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0)), **given)
    with pytest.raises(ValueError, match="delta must lie in"):
        plan_proven(LOGISTIC, n=10, domain=UNIT, **(given | {"delta": 1.0}))
