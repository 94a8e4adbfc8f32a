import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.model.check import as_key, check_loss, positive_count

REGRESSION = (jnp.ones((5, 2)), jnp.zeros(5))
TWO = dist.Normal(jnp.zeros(2), 1.0)


def test_keys_from_integers_and_keys():
    same = [
        as_key(7),
        as_key(np.int64(7)),
        as_key(jax.random.key(7)),
        as_key(jax.random.PRNGKey(7)),
    ]
    for key in same:
        np.testing.assert_array_equal(jax.random.key_data(key), jax.random.key_data(same[0]))


@pytest.mark.parametrize("key", [True, 1.5, "7", None])
def test_bad_keys_are_refused(key):
    with pytest.raises(ValueError, match="key: give an integer seed or a JAX key"):
        as_key(key)


def test_losses_that_fit_pass():
    check_loss(gdp.GibbsPosterior(gdp.losses.squared, TWO), REGRESSION, 5)
    by_hand = gdp.GibbsPosterior(lambda theta, z: (z[1] - z[0] @ theta) ** 2, TWO)
    check_loss(by_hand, REGRESSION, 5)
    whole = gdp.GibbsPosterior(total_loss=lambda theta, z: jnp.sum(z[1]), prior=TWO)
    check_loss(whole, REGRESSION, 5)


@pytest.mark.parametrize(
    ("posterior", "match"),
    [
        (gdp.GibbsPosterior(gdp.losses.squared, dist.Normal(jnp.zeros(3), 1.0)), "cannot be"),
        (gdp.GibbsPosterior(lambda theta, z: theta["a"], TWO), "cannot be"),
        (gdp.GibbsPosterior(lambda theta, z: z[2], TWO), "cannot be"),
        (gdp.GibbsPosterior(lambda theta, z: theta, TWO), r"scalar, got shape \(2,\)"),
        (gdp.GibbsPosterior(total_loss=lambda theta, z: z[1], prior=TWO), "scalar|cannot be"),
        (gdp.GibbsPosterior(lambda theta, z: jnp.nan * z[1], TWO), "NaN or infinite"),
    ],
)
def test_losses_that_do_not_fit_are_refused(posterior, match):
    with pytest.raises(ValueError, match=f"loss: .*{match}") as caught:
        check_loss(posterior, REGRESSION, 5)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, float("nan"), float("inf"), None, "3"])
def test_counts_are_positive_integers(value):
    with pytest.raises(ValueError, match="num_chains: must be an integer of at least 1"):
        positive_count("num_chains", value)
    assert positive_count("num_chains", np.int64(3)) == positive_count("num_chains", 3.0) == 3
    assert positive_count("num_warmup", 0, least=0) == 0
