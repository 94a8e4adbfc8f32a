"""NumPyro models as Gibbs posteriors: densities, examples, groups, populations, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import numpyro_examples as ex
import pandas as pd
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.contrib.module import ParamShape
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import log_density
from numpyro_examples import CASES, COUNTY, LABELS, REAL, SCHOOLS, SIGMA, N, X
from scipy import stats

import gibbs_dp as gdp

from_numpyro = gdp.GibbsPosterior.from_numpyro


@pytest.fixture(scope="module", params=CASES)
def case(request):
    model, args, settings, point, by_hand = CASES[request.param]
    posterior = from_numpyro(model, args=args, **settings)
    return model, args, posterior, point, by_hand


def test_density_is_that_written_by_hand(case):
    _, _, posterior, point, by_hand = case
    prior, likelihood = by_hand(point)
    theta = jax.tree.map(jnp.asarray, point)
    for gamma in (0.0, 0.3, 2.0):
        found = posterior.log_density(theta, posterior.data, gamma)
        assert found == pytest.approx(prior + gamma * likelihood, rel=1e-5)


def test_tempered_model_has_the_same_density(case):
    model, args, posterior, point, _ = case
    theta = jax.tree.map(jnp.asarray, point)

    @jax.jit  # one program, not one an operation
    def both(theta):
        found = log_density(gdp.temper(model, 0.3), args, {}, theta)[0]
        return found, posterior.log_density(theta, posterior.data, 0.3)

    found, expected = map(float, both(theta))
    assert found == pytest.approx(expected, rel=1e-5)


def test_losses_of_examples_add_up(case):
    model, _, posterior, point, by_hand = case
    if model is ex.gaussian_process:
        with pytest.raises(ValueError, match="no per-example losses"):
            posterior.losses(point, posterior.data)
        return
    losses = posterior.losses(jax.tree.map(jnp.asarray, point), posterior.data)
    assert losses.shape == (jax.tree.leaves(posterior.data)[0].shape[0],)
    assert -losses.sum() == pytest.approx(by_hand(point)[1], rel=1e-5)


def test_outside_the_support_the_density_is_zero():
    posterior = from_numpyro(ex.eight_schools, args=(8, SIGMA, SCHOOLS), structured=True)
    theta = {"mu": 0.0, "tau": -1.0, "z": jnp.zeros(8)}
    assert posterior.log_density(theta, posterior.data, 1.0) == -np.inf


def test_flat_coordinates_give_the_density_that_numpyro_samples():
    from numpyro.infer.util import potential_energy

    posterior = from_numpyro(ex.centred_schools, args=(8, SIGMA, SCHOOLS), structured=True)
    u = {"mu": jnp.array(1.0), "tau": jnp.array(0.4), "theta": jnp.linspace(-1.0, 2.0, 8)}
    flat = jnp.concatenate([jnp.ravel(u[k]) for k in sorted(u)])
    energy = potential_energy(ex.centred_schools, (8, SIGMA, SCHOOLS), {}, u)
    target = posterior.unconstrained(posterior.data, 1.0)
    assert -target.log_density(flat) == pytest.approx(float(energy), rel=1e-5)


@pytest.mark.trust
def test_gamma_zero_gives_prior_draws():
    # Kolmogorov-Smirnov at 1e-4 each, six tests: false alarms in 6 of 10,000 runs.
    posterior = from_numpyro(ex.eight_schools, args=(8, SIGMA, SCHOOLS), structured=True)
    draws = gdp.sample(posterior, posterior.data, gamma=0.0, key=3, num_samples=1000)
    laws = {"mu": stats.norm(0, 5), "tau": stats.halfcauchy(0, 5), "z": stats.norm()}
    for name, law in laws.items():
        values = draws.theta[name][:, ::10].reshape(-1, *draws.theta[name].shape[2:])
        for column in values.reshape(len(values), -1).T[:2]:
            assert stats.kstest(column, law.cdf).pvalue > 1e-4


def test_independent_sites_are_plain_distributions():
    posterior = from_numpyro(ex.logistic, args=(X, LABELS))
    assert not posterior.prior.is_hierarchical
    assert posterior.prior.curvature() == (1.0, 1.0)


def test_reparametrized_sites_are_those_of_the_new_model():
    model = handlers.reparam(ex.county, config={"a": LocScaleReparam(0)})
    posterior = from_numpyro(model, args=(COUNTY, X, REAL))
    assert sorted(posterior.prior.tree) == ["a_decentered", "mu", "tau"]
    t = {"a_decentered": jnp.linspace(-1, 1, 5), "mu": jnp.array(0.3), "tau": jnp.array(0.5)}
    likelihood = ex.county_by_hand({**t, "a": 0.3 + 0.5 * np.linspace(-1, 1, 5)})[1]
    gap = posterior.log_density(t, posterior.data, 1.0) - posterior.log_density(
        t, posterior.data, 0.0
    )
    assert gap == pytest.approx(likelihood, rel=1e-5)


def test_improper_sites_are_flat():
    def model(x, y):
        b = numpyro.sample("b", dist.ImproperUniform(dist.constraints.real, (), (3,)))
        s = numpyro.sample("s", dist.ImproperUniform(dist.constraints.positive, (), ()))
        numpyro.sample("y", dist.Normal(x @ b, s), obs=y)

    posterior = from_numpyro(model, args=(X, REAL))
    theta = {"b": jnp.zeros(3), "s": jnp.array(2.0)}
    expected = stats.norm.logpdf(REAL, 0, 2).sum()
    assert posterior.prior.is_flat
    assert posterior.log_density(theta, posterior.data, 1.0) == pytest.approx(expected, rel=1e-5)


def test_integers_that_are_the_number_of_examples_follow_it():
    def model(num_rows, x, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]))
        with numpyro.plate("rows", num_rows):
            numpyro.sample("y", dist.Normal(x @ b, 1), obs=y)

    posterior = from_numpyro(model, args=(N, X, REAL))
    half = jax.tree.map(lambda a: a[: N // 2], posterior.data)
    losses = posterior.losses({"b": jnp.zeros(3)}, half)
    assert losses == pytest.approx(-stats.norm.logpdf(REAL[: N // 2]), rel=1e-5)


def test_several_sites_scales_masks_and_nested_arguments():
    def model(d, z):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("rows", len(z)), handlers.scale(scale=0.5):
            numpyro.sample("y", dist.Normal(b * d["x"], d["s"]), obs=d["y"])
            numpyro.sample("z", dist.Bernoulli(logits=b).mask(d["seen"]), obs=z)

    d = {"x": X[:, 0], "y": REAL, "s": 2.0, "seen": X[:, 1] > 0}
    posterior = from_numpyro(model, ("y", "z"), args=(d, LABELS))
    each = stats.norm.logpdf(REAL, 0.7 * X[:, 0], 2.0)
    each += d["seen"] * stats.bernoulli.logpmf(LABELS, 1 / (1 + np.exp(-0.7)))
    losses = posterior.losses({"b": jnp.array(0.7)}, posterior.data)
    assert losses == pytest.approx(-0.5 * each, rel=1e-5)


def test_other_observations_belong_to_the_prior():
    def model(known, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("known", dist.Normal(b, 2), obs=known)
        numpyro.sample("y", dist.Normal(b, 1), obs=y)

    posterior = from_numpyro(model, args=(X[:7, 0], REAL))
    at_zero = posterior.log_density({"b": jnp.array(0.5)}, posterior.data, 0.0)
    expected = stats.norm.logpdf(0.5) + stats.norm.logpdf(X[:7, 0], 0.5, 2).sum()
    assert at_zero == pytest.approx(expected, rel=1e-5)


def test_groups_are_packed_and_their_order_is_no_matter():
    mixed = np.random.default_rng(0).permutation(N)[:33]  # groups of different sizes
    posterior = from_numpyro(
        ex.county, args=(COUNTY[mixed], X[mixed], REAL[mixed]), group="c", structured=True
    )
    theta = {"mu": jnp.array(0.3), "tau": jnp.array(0.5), "a": jnp.linspace(-1.0, 1.0, 5)}
    each = stats.norm.logpdf(REAL, np.linspace(-1, 1, 5)[COUNTY] + X[:, 0], 1)[mixed]
    expected = np.bincount(COUNTY[mixed], weights=each)
    assert -posterior.losses(theta, posterior.data) == pytest.approx(expected, rel=1e-4)


def test_structured_models_say_how_many_places_they_have():
    posterior = from_numpyro(ex.eight_schools, args=(8, SIGMA, SCHOOLS), structured=True)
    table = gdp.populations.Table(posterior.data)
    with pytest.raises(ValueError, match="places for 8; use n=8"):
        gdp.audit(posterior, table, n=5, gammas=[1.0], num_datasets=32, progress=False)


# -- what cannot be treated -------------------------------------------------------------------


def subsampled(y):
    b = numpyro.sample("b", dist.Normal())
    with numpyro.plate("rows", len(y), subsample_size=10) as rows:
        numpyro.sample("y", dist.Normal(b, 1), obs=y[rows])


def factor(y):
    b = numpyro.sample("b", dist.Normal())
    numpyro.factor("penalty", -jnp.abs(b))
    numpyro.sample("y", dist.Normal(b, 1), obs=y)


def event(x, y):
    b = numpyro.sample("b", dist.Normal().expand([3]))
    numpyro.sample("y", dist.Normal(x @ b, 1).to_event(1), obs=y)


def g_prior(x, y):
    b = numpyro.sample("b", dist.Normal(0, 1 / jnp.sqrt((x**2).sum(0))))
    numpyro.sample("y", dist.Normal(x @ b, 1), obs=y)


def standardized(x, y):
    b = numpyro.sample("b", dist.Normal().expand([3]))
    numpyro.sample("y", dist.Normal((x - x.mean(0)) / x.std(0) @ b, 1), obs=y)


def autoregression(y):
    r = numpyro.sample("r", dist.Uniform(-1, 1))

    def step(before, now):
        numpyro.sample("y", dist.Normal(r * before, 1), obs=now)
        return now, None

    scan(step, 0.0, y)


def closure(y):
    b = numpyro.sample("b", dist.Normal().expand([3]))
    numpyro.sample("y", dist.Normal(jnp.asarray(X) @ b, 1), obs=y)


def all_closure(x):
    b = numpyro.sample("b", dist.Normal().expand([3]))
    numpyro.sample("y", dist.Normal(x @ b, 1), obs=jnp.asarray(REAL))


def two_sites(y, z):
    b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(b, 1), obs=y)
    numpyro.sample("z", dist.Normal(b, 1), obs=z)


def counted(c, y):
    a = numpyro.sample("a", dist.Normal().expand([len(np.unique(c))]))
    numpyro.sample("y", dist.Normal(a[c], 1), obs=y)


def discrete(y):
    k = numpyro.sample("k", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(k, 1), obs=y)


def parameter(y):
    b = numpyro.param("b", 0.0) + numpyro.sample("a", dist.Normal())
    numpyro.sample("y", dist.Normal(b, 1), obs=y)


def network(x, y, scope="net", drawn=("w", "b"), is_marked=True):
    """What ``random_flax_module`` and, unmarked, ``random_eqx_module`` do in a model."""
    params = numpyro.param("net$params", {"w": jnp.ones(3), "b": jnp.ones(())})
    weights = dict(params)
    for name in drawn:
        shape = params[name].shape
        if is_marked:
            params[name] = ParamShape(shape)
        law = dist.Normal(0, 1).expand(shape).to_event(len(shape))
        weights[name] = numpyro.sample(f"{scope}/{name}", law)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(jnp.tanh(x @ weights["w"] + weights["b"]), 0.5), obs=y)


@pytest.mark.parametrize("is_marked", [True, False])
def test_modules_with_a_prior_for_all_parameters_are_models(is_marked):
    kwargs = {"is_marked": is_marked}
    posterior = gdp.GibbsPosterior.from_numpyro(network, args=(X, REAL), kwargs=kwargs)
    theta = {"net/w": jnp.array([0.3, -0.2, 0.5]), "net/b": jnp.array(0.1)}
    means = np.tanh(X @ np.array([0.3, -0.2, 0.5]) + 0.1)
    np.testing.assert_allclose(
        posterior.losses(theta, posterior.data), -stats.norm.logpdf(REAL, means, 0.5), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("kwargs", "left"),
    [
        ({"drawn": ("w",)}, 1),
        ({"drawn": ("w",), "is_marked": False}, 1),
        ({"drawn": ()}, 4),
        ({"scope": "other", "is_marked": False}, 4),
    ],
)
def test_modules_need_a_prior_for_all_parameters(kwargs, left):
    with pytest.raises(ValueError, match=f"{left} of the 4 parameters of the module 'net' have no"):
        gdp.GibbsPosterior.from_numpyro(network, args=(X, REAL), kwargs=kwargs)


def scaled_prior(y):
    with handlers.scale(scale=0.5):
        b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(b, 1), obs=y)


def moving(y):
    s = numpyro.sample("s", dist.HalfNormal())
    b = numpyro.sample("b", dist.Uniform(0, s))
    numpyro.sample("y", dist.Normal(b, 1), obs=y)


def nothing_latent(y):
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def centred_and_vague(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1e4))  # log-likelihoods of its draws have no digits left
    b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(a + b * (x - x.mean()), 1), obs=y)


def changepoint(y):
    when = numpyro.sample("when", dist.Uniform(0, 40))
    rate = jnp.where(jnp.arange(len(y)) < when, 1.0, 9.0)
    numpyro.sample("y", dist.Poisson(rate), obs=y)


def lagged(y):  # whose first rows are all alike
    b = numpyro.sample("b", dist.Beta(1, 1))
    before = jnp.concatenate([jnp.zeros(1), y[:-1]])
    numpyro.sample("y", dist.Poisson(1 + b * before), obs=y)


def small_trend(y):
    b = numpyro.sample("b", dist.Normal(0, 0.001))
    numpyro.sample("y", dist.Normal(b * jnp.arange(len(y)), 1), obs=y)


def prior_of_length(y):
    m = numpyro.sample("m", dist.Normal(0, len(y) ** -0.5))
    numpyro.sample("y", dist.Normal(m, 1), obs=y)


def lagged_people(who, z):
    own = numpyro.sample("own", dist.Normal().expand([5]))
    before = jnp.concatenate([jnp.zeros(1), z[:-1]])
    numpyro.sample("y", dist.Normal(own[who] + 0.8 * before, 1), obs=z)


def distances(d, y):
    cov = jnp.exp(-d * numpyro.sample("l", dist.HalfNormal())) + jnp.eye(len(y))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(y)), cov), obs=y)


def outcomes(x, y):
    w = numpyro.sample("w", dist.Normal())
    with numpyro.plate("outcomes", 4, dim=-1):
        numpyro.sample("y", dist.Normal((w * x)[:, None], 1), obs=y)


LAGGED = {"group": "who", "structured": True}
REFUSED = [
    (centred_and_vague, (X[:, 0], REAL), {}, "depends on the others or on its place"),
    (changepoint, (ex.COUNTS,), {}, "depends on the others or on its place"),
    (lagged, (np.r_[np.zeros(6, int), ex.COUNTS[6:] + 1],), {}, "depends on the others"),
    (small_trend, (REAL,), {}, "depends on the others or on its place"),
    (prior_of_length, (REAL,), {}, "the prior depends on the number of examples"),
    (lagged_people, (COUNTY, REAL), LAGGED, "depends on other rows or on their order"),
    (distances, (np.ones((N, N)), REAL), {"structured": True}, "on axis 0 and 1; say which"),
    (outcomes, (X[:, 0], np.ones((N, 4))), {}, "plates outcomes .*say which of them"),
    (ex.gaussian_process, (X[:, 0], REAL), {"group": "x", "structured": True}, "no log-likelih"),
    (lambda y: ex.mixture(y), (np.array([3_000_000_000] * 5),), {}, "whole numbers beyond"),
    (subsampled, (REAL,), {}, "plate 'rows' subsamples 10 of 40; drop subsample_size"),
    (factor, (REAL,), {}, "'penalty' is a factor"),
    (event, (X, REAL), {}, r"'y' has one log-likelihood for all examples; drop .to_event\(1\)"),
    (g_prior, (X, REAL), {}, "the prior of 'b' depends on the examples"),
    (standardized, (X, REAL), {}, "depends on the others or on its place"),
    (autoregression, (REAL,), {}, "depends on the others or on its place"),
    (closure, (REAL,), {}, "it has room for these examples only"),
    (all_closure, (X,), {}, "values observed at 'y' do not come from an argument"),
    (two_sites, (REAL, X[:, 0]), {}, r"name it, observed=\('y', 'z'\)"),
    (counted, (COUNTY, REAL), {}, "it looks at the values of 'c' while it is built"),
    (discrete, (REAL,), {}, "latent site 'k' is discrete"),
    (parameter, (REAL,), {}, "'b' is a numpyro.param, which has no prior"),
    (scaled_prior, (REAL,), {}, "handlers.scale changes the prior of 'b'"),
    (moving, (REAL,), {}, "a support depends on other parts"),
    (nothing_latent, (REAL,), {}, "no latent site"),
    (ex.eight_schools, (8, SIGMA, SCHOOLS), {}, "pass structured=True"),
    (ex.county, (COUNTY, X, REAL), {"group": "c"}, "a group has parameters of its own, by 'c'"),
    (ex.county, (COUNTY, X, REAL), {"group": "k"}, "no plate and no argument 'k'"),
    (ex.county, (COUNTY, X, REAL), {"group": "x"}, "must hold the number of each row's group"),
    (ex.county, (COUNTY * 2, X, REAL, 9), {"group": "c"}, "no row of 'c' is in group 1"),
    (ex.visits, (ex.VISITS,), {}, "which of them holds the examples, whose members"),
    (ex.logistic, (X,), {}, "'y' is not observed in this call"),
    (
        ex.logistic,
        (X, LABELS),
        {"observed": "labels"},
        "no site .labels.; its observed",
    ),
    (ex.logistic, (X, LABELS), {"observed": ("y", "y")}, "name each site once"),
    (ex.poisson, (X,), {}, "the model cannot be called with them"),
    (ex.logistic, (X.T[:, :3], LABELS), {}, "broadcast|cannot be called"),
    (ex.logistic, (X, LABELS), {"examples": ("q",)}, "no argument 'q'"),
    (
        ex.logistic,
        (X, LABELS),
        {"examples": {"x": 1, "y": 0}},
        "axis 1 of .x., of shape",
    ),
    (ex.logistic, (X, LABELS), {"kwargs": {"y": LABELS}}, "y is given in args too"),
    (lambda x, y: ex.logistic(x.T, y), (X.T, LABELS), {}, r"axis 1; say which arguments"),
    (ex.logistic, (np.where(X > 2, np.nan, X), LABELS), {}, "values are NaN; leave those rows out"),
]


@pytest.mark.parametrize(("model", "args", "settings", "message"), REFUSED)
def test_what_cannot_be_treated_gets_one_line(model, args, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        from_numpyro(model, args=args, **settings)
    assert "\n" not in str(caught.value)


def test_integers_that_are_the_number_by_chance_stay():
    def model(n, y, trials):
        p = numpyro.sample("p", dist.Uniform(0, 1))
        numpyro.sample("y", dist.Binomial(trials, p).expand([n]), obs=y)

    posterior = from_numpyro(model, args=(20, ex.COUNTS[:20], 20))
    half = {"y": posterior.data["y"][:10]}
    expected = stats.binom.logpmf(ex.COUNTS[:10], 20, 0.3)
    assert -posterior.losses({"p": 0.3}, half) == pytest.approx(expected, rel=1e-4)


def test_square_arrays_have_the_axis_of_their_plate():
    table = np.arange(25.0).reshape(5, 5)

    def model(y):
        with numpyro.plate("items", 5, dim=-1):
            b = numpyro.sample("b", dist.Normal())
            with numpyro.plate("people", 5, dim=-2):
                numpyro.sample("y", dist.Normal(b, 1), obs=y)

    for group, expected in (("items", table.T), ("people", table)):
        posterior = from_numpyro(model, args=(table,), group=group, structured=True)
        assert posterior.data["y"].tolist() == expected.tolist()


def test_data_in_tuples_columns_and_lists_are_found():
    def model(d, u):
        b = numpyro.sample("b", dist.Normal())
        means = b * jnp.asarray(d["x"]) + u[d["c"]]  # a NumPy array, looked up
        numpyro.sample("y", dist.Normal(means, 1), obs=jnp.asarray(d["y"]))

    d = {"x": pd.Series(X[:, 0]), "c": tuple(COUNTY.tolist()), "y": REAL.tolist()}
    posterior = from_numpyro(model, args=(d, np.arange(5.0)))
    assert jax.tree.map(jnp.shape, posterior.data) == {"d": dict.fromkeys("cxy", (N,))}
    expected = stats.norm.logpdf(REAL, 0.5 * X[:, 0] + COUNTY, 1)
    assert -posterior.losses({"b": 0.5}, posterior.data) == pytest.approx(expected, rel=1e-4)
    pair = from_numpyro(lambda d: ex.logistic(*d), args=((X, LABELS),))
    assert [a.shape for a in pair.data["d"]] == [(N, 3), (N,)]


def test_axes_of_examples_can_be_named():
    posterior = from_numpyro(
        lambda x, y: ex.logistic(x.T, y), args=(X.T, LABELS), examples={"x": 1, "y": 0}
    )
    other = from_numpyro(ex.logistic, args=(X, LABELS))
    theta = {"w": jnp.asarray(ex.W)}
    expected = np.asarray(other.losses(theta, other.data))
    assert posterior.losses(theta, posterior.data) == pytest.approx(expected, rel=1e-5)


def test_temper_refuses_sites_that_are_not_there():
    with pytest.raises(ValueError, match=r"no observed site of 'z' \(it observes none"):
        log_density(gdp.temper(ex.logistic, 0.5, "z"), (X, LABELS), {}, {"w": jnp.zeros(3)})
    with pytest.raises(ValueError, match="gamma: -1 is not"):
        gdp.temper(ex.logistic, -1.0)


# -- populations ------------------------------------------------------------------------------


def test_population_at_one_truth_has_its_moments():
    population = gdp.populations.from_numpyro(
        ex.poisson, {"b": np.zeros(3)}, args=(X, EXPOSURE := np.full(N, 2.0), ex.COUNTS)
    )
    draw = jax.jit(population.sample, static_argnums=(1, 2))
    train, ghosts = draw(jax.random.key(0), 20_000, 7)
    assert EXPOSURE[0] == 2.0
    assert abs(float(train["y"].mean()) - 2.0) < 4 * np.sqrt(2.0 / 20_000)
    assert ghosts["y"].shape == (7,)
    assert not population.is_mixture


@pytest.mark.trust
def test_posterior_predictive_mixes_over_draws():
    def model(y):
        m = numpyro.sample("m", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(m, 0.1), obs=y)

    draws = np.array([[-5.0, 5.0], [15.0, 25.0]])  # [chain, draw]
    population = gdp.populations.from_numpyro(model, {"m": draws}, args=(REAL,))
    keys = jax.random.split(jax.random.key(0), 400)
    train, ghosts = jax.vmap(lambda k: population.sample(k, 3, 2))(keys)
    centres, counts = np.unique(np.round(train["y"].mean(1)), return_counts=True)
    assert centres.tolist() == [-5.0, 5.0, 15.0, 25.0]
    assert (np.abs(counts - 100) < 4 * np.sqrt(400 * 0.25 * 0.75)).all()
    assert np.abs(train["y"].mean(1) - ghosts["y"].mean(1)).max() < 1.0  # of the same parameters
    prior = gdp.populations.from_numpyro(model, args=(REAL,))
    means = jax.vmap(lambda k: prior.sample(k, 3, 2)[0]["y"].mean())(keys)
    assert stats.kstest(means, stats.norm(0, np.sqrt(1 + 0.01 / 3)).cdf).pvalue > 1e-4
    posterior = from_numpyro(model, args=(REAL,))
    with pytest.raises(ValueError, match="num_information: every dataset has parameters"):
        gdp.audit(
            posterior,
            prior,
            n=5,
            gammas=[1.0],
            learn=[*gdp.DEFAULT, gdp.MutualInformation(64)],
            progress=False,
        )


def test_places_keep_their_covariates():
    values = {"mu": 0.0, "tau": 1.0, "z": np.zeros(8)}
    population = gdp.populations.from_numpyro(ex.eight_schools, values, args=(8, SIGMA, SCHOOLS))
    draw = jax.jit(population.sample, static_argnums=(1, 2))
    train, ghosts = draw(jax.random.key(0), 8, 20)
    assert train["sigma"] == pytest.approx(SIGMA)
    assert ghosts["sigma"] == pytest.approx(np.tile(SIGMA, 3)[:20])
    with pytest.raises(ValueError, match="its datasets have 8 examples, not 5"):
        population.sample(jax.random.key(0), 5, 2)


@pytest.mark.parametrize(
    ("params", "settings", "message"),
    [
        ({"mu": 0.0}, {}, "no value of the latent sites"),
        ({"w": np.zeros(4)}, {}, "'w' has shape"),
        (None, {"examples": ("q",)}, "no argument 'q'"),
    ],
)
def test_populations_refuse_in_one_line(params, settings, message):
    with pytest.raises(ValueError, match=message):
        gdp.populations.from_numpyro(ex.logistic, params, args=(X, LABELS), **settings)


def test_a_transformed_observation_cannot_be_simulated():
    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal()), 1), obs=jnp.log(y))

    with pytest.raises(ValueError, match="computed from the model's arguments"):
        gdp.populations.from_numpyro(model, args=(np.exp(REAL),))


def test_whole_numbers_do_not_cut_a_continuous_law():
    def model(y):
        scale = numpyro.sample("s", dist.HalfNormal())
        numpyro.sample("y", dist.Normal(0.5, scale), obs=y)

    population = gdp.populations.from_numpyro(model, {"s": 0.4}, args=(np.arange(40),))
    draw = jax.jit(population.sample, static_argnums=(1, 2))
    values = draw(jax.random.key(0), 2000, 1)[0]["y"]
    assert stats.kstest(values, stats.norm(0.5, 0.4).cdf).pvalue > 1e-4


def test_models_with_places_are_simulated_in_them():
    population = gdp.populations.from_numpyro(changepoint, {"when": 20.0}, args=(ex.COUNTS,))
    draw = jax.jit(population.sample, static_argnums=(1, 2))
    train, ghosts = draw(jax.random.key(0), N, 2 * N)
    assert train["y"][:20].mean() < 3 < 6 < train["y"][20:].mean()
    assert ghosts["y"][N : N + 20].mean() < 3 < 6 < ghosts["y"][N + 20 :].mean()


def test_a_censored_law_cannot_be_simulated():
    def model(y, seen):
        law = dist.Exponential(numpyro.sample("r", dist.HalfNormal()))
        numpyro.sample("y", dist.RightCensoredDistribution(law, seen), obs=y)

    with pytest.raises(ValueError, match="'y' has a censored law"):
        gdp.populations.from_numpyro(model, {"r": 1.0}, args=(np.abs(REAL), LABELS))


def test_a_time_series_cannot_be_simulated_at_once():
    with pytest.raises(ValueError, match="law of 'y' depends on observed values"):
        gdp.populations.from_numpyro(autoregression, args=(REAL,))


# -- what leads out of a refusal ---------------------------------------------------------------

ROWS = np.random.default_rng(5).normal(size=12)
KEEP = np.arange(12) < 8


def observe(law, y, **how):
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", law, obs=y, **how)


def mean():
    return numpyro.sample("mean", dist.Normal())


def hidden(y, keep):
    center = mean()
    with numpyro.handlers.mask(mask=keep):
        observe(dist.Normal(center), y)


def hidden_by_its_law(y, keep):
    observe(dist.Normal(mean() * jnp.ones(len(y))).mask(keep), y)


def weighted(y, keep):
    center = mean()
    with numpyro.handlers.scale(scale=1.0 * keep):
        observe(dist.Normal(center), y)


def half_hidden(y, keep):
    center = mean()
    with numpyro.plate("persons", y.shape[0]), numpyro.handlers.mask(mask=keep):
        numpyro.sample("y", dist.Normal(center).expand([3]).mask(keep[:, None]).to_event(1), obs=y)


def with_obs_mask(y, keep):
    observe(dist.Normal(mean()), y, obs_mask=keep)


def two_plates(x, y):
    center = mean()
    with numpyro.plate("treated", x.shape[0]):
        numpyro.sample("x", dist.Normal(center), obs=x)
    with numpyro.plate("others", y.shape[0]):
        numpyro.sample("y", dist.Normal(center), obs=y)


def answers(y):
    center = mean()
    with numpyro.plate("items", 3, dim=-1), numpyro.plate("persons", y.shape[0], dim=-2):
        numpyro.sample("y", dist.Normal(center), obs=y)


def looking(x, y):
    count = int(x.max()) + 1 if x[0] > -5 else len(np.unique(x))
    levels = numpyro.sample("levels", dist.Normal(0.0, 1.0).expand([count]))
    observe(dist.Normal(levels[0]), y)


def series(y):
    numpyro.sample("y", dist.Normal(mean() * y[:-1]), obs=y[1:])


def series_in_a_plate(y):
    observe(dist.Normal(mean() * y[:-1]), y[1:])


def column(x, y):
    numpyro.sample("y", dist.Normal(mean() * x), obs=y)


def of(law):
    return lambda y: observe(law(mean()), y)


BINARY = of(lambda m: dist.Bernoulli(logits=m))
SIGNS = np.where(KEEP, 1, -1)
LEADS_OUT = {
    "rows under a mask": (hidden, (ROWS, KEEP), "4 of 12 examples are hidden.* leave their rows"),
    "rows of a masked law": (hidden_by_its_law, (ROWS, KEEP), "4 of 12 examples are hidden"),
    "rows of weight 0": (weighted, (ROWS, KEEP), "4 of 12 examples are hidden"),
    "persons under a mask": (
        half_hidden, (ROWS.reshape(4, 3), KEEP[5:9]), "1 of 4 examples are hidden"
    ),
    "obs_mask": (with_obs_mask, (ROWS, KEEP), "obs_mask.* leave those rows out"),
    "NaN under a mask": (hidden, (np.where(KEEP, ROWS, np.nan), KEEP), "4 values are NaN; .*mask"),
    "labels -1": (BINARY, (SIGNS,), "4 values .* such as -1, are none that its law can have"),
    "labels 1, 2": (BINARY, (KEEP + 1,), "8 values .* such as 2"),
    "negative counts": (of(lambda m: dist.Poisson(jnp.exp(m))), (SIGNS,), "counts as whole"),
    "half counts": (of(lambda m: dist.Poisson(jnp.exp(m))), (KEEP + 0.5,), "such as 1.5"),
    "classes from 1": (
        of(lambda m: dist.Categorical(logits=m * jnp.ones(2))), (KEEP + 1,), "classes as 0, 1"
    ),
    "negative sizes": (of(lambda m: dist.LogNormal(m)), (SIGNS * 1.0,), "such as -1"),
    "a look at examples": (
        looking, (np.arange(12) % 3, ROWS), r"values of its data .*examples=\('y',"
    ),
    "a time series": (series, (ROWS,), r"none has an axis of 11 .*args=\(y\[:-1\], y\[1:\]"),
    "a series, plate": (series_in_a_plate, (ROWS,), r"args=\(y\[:-1\], y\[1:\]"),
    "a column": (column, (ROWS, ROWS[:, None]), r"an axis too many .* y\[:, 0\]"),
    "persons and items": (answers, (ROWS.reshape(4, 3),), "group='persons' or group='items'|"
                          "group='items' or group='persons'"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LEADS_OUT)
def test_a_refusal_leads_out(kind):
    model, args, match = LEADS_OUT[kind]
    with pytest.raises(ValueError, match=match) as caught:
        gdp.GibbsPosterior.from_numpyro(model, args=args)
    assert "\n" not in str(caught.value)


def test_the_ways_out_lead_out():
    def data_of(model, *args, **kwargs):
        return gdp.GibbsPosterior.from_numpyro(model, args=args, **kwargs).data

    assert data_of(hidden, ROWS[KEEP], KEEP[KEEP])["y"].shape == (8,)
    # A person with some answers is one.
    assert data_of(half_hidden, ROWS.reshape(4, 3), np.ones(4, bool))["y"].shape == (4, 3)
    assert list(data_of(looking, np.zeros(5, int), ROWS, examples=("y",))) == ["y"]
    assert data_of(answers, ROWS.reshape(4, 3), group="persons")["y"].shape == (4, 3)
    assert data_of(column, ROWS[:-1], ROWS[1:])["y"].shape == (11,)


def test_sites_of_two_plates_are_no_pairs_unless_told():
    with pytest.raises(ValueError, match="'x' in plate 'treated' and 'y' in plate 'others'"):
        gdp.GibbsPosterior.from_numpyro(two_plates, ("x", "y"), args=(ROWS, ROWS))
    pairs = gdp.GibbsPosterior.from_numpyro(
        two_plates, ("x", "y"), args=(ROWS, 2 * ROWS), examples=("x", "y")
    )
    z = {"x": ROWS[:1], "y": 2 * ROWS[:1]}
    both = dist.Normal(0.5).log_prob(ROWS[0]) + dist.Normal(0.5).log_prob(2 * ROWS[0])
    assert float(pairs.losses({"mean": 0.5}, z)[0]) == pytest.approx(-float(both), rel=1e-5)
    one = gdp.GibbsPosterior.from_numpyro(two_plates, "y", args=(ROWS, ROWS), examples=("y",))
    assert list(one.data) == ["y"]


def test_a_support_that_parameters_move_is_none():
    ends = of(lambda m: dist.Uniform(-jnp.exp(m) - 9.0, jnp.exp(m)))
    assert gdp.GibbsPosterior.from_numpyro(ends, args=(ROWS,)).data["y"].shape == (12,)


def test_other_data_have_the_shapes_and_values_of_the_models():
    posterior = gdp.GibbsPosterior.from_numpyro(BINARY, args=(1 * KEEP,))
    thetas = {"mean": np.zeros((2, 50))}
    for y, match in (
        (1 * KEEP[:, None], r"'y' has shape \(12, 1\)"),
        (SIGNS, "such as -1"),
    ):
        for door in (
            lambda y: gdp.as_draws(posterior, {"y": y}, thetas),
            lambda y: posterior.unconstrained({"y": y}, 1.0),
            lambda y: gdp.sample(posterior, {"y": y}),
        ):
            with pytest.raises(ValueError, match=match):
                door(y)


def test_one_example_is_a_dataset_where_losses_are_of_whole_ones():
    def model(y):
        v = numpyro.sample("v", dist.Normal(0.0, 3.0))
        numpyro.sample("y", dist.Normal(v, 5.0), obs=y)

    with pytest.raises(ValueError, match=r"one example; .* structured=True"):
        gdp.GibbsPosterior.from_numpyro(model, args=(np.array([0.3]),))
    posterior = gdp.GibbsPosterior.from_numpyro(model, args=(np.array([0.3]),), structured=True)
    loss = posterior.empirical_loss({"v": jnp.asarray(1.0)}, posterior.data)
    assert float(loss) == pytest.approx(-stats.norm.logpdf(0.3, 1.0, 5.0), rel=1e-6)


def test_what_the_points_of_a_latent_function_need_is_said():
    def model(x, y):
        inside = jnp.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-3 * jnp.eye(x.shape[0])
        f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(x.shape[0]), inside))
        numpyro.sample("y", dist.Normal(f, 0.1), obs=y)

    x = np.linspace(0.0, 1.0, 6)
    with pytest.raises(ValueError, match=r"latent function.*structured=True, examples=\['y'\]"):
        gdp.GibbsPosterior.from_numpyro(model, args=(x, np.sin(x)), structured=True)
    posterior = gdp.GibbsPosterior.from_numpyro(
        model, args=(x, np.sin(x)), structured=True, examples=["y"]
    )
    assert posterior.dim == 6
