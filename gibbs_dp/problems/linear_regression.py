"""One-dimensional linear regression: Figure 2b of Wang, Lei & Fienberg (2016)."""

from __future__ import annotations

from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import Domain, GibbsPosterior, losses
from gibbs_dp.problems.base import Problem, flat_prior
from gibbs_dp.random import uniform


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
