"""Models of other libraries through the whole of gibbs_dp: both doors lead to the same numbers."""

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.engine.pilots import first_inputs
from gibbs_dp.engine.plan import Plan
from gibbs_dp.engine.view import structured_losses
from gibbs_dp.sampling.kernels.base import make_schedule

RNG = np.random.default_rng(20261124)
X = RNG.normal(size=(60, 2))
Y = (RNG.uniform(size=60) < 1 / (1 + np.exp(-X @ [1.0, -0.5]))).astype(int)
COUNTS = {"num_datasets": 256, "num_chains": 4, "num_information": 0, "progress": False}


def logistic(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


@pytest.mark.trust
def test_an_audit_takes_three_lines_and_equals_the_built_in_loss():
    posterior = gdp.GibbsPosterior.from_numpyro(logistic, args=(X, Y))
    table = gdp.populations.Table(posterior.data)
    ours = flat.audit(posterior, table, n=60, gammas=[0.3, 1.0], **COUNTS)

    known = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    other = flat.audit(known, gdp.populations.Table((X, Y)), n=60, gammas=[0.3, 1.0], **COUNTS)
    for column in ("on_average_kl", "generalization_error", "empirical_risk"):
        # The same datasets and random numbers: what differs is rounding, and what it changes in
        # single accepted steps.
        assert ours[column] == pytest.approx(other[column], rel=2e-3)
    assert not ours.warnings


def mean(person, y):
    m = numpyro.sample("m", dist.ImproperUniform(dist.constraints.real, (), ()))
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.Normal(m, 1.0), obs=y)


@pytest.mark.trust
def test_replacing_a_whole_group_costs_its_rows():
    # A flat Gaussian mean of J groups of k rows, a group replaced: KL = gamma k v / (J k), as k
    # rows move the mean by N(0, 2 k v / (J k)^2) and its precision is gamma J k.
    groups, size, v = 12, 3, 1.0
    person = np.repeat(np.arange(groups), size)
    posterior = gdp.GibbsPosterior.from_numpyro(
        mean, args=(person, np.zeros(groups * size)), group="person"
    )
    shape = posterior.data["is_row"].shape[1:]

    def population(key, n):
        return {"y": jax.random.normal(key, (n, *shape)), "is_row": jnp.ones((n, *shape), bool)}

    report = flat.audit(posterior, population, n=groups, gammas=[0.5], **COUNTS | {"num_chains": 8})
    error = report["on_average_kl"][0] - 0.5 * v / groups
    assert abs(error) < 4 * report["on_average_kl_se"][0]  # false alarms: 6 in 100,000


def schools(num_schools, sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(5))
    with numpyro.plate("schools", num_schools):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * z, sigma), obs=y)


@pytest.mark.trust
def test_examples_with_parameters_of_their_own_are_replaced_in_their_places():
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    posterior = gdp.GibbsPosterior.from_numpyro(schools, args=(8, sigma, y), structured=True)
    truth = {"mu": 4.0, "tau": 3.0, "z": np.linspace(-1, 1, 8)}
    population = gdp.populations.from_numpyro(schools, truth, args=(8, sigma, y))
    report = flat.audit(posterior, population, n=8, gammas=[1.0], **COUNTS | {"num_datasets": 128})
    gap = report["on_average_kl"] - report["on_average_kl_ghost"]  # two routes, by Theorem 4
    error = np.hypot(report["on_average_kl_se"], report["on_average_kl_ghost_se"])
    assert abs(gap[0]) < 4 * error[0]
    # The mean loss at the truth is the entropy of N(0, sigma_i), so the posterior's is above it.
    entropy = (0.5 * np.log(2 * np.pi * np.e) + np.log(sigma)).sum()
    assert report["population_risk"][0] > entropy > report["empirical_risk"][0]


@pytest.mark.trust
def test_a_simulated_population_has_the_known_answer():
    # The flat Gaussian mean: on-average KL = gamma v / n, with v = 1.
    posterior = gdp.GibbsPosterior.from_numpyro(mean, args=(0, np.zeros(10)), examples=("y",))
    population = gdp.populations.from_numpyro(
        mean, {"m": 3.0}, args=(0, np.zeros(10)), examples=("y",)
    )
    settings = COUNTS | {"num_information": 64, "num_chains": 8}
    report = flat.audit(posterior, population, n=20, gammas=[1.0], **settings)
    assert abs(report["on_average_kl"][0] - 1 / 20) < 4 * report["on_average_kl_se"][0]


@pytest.mark.trust
def test_datasets_with_parameters_of_their_own_are_said_to_have_them():
    posterior = gdp.GibbsPosterior.from_numpyro(logistic, args=(X, Y))
    population = gdp.populations.from_numpyro(logistic, args=(X, Y))
    settings = {k: v for k, v in COUNTS.items() if k != "num_information"}
    report = flat.audit(posterior, population, n=30, gammas=[1.0], **settings)
    assert "mutual_information_lower" not in report.columns
    assert any("parameters of its own" in note for note in report.notes)
    gap = report["on_average_kl"] - report["on_average_kl_ghost"]  # Theorem 4 holds for mixtures
    error = np.hypot(report["on_average_kl_se"], report["on_average_kl_ghost_se"])
    assert abs(gap[0]) < 4 * error[0]


@pytest.mark.trust
def test_a_declared_range_lets_a_model_be_released(tmp_path):
    def bounded(x, y=None):
        w = numpyro.sample("w", dist.Uniform(-1, 1).expand([2]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)

    posterior = gdp.GibbsPosterior.from_numpyro(bounded, args=(X, Y))
    # |x| <= 1 and |w| <= sqrt(2): the logit moves by at most 2 sqrt(2), and so does the loss.
    loss = gdp.losses.Declared(posterior.loss, oscillation=2 * 2**0.5)
    private = gdp.GibbsPosterior(loss, posterior.prior)
    released = gdp.release(
        private,
        posterior.data,
        domain=gdp.Domain(x_bound=1.0, y_range=(0.0, 1.0)),
        adjacency="replace-one",
        ledger=gdp.Ledger.create(tmp_path / "ledger.db", epsilon=2.0, adjacency="replace-one"),
        accept=("exact-draw", "float-arithmetic"),
        pure_epsilon=2.0,
    )
    assert np.abs(released.theta["w"]).max() <= 1.0
    # The exponential mechanism: epsilon = gamma * exchange range, twice the oscillation.
    assert released.guarantee.pure_epsilon <= 2.0


def test_domains_clip_the_arguments_of_a_model():
    domain = gdp.Domain(x_bound=1.0, y_range=(0.0, 1.0))
    clipped = domain.clip({"y": np.array([7.0]), "x": np.array([[3.0, 4.0]])})
    assert clipped["x"] == pytest.approx(np.array([[0.6, 0.8]]), abs=1e-5)
    assert clipped["y"].tolist() == [1.0]
    assert domain.is_outside({"x": np.array([[3.0, 4.0]]), "y": np.array([1.0])}).tolist() == [True]
    with pytest.raises(ValueError, match="also as a dict of 'x' and 'y'"):
        domain.clip({"x": X, "w": X, "y": Y})


# -- trees of parameters ----------------------------------------------------------------------


@jax.tree_util.register_pytree_with_keys_class
class Network:
    """A module as Flax NNX and Equinox have them: arrays by attribute, the rest static."""

    def __init__(self, kernel, bias, width):
        self.kernel, self.bias, self.width = kernel, bias, width

    def tree_flatten_with_keys(self):
        key = jax.tree_util.GetAttrKey
        return ((key("kernel"), self.kernel), (key("bias"), self.bias)), self.width

    @classmethod
    def tree_unflatten(cls, width, leaves):
        return cls(*leaves, width)

    def __call__(self, x):
        return jnp.sum(jnp.tanh(x @ self.kernel + self.bias)) / self.width


@pytest.mark.trust
def test_modules_are_parameters():
    network = Network(jnp.zeros((2, 3)), jnp.zeros(3), 3)
    prior = gdp.priors.normal_like(network, 2.0)
    posterior = gdp.GibbsPosterior.from_log_density(
        lambda net, z: dist.Bernoulli(logits=net(z[0])).log_prob(z[1]), prior
    )
    zero = jax.tree.map(jnp.zeros_like, network)
    found = posterior.log_density(zero, (X, Y), 1.0)
    expected = 9 * dist.Normal(0, 2).log_prob(0.0) + 60 * np.log(0.5)
    assert found == pytest.approx(float(expected), rel=1e-5)
    draws = gdp.sample(posterior, (X, Y), gamma=0.0, num_samples=250)
    assert isinstance(draws.theta, Network)
    assert draws.theta.kernel.shape == (4, 250, 2, 3)
    assert abs(draws.theta.kernel.std() - 2.0) < 0.2
    assert list(draws.to_dataframe().index[:2]) == ["kernel[0,0]", "kernel[0,1]"]


@pytest.mark.parametrize(
    ("params", "scale", "message"),
    [
        ({"a": jnp.tanh}, 1.0, r"params: \['a'\] is .*no array of floating-point"),
        ({"a": jnp.arange(3)}, 1.0, r"params: \['a'\] is .*keep such parts aside"),
        ({"a": None}, 1.0, "hold no array"),
        ({"a": jnp.zeros(3)}, 0.0, "must be positive"),
        ({"a": jnp.zeros(3)}, {"b": 1.0}, "a tree like params"),
        ({"a": jnp.zeros(3)}, jnp.ones(2), r"shape \(2,\) does not fit \['a'\]"),
    ],
)
def test_what_is_no_tree_of_arrays_is_refused(params, scale, message):
    with pytest.raises(ValueError, match=message):
        gdp.priors.normal_like(params, scale)


def test_scales_may_differ():
    prior = gdp.priors.normal_like({"a": jnp.zeros(3), "b": jnp.zeros(())}, {"a": 1.0, "b": 3.0})
    assert float(prior["b"].log_prob(0.0)) == pytest.approx(float(dist.Normal(0, 3).log_prob(0.0)))


def test_a_log_likelihood_of_the_whole_dataset_is_a_structured_loss():
    posterior = gdp.GibbsPosterior.from_log_density(
        lambda theta, data: -jnp.sum((theta - data) ** 2), dist.Normal(0, 1), structured=True
    )
    assert posterior.structured
    assert float(posterior.empirical_loss(jnp.array(0.5), jnp.array([0.0, 1.0]))) == 0.5


def test_of_the_first_ghosts_alone_a_fresh_dataset_is_the_same():
    """What an attacker looks at: fewer ghosts, and whole datasets of as many examples."""

    def loss(theta, z):
        assert len(z) == 3
        return theta * jnp.sum(z)

    posterior = gdp.GibbsPosterior(total_loss=loss, prior=dist.Normal(0.0, 1.0))
    inputs = first_inputs(1.0, jnp.zeros(1), make_schedule((1.0, 1), 0, 0))
    u, train, ghosts = jnp.ones((1, 2, 1)), jnp.arange(3.0), jnp.arange(10.0, 18.0)
    plan = Plan(n=3, num_ghosts=5, group_size=1, num_chains=1, num_samples=2)
    given = posterior, u, train, ghosts, inputs
    every, few = (
        structured_losses(*given, plan),
        structured_losses(*given, plan._replace(num_ghosts=2)),
    )
    np.testing.assert_array_equal(every.population.ravel(), 2 * [15 + 16 + 17])
    np.testing.assert_array_equal(few.population, every.population)
    np.testing.assert_array_equal(few.ghost, every.ghost[..., :2])


def own_places(num_rows, y=None):
    with numpyro.plate("rows", num_rows):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)


@pytest.mark.trust
def test_attackers_of_examples_in_their_places_see_datasets_of_their_size():
    """The posteriors ``N(y_i / 2, 1/2)`` of one place differ by a KL of ``(y - y')^2 / 4``."""
    posterior = gdp.GibbsPosterior.from_numpyro(own_places, args=(6, np.zeros(6)), structured=True)

    def population(key, n):
        return {"y": 2**0.5 * jax.random.normal(key, (n,))}

    report = gdp.audit(
        posterior, population, n=6, gammas=[1.0], num_datasets=64, learn=[gdp.Attacker()],
        sampler=gdp.Chains(gdp.HMC(), num_chains=4, num_samples=32), progress=False,
    )  # fmt: skip
    assert report.settings["num_ghosts"] > 32  # more than an attacker looks at
    # Of 64 datasets, false alarms: 6 in 100,000.
    assert abs(report["on_average_kl"][0] - 1.0) < 4.6 * report["on_average_kl_se"][0]
    assert 0.5 < report["attack_auc"][0] < 1
