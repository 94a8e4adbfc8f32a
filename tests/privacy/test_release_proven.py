"""Proven draws: what is promised, by hand; rejection against quadrature and its proven rate."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.privacy import ProvenDraw, proximal
from gibbs_dp.privacy.releases import proven, rejection
from gibbs_dp.privacy.releases.rejection import draw_by_rejection, plan_by_rejection, plan_rejection

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


def test_a_normal_posterior_keeps_its_variance_when_some_proposals_are_refused():
    """4,000 draws where the envelope has 0.9 of the curvature; 4 standard errors, 6e-5 each."""
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 1.0))
    data, curvature, num_draws = jnp.asarray([[0.5], [1.0], [-0.2]]), 4.0, 4000
    found = [jnp.asarray(a) for a in (1.0, 0.9 * curvature, curvature)]
    draws = jax.vmap(
        lambda key: draw_by_rejection(posterior, data, *found, key, num_steps=40, num_tries=512)
    )(jax.random.split(jax.random.key(1), num_draws))
    z = (np.asarray(draws, np.float64)[:, 0] - 1.3 / curvature) * curvature**0.5
    assert abs(z.mean()) < 4 / num_draws**0.5
    assert abs(z.var() - 1) < 4 * (2 / num_draws) ** 0.5


def test_the_distances_of_several_rejected_draws_stay_within_their_share_of_delta():
    given = {"epsilon": 1.0, "delta": 1e-5, "n": 24, "adjacency": "replace-one"}
    promise, plan = plan_by_rejection(
        LOGISTIC, **given, domain=gdp.Domain(x_bound=1.0, y_range=(0.0, 1.0)), num_draws=5
    )
    distance = 5 * plan.total_variation * (1 + math.e)
    assert promise.exact.delta + distance <= 1e-5 * (1 + 1e-9)
    assert distance <= 0.01 * 1e-5 * (1 + 1e-9)


@pytest.mark.parametrize("reach", [0.3, 3.0])
def test_no_mode_is_farther_than_is_said(reach):
    """A slope of 1/2 up to some reach, then flat: the mode is where the slope's pull ends."""
    m, weight = 2.0, 4.0
    prior = proximal.QuadraticPrior(*(np.full(1, a) for a in (m, 0.0, 0.0, np.inf)))
    facts = proven._Facts(prior, 1.0, 1.0, steepest=0.5, fall=0.5 * reach, is_mean=False)
    theta = np.linspace(0, 4, 400_001)
    potential = m * theta**2 / 2 - weight * 0.5 * np.minimum(theta, reach)
    mode = theta[np.argmin(potential)]
    assert mode <= facts.farthest(weight) * (1 + 1e-9)
    if reach > 1:
        assert facts.farthest(weight) == pytest.approx(mode, rel=1e-4)


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


@pytest.mark.parametrize("first", [0.05, 30.0])
@pytest.mark.parametrize("dim", [1, 3])
def test_the_proven_rate_is_that_of_the_worst_potential(first, dim):
    """A quadratic of the largest curvature, whose slope at the centre is all that may be left."""
    m, big = 2.0, 9.0
    plan = plan_rejection(
        strong_convexity=m, smoothness=big, first_gradient=first, dim=dim, total_variation=1e-9
    )
    slope = big / m * first * ((big - m) / (big + m)) ** plan.num_steps
    assert slope <= rejection.CENTRING * math.sqrt(m)
    x = np.linspace(-9, 9, 200_001) / math.sqrt(m)
    along, across = (
        np.exp(-m * (x + g / m) ** 2 / 2 - (big - m) * x**2 / 2).sum() / np.exp(-m * x**2 / 2).sum()
        for g in (slope, 0.0)
    )
    rate = along * across ** (dim - 1)
    assert rate * (1 - 2e-6) <= plan.acceptance <= rate


def test_a_release_has_the_posteriors_law(ledger):
    """40 released draws against quadrature at the calibrated gamma; 1e-7 a false alarm."""
    out = release(ledger, epsilon=8.0, delta=1e-4, num_draws=40)
    theta = np.linspace(-8, 8, 20001)
    logits = theta[:, None] * X
    losses = (np.logaddexp(0, logits) - (X > 0.3) * logits).sum(axis=1)
    mass = np.exp(-out.guarantee.gamma * (losses - losses.min()) - theta**2 / 2)

    def cdf(x):
        return np.interp(x, theta, np.cumsum(mass) / mass.sum())

    assert stats.kstest(out.theta[:, 0], cdf).pvalue > 1e-7
    assert stats.kstest(out.theta[:, 0] + 2, cdf).pvalue < 1e-7


@pytest.fixture
def ledger(tmp_path):
    return gdp.Ledger.create(tmp_path / "l", adjacency="replace-one", epsilon=200.0, delta=1e-3)


def release(ledger, posterior=LOGISTIC, data=DATA, **changes):
    given = {"domain": UNIT, "adjacency": "replace-one", "ledger": ledger}
    return gdp.release(posterior, data, **(given | changes))


def test_delta_adds_up_by_hand_from_public_facts(ledger):
    """Step, rounds, rounding and delta of a Gaussian prior, from the formulas again."""
    out = release(ledger, epsilon=1.0, delta=1e-5)
    g, n = out.guarantee, 24
    assert (g.mechanism, g.epsilon, g.delta) == ("proven draw", 1.0, 1e-5)
    smoothness = g.gamma * n / 4
    step = 4 / smoothness
    start = math.log(1 + smoothness) / 2 + 1
    room = 0.02 * 1e-5 / (1 + math.e)
    ratio = math.log(start / (2 * (room / 2) ** 2)) / (2 * math.log(1 + step))
    renyi = [start / (1 + step) ** k for k in range(200)]
    squares = [
        k + math.log(math.expm1(r) / (4 * (room / 2) ** 2)) / (2 * math.log(1 + step))
        for k, r in enumerate(renyi)
    ]
    rounds = math.ceil(min(ratio, *squares))
    words = next(a for a in g.assumptions if a.startswith("proven: "))
    assert words.startswith(f"proven: {rounds} rounds of the proximal sampler with step {step:.6g}")
    rounding = g.total_variation - room / 2
    assert 0 < rounding < rounds * 1e-13
    exact = gdp.privacy.account(
        LOGISTIC, gamma=g.gamma, n=n, adjacency="replace-one", domain=UNIT
    ).delta(1.0)
    assert exact <= 0.98e-5 * (1 + 1e-9)
    assert exact + (1 + math.e) * g.total_variation <= 1e-5
    assert not any("declared, not measured" in a for a in g.assumptions)
    assert any("IEEE 754" in a for a in g.assumptions)
    assert any("number of proposals" in c for c in g.caveats)
    assert not any("Mironov" in c for c in g.caveats)
    assert ledger.spent() == {"epsilon": 1.0, "delta": 1e-5}


def test_other_data_have_the_same_guarantee(ledger):
    """Labels and rows change, and nothing that is promised does."""
    given = {"epsilon": 1.0, "delta": 1e-5}
    first = release(ledger, **given).guarantee
    assert release(ledger, data=(-3 * DATA[0], 1 - DATA[1]), **given).guarantee == first


BALL = gdp.Flat(gdp.supports.l2_ball(1, 0.5))
PRIORS = {
    "Gaussian": dist.Normal(jnp.zeros(1), 1.0),
    "ball": BALL,
    "box": gdp.Flat(gdp.supports.box(-0.5, 1.0, 1)),
    "uniform": dist.Uniform(-0.5, jnp.ones(1)),
    "in a ball": gdp.priors.normal_in_ball(1, radius=0.5, scale=1.0),
    "truncated": dist.TruncatedNormal(jnp.zeros(1), 1.0, low=-0.5, high=1.0),
}


@pytest.mark.trust(but=["loss1-Gaussian", "loss2-in a ball", *(f"loss0-{name}" for name in PRIORS)])
@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize(
    "loss", [gdp.losses.logistic, gdp.losses.huber, gdp.losses.half_squared_distance]
)
def test_it_is_the_default_wherever_it_applies(ledger, loss, name):
    """Nothing has to be accepted; and the draw is inside the support."""
    posterior = gdp.GibbsPosterior(loss, PRIORS[name])
    data = DATA if isinstance(loss, gdp.losses.LinearLoss) else DATA[0]
    domain = gdp.Domain(x_bound=1.0, y_range=(0.0, 1.0))
    given = {"domain": domain, "epsilon": 1.0, "delta": 1e-6}
    out = release(ledger, posterior, data, **given)
    assert out.guarantee.mechanism == "proven draw"
    assert out.guarantee.total_variation < 1e-8
    assert bool(posterior.prior.contains(jnp.asarray(out.theta[0])))


def test_pure_dp_is_proven_on_a_ball(ledger):
    """By the density of a draw: only real numbers have to be accepted, and zCDP follows."""
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, BALL)
    with pytest.raises(ValueError, match="name what you accept: 'float-arithmetic'") as error:
        release(ledger, posterior, pure_epsilon=1.0)
    assert "exact-draw" not in str(error.value)
    g = release(ledger, posterior, pure_epsilon=1.0, accept="float-arithmetic").guarantee
    exact = gdp.calibrate(posterior, pure_epsilon=1.0, n=24, adjacency="replace-one", domain=UNIT)
    assert (g.mechanism, g.pure_epsilon, g.delta, g.zcdp) == ("proven draw", 1.0, 0.0, 1 / 8)
    assert g.gamma == pytest.approx(exact.gamma * (1 - 1e-6), rel=1e-9)
    assert g.total_variation is None


def test_where_rounding_costs_too_much_it_has_to_be_accepted(ledger):
    given = {"epsilon": 1.0, "delta": 1e-13}
    with pytest.raises(ValueError, match="name what you accept: 'float-arithmetic'") as error:
        release(ledger, **given)
    assert "exact-draw" not in str(error.value)
    g = release(ledger, accept="float-arithmetic", **given).guarantee
    assert g.total_variation * (1 + math.e) < 1e-13
    assert any("Mironov" in c for c in g.caveats)


def test_softmax_is_proven_too(ledger):
    """Nothing has to be accepted, as for losses of one prediction."""
    loss = gdp.losses.SoftmaxCrossEntropy(3)
    x, y = np.tile(DATA[0], (1, 2)) / 2**0.5, np.arange(float(len(DATA[1]))) % 3
    posterior = gdp.GibbsPosterior(loss, dist.Normal(jnp.zeros(6), 1.0))
    given = {"domain": gdp.Domain(x_bound=1.0, y_range=(0.0, 2.0)), "epsilon": 1.0, "delta": 1e-6}
    out = release(ledger, posterior, (x, y), **given)
    assert out.guarantee.mechanism == "proven draw"
    assert out.guarantee.total_variation < 1e-8
    assert out.theta.shape == (1, 6)


class Declared(gdp.losses.LinearLoss):
    """Half the squared loss, by its author's word; ``precise`` is what proven draws ask for."""

    def value(self, prediction, y):
        return (prediction - y) ** 2 / 2

    def slope(self, prediction, y):
        return prediction - y

    def curvature(self, prediction, y):
        return 0 * prediction + 1.0

    def constants(self, domain):
        most = domain.prediction_bound + domain.y_bound
        lipschitz, smoothness = most * domain.x_bound, domain.x_bound**2
        return gdp.losses.LossConstants.of((0.0, most**2 / 2), most**2 / 2, lipschitz, smoothness)


class Precise(Declared):
    def precise(self, prediction, y):
        return (prediction - y) ** 2 / 2


UNMET = {
    "a loss with kinks": (gdp.GibbsPosterior(gdp.losses.hinge, BALL), {}, "half squared distances"),
    "no digits": (gdp.GibbsPosterior(Declared(), BALL), {}, "to any number of digits"),
    "no normal law": (
        gdp.GibbsPosterior(gdp.losses.logistic, dist.Laplace(jnp.zeros(1), 1.0)),
        {},
        "whose prior is Gaussian",
    ),
    "zCDP": (gdp.GibbsPosterior(gdp.losses.logistic, BALL), {"zcdp": 0.1}, "on a ball or a box"),
    "pure DP without a bound": (LOGISTIC, {"pure_epsilon": 1.0}, "on a ball or a box pure DP"),
    "many steps": (
        gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(1, 9.0))),
        {"pure_epsilon": 1e4},
        "proven draws would take",
    ),
}


@pytest.mark.parametrize("name", UNMET)
def test_elsewhere_exact_draws_have_to_be_accepted_and_it_says_why(ledger, name):
    posterior, target, why = UNMET[name]
    target = target or {"epsilon": 1.0, "delta": 1e-6}
    domain = gdp.Domain(x_bound=1.0, y_range=(0.0, 1.0))
    with pytest.raises(ValueError, match=why) as error:
        release(ledger, posterior, domain=domain, **target)
    message = str(error.value)
    assert message.startswith("accept: the guarantee is idealized, so name what you accept: 'exact")
    assert "Draws are not proven here" in message
    assert "\n" not in message
    assert not ledger.charges()


def test_a_loss_of_ones_own_is_drawn_from_once_it_has_digits(ledger):
    domain = gdp.Domain(x_bound=1.0, y_range=(0.0, 1.0))
    posterior = gdp.GibbsPosterior(Precise(), BALL)
    out = release(ledger, posterior, domain=domain, epsilon=1.0, delta=1e-6)
    assert out.guarantee.mechanism == "proven draw"


def test_a_budget_in_zcdp_without_total_variation_gets_exact_draws(tmp_path):
    """Total variation has no zCDP, so that it could not be charged."""
    ledger = gdp.Ledger.create(tmp_path / "z", adjacency="replace-one", zcdp=1.0)
    with pytest.raises(ValueError, match="budget in zCDP pays for no total variation"):
        release(ledger, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("currency", ["zcdp", "gdp"])
def test_a_budget_with_total_variation_pays_for_proven_draws(tmp_path, currency):
    """Each costs what its exact draws cost, and its distance, not its epsilon."""
    budget = {currency: 1.0, "total_variation": 1e-7}
    ledger = gdp.Ledger.create(tmp_path / "z", adjacency="replace-one", **budget)
    made = [release(ledger, epsilon=0.5, delta=1e-6).guarantee for _ in range(3)]
    assert all(g.mechanism == "proven draw" and g.zcdp is None and g.gdp is None for g in made)
    costs = [getattr(g.exact, currency) ** (1 + (currency == "gdp")) for g in made]
    spent = ledger.spent()
    total = spent[currency] ** (1 + (currency == "gdp"))
    assert total == pytest.approx(sum(costs), rel=1e-12)
    assert spent["total_variation"] == pytest.approx(3 * made[0].total_variation, rel=1e-12)
    assert gdp.privacy.compose(made, delta=3e-6).epsilon < 0.9  # not 1.5


def test_rejection_is_for_other_losses(ledger):
    """A plain function with declared constants: 'float-arithmetic' has to be accepted."""
    loss = gdp.losses.Declared(
        lambda theta, z: jnp.logaddexp(0.0, -theta[0] * z[0][0]),
        lipschitz=1.0, smoothness=0.25, strong_convexity=0.0,
    )  # fmt: skip
    posterior = gdp.GibbsPosterior(loss, dist.Normal(jnp.zeros(1), 1.0))
    given = {"epsilon": 1.0, "delta": 1e-5, "method": ProvenDraw()}
    with pytest.raises(ValueError, match="name what you accept: 'float-arithmetic'"):
        release(ledger, posterior, **given)
    g = release(ledger, posterior, accept="float-arithmetic", **given).guarantee
    exact = gdp.privacy.account(
        posterior, gamma=g.gamma, n=24, adjacency="replace-one", domain=UNIT
    ).delta(1.0)
    assert g.mechanism == "proven draw"
    assert exact + (1 + math.e) * g.total_variation <= 1e-5 * (1 + 1e-9)
    assert any("proposals, each accepted" in a for a in g.assumptions)


def test_refusals():
    given = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one", "num_draws": 1}
    wide = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(200), 1.0))
    with pytest.raises(ValueError, match="a proven draw would take"):
        plan_by_rejection(wide, n=10_000, domain=UNIT, **given)
    kinked = gdp.GibbsPosterior(gdp.losses.absolute, dist.Normal(jnp.zeros(1), 1.0))
    with pytest.raises(ValueError, match="strongly convex and smooth"):
        plan_by_rejection(
            kinked, n=10, domain=gdp.Domain(x_bound=1.0, y_range=(-1.0, 1.0)), **given
        )
    with pytest.raises(ValueError, match="delta must lie in"):
        plan_by_rejection(LOGISTIC, n=10, domain=UNIT, **(given | {"delta": 1.0}))
