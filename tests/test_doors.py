"""What is no data is refused by name at every door, and never read as something else."""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp import estimators
from gibbs_dp.holdout.thresholdout import Thresholdout
from gibbs_dp.information import checks
from gibbs_dp.privacy import ChainDraw
from gibbs_dp.privacy.mechanisms import GaussianMechanism, LaplaceMechanism

N = 20
VALUES = np.r_[np.random.default_rng(0).normal(size=N - 4), [-999.0] * 4]
MASKED = np.ma.masked_equal(VALUES, -999.0)
WHOLE = np.ma.array(VALUES[:-4])
POSTERIOR = gdp.GibbsPosterior(lambda theta, z: (theta - z) ** 2 / 2, dist.Normal(0.0, 1.0))
TREE = gdp.GibbsPosterior(lambda theta, z: (theta - z["a"][0]) ** 2, dist.Normal(0.0, 1.0))
BALL = gdp.GibbsPosterior(
    gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1))
)
LANGEVIN = gdp.StochasticLangevin(1e-3)
REMEDY = r"masked array, whose mask would be lost; drop those rows .* or fill in values"


def masked_of(*shape):
    values = np.random.default_rng(1).normal(size=shape)
    return np.ma.array(values, mask=np.arange(values.size).reshape(shape) == 1)


def model(y, scale=None):
    mean = numpyro.sample("mean", dist.Normal())
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1.0 if scale is None else scale[0]), obs=y)


def holdout(train, other):
    return Thresholdout(train, other, threshold=0.1, sigma=0.1, budget=1)


class Masking:
    """A population of one's own that draws masked arrays."""

    is_dependent = is_conditional = False

    def sample(self, key, n, num_ghosts):
        return masked_of(n), np.zeros(num_ghosts) + jax.random.normal(key)


DOORS = {
    "sample": lambda: gdp.sample(POSTERIOR, MASKED),
    "sample, a dict": lambda: gdp.sample(TREE, {"a": (MASKED,)}),
    "sample, a list": lambda: gdp.sample(POSTERIOR, [np.ma.masked, 1.0]),
    "sample, a batch": lambda: gdp.sample(POSTERIOR, masked_of(2, 5), is_batch=True),
    "sample, its mask": lambda: gdp.sample(
        POSTERIOR, np.zeros(3), mask=np.ma.array([1, 1, 0], mask=[0, 1, 0])
    ),
    "sample, where it starts": lambda: gdp.sample(
        POSTERIOR, np.zeros(3), init=np.ma.array(1.0, mask=True)
    ),
    "sample_minibatches": lambda: gdp.sample_minibatches(POSTERIOR, MASKED, kernel=LANGEVIN),
    "sample_minibatches, batches": lambda: gdp.sample_minibatches(
        POSTERIOR, iter([MASKED]), kernel=LANGEVIN, num_rows=N
    ),
    "sample_minibatches, where it starts": lambda: gdp.sample_minibatches(
        POSTERIOR, np.zeros(3), kernel=LANGEVIN, init=np.ma.array(1.0, mask=True)
    ),
    "shard_examples": lambda: gdp.shard_examples(MASKED),
    "as_draws, data": lambda: gdp.as_draws(POSTERIOR, MASKED, np.zeros((2, 9))),
    "as_draws, samples": lambda: gdp.as_draws(POSTERIOR, np.zeros(3), masked_of(2, 9)),
    "unconstrained": lambda: POSTERIOR.unconstrained(MASKED, 1.0),
    "log_density, theta": lambda: POSTERIOR.log_density(
        np.ma.array(1.0, mask=True), np.zeros(3), 1.0
    ),
    "log_density, data": lambda: POSTERIOR.log_density(0.0, MASKED, 1.0),
    "from_numpyro": lambda: gdp.GibbsPosterior.from_numpyro(model, args=(MASKED,)),
    "from_numpyro, no example": lambda: gdp.GibbsPosterior.from_numpyro(
        model, args=(np.zeros(5),), kwargs={"scale": masked_of(3)}
    ),
    "a simulated population": lambda: gdp.populations.from_numpyro(model, args=(MASKED,)),
    "Table": lambda: gdp.populations.Table(MASKED),
    "Table, weights": lambda: gdp.populations.Table(np.zeros(9), weights=abs(masked_of(9))),
    "Table, groups": lambda: gdp.populations.Table(
        np.zeros(9), replace=False, groups=masked_of(9).astype(int)
    ),
    "Finite": lambda: gdp.populations.Finite(MASKED, np.full(N, 1 / N)),
    "Finite, probabilities": lambda: gdp.populations.Finite(
        np.arange(4.0), np.ma.array(np.full(4, 0.25), mask=[0, 0, 0, 1])
    ),
    "pad": lambda: gdp.populations.pad([np.ones(3), MASKED]),
    "audit, a function": lambda: gdp.audit(POSTERIOR, lambda key, n: masked_of(n), n=5, gammas=[1]),
    "audit, an object": lambda: gdp.audit(POSTERIOR, Masking(), n=5, gammas=[1]),
    "audit_log_likelihood": lambda: gdp.audit_log_likelihood(masked_of(4, 100, 5)),
    "audit_log_likelihood, groups": lambda: gdp.audit_log_likelihood(
        np.zeros((4, 100, 5)), groups=masked_of(5).astype(int)
    ),
    "audit_log_likelihood, names": lambda: gdp.audit_log_likelihood(
        np.zeros((4, 100, 5)), names=masked_of(5).astype(int)
    ),
    "certify": lambda: gdp.certify(POSTERIOR, MASKED, gamma=1.0, loss_range=(0.0, 1.0)),
    "release": lambda: chain_of(masked_of(5, 1)),
    "Domain.clip": lambda: gdp.Domain(x_bound=1.0).clip(MASKED),
    "Domain.is_outside": lambda: gdp.Domain(x_bound=1.0).is_outside((masked_of(5, 2), np.ones(5))),
    "Thresholdout, train": lambda: holdout(MASKED, np.zeros(9)),
    "Thresholdout, holdout": lambda: holdout(np.zeros(9), {"x": MASKED}),
    "Thresholdout, a query": lambda: holdout(np.zeros(9), np.zeros(9)).query(
        lambda x: np.ma.array(x, mask=True)
    ),
    "LaplaceMechanism": lambda: LaplaceMechanism(1.0, 1.0, adjacency="replace-one").release(
        masked_of(3)
    ),
    "GaussianMechanism": lambda: GaussianMechanism(1.0, 1.0, adjacency="replace-one").release(
        masked_of(3)
    ),
    "average": lambda: estimators.average(masked_of(9)),
    "mean_interval": lambda: estimators.mean_interval(masked_of(9)),
    "pareto_smooth": lambda: estimators.pareto_smooth(masked_of(100, 3)),
    "direct_kl": lambda: estimators.direct_kl(masked_of(2, 8, 3), masked_of(2, 8, 1), 1.0),
    "two_sided_kl": lambda: estimators.two_sided_kl(*[masked_of(2, 8, 3)] * 4),
    "risk": lambda: estimators.risk(masked_of(2, 8, 3)),
    "a law": lambda: checks.law("p", np.ma.array([0.5, 0.5], mask=[0, 1])),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_masks_are_not_lost(door):
    with pytest.raises(ValueError, match=REMEDY):
        DOORS[door]()


def test_arrays_that_hide_nothing_are_data():
    # N(sum / (n + 1), 1 / (n + 1)), the conjugate posterior.
    draws = gdp.sample(POSTERIOR, WHOLE, sampler=gdp.HMC(), num_samples=500)
    assert abs(draws.theta.mean() - WHOLE.sum() / 17) < 6 * 17**-0.5 * 1000**-0.5
    assert estimators.average(WHOLE).value == pytest.approx(VALUES[:-4].mean())


def test_nothing_is_told_of_what_the_holdout_masks():
    # Noise of scale 0.4 does not reach a threshold of 100.
    gate = Thresholdout(np.zeros(9), np.arange(9.0), threshold=100.0, sigma=0.1, budget=1)

    def phi(x):  # hides something on the holdout only
        plain = np.zeros(len(x))
        return np.ma.array(plain, mask=x == 5) if (x == 5).any() else plain

    def plain(x):
        return np.zeros(len(x))

    with pytest.raises(ValueError, match="phi: a masked array"):
        gate.query(lambda x: np.ma.array(np.zeros(len(x)), mask=x == 0))
    assert gate.query(phi) == gate.query(plain) == 0.0


def test_private_doors_do_not_tell_masked_from_whole():
    errors = set()
    for data in (WHOLE[:, None], masked_of(16, 1)):
        with pytest.raises(ValueError, match="masked array") as caught:
            chain_of(data)
        errors.add(str(caught.value))
    assert len(errors) == 1


def chain_of(data):
    with tempfile.TemporaryDirectory() as folder:
        ledger = gdp.Ledger.create(f"{folder}/l", adjacency="replace-one", zcdp=1.0)
        return gdp.release(
            BALL, data, method=ChainDraw(gdp.ULA(0.1, 9), gamma=0.1), delta=1e-6, ledger=ledger,
            domain=gdp.Domain(x_bound=1.0), adjacency="replace-one", accept="float-arithmetic",
        )  # fmt: skip


# -- the checks of gibbs_dp.sample, at every door that takes a posterior and its data ---------

X = np.random.default_rng(2).normal(size=(30, 2))
Y = (X[:, 0] > 0).astype(float)
TWO = dist.Normal(jnp.zeros(2), 1.0)
LOGISTIC = gdp.GibbsPosterior(gdp.losses.logistic, TWO)
POISSON = gdp.GibbsPosterior(gdp.losses.poisson, TWO)
OWN = gdp.GibbsPosterior(lambda theta, z: (z[1] - z[0] @ theta) ** 2, TWO)
WHOLE_LOSS = gdp.GibbsPosterior(
    total_loss=lambda theta, z: jnp.sum((z[1] - z[0] @ theta) ** 2), prior=TWO
)
THETAS = np.random.default_rng(3).normal(0.0, 0.1, (2, 50, 2))

TAKING = {
    "sample": lambda p, data: gdp.sample(p, data),
    "sample_minibatches": lambda p, data: gdp.sample_minibatches(p, data, kernel=LANGEVIN),
    "sample_minibatches, batches": lambda p, data: gdp.sample_minibatches(
        p, iter([data]), kernel=LANGEVIN, num_rows=30
    ),
    "as_draws": lambda p, data: gdp.as_draws(p, data, THETAS),
    "unconstrained": lambda p, data: p.unconstrained(data, 1.0),
    "log_density": lambda p, data: p.log_density(jnp.zeros(2), data, 1.0),
    "log_likelihood": lambda p, data: gdp.as_draws(OWN, (X, Y), THETAS).log_likelihood(p, data),
    "certify": lambda p, data: gdp.certify(p, data, gamma=1.0, loss_range=(0.0, 1.0)),
}
BAD = {
    "a column of labels": (LOGISTIC, (X, Y[:, None]), r"y of shape \[n\]"),
    "a column, own loss": (OWN, (X, Y[:, None]), "scalar"),
    "labels -1 and 1": (LOGISTIC, (X, 2 * Y - 1), "labels 0 and 1, got -1, 1"),
    "negative counts": (POISSON, (X, -Y), "counts"),
    "one row of features each": (LOGISTIC, (X[:, 0], Y), r"x of shape \[n, d\]"),
    "NaN": (LOGISTIC, (np.where(X > 2, np.nan, X), Y), "NaN or infinite; drop"),
    "infinite": (OWN, (X, np.where(Y > 0, np.inf, 0)), "NaN or infinite; drop"),
    "64 bits": (OWN, (X, np.full(30, 2**40)), "do not fit JAX's int32"),
    "text": (OWN, (X, np.array(["a", "b"] * 15)), "not numbers; encode"),
    "lengths": (OWN, (X, Y[:-1]), "different lengths"),
    "none": (OWN, (X[:0], Y[:0]), "it is empty"),
    "NaN, whole loss": (WHOLE_LOSS, (X, np.full(30, np.nan)), "NaN or infinite; drop"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("door", TAKING)
def test_every_door_refuses_what_sample_refuses(door, kind):
    posterior, data, match = BAD[kind]
    if posterior is WHOLE_LOSS and door.startswith(("certify", "log_likelihood", "sample_m")):
        pytest.skip("takes losses of single examples only")
    if kind == "64 bits" and jax.config.jax_enable_x64:
        pytest.skip("they fit")
    with pytest.raises(ValueError, match=match) as caught:
        TAKING[door](posterior, data)
    assert "\n" not in str(caught.value)


def test_unconstrained_is_the_density_by_hand():
    u = jnp.array([0.3, -0.2])
    p = np.array(u)
    for y in (Y, Y.astype(int), Y.astype(np.int64), Y.astype(bool)):
        found = float(OWN.unconstrained((X, y), 0.5).log_density(u))
        prior = float(dist.Normal().log_prob(u).sum())
        assert found == pytest.approx(prior - 0.5 * ((Y - X @ p) ** 2).sum(), rel=1e-5)


def test_every_dataset_of_a_batch_is_looked_at():
    batch = (np.stack([X, X]), np.stack([Y, 2 * Y - 1]))
    with pytest.raises(ValueError, match="labels 0 and 1, got -1, 0, 1"):
        gdp.sample(LOGISTIC, batch, is_batch=True)
    with pytest.raises(ValueError, match="labels 0 and 1, got -1, 0, 1"):
        gdp.sample(LOGISTIC, batch, is_batch=True, mask=np.ones((2, 30)))


def test_an_audit_looks_at_the_shapes_of_a_population_of_ones_own():
    def flat(key, n):
        x = jax.random.normal(key, (n,))
        return x, (x > 0).astype(float)

    with pytest.raises(ValueError, match=r"x of shape \[n, d\]"):
        gdp.audit(LOGISTIC, flat, n=5, gammas=[1.0])


def test_draws_of_other_data_are_refused():
    upper = gdp.GibbsPosterior(
        lambda theta, z: jnp.where(z < theta, -jnp.log(1 / theta), jnp.inf), dist.HalfNormal(9.0)
    )
    with pytest.raises(ValueError, match="100 of 100 have no density under this posterior"):
        gdp.as_draws(upper, np.array([1.0, 3.0]), np.full((2, 50), 2.0))


# -- where chains begin -----------------------------------------------------------------------


@pytest.mark.trust
def test_chains_begin_where_there_is_density():
    # Uniform below a latent end: the end is a draw above the largest observation, with density
    # proportional to end^-n times the prior, here flat: a Pareto law of shape n - 1.
    low = 30.0  # the first starts lie below exp(2)
    data = np.linspace(low / 2, low, 5)

    def loss(theta, z):
        return jnp.where(z <= theta, jnp.log(theta), jnp.inf)

    posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.positive(())))
    given = {"sampler": gdp.HMC(), "num_chains": 2, "num_samples": 50, "num_warmup": 50}
    draws = gdp.sample(posterior, data, **given)
    assert np.isfinite(draws.log_density).all()
    assert draws.theta.min() >= low * (1 - 1e-6)
    with pytest.raises(ValueError, match="init: the posterior has no density there"):
        gdp.sample(posterior, data, **given, init=low / 2)


def test_without_a_point_of_density_init_is_the_remedy():
    def loss(theta, z):
        return jnp.where(jnp.abs(theta - z) < 1e-9, 0.0, jnp.inf)

    posterior = gdp.GibbsPosterior(loss, dist.Normal(0.0, 1.0))
    given = {"sampler": gdp.HMC(), "num_chains": 2, "num_samples": 8, "num_warmup": 0}
    with pytest.raises(ValueError, match=r"posterior: none of 1000 points, .* as init="):
        gdp.sample(posterior, np.full(3, np.pi), **given)
