"""The potential from a quadratic loss's statistics is the one over its examples."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.sampling.target import Target, Whitening

NORMAL = dist.Normal(0.0, 1.0)
CASES = {
    "box": (gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 2)), (30, 2)),
    "as many parameters as examples": (gdp.losses.squared, NORMAL.expand([5]), (5, 5)),
    "simplex": (gdp.losses.squared, gdp.Flat(gdp.supports.simplex(3)), (30, 3)),
    "mean": (gdp.losses.half_squared_distance, NORMAL.expand([3]), (9, 3)),
}


@pytest.mark.trust(but=["float32-box", "float64-mean"])
@pytest.mark.parametrize("case", CASES)
def test_statistics_say_what_the_examples_say(case, precision):
    loss, prior, shape = CASES[case]
    posterior = gdp.GibbsPosterior(loss, prior)
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], shape)
    data = x if case == "mean" else (x, jax.random.normal(keys[1], shape[:1]))
    target, center = Target(posterior, data, jnp.asarray(0.7)), jnp.full(posterior.dim, 0.2)
    scale = jnp.tril(jnp.full((posterior.dim, posterior.dim), 0.3)) + jnp.eye(posterior.dim)
    points = center + jax.random.normal(keys[2], (16, posterior.dim))

    def plain(u):
        return target.relative_to(target.terms(center))(u)

    def quick(u):
        return target.around(center, target.terms(center), Whitening(center, scale))(u)

    @jax.jit  # one program, not one an operation
    def values_and_gradients(points):
        return [jax.vmap(jax.value_and_grad(f))(points) for f in (plain, quick)]

    for wanted, found in zip(*values_and_gradients(points), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=3e3 * jnp.finfo(precision).eps, atol=1e-4)
    # It is the cheap form: no intermediate result has an axis of examples.
    cheap = target.around(center, target.terms(center), Whitening(center, scale))
    sizes = [v.aval.shape for eqn in jax.make_jaxpr(cheap)(center).eqns for v in eqn.outvars]
    assert (shape[0] in {n for size in sizes for n in size}) == (case.startswith("as many"))


def test_other_losses_and_short_tables_keep_their_examples():
    wide = gdp.GibbsPosterior(gdp.losses.squared, NORMAL.expand([4]))
    data = (jnp.ones((3, 4)), jnp.ones(3))
    assert not gdp.GibbsPosterior(gdp.losses.logistic, NORMAL.expand([4])).is_quadratic
    target = Target(wide, data, jnp.asarray(1.0))
    center = jnp.zeros(4)
    here = Whitening(center, jnp.eye(4))
    found = jax.make_jaxpr(target.around(center, target.terms(center), here))(center)
    assert any(v.aval.shape == (3,) for eqn in found.eqns for v in eqn.outvars)
