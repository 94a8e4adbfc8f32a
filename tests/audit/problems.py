"""Small problems with known answers that several audit tests share.

Cached: JAX recognizes the same posterior and population and compiles their sweep once.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import gibbs_dp as gdp

# Settings of audits that test anything but information and attackers: they compile in less time.
QUICK = {"num_information": 0, "attack": False, "progress": False}


@cache
def gaussian_mean(dim, prior_scale=None):
    """Loss |theta - z|^2 / 2, standard normal examples, flat or Gaussian prior."""
    prior = (
        gdp.Flat(gdp.supports.real(dim))
        if prior_scale is None
        else dist.Normal(0.0, prior_scale).expand([dim])
    )
    return gdp.GibbsPosterior(gdp.losses.half_squared_distance, prior)


@cache
def gaussian_examples(dim):
    return lambda key, n: jax.random.normal(key, (n, dim))


def regression_examples(key, n):
    """Figure 2b: x and noise uniform on [-1, 1], y = x + noise."""
    x_key, noise_key = jax.random.split(key)
    x = jax.random.uniform(x_key, (n,), minval=-1.0, maxval=1.0)
    return x[:, None], x + jax.random.uniform(noise_key, (n,), minval=-1.0, maxval=1.0)


@cache
def linear_regression(theta_bound=None):
    support = gdp.supports.real(1)
    if theta_bound is not None:
        support = gdp.supports.box(-theta_bound, theta_bound, 1)
    return gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(support))


@cache
def private_mean():
    """Figure 2a: the Laplace mechanism as a Gibbs posterior of a structured loss."""
    return gdp.GibbsPosterior(
        total_loss=lambda theta, z: jnp.abs(jnp.mean(z) - theta),
        prior=gdp.Flat(gdp.supports.real()),
        sensitivity=lambda n: 4.0 / n,
        location_family=True,
    )


@cache
def private_median():
    """A median on [-2, 2] by the exponential mechanism, in continuous form."""
    support = gdp.supports.box(-2.0, 2.0)
    return gdp.GibbsPosterior(lambda theta, z: jnp.abs(theta - z), gdp.Flat(support))


def truncated_normals(key, n):
    return jax.random.truncated_normal(key, -2.0, 2.0, (n,))


def logistic_examples(key, n, dim=3, slope=1.0):
    x_key, y_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, dim))
    y = jax.random.uniform(y_key, (n,)) < jax.nn.sigmoid(slope * x.sum(axis=1))
    return x, y.astype(x.dtype)
