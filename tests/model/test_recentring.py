"""Coordinates between centred and non-centred: found, undone, and with the right volume."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp._jaxlib.precision import precision
from gibbs_dp.model.recentring import find_recentring


def nothing(theta, z):
    return jnp.zeros(())


def posterior(prior):
    return gdp.GibbsPosterior(nothing, prior)


NESTED = {
    "a_scale": dist.HalfNormal(1.0),
    "centre": dist.Normal(0.0, 2.0),
    "regions": lambda e: dist.Normal(e["centre"], e["a_scale"]).expand([2]),
    "towns": lambda e: dist.StudentT(4.0, jnp.repeat(e["regions"], 2), 0.3 + e["a_scale"]),
    "spread": lambda e: dist.HalfCauchy(jnp.exp(e["regions"])),
    "pair": lambda e: dist.MultivariateNormal(e["regions"], scale_tril=e["a_scale"] * jnp.eye(2)),
    "income": lambda e: dist.LogNormal(e["centre"], 0.1 + e["a_scale"]),
    "rate": lambda e: dist.Gamma(2.0, jnp.exp(e["centre"])),
    "walk": lambda e: dist.GaussianRandomWalk(e["a_scale"], 3),
    "share": lambda e: dist.Beta(0.5 + e["a_scale"], 2.0 + jnp.exp(e["centre"])),
}


def grouped(g, y=None):
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("groups", 3):
        a = numpyro.sample("a", dist.Normal(0.0, tau))
    with numpyro.plate("rows", g.shape[0]):
        numpyro.sample("y", dist.Normal(a[g], 1.0), obs=y)


ROWS = jnp.array([0, 1, 2, 0]), jnp.array([0.1, 0.2, 0.3, 0.4])


@cache
def recentred(name):
    """Posterior, and what is found in it."""
    if name == "nested":
        made = posterior(NESTED)
    else:
        made = gdp.GibbsPosterior.from_numpyro(grouped, args=ROWS)
    return made, find_recentring(made)


def test_what_depends_on_other_parts_is_found():
    _, found = recentred("nested")
    assert set(found.places) == {
        "regions",
        "towns",
        "spread",
        "pair",
        "income",
        "rate",
        "walk",
        "share",
    }
    assert found.depth == 2
    _, model = recentred("model")
    assert model.places == {"a": slice(0, 3)}


@pytest.mark.parametrize(
    "prior",
    [
        dist.Normal(jnp.zeros(2), 1.0),
        {"a": dist.Normal(0.0, 1.0), "b": gdp.Flat(gdp.supports.real(2))},
        # Of the laws that depend on others, none has a location or a scale.
        {"a": dist.HalfNormal(1.0), "b": lambda e: dist.Dirichlet(e["a"] + jnp.ones(3))},
        # A location that depends on nothing, a scale that is a number.
        {"a": dist.HalfNormal(1.0), "b": lambda e: dist.Normal(0.0, 1.0)},
    ],
)
def test_where_there_is_nothing_to_move(prior):
    assert find_recentring(posterior(prior)) is None


@pytest.mark.parametrize("name", ["nested", "model"])
def test_the_way_back_and_the_volume(name):
    """Against the Jacobian by forward differentiation."""
    made, found = recentred(name)

    @jax.jit
    def there_and_back(w, mixed):
        u, log_det = found.to_flat(w, mixed)
        jacobian = jax.jacfwd(lambda w: found.to_flat(w, mixed)[0])(w)
        return u, log_det, found.from_flat(u, mixed), jacobian

    with precision(is_double=True):
        w = jnp.asarray(np.random.default_rng(0).normal(size=made.dim))
        for share in (0.0, 0.37, 1.0):
            mixed = jnp.where(found.is_free, share, 1.0)
            u, log_det, back, jacobian = map(np.asarray, there_and_back(w, mixed))
            np.testing.assert_allclose(back, w, rtol=0, atol=1e-9)
            sign, volume = np.linalg.slogdet(jacobian)
            assert sign == 1.0
            assert abs(log_det - volume) < 1e-9
            if share == 1.0:  # as the prior is written
                np.testing.assert_allclose(u, w, rtol=0, atol=1e-12)


def test_log_odds_of_a_share_are_standardized_where_successes_are_many():
    prior = {
        "size": dist.LogNormal(6.0, 0.5),
        "share": lambda e: dist.Beta(0.3 * e["size"], 0.7 * e["size"]),
    }
    made = posterior(prior)
    found = find_recentring(made)
    u = jax.jit(jax.vmap(made.initial))(jax.random.split(jax.random.key(1), 4000))
    free = jnp.where(found.is_free, 0.0, 1.0)
    w = np.asarray(jax.jit(jax.vmap(lambda u: found.from_flat(u, free)))(u))
    at = found.places["share"]
    # Four standard errors of a mean and an sd, false alarm 1.3e-4; at 400 examples the log-odds'
    # mean is a hundredth of an sd off, and their sd half a percent.
    assert abs(w[:, at].mean()) < 0.02 + 4.0 / np.sqrt(4000)
    assert abs(w[:, at].std() - 1.0) < 0.01 + 4.0 / np.sqrt(8000)


def test_without_centring_coordinates_do_not_depend_on_each_other():
    """Their law is then standard: draws of the prior, put back, know nothing of the scale."""
    made, found = recentred("model")
    u = jax.jit(jax.vmap(made.initial))(jax.random.split(jax.random.key(0), 4000))
    free = jnp.where(found.is_free, 0.0, 1.0)
    w = np.asarray(jax.jit(jax.vmap(lambda u: found.from_flat(u, free)))(u))
    standard = w[:, :3]
    # Four standard errors of a standard deviation and of a correlation; false alarm 4e-4 in all.
    assert np.abs(standard.std(axis=0) - 1.0).max() < 4.0 / np.sqrt(8000)
    assert abs(np.corrcoef(np.abs(standard[:, 0]), w[:, 3])[0, 1]) < 4.0 / np.sqrt(4000)
    assert abs(np.corrcoef(np.abs(np.asarray(u)[:, 0]), w[:, 3])[0, 1]) > 0.3  # as it is written
