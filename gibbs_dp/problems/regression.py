"""One-dimensional linear regression: Figure 2b of Wang, Lei & Fienberg (2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import Domain, GibbsPosterior, losses
from gibbs_dp.model.check import positive_count
from gibbs_dp.problems.base import Problem, flat_prior, normal_prior
from gibbs_dp.random import bernoulli, normal, uniform


def draw(key: PRNGKeyArray, n: int) -> tuple[Float[Array, "n 1"], Float[Array, " n"]]:
    """``x`` and noise uniform on (-1, 1), ``y = x + noise``."""
    x, noise = uniform(key, (2, n), minval=-1.0, maxval=1.0)
    return x[:, None], x + noise


def linear_regression(theta_bound: float | None = None) -> Problem:
    """Squared loss ``(y - x theta)^2`` with a flat prior; the best theta is 1.

    Parameters
    ----------
    theta_bound
        Restrict theta to ``[-theta_bound, theta_bound]``. The loss is then bounded on the
        declared domain (``|x| <= 1``, ``|y| <= 2``) and the worst-case epsilon finite.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.

    Examples
    --------
    >>> from gibbs_dp.privacy import pure_dp_epsilon
    >>> problem = linear_regression(theta_bound=2.0)
    >>> pure_dp_epsilon(problem.posterior, 1.0, problem.n, problem.domain,
    ...                 adjacency="replace-one")
    32.0
    """
    return Problem(
        name="linear-regression",
        posterior=GibbsPosterior(losses.squared, flat_prior(1, theta_bound)),
        population=draw,
        n=100,
        gammas=(0.1, 1.0, 10.0, 100.0),
        domain=Domain(x_bound=1.0, y_range=(-2.0, 2.0)),
        description="y = x + noise, both uniform on (-1, 1); squared loss, one weight.",
    )


# Bayesian logistic regression on simulated data.


TRUE_LOGIT_NORM = 2.0


@dataclass(frozen=True)
class LogisticModel:
    """Standard normal features; labels follow equal weights of norm 2."""

    dim: int

    def __call__(
        self, key: PRNGKeyArray, n: int
    ) -> tuple[Float[Array, "n dim"], Float[Array, " n"]]:
        """Return ``(x [n, dim], y [n])``."""
        x_key, y_key = jax.random.split(key)
        x = normal(x_key, (n, self.dim))
        logits = x.sum(axis=1) * (TRUE_LOGIT_NORM / self.dim**0.5)
        return x, bernoulli(y_key, jax.nn.sigmoid(logits)).astype(jnp.float32)


def logistic_regression(dim: int = 10, prior_scale: float | None = 1.0) -> Problem:
    """Logistic loss with a Gaussian prior: ``gamma = 1`` is the Bayesian posterior.

    Parameters
    ----------
    dim
        Number of features.
    prior_scale
        Standard deviation of the prior on each weight. None or infinity for a flat prior, which
        is improper on datasets that a hyperplane separates.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.
    """
    return Problem(
        name="logistic-regression",
        posterior=GibbsPosterior(losses.logistic, normal_prior(dim, prior_scale)),
        population=LogisticModel(dim),
        n=200,
        gammas=(0.1, 1.0, 10.0),
        description="Gaussian features, labels of a logistic model with weights of norm 2.",
    )


# Poisson regression on simulated counts.


TRUE_RATE_NORM = 1.0


@dataclass(frozen=True)
class PoissonModel:
    """An intercept and standard normal features; log rates have equal slopes."""

    dim: int

    def __call__(
        self, key: PRNGKeyArray, n: int
    ) -> tuple[Float[Array, "n columns"], Float[Array, " n"]]:
        """Return ``(x [n, dim + 1], y [n])``, the first column of ones."""
        x_key, y_key = jax.random.split(key)
        x = normal(x_key, (n, self.dim))
        rate = jnp.exp(1.0 + x.sum(axis=1) * (TRUE_RATE_NORM / self.dim**0.5))
        counts = jax.random.poisson(y_key, rate).astype(x.dtype)
        return jnp.concatenate([jnp.ones((n, 1)), x], axis=1), counts


def poisson_regression(dim: int = 5, prior_scale: float | None = 1.0) -> Problem:
    """Poisson loss with a Gaussian prior: ``gamma = 1`` is the Bayesian posterior.

    Parameters
    ----------
    dim
        Number of features besides the intercept.
    prior_scale
        Standard deviation of the prior on each weight; None or infinity for a flat one.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.
    """
    if dim < 1:
        raise ValueError(f"dim: must be at least 1, got {dim}.")
    return Problem(
        name="poisson-regression",
        posterior=GibbsPosterior(losses.poisson, normal_prior(dim + 1, prior_scale)),
        population=PoissonModel(dim),
        n=100,
        gammas=(0.1, 1.0, 10.0),
        description="Gaussian features, counts of a log-linear Poisson model with mean exp(1.5).",
    )


# Ridge regression on random features: a Gaussian posterior below and above interpolation.


Activation = Literal["tanh", "relu"]
INPUT_DIM = 10
# The features are part of the problem: the same for every dataset.
FEATURE_SEED = 0


@dataclass(frozen=True)
class RandomFeatures:
    """Features ``phi(x) = s(V x + b) / sqrt(p)`` of Gaussian ``x``; ``y`` is linear in ``x``.

    ``x`` has 10 standard normal coordinates, ``y`` their sum over ``sqrt(10)`` plus Gaussian
    noise; the entries of ``V`` and ``b`` are standard normals, drawn once.
    """

    num_features: int
    activation: Activation
    noise: float

    def __call__(self, key: PRNGKeyArray, n: int) -> tuple[Float[Array, "n p"], Float[Array, " n"]]:
        """Return ``(phi(x) [n, p], y [n])``."""
        x_key, noise_key = jax.random.split(key)
        x = normal(x_key, (n, INPUT_DIM))
        y = x.sum(axis=1) / INPUT_DIM**0.5 + self.noise * normal(noise_key, (n,))
        # Always in single precision: in double, other features would be drawn.
        shape = (INPUT_DIM + 1, self.num_features)
        mixed = jax.random.normal(jax.random.key(FEATURE_SEED), shape, jnp.float32).astype(x.dtype)
        hidden = jnp.matmul(x, mixed[1:], precision="highest") + mixed[0]
        bend = jnp.tanh if self.activation == "tanh" else jax.nn.relu
        return bend(hidden) / self.num_features**0.5, y


def random_features(
    num_features: int = 10,
    activation: Activation = "tanh",
    prior_scale: float = 2.0,
    noise: float = 1.0,
) -> Problem:
    """Squared loss with a Gaussian prior; the posterior is Gaussian for every dataset.

    For ``gamma`` well above ``1 / prior_scale^2`` the risk peaks at ``num_features`` near ``n``
    (double descent); ``linear_regression_replaced`` in `gibbs_dp.papers.on_average_kl.closed_forms`
    has the exact on-average KL.

    Parameters
    ----------
    num_features
        Number of features, below or above ``n``.
    activation
        "tanh" or "relu".
    prior_scale
        Standard deviation of the prior on each weight, finite: with more features than examples
        a flat prior has no posterior.
    noise
        Standard deviation of the noise in ``y``; the signal's is 1.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.
    """
    if activation not in get_args(Activation):
        raise ValueError(
            f"activation: {activation!r} is not one of {', '.join(get_args(Activation))}."
        )
    num_features = positive_count("num_features", num_features)
    for name, value in (("prior_scale", prior_scale), ("noise", noise)):
        if not 0 < value < float("inf"):
            raise ValueError(f"{name}: must be positive and finite, got {value:g}.")
    return Problem(
        name="random-features",
        posterior=GibbsPosterior(losses.squared, normal_prior(num_features, prior_scale)),
        population=RandomFeatures(num_features, activation, noise),
        n=20,
        gammas=(0.1, 1.0, 10.0),
        description=f"Ridge regression on {num_features} random {activation} features.",
    )
