"""Posteriors with two hills, which their data place: one program serves all of them."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import gibbs_dp as gdp


def two_hills(theta, z):
    """Minus log density of a mixture of Gaussians; flat prior: its mass is 1."""
    dim = theta.shape[0]
    first = -0.5 * jnp.sum((theta - z["first"]) ** 2) / z["width"] ** 2
    second = -0.5 * jnp.sum((theta - z["second"]) ** 2)
    first += jnp.log(z["share"]) - dim * jnp.log(z["width"])
    return -jnp.logaddexp(first, jnp.log1p(-z["share"]) + second)


def hills(dim, first, second, share, width=1.0, shift=0.0):
    """Rows of a table: one hill at ``first`` on the first axis, one of sd 1 at ``second``."""
    noise = np.random.default_rng(0).normal(size=(64, dim)) * shift
    ones, axis = np.ones(64), np.eye(dim)[0]
    return {
        "first": noise + first * axis,
        "second": noise + second * axis,
        "share": share * ones,
        "width": width * ones,
    }


FLAT = {d: gdp.GibbsPosterior(two_hills, gdp.Flat(gdp.supports.real(d))) for d in (1, 5)}
NORMAL = gdp.GibbsPosterior(two_hills, dist.Normal(jnp.zeros(5), 10.0))
