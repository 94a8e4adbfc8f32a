"""Two-layer networks: their loss, their symmetries, and an audit against importance sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import gibbs_dp as gdp
from gibbs_dp.problems import build_problem
from gibbs_dp.problems.datasets import FLIP, NetworkLoss


def weights(rng, inputs=3, hidden=4, classes=2):
    shapes = {
        "hidden_weight": (inputs, hidden),
        "hidden_bias": (hidden,),
        "output_weight": (hidden, classes),
        "output_bias": (classes,),
    }
    return {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}


def test_the_loss_is_minus_the_log_probability_of_the_label():
    rng = np.random.default_rng(0)
    theta, x, y = weights(rng, classes=3), rng.normal(size=(6, 3)), rng.integers(0, 3, 6)
    scores = np.tanh(x @ theta["hidden_weight"] + theta["hidden_bias"])
    scores = scores @ theta["output_weight"] + theta["output_bias"]
    exact = -special.log_softmax(scores, axis=1)[np.arange(6), y]
    found = NetworkLoss().batch(theta, (jnp.asarray(x), jnp.asarray(y)))
    np.testing.assert_allclose(found, exact, rtol=1e-5)
    one = NetworkLoss()(theta, (jnp.asarray(x[2]), jnp.asarray(y[2])))
    np.testing.assert_allclose(one, exact[2], rtol=1e-5)


@pytest.mark.trust
def test_the_posterior_is_symmetric_in_the_hidden_units():
    problem = build_problem("neural-network", dim=3, num_hidden=4)
    theta = weights(np.random.default_rng(1))
    order, sign = np.array([2, 0, 3, 1]), np.array([1, -1, -1, 1])
    moved = theta | {
        "hidden_weight": (theta["hidden_weight"] * sign)[:, order],
        "hidden_bias": (theta["hidden_bias"] * sign)[order],
        "output_weight": (theta["output_weight"] * sign[:, None])[order],
    }
    data = problem.population.function(jax.random.key(0), 20)
    one, other = (problem.posterior.log_density(t, data, 1.0) for t in (theta, moved))
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_labels_say_whether_two_inputs_agree():
    x, y = build_problem("neural-network", dim=3).population.function(jax.random.key(0), 100_000)
    agree = np.mean((np.asarray(x[:, 0] * x[:, 1]) > 0) == np.asarray(y))
    assert abs(agree - (1 - FLIP)) < 4 * np.sqrt(FLIP * (1 - FLIP) / 100_000)


def test_digits():
    pytest.importorskip("sklearn")
    problem = build_problem("digits")
    assert problem.posterior.dim == 5260
    x, y = problem.population.data
    assert x.shape == (1797, 64)
    assert abs(float(x.mean())) < 1e-5
    assert abs(float(x.std()) - 1) < 1e-5
    np.testing.assert_array_equal(np.unique(y), np.arange(10))
    scales = {name: float(np.ravel(p.scale)[0]) for name, p in problem.posterior.prior.tree.items()}
    assert scales["hidden_weight"] == pytest.approx(1 / 8)
    assert scales["output_weight"] == pytest.approx(70**-0.5)
    assert build_problem("digits", split=True).population.is_conditional


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 1}, "give at least 2"),
        ({"num_hidden": 0}, "num_hidden, dim: must be at least 1"),
        ({"prior_scale": np.inf}, "a flat prior on a network is improper"),
        ({"prior_scale": -1.0}, "prior_scale: must be positive"),
    ],
)
def test_networks_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        build_problem("neural-network", **options)


@pytest.mark.trust
def test_the_audit_of_a_network_agrees_with_importance_sampling():
    """Weighted prior draws know nothing of chains, modes or symmetries (4 standard errors).

    ``n gamma = 2`` leaves a thousand effective draws of 4,000, the plug-in bias of whose KL is far
    below the errors.
    """
    problem = build_problem("neural-network", num_hidden=2, prior_scale=1.5)
    posterior, n, gamma = problem.posterior, 10, 0.2
    row = gdp.audit(
        posterior,
        problem.population,
        n,
        [gamma],
        num_datasets=64,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    ).rows[0]
    prior = jax.vmap(posterior.prior.initial)(jax.random.split(jax.random.key(5), 4000))

    def exact(key):
        train, ghost = problem.population.sample(key, n, 1)
        losses = jax.vmap(lambda theta: posterior.losses(theta, train))(prior)
        fresh = jax.vmap(lambda theta: posterior.losses(theta, ghost))(prior)
        weight = jax.nn.softmax(-gamma * jnp.sum(losses, axis=1))
        delta = gamma * (fresh - losses)  # every example against the one ghost
        mean = weight @ delta
        kl = jnp.log1p(weight @ jnp.expm1(-(delta - mean)))
        return jnp.mean(kl), 1 / jnp.sum(weight**2)

    keys = jax.random.split(jax.random.key(6), 64)
    kl, effective = jax.jit(lambda keys: jax.lax.map(exact, keys))(keys)
    assert float(effective.min()) > 1000
    kl = np.asarray(kl)
    error = np.hypot(kl.std(ddof=1) / 8, row["on_average_kl_se"])
    assert error < 0.1 * kl.mean()
    assert abs(row["on_average_kl"] - kl.mean()) < 4 * error
    error = np.hypot(row["on_average_kl_se"], row["on_average_kl_ghost_se"])
    assert abs(row["on_average_kl"] - row["on_average_kl_ghost"]) < 4 * error
    assert abs(row["virial"] - 1) < max(0.01, 4 * row["virial_se"])
