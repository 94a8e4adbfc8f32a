"""Ridge regression on random features: a Gaussian posterior below and above interpolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model import GibbsPosterior, losses
from gibbs_dp.problems.base import Problem, normal_prior
from gibbs_dp.random import normal

Activation = Literal["tanh", "relu"]
INPUT_DIM = 10
# The features are part of the problem: the same for every dataset.
FEATURE_SEED = 0


@dataclass(frozen=True)
class RandomFeatures:
    """Features ``phi(x) = s(V x + b) / sqrt(p)`` of Gaussian ``x``; ``y`` is linear in ``x``.

    ``x`` has 10 standard normal coordinates, ``y`` their sum over ``sqrt(10)`` plus Gaussian
    noise; the entries of ``V`` and ``b`` are standard normals, drawn once.

    Parameters
    ----------
    num_features
        ``p``.
    activation
        ``s``.
    noise
        Standard deviation of the noise; the signal's is 1.
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
    (double descent); `gibbs_dp.exact.closed_form.linear_regression_replaced` has the
    exact on-average KL.

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

    Raises
    ------
    ValueError
        If a number is not positive and finite, or the activation is unknown.
    """
    if activation not in get_args(Activation):
        raise ValueError(
            f"activation: {activation!r} is not one of {', '.join(get_args(Activation))}."
        )
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
