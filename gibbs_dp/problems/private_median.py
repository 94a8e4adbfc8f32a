"""The private median: the exponential mechanism on an interval."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import Domain, GibbsPosterior, losses
from gibbs_dp.problems.base import Problem, flat_prior
from gibbs_dp.random import truncated_normal

EXAMPLE_BOUND = 2.0


def draw(key: PRNGKeyArray, n: int) -> tuple[Float[Array, "n 1"], Float[Array, " n"]]:
    """Draw standard normals truncated to [-2, 2], as labels of examples whose feature is 1."""
    y = truncated_normal(key, -EXAMPLE_BOUND, EXAMPLE_BOUND, (n,))
    return jnp.ones((n, 1)), y


def private_median(theta_bound: float = 2.0) -> Problem:
    """Absolute loss ``|y - theta|`` with theta uniform on ``[-theta_bound, theta_bound]``.

    The exponential mechanism of McSherry & Talwar (2007) with a continuous score: every draw is
    ``4 gamma min(2, theta_bound)``-DP. Once ``gamma`` is so large that the posterior lies among a
    few examples, its density is a staircase that chains hardly cross; the report then warns.

    Parameters
    ----------
    theta_bound
        Largest absolute value of theta; examples lie in [-2, 2].

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.

    Examples
    --------
    >>> from gibbs_dp.privacy import pure_dp_epsilon
    >>> problem = private_median()
    >>> pure_dp_epsilon(problem.posterior, 1.0, problem.n, problem.domain,
    ...                 adjacency="replace-one")
    8.0
    """
    return Problem(
        name="private-median",
        posterior=GibbsPosterior(losses.absolute, flat_prior(1, theta_bound)),
        population=draw,
        n=100,
        gammas=(0.01, 0.1, 1.0),
        domain=Domain(x_bound=1.0, y_range=(-EXAMPLE_BOUND, EXAMPLE_BOUND)),
        description="Median of normals truncated to [-2, 2]; loss |y - theta|.",
    )
