"""k-means as a Gibbs posterior over centers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro.distributions import constraints

from gibbs_dp.model import Domain, Flat, GibbsPosterior, losses, supports
from gibbs_dp.problems.base import Problem
from gibbs_dp.random import normal, uniform


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


# The means of a Gaussian mixture: a posterior of several modes, one for every order of labels.


@dataclass(frozen=True)
class MixtureLoss:
    """``-log sum_k w_k N(z | theta_k, scale^2 I)`` for means ``theta [k, dim]``, in nats."""

    shares: tuple[float, ...]
    scale: float

    def __call__(self, theta: Float[Array, "k dim"], z: Float[Array, " dim"]) -> Float[Array, ""]:
        """Loss of one example."""
        return self.batch(theta, z[None])[0]

    def batch(
        self, theta: Float[Array, "k dim"], data: Float[Array, "n dim"]
    ) -> Float[Array, " n"]:
        """Losses of ``z [n, dim]``."""
        # Differences first: of squares, single precision loses what distinguishes near means.
        gap = (data - theta[:, None]) / self.scale
        log_share = np.log(np.asarray(self.shares))[:, None]
        log_scale = data.shape[1] * math.log(self.scale * math.sqrt(2 * math.pi))
        scores = jnp.asarray(log_share, gap.dtype) - 0.5 * jnp.sum(gap**2, axis=2)
        return log_scale - jax.nn.logsumexp(scores, axis=0)


@dataclass(frozen=True)
class Mixture:
    """Normal examples about a random one of several means, evenly spread along the first axis."""

    shares: tuple[float, ...]
    separation: float
    dim: int
    scale: float

    def __call__(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """Return the points."""
        which_key, noise_key = jax.random.split(key)
        ends = np.cumsum(self.shares)[:-1]
        which = jnp.sum(uniform(which_key, (n,))[:, None] > ends, axis=1)
        middle = self.separation * (which - (len(self.shares) - 1) / 2)
        return self.scale * normal(noise_key, (n, self.dim)).at[:, 0].add(middle / self.scale)


def mixture(
    num_components: int = 2,
    dim: int = 1,
    separation: float = 3.0,
    data_scale: float = 1.0,
    prior_scale: float = 3.0,
    shares: Sequence[float] | None = None,
) -> Problem:
    """Minus the log density of a Gaussian mixture with unknown means; ``gamma = 1`` is Bayesian.

    With equal shares the loss ignores the order of the means: the posterior has ``k!`` equal modes
    for ``k`` components. Single means have no meaning then; risks, generalization error and
    on-average KL, which are functions of losses, do. With unequal shares the modes differ in mass,
    by an amount that depends on the data.

    Parameters
    ----------
    num_components
        Components in the data, and means.
    dim
        Dimension of an example and of a mean.
    separation
        Distance between neighbouring true means.
    data_scale
        Known standard deviation of a component.
    prior_scale
        Standard deviation of the prior on every coordinate of a mean, finite: with a flat prior a
        component that no example belongs to could be anywhere.
    shares
        Known share of each component, positive, of sum 1. None: equal.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.

    Raises
    ------
    ValueError
        If there are fewer than two components, a number is not positive and finite, or the shares
        are not positive, not of sum 1 or not one a component.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> posterior, z = mixture().posterior, jnp.array([1.0])
    >>> one, other = (posterior.loss(jnp.array(t), z) for t in ([[-1.5], [2.0]], [[2.0], [-1.5]]))
    >>> bool(one == other)
    True
    """
    if num_components < 2:
        raise ValueError(f"num_components: must be at least 2, got {num_components}.")
    if dim < 1:
        raise ValueError(f"dim: must be at least 1, got {dim}.")
    numbers = {"separation": separation, "data_scale": data_scale, "prior_scale": prior_scale}
    for name, value in numbers.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name}: must be positive and finite, got {value:g}.")
    checked = _checked(shares, num_components)
    prior = dist.Normal(jnp.zeros((num_components, dim)), prior_scale)
    return Problem(
        name="mixture",
        posterior=GibbsPosterior(MixtureLoss(checked, data_scale), prior),
        population=Mixture(checked, separation, dim, data_scale),
        n=50,
        gammas=(0.1, 0.3, 1.0),
        description=f"Means of {num_components} Gaussian components; loss -log density.",
    )


def _checked(shares: Sequence[float] | None, num_components: int) -> tuple[float, ...]:
    if shares is None:
        return (1 / num_components,) * num_components
    given = tuple(float(share) for share in shares)
    if len(given) != num_components:
        raise ValueError(
            f"shares: {len(given)} for {num_components} components; give one for each."
        )
    if not all(0 < share < 1 for share in given) or abs(sum(given) - 1) > 1e-6:
        listed = ", ".join(f"{share:g}" for share in given)
        raise ValueError(f"shares: must be positive and sum to 1, got {listed}.")
    return given
