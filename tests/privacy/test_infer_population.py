"""Inference from private draws: closed forms, enumeration, coverage; what it refuses."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import special, stats

import gibbs_dp as gdp
from gibbs_dp.privacy import Release
from gibbs_dp.privacy.releases import inference
from gibbs_dp.sampling.kernels.base import Tuning

FAR = gdp.Domain(x_bound=1e3)
MEAN = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(2), 1.0))


def promise(gamma, num_draws=1, mechanism="exact draw"):
    return gdp.Guarantee("replace-one", mechanism, num_draws, gamma, epsilon=math.inf, delta=0.0)


def normal_rows(mean, key, n):
    return mean + 0.5 * gdp.random.normal(key, (n, 2))


def check_quantiles(values, ess, exact_cdf):
    """Shares below the truth's quantiles, within 4 standard errors: 6 in 100,000 each."""
    for level in (0.1, 0.5, 0.9):
        share = (values <= exact_cdf(level)).mean()
        assert abs(share - level) < 4 * math.sqrt(level * (1 - level) / ess)


@pytest.mark.trust(but="0.5")
@pytest.mark.parametrize("gamma", [0.05, 0.5])
def test_means_of_normal_rows_have_their_closed_form(gamma):
    """Two draws of a conjugate posterior; 12 comparisons, a false alarm in 1,400."""
    n, tau = 60, 2.0
    theta = np.array([[0.4, -0.8], [0.2, -1.1]])
    released = Release(theta, promise(gamma, 2), 1, MEAN, FAR, n)
    found = released.infer(dist.Normal(jnp.zeros(2), tau), normal_rows, key=3)
    # The draws' mean is a mean(x) + noise, of variances a^2/(4 n) and 1/(2 (gamma n + 1)).
    a = gamma * n / (gamma * n + 1)
    variance = a**2 * 0.25 / n + 1 / (2 * (gamma * n + 1))
    precision = 1 / tau**2 + a**2 / variance
    centre = a * theta.mean(axis=0) / variance / precision
    table = found.draws.to_dataframe()
    assert not found.warnings
    for j in range(2):
        law = stats.norm(centre[j], precision**-0.5)
        check_quantiles(found.draws.theta[..., j], table["ess"].iloc[j], law.ppf)


@pytest.mark.trust
def test_clipped_bits_have_the_law_that_a_sum_gives():
    """Logits of bits whose feature is clipped from 1 to 0.5: a sum over counts, a false alarm
    in 5,000.
    """
    n, gamma, theta, scale = 30, 0.7, 1.2, 1.5
    box = gdp.Flat(gdp.supports.box(-3.0, 3.0, 1))
    posterior, domain = gdp.GibbsPosterior(gdp.losses.logistic, box), gdp.Domain(x_bound=0.5)

    def bits(logit, key, n):
        return jnp.ones((n, 1)), gdp.random.uniform(key, (n,)) < jax.nn.sigmoid(logit)

    released = Release(np.full((1, 1), theta), promise(gamma), 1, posterior, domain, n)
    found = released.infer(dist.Normal(0.0, scale), bits, key=4)

    ones, grid = np.arange(n + 1)[:, None], np.linspace(-3, 3, 4001)
    log = -gamma * (n * np.logaddexp(0, grid / 2) - ones * grid / 2)
    total = special.logsumexp(log, axis=1) + math.log(grid[1] - grid[0])
    at = -gamma * (n * np.logaddexp(0, theta / 2) - ones[:, 0] * theta / 2) - total
    phi = np.linspace(-8, 8, 4001)
    law = stats.binom.logpmf(ones, n, special.expit(phi)) + at[:, None]
    weight = np.exp(special.logsumexp(law, axis=0)) * stats.norm.pdf(phi, 0, scale)
    cdf = np.cumsum(weight) / weight.sum()
    check_quantiles(
        found.draws.theta,
        found.draws.to_dataframe()["ess"].iloc[0],
        lambda level: np.interp(level, cdf, phi),
    )


def linear(phi, key, n):
    x, y = jax.random.split(key)
    x = 0.6 * gdp.random.normal(x, (n, 2))
    return x, x @ phi + 0.5 * gdp.random.normal(y, (n,))


def logistic(phi, key, n):
    x, y = jax.random.split(key)
    x = gdp.random.normal(x, (n, 2))
    return x, gdp.random.uniform(y, (n,)) < jax.nn.sigmoid(x @ phi)


@pytest.mark.trust
@pytest.mark.parametrize(
    ("population", "loss", "gamma"),
    [(linear, gdp.losses.squared, 0.05), (logistic, gdp.losses.logistic, 0.2)],
)
def test_intervals_hold_what_they_should_and_naive_ones_do_not(population, loss, gamma):
    """Sixty releases each, by another sampler, of parameters from the prior; some minutes, since
    each is inferred from. Counts are binomial: a false alarm in 1,000 of each two-sided test.
    """
    n, repeats, domain = 150, 60, gdp.Domain(x_bound=1.0, y_range=(-1.5, 1.5))
    posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.l2_ball(2, 3.0)))
    prior = dist.Normal(jnp.zeros(2), 1.0)
    hits = {0.5: 0, 0.95: 0, "naive": 0}
    for i, key in enumerate(jax.random.split(jax.random.key(5), repeats)):
        first, second, third, fourth = jax.random.split(key, 4)
        truth = prior.sample(first)
        rows = loss.clip(population(truth, second, n), domain)
        draws = gdp.sample(posterior, rows, gamma, third, gdp.HMC(), num_samples=50)
        theta = np.asarray(draws.theta)[:1, -1]
        found = Release(theta, promise(gamma), 1, posterior, domain, n).infer(
            prior, population, key=fourth, num_warmup=100, num_samples=300
        )
        j = i % 2  # one coefficient of each release: counts of independent events
        for level in (0.5, 0.95):
            low, high = found.interval(level)[:, j]
            hits[level] += low <= truth[j] <= high
        # The draw as if it were the estimate of rows that were not clipped.
        x = population(theta[0], fourth, 5000)[0]
        curve = 4.0 if loss is gdp.losses.squared else (p := special.expit(x @ theta[0])) * (1 - p)
        error = np.sqrt(np.diag(np.linalg.inv((curve * x.T) @ x / 5000)) / n)[j]
        hits["naive"] += abs(theta[0, j] - truth[j]) < 1.96 * error
    for level in (0.5, 0.95):
        assert stats.binomtest(int(hits[level]), repeats, level).pvalue > 1e-3
    assert stats.binomtest(int(hits["naive"]), repeats, 0.95).pvalue < 1e-6


def small(**changes):
    settings = {"posterior": MEAN, "domain": FAR, "n": 60, "guarantee": promise(0.2, 2)} | changes
    guarantee = settings.pop("guarantee")
    return Release(np.array([[0.1, 0.2], [0.3, 0.0]]), guarantee, 1, **settings)


WIDE = dist.Normal(jnp.zeros(2), 2.0)


def log_of_a_sign(phi, key, n):
    """Rows that are no numbers where phi is negative; clipped they would be."""
    return normal_rows(jnp.log(phi), key, n)


def test_what_it_says_and_exports():
    found = small().infer(WIDE, normal_rows, num_warmup=50, num_samples=100)
    lines, ends = found.summary().splitlines(), ("2.5%", "25%", "75%", "97.5%")
    assert (
        lines[0] == "population behind exact draw at gamma = 0.2 from 60 rows: 4 chains x 100 draws"
    )
    assert lines[1].split() == ["parameter", "mean", "sd", *ends, "ess", "r_hat"]
    assert "the population and its prior are the analyst's" in found.summary()
    low, high = found.interval(0.5)
    assert np.array_equal([low, high], np.quantile(found.draws.theta, [0.25, 0.75], axis=(0, 1)))
    assert set(found.to_xarray().children) == {"posterior"}
    assert found.to_arviz().posterior["theta"].shape == (4, 100, 2)
    with pytest.raises(ValueError, match=r"level: must be in \(0, 1\), got 1.5"):
        found.interval(1.5)


@pytest.mark.trust
def test_auxiliary_draws_that_have_not_arrived_are_told(monkeypatch):
    """Chains that begin far off and make one small step each."""
    monkeypatch.setattr(inference, "_start", lambda key, shared: jnp.full(2, 5.0))
    monkeypatch.setattr(inference, "_tuning", lambda dim: Tuning(jnp.asarray(0.2), 1))
    posterior = gdp.GibbsPosterior(MEAN.loss, MEAN.prior)  # of its own: programs are kept
    with pytest.warns(gdp.DrawsWarning, match="auxiliary-drift"):
        found = small(posterior=posterior).infer(
            WIDE, normal_rows, num_warmup=25, num_samples=25, num_auxiliary=1
        )
    assert found.drift > 4


@pytest.mark.parametrize(
    ("release", "prior", "population", "message"),
    [
        ({"guarantee": promise(0.2, 2, "chain")}, WIDE, normal_rows, "mechanism: 'chain' does not"),
        ({"posterior": None}, WIDE, normal_rows, "release: it does not say what was drawn from"),
        ({"n": None}, WIDE, normal_rows, "n: the release does not say how many"),
        ({}, gdp.Flat(gdp.supports.real(2)), normal_rows, "prior: it cannot be drawn from"),
        ({}, WIDE, 3, "population: give a function"),
        ({}, WIDE, log_of_a_sign, r"population: \d+% of 64 parameters of the prior make rows"),
        ({}, WIDE, lambda phi, key, n: jnp.zeros((n, 3)), "population: no rows for the released"),
        ({}, WIDE, lambda phi, key, n: jnp.zeros((n + 1, 2)), "population: no rows for"),
    ],
)
def test_what_cannot_be_inferred_is_refused(release, prior, population, message):
    with pytest.raises(ValueError, match=message):
        small(**release).infer(prior, population)


def test_another_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="n: the release is of 60 examples, got 41"):
        small().infer(WIDE, normal_rows, n=41)


@pytest.mark.parametrize(("adjacency", "n"), [("replace-one", 30), ("add-remove", None)])
def test_a_release_knows_what_is_public(tmp_path, adjacency, n):
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1))
    )
    domain = gdp.Domain(x_bound=1.0)
    ledger = gdp.Ledger.create(tmp_path / "l", adjacency=adjacency, epsilon=1.0, delta=1e-5)
    out = gdp.release(
        posterior, np.ones((30, 1)), domain=domain, adjacency=adjacency, ledger=ledger,
        epsilon=1.0, delta=1e-6, n=None if n else 50,
    )  # fmt: skip
    assert (out.posterior, out.domain, out.n) == (posterior, domain, n)


@pytest.mark.parametrize(
    "loss",
    [
        gdp.losses.squared,
        gdp.losses.logistic,
        gdp.losses.SoftmaxCrossEntropy(3),
        gdp.losses.poisson,
    ],
)
def test_rows_in_a_program_are_clipped_as_private_ones_are(loss):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(50, 3)) * 10.0 ** rng.integers(-3, 6, (50, 1))
    x[0], x[1, 1], x[2] = np.nan, np.inf, 0.0
    y = rng.normal(size=50) * 3
    domain = gdp.Domain(x_bound=2.0, y_range=(-1.0, 2.0))
    traced = jax.jit(lambda data: loss.clip(data, domain))((x, y))
    for one, other in zip(traced, loss.clip((x, y), domain), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6)
