"""NumPyro models of posteriors that posteriordb has reference draws for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints


def anywhere(*shape: int) -> dist.ImproperUniform:
    """Flat on the real line."""
    return dist.ImproperUniform(constraints.real, (), shape)


def flat_scale() -> dist.ImproperUniform:
    """Flat on the positive numbers."""
    return dist.ImproperUniform(constraints.positive, (), ())


def half_student():
    """Half of Student's t with 3 degrees of freedom and scale 10."""
    return dist.FoldedDistribution(dist.StudentT(3, 0, 10))


# -- regressions --------------------------------------------------------------------------


def linear(x, y):
    """Flat priors."""
    beta = numpyro.sample("beta", anywhere(x.shape[1]))
    sigma = numpyro.sample("sigma", flat_scale())
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def linear_cauchy(x, y):
    """Flat coefficients, a half-Cauchy scale."""
    beta = numpyro.sample("beta", anywhere(x.shape[1]))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def linear_normal(x, y):
    """Regress under normal priors of scale 10."""
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(10))
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def temperatures(x, y, centre, widths):
    """Lay a line through summer temperatures, with a slope that the prior keeps small."""
    alpha = numpyro.sample("alpha", dist.Normal(centre, widths["alpha"]))
    beta = numpyro.sample("beta", dist.Normal(0, widths["beta"]))
    sigma = numpyro.sample("sigma", flat_scale())
    numpyro.sample("y", dist.Normal(alpha + beta * x, sigma), obs=y)


def prices(x, y):
    """Logarithms of the prices of diamonds, on centred columns."""
    b = numpyro.sample("b", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    intercept = numpyro.sample("Intercept", dist.StudentT(3, 8, 10))
    sigma = numpyro.sample("sigma", half_student())
    numpyro.sample("y", dist.Normal(intercept + x @ b, sigma), obs=y)


# -- other models -------------------------------------------------------------------------


def eight_schools(sigma, y):
    """Effects of coaching in eight schools, non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([8]).to_event(1))
    numpyro.sample("y", dist.Normal(mu + tau * z, sigma), obs=y)


def autoregression(lags, y):
    """Regress on what came before."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 10))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([lags.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(alpha + lags @ beta, sigma), obs=y)


def moving_average(y):
    """ARMA(1, 1); its errors follow from each other, so that a value has its place."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    phi = numpyro.sample("phi", dist.Normal(0, 2))
    theta = numpyro.sample("theta", dist.Normal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))

    def step(before, now):
        expected = mu + phi * before[0] + theta * before[1]
        return (now, now - expected), expected

    _, expected = jax.lax.scan(step, (mu, 0.0 * mu), y)
    numpyro.sample("y", dist.Normal(expected, sigma), obs=y)


def squared_exponential(x, rho, alpha):
    """Covariance of a smooth function."""
    return alpha**2 * jnp.exp(-0.5 * ((x[:, None] - x) / rho) ** 2)


def gaussian_process(x, y):
    """Observe a smooth function with noise of variance ``sigma``."""
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    covariance = squared_exponential(x, rho, alpha) + sigma * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(0.0, covariance), obs=y)


def smooth(x, rho, alpha, z):
    """Make a smooth function of standard normals.

    The reference adds a variance of 1e-10, which single precision does not see; 1e-4 changes a
    function by 0.01.
    """
    covariance = squared_exponential(x, rho, alpha) + 1e-4 * jnp.eye(len(x))
    return jnp.linalg.cholesky(covariance) @ z


def poisson_process(x, k):
    """Observe counts whose logarithmic rate is a smooth function."""
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([11]).to_event(1))
    numpyro.sample("k", dist.Poisson(jnp.exp(smooth(x, rho, alpha, z))), obs=k)


def mixture(y):
    """Two normal laws; the prior of ordered means is a site observed at zero."""
    mu = numpyro.sample("mu", dist.ImproperUniform(constraints.ordered_vector, (), (2,)))
    numpyro.sample("prior of mu", dist.Normal(mu, 2).to_event(1), obs=jnp.zeros(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    theta = numpyro.sample("theta", dist.Beta(5, 5))
    weights = dist.Categorical(jnp.stack([theta, 1 - theta]))
    numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(mu, sigma)), obs=y)
