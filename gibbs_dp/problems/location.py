"""The mean of a Gaussian, for which everything has a closed form."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import Domain, GibbsPosterior, losses
from gibbs_dp.problems.base import Problem, flat_prior, normal_prior
from gibbs_dp.random import normal, truncated_normal


@dataclass(frozen=True)
class Gaussian:
    """Draws ``n`` points of ``N(0, scale^2 I)`` in ``dim`` dimensions."""

    dim: int
    scale: float

    def __call__(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """Return the points."""
        return self.scale * normal(key, (n, self.dim))


def gaussian_mean(
    dim: int = 1, prior_scale: float | None = None, data_scale: float = 1.0
) -> Problem:
    """Half squared distance to Gaussian examples.

    With ``P = n gamma + 1 / prior_scale^2`` the on-average KL is exactly
    ``dim gamma^2 data_scale^2 / P``.

    Parameters
    ----------
    dim
        Dimension of an example.
    prior_scale
        Standard deviation of the Gaussian prior; None (or infinity) for a flat one.
    data_scale
        Standard deviation of an example's coordinates.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.
    """
    if not (data_scale > 0 and np.isfinite(data_scale)):
        raise ValueError(f"data_scale: must be positive and finite, got {data_scale:g}.")
    return Problem(
        name="gaussian-mean",
        posterior=GibbsPosterior(losses.half_squared_distance, normal_prior(dim, prior_scale)),
        population=Gaussian(dim, data_scale),
        n=100,
        gammas=(0.1, 1.0, 10.0),
        description="Mean of N(0, data_scale^2 I); loss |z - theta|^2 / 2.",
    )


# The private mean: Figure 2a of Wang, Lei & Fienberg (2016).


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


# The private median: the exponential mechanism on an interval.


def draw_labels(key: PRNGKeyArray, n: int) -> tuple[Float[Array, "n 1"], Float[Array, " n"]]:
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
        population=draw_labels,
        n=100,
        gammas=(0.01, 0.1, 1.0),
        domain=Domain(x_bound=1.0, y_range=(-EXAMPLE_BOUND, EXAMPLE_BOUND)),
        description="Median of normals truncated to [-2, 2]; loss |y - theta|.",
    )
