"""k-means as a Gibbs posterior over centers."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro.distributions import constraints

from gibbs_dp.model import Domain, Flat, GibbsPosterior, losses, supports
from gibbs_dp.problems.base import Problem
from gibbs_dp.random import normal


@dataclass(frozen=True)
class Clusters:
    """Clusters side by side in the square ``[-1, 1]^2``.

    Each point is normal about the middle of a random one of ``num_clusters`` upright slabs, with
    standard deviation ``spread``; points outside the square are moved to its edge.
    """

    num_clusters: int
    spread: float

    def __call__(self, key: PRNGKeyArray, n: int) -> Float[Array, "n 2"]:
        """Return the points."""
        which_key, noise_key = jax.random.split(key)
        which = jax.random.randint(which_key, (n,), 0, self.num_clusters)
        middle = (2 * which + 1) / self.num_clusters - 1.0
        center = jnp.stack([middle, jnp.zeros(n)], axis=1)
        return jnp.clip(center + self.spread * normal(noise_key, (n, 2)), -1.0, 1.0)


def slabs(num_clusters: int) -> Flat:
    """Center ``k`` is uniform on the ``k``-th of equal upright slabs of ``[-1, 1]^2``."""
    edges = np.linspace(-1.0, 1.0, num_clusters + 1)
    ones = np.ones(num_clusters)
    low, high = np.stack([edges[:-1], -ones], axis=1), np.stack([edges[1:], ones], axis=1)
    return Flat(constraints.interval(jnp.asarray(low), jnp.asarray(high)), (num_clusters, 2))


def k_means(num_clusters: int = 2, spread: float = 0.15, is_boxed: bool = False) -> Problem:
    """Squared distance to the nearest center, every center uniform on the square ``[-1, 1]^2``.

    The loss ignores the order of the centers: the posterior has ``num_clusters!`` equal modes, at
    least. Single centers have no meaning then; risks, generalization error and on-average KL, which
    are functions of losses, do.

    Parameters
    ----------
    num_clusters
        Clusters in the data, and centers.
    spread
        Standard deviation of a cluster.
    is_boxed
        Center ``k`` stays in the ``k``-th of equal upright slabs, which leaves one of the equal
        modes.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.

    Raises
    ------
    ValueError
        If there are fewer than two clusters or the spread is not positive and finite.

    Examples
    --------
    >>> from gibbs_dp.privacy import pure_dp_epsilon
    >>> problem = k_means()
    >>> epsilon = pure_dp_epsilon(problem.posterior, 1.0, problem.n, problem.domain,
    ...                           adjacency="replace-one")
    >>> round(epsilon, 6)                                    # twice the largest loss, (2 sqrt 2)^2
    16.0
    """
    if num_clusters < 2:
        raise ValueError(f"num_clusters: must be at least 2, got {num_clusters}.")
    if not 0 < spread < float("inf"):
        raise ValueError(f"spread: must be positive and finite, got {spread:g}.")
    square = Flat(supports.box(-1.0, 1.0, (num_clusters, 2)))
    prior = slabs(num_clusters) if is_boxed else square
    return Problem(
        name="k-means",
        posterior=GibbsPosterior(losses.KMeans(num_clusters), prior),
        population=Clusters(num_clusters, spread),
        n=50,
        gammas=(0.1, 1.0, 10.0),
        domain=Domain(x_bound=2.0**0.5),
        description=f"{num_clusters} centers in a square; loss min_k |z - theta_k|^2.",
    )
