"""On-average KL of Gaussian posteriors, pair by pair, against NumPy's linear algebra."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.engine.datasets import Stream, draw_dataset, keys_of, roots
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.model.losses.base import RankOne
from gibbs_dp.model.losses.location import HalfSquaredDistance
from gibbs_dp.model.losses.regression import GaussianNLL
from gibbs_dp.quantities.kl_estimators import gaussian_kl
from gibbs_dp.sampling.as_sampler import as_sampler

N, GHOSTS, DATASETS = 12, 8, 16
CORRELATED = np.array([[1.0, 0.6, 0.0], [0.6, 2.0, -0.3], [0.0, -0.3, 0.5]])
PRIORS = {
    "normal": (dist.Normal(0.5, 2.0).expand([3]), 0.25 * np.eye(3), np.full(3, 0.5)),
    "correlated": (
        dist.MultivariateNormal(jnp.zeros(3), jnp.asarray(CORRELATED)),
        np.linalg.inv(CORRELATED),
        np.zeros(3),
    ),
    "flat": (gdp.Flat(gdp.supports.real(3)), np.zeros((3, 3)), np.zeros(3)),
}


def regression(key, n):
    x_key, noise_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, 3)) * jnp.array([1.0, 0.3, 3.0])
    return x, x.sum(axis=1) + jax.random.normal(noise_key, (n,))


def places(key, n):
    return jax.random.normal(key, (n, 3)) + 2.0


# Of every loss: its examples, and what one of them adds to a Gaussian's precision and to precision
# times mean, by hand.
LOSSES = {
    "squared": (gdp.losses.squared, regression, lambda x, y: (2 * np.outer(x, x), 2 * y * x)),
    "nll": (GaussianNLL(scale=1.5), regression, lambda x, y: (np.outer(x, x) / 2.25, y * x / 2.25)),
    "linear": (gdp.losses.linear, regression, lambda x, y: (np.zeros((3, 3)), y * x)),
    "distance": (HalfSquaredDistance(), places, lambda z: (np.eye(3), z)),
}
CASES = [("squared", "correlated"), ("nll", "flat"), ("linear", "normal"), ("distance", "flat")]


def kl(mean, precision, other_mean, other_precision):
    """KL between two Gaussians."""
    gap = other_mean - mean
    ratio = other_precision @ np.linalg.inv(precision)
    found = np.trace(ratio) - len(gap) + gap @ other_precision @ gap - np.linalg.slogdet(ratio)[1]
    return 0.5 * found


def by_hand(loss, prior, gamma, key):
    """Every dataset's KL, mean over all pairs."""
    build, examples, adds = LOSSES[loss]
    law, base, center = PRIORS[prior]
    posterior = gdp.GibbsPosterior(build, law)
    numbers = jnp.tile(jnp.arange(DATASETS, dtype=jnp.int32), (2, 1))
    keys = keys_of(roots(key, Stream.MAIN), numbers)[0]
    population = gdp.populations.as_population(examples)
    found = []
    for one in keys:
        parts = draw_dataset(posterior, population, one, N, GHOSTS)
        rows = [
            [adds(*row) for row in zip(*map(np.float64, jax.tree.leaves(part)), strict=True)]
            for part in parts
        ]
        precision = base + gamma * sum(p for p, _ in rows[0])
        shift = base @ center + gamma * sum(m for _, m in rows[0])
        mean = np.linalg.solve(precision, shift)
        each = []
        for p, m in rows[0]:
            for q, s in rows[1]:
                other = precision + gamma * (q - p)
                moved = np.linalg.solve(other, shift + gamma * (s - m))
                each.append(kl(mean, precision, moved, other))
        found.append(np.mean(each))
    return np.array(found)


@pytest.mark.parametrize(("loss", "prior"), CASES)
def test_a_row_is_the_mean_of_the_pairs_own_kls(loss, prior):
    build, examples, _ = LOSSES[loss]
    report = gdp.audit(
        gdp.GibbsPosterior(build, PRIORS[prior][0]),
        examples,
        N,
        [0.003, 1.0, 30.0],
        num_datasets=DATASETS,
        key=5,
        learn=[gdp.OnAverageKL(num_ghosts=GHOSTS), gdp.Risks()],
        sampler=gdp.HMC(),
        progress=False,
    )
    for row in report.rows:
        exact = by_hand(loss, prior, row["gamma"], jax.random.key(5))
        assert row["estimator"] == "closed form"
        assert row["on_average_kl"] == pytest.approx(exact.mean(), rel=2e-5)
        error = exact.std(ddof=1) / DATASETS**0.5
        assert row["on_average_kl_se"] == pytest.approx(error, rel=2e-5)


def test_directions_of_any_length_and_none():
    rng = np.random.default_rng(3)
    for scale in (1e-4, 0.05, 1.0, 1e3):
        a, g = rng.normal(size=(2, 5, 4)) * 0.3
        s_a, s_g = rng.normal(size=(2, 5)) * scale
        c_a, c_g = rng.uniform(0.0, 1.0, (2, 5)) * min(scale, 1.0)
        each = []
        for i in range(5):
            for j in range(5):
                other = np.eye(4) + c_g[j] * np.outer(g[j], g[j]) - c_a[i] * np.outer(a[i], a[i])
                moved = -np.linalg.solve(other, s_g[j] * g[j] - s_a[i] * a[i])
                each.append(kl(np.zeros(4), np.eye(4), moved, other))
        found = gaussian_kl(
            RankOne(*map(jnp.asarray, (a, s_a, c_a))), RankOne(*map(jnp.asarray, (g, s_g, c_g)))
        )
        assert float(found) == pytest.approx(np.mean(each), rel=1e-5)
    none = RankOne(jnp.zeros((3, 2)), jnp.ones(3), jnp.ones(3))
    assert float(gaussian_kl(none, none)) == 0.0


def test_an_example_that_holds_a_direction_alone_cannot_be_replaced_for_finite_nats():
    one = RankOne(jnp.eye(2)[:1], jnp.zeros(1), jnp.ones(1))
    other = RankOne(jnp.eye(2)[1:], jnp.zeros(1), jnp.ones(1))
    assert float(gaussian_kl(one, other)) == float("inf")


@dataclass(frozen=True)
class Own(gdp.Sampler):
    """A sampler of one's own: normals about zero, whose normalizer it says it knows."""

    def draw(
        self, key, target, starts, schedule, num_chains, num_samples, scale=None, is_joint=False
    ):
        u = jax.random.normal(key, (num_chains, num_samples, starts.shape[1]))
        return gdp.ChainDraws.of(target, u, log_normalizer=jnp.zeros(()))


def test_others_samplers_need_no_closed_form():
    posterior = gdp.GibbsPosterior(gdp.losses.squared, PRIORS["normal"][0])
    learn = [gdp.OnAverageKL(), gdp.Risks()]
    asked = {"num_datasets": 16, "learn": learn, "sampler": Own(), "progress": False}
    report = gdp.audit(posterior, regression, N, [1e-4], **asked)
    assert report.rows[0]["estimator"] != "closed form"


@pytest.mark.parametrize(
    ("changed", "is_closed"),
    [
        ({}, True),
        ({"sampler": gdp.MALA()}, True),
        ({"sampler": gdp.ULA()}, False),  # which draws from another law
        ({"sampler": gdp.Line()}, False),  # a sum is as good
        ({"sampler": gdp.SMC(num_particles=64)}, False),
        ({"sampler": Own()}, False),
        ({"group_size": 2}, False),
        ({"prior": gdp.Flat(gdp.supports.l2_ball(3, 2.0))}, False),
        ({"prior": dist.StudentT(4.0).expand([3])}, False),
        ({"prior": {"a": PRIORS["normal"][0], "b": PRIORS["normal"][0]}}, False),
        ({"loss": gdp.losses.huber}, False),
        ({"loss": gdp.losses.Declared(lambda theta, z: (z[1] - z[0] @ theta) ** 2)}, False),
    ],
)
def test_it_is_taken_where_it_is_right(changed, is_closed):
    asked = {"loss": gdp.losses.squared, "prior": PRIORS["normal"][0]}
    asked |= {"sampler": gdp.HMC(), "group_size": 1} | changed
    sampler = asked["sampler"]
    spec = AuditSpec(
        posterior=gdp.GibbsPosterior(asked["loss"], asked["prior"]),
        population=gdp.populations.as_population(regression),
        n=N,
        gammas=(1.0,),
        num_datasets=16,
        num_ghosts=GHOSTS,
        key=jax.random.key(0),
        sampler=sampler if isinstance(sampler, gdp.Line | Own) else as_sampler(sampler),
        num_chains=8,
        num_warmup=None,
        num_samples=8,
        group_size=asked["group_size"],
        rel_error=None,
        max_datasets=16,
        block_size=16,
    )
    assert gdp.OnAverageKL().is_closed(spec) == is_closed
    for name in ("one-sided", "two-sided", "ghost"):
        assert not gdp.OnAverageKL(name).is_closed(spec)


@pytest.mark.trust
def test_intervals_cover_the_truth_of_gaussian_means():
    """``E KL = gamma d / n`` of standard normal examples; a false alarm in 10,000.

    Of 200 intervals of 95% fewer than 178 (or all but one) hold the truth with that chance.
    """
    posterior = gdp.GibbsPosterior(HalfSquaredDistance(), gdp.Flat(gdp.supports.real(3)))

    def examples(key, n):
        return jax.random.normal(key, (n, 3))

    covered = 0
    for key in range(100):
        report = gdp.audit(
            posterior,
            examples,
            20,
            [0.2, 60.0],
            num_datasets=64,
            key=key,
            learn=[gdp.OnAverageKL(), gdp.Risks()],
            progress=False,
        )
        for row in report.rows:
            truth = row["gamma"] * 3 / 20
            covered += row["on_average_kl_low"] <= truth <= row["on_average_kl_high"]
    assert 178 <= covered <= 199
