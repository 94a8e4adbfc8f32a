"""Models that posteriors are calibrated on: a prior, data given a parameter, and a loss.

``loss = -log likelihood / GAMMA`` sampled at ``GAMMA`` is the Bayesian posterior only if gamma
multiplies the loss and not the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy import special

import gibbs_dp as gdp

GAMMA = 2.0


@dataclass(frozen=True)
class Model:
    """A Bayesian model.

    ``prior``: what `gibbs_dp.GibbsPosterior` takes. ``draw(key)``: a parameter from it, by other
    means than the library's bijections. ``data(key, theta)``: ``n`` examples. ``log_likelihood``:
    of a parameter and one example.
    """

    prior: Any
    draw: Callable[[Any], Any]
    data: Callable[[Any, Any], Any]
    log_likelihood: Callable[[Any, Any], Any]

    def loss(self, theta, z):
        """Minus the log-likelihood, over ``GAMMA``."""
        return -self.log_likelihood(theta, z) / GAMMA


def of_distribution(prior):
    """Prior and how to draw from it."""
    return {"prior": prior, "draw": prior.sample}


def designs(key, n, dim):
    """Correlated features."""
    x = jax.random.normal(key, (n, dim))
    return x.at[:, 1].set(0.8 * x[:, 0] + 0.6 * x[:, 1])


def regression(response, log_likelihood, n, dim=3, prior=None):
    """``y`` given ``x`` through a linear predictor."""

    def data(key, theta):
        x_key, y_key = jax.random.split(key)
        x = designs(x_key, n, dim)
        return x, response(y_key, x @ theta)

    return Model(
        **(prior or of_distribution(dist.Normal(jnp.zeros(dim), 1.0).to_event(1))),
        data=data,
        log_likelihood=lambda theta, z: log_likelihood(z[1], z[0] @ theta),
    )


def location(noise, prior, n):
    """Return a model of a number with noise."""
    return Model(
        **of_distribution(prior),
        data=lambda key, theta: theta + noise.sample(key, (n,)),
        log_likelihood=lambda theta, z: noise.log_prob(z - theta),
    )


def ball_prior(dim):
    """Flat on the unit ball."""

    def draw(key):
        first, second = jax.random.split(key)
        way = jax.random.normal(first, (dim,))
        return jax.random.uniform(second) ** (1 / dim) * way / jnp.linalg.norm(way)

    return {"prior": gdp.Flat(gdp.supports.l2_ball(dim, 1.0)), "draw": draw}


def scale_of_noise():
    """Return one of a mean and a standard deviation."""
    priors = {"mean": dist.Normal(0.0, 2.0), "scale": dist.HalfNormal(1.0)}

    def draw(key):
        return {k: d.sample(jax.random.fold_in(key, i)) for i, (k, d) in enumerate(priors.items())}

    return Model(
        priors,
        draw,
        lambda key, t: t["mean"] + t["scale"] * jax.random.normal(key, (8,)),
        lambda t, z: dist.Normal(t["mean"], t["scale"]).log_prob(z),
    )


def groups():
    """Six groups whose means have a common law: every example is one number of each group."""
    prior = {
        "centre": dist.Normal(0.0, 1.0),
        "spread": dist.HalfNormal(1.0),
        "means": lambda t: dist.Normal(t["centre"], t["spread"]).expand((6,)).to_event(1),
    }

    def draw(key):
        keys = jax.random.split(key, 3)
        centre, spread = jax.random.normal(keys[0]), jnp.abs(jax.random.normal(keys[1]))
        return {
            "centre": centre,
            "spread": spread,
            "means": centre + spread * jax.random.normal(keys[2], (6,)),
        }

    return Model(
        prior,
        draw,
        lambda key, t: t["means"] + jax.random.normal(key, (4, 6)),
        lambda t, z: dist.Normal(t["means"], 1.0).log_prob(z).sum(),
    )


def groups_apart():
    """Take the same hierarchy by how many spreads each group is from the centre."""
    whole = groups()
    prior = {k: whole.prior[k] for k in ("centre", "spread")}
    prior["steps"] = dist.Normal(jnp.zeros(6), 1.0).to_event(1)

    def draw(key):
        first, second = jax.random.split(key)
        own = {k: v for k, v in whole.draw(first).items() if k != "means"}
        return own | {"steps": jax.random.normal(second, (6,))}

    def with_means(t):
        return {"means": t["centre"] + t["spread"] * t["steps"]}

    return Model(
        prior,
        draw,
        lambda key, t: whole.data(key, with_means(t)),
        lambda t, z: whole.log_likelihood(with_means(t), z),
    )


def shares():
    """Shares of four kinds, examples one-hot."""
    prior = dist.Dirichlet(jnp.asarray([2.0, 1.0, 1.5, 0.7]))
    return Model(
        **of_distribution(prior),
        data=lambda key, t: jax.nn.one_hot(jax.random.categorical(key, jnp.log(t), shape=(10,)), 4),
        log_likelihood=lambda t, z: jnp.sum(special.xlogy(z, t)),
    )


def two_hills():
    """Only the size of a number is seen: two modes, whose signs nothing tells apart."""
    return Model(
        **of_distribution(dist.Normal(0.0, 2.0)),
        data=lambda key, t: jnp.abs(t) + jax.random.normal(key, (5,)),
        log_likelihood=lambda t, z: dist.Normal(jnp.abs(t), 1.0).log_prob(z),
    )


def autoregression():
    """Lag and value of a series started anew: a coefficient in (-1, 1)."""

    def data(key, theta):
        keys = jax.random.split(key)
        before = jax.random.normal(keys[0], (12,))
        return before, theta * before + 0.5 * jax.random.normal(keys[1], (12,))

    return Model(
        **of_distribution(dist.Uniform(-1.0, 1.0)),
        data=data,
        log_likelihood=lambda t, z: dist.Normal(t * z[0], 0.5).log_prob(z[1]),
    )


def logistic_response(key, logits):
    """Labels -1 and 1."""
    return jnp.where(jax.random.bernoulli(key, jax.nn.sigmoid(logits)), 1.0, -1.0)


def logistic(y, logits):
    """Log-likelihood of a label."""
    return -jnp.logaddexp(0.0, -y * logits)


def poisson(y, log_rate):
    """Log-likelihood of a count; rates beyond e^8 are e^8, as they are where counts are drawn."""
    bounded = jnp.clip(log_rate, -8, 8)
    return y * bounded - jnp.exp(bounded) - special.gammaln(y + 1)


def rate():
    """Return one of the rate of exponential waits."""
    return Model(
        **of_distribution(dist.Gamma(2.0, 2.0)),
        data=lambda key, t: jax.random.exponential(key, (5,)) / t,
        log_likelihood=lambda t, z: jnp.log(t) - t * z,
    )


def share():
    """Return one of a probability, with a prior that favours the ends."""
    return Model(
        **of_distribution(dist.Beta(0.8, 1.2)),
        data=lambda key, t: jax.random.bernoulli(key, t, (10,)).astype(float),
        log_likelihood=lambda t, z: special.xlogy(z, t) + special.xlog1py(1 - z, -t),
    )


MODELS = {
    "normal mean": location(dist.Normal(0.0, 1.0), dist.Normal(0.0, 2.0), 6),
    "Student t3 location": location(dist.StudentT(3.0, 0.0, 1.0), dist.Normal(0.0, 5.0), 6),
    "Laplace location": location(dist.Laplace(0.0, 1.0), dist.Normal(0.0, 2.0), 6),
    "mean and scale": scale_of_noise(),
    "linear regression": regression(
        lambda key, mean: mean + jax.random.normal(key, mean.shape),
        lambda y, mean: dist.Normal(mean, 1.0).log_prob(y),
        10,
    ),
    "logistic regression": regression(logistic_response, logistic, 20),
    "logistic regression in a ball": regression(logistic_response, logistic, 20, 3, ball_prior(3)),
    "Poisson regression": regression(
        lambda key, m: jax.random.poisson(key, jnp.exp(jnp.clip(m, -8, 8))).astype(float),
        poisson,
        10,
        2,
        of_distribution(dist.Normal(jnp.zeros(2), 0.5).to_event(1)),
    ),
    "exponential rate": rate(),
    "share": share(),
    "shares of four": shares(),
    "autoregression": autoregression(),
    "hierarchy of six": groups(),
    "hierarchy of six, non-centred": groups_apart(),
    "two hills": two_hills(),
}
