"""The means of a Gaussian mixture: a posterior of several modes, one for every order of labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import GibbsPosterior
from gibbs_dp.problems.base import Problem
from gibbs_dp.random import normal, uniform


@dataclass(frozen=True)
class MixtureLoss:
    """``-log sum_k w_k N(z | theta_k, scale^2 I)`` for means ``theta [k, dim]``, in nats.

    Parameters
    ----------
    shares
        ``w_k``: positive, of sum 1.
    scale
        Standard deviation of every component.
    """

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
    """Normal examples about a random one of several means.

    Parameters
    ----------
    shares
        Probability of each component.
    separation
        Distance between neighbouring means, which lie on the first axis, symmetric about zero.
    dim
        Dimension of an example.
    scale
        Standard deviation about a mean.
    """

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
