"""Chains that learn from each other: right on hierarchies, by quadrature; and gone on to."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.sampling import adaptive_hmc, ensemble
from gibbs_dp.sampling import sample as sample_module
from gibbs_dp.sampling.target import Target

# Rubin's eight schools.
Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SD = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
PRIOR = {
    "mu": dist.Normal(0.0, 5.0),
    "tau": dist.HalfCauchy(5.0),
    "theta": lambda earlier: dist.Normal(earlier["mu"], earlier["tau"]).expand([8]),
}


def school_loss(theta, z):
    return -dist.Normal(theta["theta"][z["at"]], z["sd"]).log_prob(z["y"])


SCHOOLS = gdp.GibbsPosterior(school_loss, PRIOR)


def school_data(y=Y):
    return {"at": jnp.arange(8), "sd": jnp.asarray(SD), "y": jnp.asarray(y)}


def by_quadrature(y=Y, gamma=1.0):
    """Mean and sd of log tau and of every theta: all but tau is Gaussian, given tau."""
    grid = np.linspace(-9.0, 7.0, 4001)
    tau, variance = np.exp(grid)[:, None], SD**2 / gamma
    weight = 1.0 / (variance + tau**2)
    precision = 1.0 / 25.0 + weight.sum(axis=1)
    mean_mu = (weight * y).sum(axis=1) / precision
    log_p = stats.halfcauchy.logpdf(tau[:, 0], scale=5.0) + grid - 0.5 * np.log(precision)
    log_p += 0.5 * np.log(weight).sum(axis=1) - 0.5 * (weight * y**2).sum(axis=1)
    log_p += 0.5 * precision * mean_mu**2
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    pull = tau**2 * weight  # of theta, to its own y
    theta = pull * y + (1.0 - pull) * mean_mu[:, None]
    square = theta**2 + pull * variance + (1.0 - pull) ** 2 / precision[:, None]
    mean = p @ theta
    log_tau = p @ grid
    return mean, np.sqrt(p @ square - mean**2), log_tau, np.sqrt(p @ grid**2 - log_tau**2)


def compare(draws, y=Y, gamma=1.0, least=400):
    """Means within 4.5 errors by the effective draws, sds within 12%; ten numbers."""
    mean, sd, log_tau, log_sd = by_quadrature(y, gamma)
    theta = np.asarray(draws["theta"], np.float64).reshape(-1, 8)
    own = np.log(np.asarray(draws["tau"], np.float64)).ravel()
    error = 4.5 / np.sqrt(least)
    assert np.abs((theta.mean(axis=0) - mean) / sd).max() < error
    assert np.abs(np.log(theta.std(axis=0) / sd)).max() < 0.12
    assert abs(own.mean() - log_tau) < error * log_sd


@pytest.mark.trust
@pytest.mark.parametrize("gamma", [0.3, 1.0, 20.0])
def test_a_centred_hierarchy_by_default(gamma):
    """NUTS is wrong on it; with gamma 20 the data decide theta, with 0.3 next to nothing does."""
    draws = gdp.sample(SCHOOLS, school_data(), gamma=gamma, key=1)
    assert not draws.warnings
    assert draws.theta["theta"].shape == (4, 1000, 8)
    assert "theta" in draws.notes[0]
    assert draws.to_dataframe()["ess"].min() > 400
    compare(draws.theta, gamma=gamma)


@pytest.mark.trust
def test_particles_move_in_recentred_coordinates():
    """Islands worth 900 draws or more; in flat coordinates they are worth some 500."""
    draws = gdp.sample(SCHOOLS, school_data(), sampler=gdp.SMC(num_particles=2048), key=1)
    assert not draws.warnings
    assert draws.to_dataframe()["ess"].min() > 900
    compare(draws.theta)


@pytest.mark.trust
def test_of_a_batch_every_dataset_is_right():
    ys = [Y, 3.0 * Y, Y[::-1]]
    batch = jax.tree.map(lambda *a: jnp.stack(a), *map(school_data, ys))
    draws = gdp.sample(SCHOOLS, batch, is_batch=True, num_samples=500)
    for i, y in enumerate(ys):
        compare(jax.tree.map(lambda a, i=i: a[i], draws.theta), y, least=300)


@pytest.mark.trust(but="True")
@pytest.mark.parametrize("recentre", [True, False])
def test_a_correlated_gaussian(recentre):
    """Exact mean and covariance of a linear model with 30 rows and a normal prior."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 5)) @ np.array(np.eye(5) + 0.9 * np.eye(5, k=1))
    y = x @ np.arange(5.0) + rng.normal(size=30)
    prior = dist.Normal(jnp.zeros(5), 2.0)
    posterior = gdp.GibbsPosterior(gdp.losses.squared, prior)
    sampler = gdp.AdaptiveHMC(recentre=recentre)
    draws = gdp.sample(posterior, (x, y), gamma=0.5, sampler=sampler, key=2)
    precision = x.T @ x + np.eye(5) / 4.0
    cov = np.linalg.inv(precision)
    mean = cov @ (x.T @ y)
    theta = np.asarray(draws.theta, np.float64).reshape(-1, 5)
    least = draws.to_dataframe()["ess"].min()
    assert least > 1000
    assert np.abs((theta.mean(axis=0) - mean) / np.sqrt(np.diag(cov))).max() < 4.5 / least**0.5
    white = np.linalg.solve(np.linalg.cholesky(cov), (theta - mean).T)
    assert np.abs(np.cov(white) - np.eye(5)).max() < 0.15


@pytest.mark.trust
@pytest.mark.of_cpus("it counts steps, which are as many in any case elsewhere")
@pytest.mark.parametrize("enough", [0.0, math.inf])
def test_draws_worth_little_are_made_anew_farther_apart(monkeypatch, enough):
    """A Gaussian's are worth enough: the first ones, as without the check; else the second ones."""

    def run():  # a loss of its own, and so a program
        posterior = gdp.GibbsPosterior(lambda theta, z: (theta - z) ** 2, dist.Normal(0.0, 1.0))
        return gdp.sample(posterior, jnp.ones(3), sampler=gdp.AdaptiveHMC(), key=3)

    usual = run()
    monkeypatch.setattr(ensemble, "WORTH_ENOUGH", enough)
    monkeypatch.setattr(ensemble, "SHARE_ENOUGH", enough)
    draws = run()
    more = draws.settings["num_gradients"] - usual.settings["num_gradients"]
    if not enough:
        assert more == 0
        np.testing.assert_array_equal(draws.theta, usual.theta)
    else:  # 4,000 draws of 32 chains
        assert more == 4 * 125 * draws.settings["num_leapfrog"]
        error = 4.5 / 1000**0.5  # a false alarm in 10^5, if a quarter of the draws are effective
        assert abs(draws.theta.mean() - 6 / 7) * 7**0.5 < error
        assert abs(draws.theta.std() * 7**0.5 - 1.0) < error / 2**0.5


def test_one_of_the_chains_that_a_chain_consists_of_may_be_stuck(monkeypatch):
    """Chain 9 of 32, of the second of four; a single draw of each is no sign."""
    target = Target(SCHOOLS, school_data(), jnp.ones(()))
    inside = SCHOOLS.initial(jax.random.key(0))
    adapted = ensemble.Adapted(jnp.ones(10), None, *3 * [jnp.asarray(0)])

    def run(num_draws):
        u = jax.random.normal(jax.random.key(1), (num_draws, 32, 10))
        blank = jnp.zeros((num_draws, 32))
        ring = ensemble.Ring(u.at[:, 9].set(u[0, 9]), blank, blank, blank, jnp.asarray(0))
        found = ring, target.terms(inside), adapted
        monkeypatch.setattr(adaptive_hmc, "run_ensemble", lambda *_: found)
        drawn = gdp.AdaptiveHMC().run(jax.random.key(2), target, inside[None], 4, 8 * num_draws)
        return drawn.is_stuck.tolist()

    assert run(125) == [False, True, False, False]
    assert run(1) == [False] * 4


def test_chains_that_a_window_did_not_move_are_found_if_it_moved_most():
    u = jax.random.normal(jax.random.key(1), (50, 8, 2))
    weight = (jnp.arange(50) >= 25) * 1.0
    late = u.at[25:, :3].set(u[0, :3])  # only while it counts
    assert ensemble._is_still(late, weight).tolist() == [True] * 3 + [False] * 5
    assert not ensemble._is_still(u.at[:25].set(u[0]), weight).any()
    assert not ensemble._is_still(u.at[25:, :4].set(u[0, :4]), weight).any()


def test_nothing_is_compiled_for_other_data_or_another_gamma(monkeypatch):
    traces = []

    def counted(theta, z):
        traces.append(1)
        return school_loss(theta, z)

    posterior = gdp.GibbsPosterior(counted, PRIOR)
    few = {"sampler": gdp.AdaptiveHMC(), "num_samples": 40}
    gdp.sample(posterior, school_data(), **few)
    seen = len(traces)
    assert seen > 0
    gdp.sample(posterior, school_data(2.0 * Y), gamma=0.5, key=3, **few)
    # The examples are looked at again; the program of the chains is not traced again.
    assert len(traces) - seen <= 3


def test_a_far_start_is_brought_back():
    """From a start in the neck: all chains begin where tau is e-20 and theta all alike."""
    init = {"mu": jnp.zeros(()), "tau": jnp.asarray(1e-8), "theta": jnp.zeros(8)}
    draws = gdp.sample(SCHOOLS, school_data(), init=init, sampler=gdp.AdaptiveHMC())
    assert not draws.warnings
    compare(draws.theta)


def ring(theta, z):
    """A thin curved ridge, which no Gaussian fits and no coordinate is the scale of."""
    return 0.5 * ((jnp.sqrt(jnp.sum(theta**2) + 1e-9) - z) / 0.05) ** 2


@pytest.mark.trust
def test_what_was_tried_is_said():
    posterior = gdp.GibbsPosterior(ring, dist.Normal(jnp.zeros(2), 1.0))
    data = jnp.full(1, 1.0)
    draws = gdp.sample(posterior, data, num_samples=500)
    assert draws.notes[0].startswith("tried in turn: HMC() (")
    first = gdp.sample(posterior, data, num_samples=500, max_seconds=0.0)
    assert not first.notes
    assert first.warnings
    alone = gdp.sample(posterior, data, num_samples=500, sampler=gdp.HMC())
    assert not alone.notes
    np.testing.assert_array_equal(first.theta, alone.theta)
    angle = np.arctan2(*np.moveaxis(np.asarray(draws.theta), -1, 0))
    # Uniform: the mean of cos and sin of the angle, with 100 effective draws at the least.
    assert not draws.warnings
    assert np.abs([np.cos(angle).mean(), np.sin(angle).mean()]).max() < 4.0 / np.sqrt(200)


def test_of_many_coordinates_nothing_else_is_tried(monkeypatch):
    """SMC is none for 600; chains that are too short there are told of when they are asked.

    They adapt at once: no run is thrown away to learn that there is no fit.
    """
    monkeypatch.setattr(gdp.Draws, "warnings", property(lambda self: pytest.fail("looked at")))
    run, calls = sample_module._sample_batch, []
    monkeypatch.setattr(
        sample_module, "_sample_batch", lambda *given: calls.append(given) or run(*given)
    )
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(600)))
    draws = gdp.sample(posterior, jnp.ones((2, 600)), num_samples=100, num_warmup=0)
    assert draws.theta.shape == (4, 100, 600)
    assert not draws.notes
    assert draws.settings["is_adapted"]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_parallel": 4}, r"AdaptiveHMC\(num_parallel\) must be at least 8"),
        ({"target_accept": 1.0}, r"AdaptiveHMC\(target_accept\) must be in"),
        ({"patience": 0}, r"AdaptiveHMC\(patience\) must be at least 1"),
    ],
)
def test_refused_settings(changed, message):
    with pytest.raises(ValueError, match=message):
        gdp.AdaptiveHMC(**changed)


def test_refused_seconds():
    with pytest.raises(ValueError, match="max_seconds"):
        gdp.sample(SCHOOLS, school_data(), max_seconds=-1.0)


@pytest.mark.trust
def test_an_audit_of_a_hierarchy_needs_no_smc():
    """Both routes to on-average KL agree, within 4 errors; nothing is flagged."""
    effects = jnp.array([0.3, 0.1, 0.2, 0.4, 0.25])
    prior = {
        "mu": dist.Normal(0.0, 1.0),
        "tau": dist.HalfNormal(1.0),
        "a": lambda earlier: dist.Normal(earlier["mu"], earlier["tau"]).expand([5]),
    }

    def loss(theta, z):
        return -dist.Normal(theta["a"][z["group"]], 1.0).log_prob(z["y"])

    def draw(key, n):
        first, second = jax.random.split(key)
        group = jax.random.randint(first, (n,), 0, 5)
        return {"group": group, "y": effects[group] + jax.random.normal(second, (n,))}

    posterior = gdp.GibbsPosterior(loss, prior)
    learn = [gdp.OnAverageKL(), gdp.Risks()]
    report = gdp.audit(
        posterior, draw, n=30, gammas=[1.0], num_datasets=128, learn=learn, progress=False
    )
    assert not report.warnings
    assert report["r_hat"][0] < 1.05
    row = {name: float(report[name][0]) for name in ("on_average_kl", "generalization_error")}
    se = float(np.hypot(report["on_average_kl_se"][0], report["generalization_error_se"][0]))
    assert abs(row["on_average_kl"] - row["generalization_error"]) < 4.0 * se
