import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.model.prior import Prior

TREE = {
    "scale": dist.HalfNormal(1.0),  # after "mean" in the order of keys, before it as written
    "mean": lambda earlier: dist.Normal(jnp.zeros(2), earlier["scale"]),
}


def test_the_density_is_the_product_of_conditionals():
    """Its value is tested in the docstring, its calibration in sampling/test_calibration.py."""
    prior = Prior(TREE)
    theta = {"mean": jnp.asarray([1.0, -1.0]), "scale": jnp.asarray(0.5)}
    slope = jax.jit(jax.grad(prior.log_prob))(theta)["scale"]  # of -s^2/2 - 2 log s - 1 / s^2
    assert float(slope) == pytest.approx(-0.5 - 2 / 0.5 + 2 / 0.5**3, rel=1e-5)


def test_starts_follow_the_hierarchy_and_constants_do_not_pretend():
    prior = Prior(TREE)
    assert prior.contains(prior.initial(jax.random.key(0)))
    assert not prior.is_flat
    assert prior.curvature() == (-float("inf"), float("inf"))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (lambda earlier: dist.Normal(), "needs a dict"),
        ({"a": lambda e: dist.Normal(0.0, e["b"]), "b": dist.HalfNormal()}, "before it .none."),
        ({"a": dist.HalfNormal(), "b": lambda e: e["a"]}, "must return a NumPyro distribution"),
        ({"a": dist.HalfNormal(), "b": lambda e: dist.Uniform(0.0, e["a"])}, "support depends"),
        ({"a": {"c": dist.Normal()}, "b": lambda e: dist.Normal()}, "further dicts"),
    ],
)
def test_what_is_no_hierarchy_is_refused(tree, message):
    with pytest.raises(ValueError, match=message):
        gdp.GibbsPosterior(gdp.losses.squared, tree)
