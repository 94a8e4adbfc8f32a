"""Bayesian logistic regression on simulated data."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import GibbsPosterior, losses
from gibbs_dp.problems.base import Problem, normal_prior
from gibbs_dp.random import bernoulli, normal

TRUE_NORM = 2.0


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
        logits = x.sum(axis=1) * (TRUE_NORM / self.dim**0.5)
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

    Raises
    ------
    ValueError
        If a dimension or scale is not positive.
    """
    return Problem(
        name="logistic-regression",
        posterior=GibbsPosterior(losses.logistic, normal_prior(dim, prior_scale)),
        population=LogisticModel(dim),
        n=200,
        gammas=(0.1, 1.0, 10.0),
        description="Gaussian features, labels of a logistic model with weights of norm 2.",
    )
