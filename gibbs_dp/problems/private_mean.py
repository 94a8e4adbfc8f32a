"""The private mean: Figure 2a of Wang, Lei & Fienberg (2016)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import GibbsPosterior
from gibbs_dp.problems.base import Problem, flat_prior
from gibbs_dp.random import truncated_normal

EXAMPLE_BOUND = 2.0


def draw(key: PRNGKeyArray, n: int) -> Float[Array, " n"]:
    """Draw standard normals truncated to [-2, 2]."""
    return truncated_normal(key, -EXAMPLE_BOUND, EXAMPLE_BOUND, (n,))


def distance_to_mean(theta: Float[Array, ""], z: Float[Array, " n"]) -> Float[Array, ""]:
    """Structured loss of the whole dataset: ``|mean(z) - theta|``."""
    return jnp.abs(jnp.mean(z) - theta)


def sensitivity(n: int) -> float:
    """Largest change of the loss when one example of [-2, 2] is replaced."""
    return 2 * EXAMPLE_BOUND / n


def private_mean(theta_bound: float | None = None) -> Problem:
    """Release of a mean: with a flat prior on the line, exactly the Laplace mechanism.

    Parameters
    ----------
    theta_bound
        Restrict theta to ``[-theta_bound, theta_bound]``. The normalizer then depends on the
        data, and the worst-case epsilon doubles.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.

    Examples
    --------
    >>> problem = private_mean()
    >>> problem.posterior.sensitivity(100)
    0.04
    """
    return Problem(
        name="private-mean",
        posterior=GibbsPosterior(
            total_loss=distance_to_mean,
            prior=flat_prior((), theta_bound),
            sensitivity=sensitivity,
            location_family=theta_bound is None,
        ),
        population=draw,
        n=100,
        gammas=(0.1, 1.0, 10.0, 100.0, 1000.0),
        description="Mean of normals truncated to [-2, 2]; loss |mean(z) - theta|.",
    )
