"""Poisson regression on simulated counts."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import GibbsPosterior, losses
from gibbs_dp.problems.base import Problem, normal_prior
from gibbs_dp.random import normal

TRUE_NORM = 1.0


@dataclass(frozen=True)
class PoissonModel:
    """An intercept and standard normal features; log rates have equal slopes.

    The slopes have norm 1 and the intercept is 1: rates have mean ``exp(1.5)``.
    """

    dim: int

    def __call__(
        self, key: PRNGKeyArray, n: int
    ) -> tuple[Float[Array, "n columns"], Float[Array, " n"]]:
        """Return ``(x [n, dim + 1], y [n])``, the first column of ones."""
        x_key, y_key = jax.random.split(key)
        x = normal(x_key, (n, self.dim))
        rate = jnp.exp(1.0 + x.sum(axis=1) * (TRUE_NORM / self.dim**0.5))
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

    Raises
    ------
    ValueError
        If a dimension or scale is not positive.
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
