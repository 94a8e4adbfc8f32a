"""Per-example gradients, clipped: what noisy gradient descent adds up."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gibbs_dp.model.posterior import GibbsPosterior


def example_gradients(
    posterior: GibbsPosterior, theta: Float[Array, " dim"], data: PyTree, clip: float | None
) -> Float[Array, "n dim"]:
    """Gradient of each example's loss at ``theta``, shortened to norm ``clip``.

    Parameters
    ----------
    posterior
        With a per-example loss, on all of Euclidean space.
    theta
        Flat parameter.
    data
        Examples, leaves with leading axis ``n``.
    clip
        Largest norm; None leaves gradients as they are.
    """

    def one(z: PyTree) -> Float[Array, " dim"]:
        def value(u: Float[Array, " dim"]) -> Float[Array, ""]:
            return jnp.reshape(posterior.loss(posterior.constrain(u), z), ())  # type: ignore[misc]

        return jax.grad(value)(theta)

    gradients = jax.vmap(one)(data)
    if clip is None:
        return gradients
    norms = jnp.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * jnp.minimum(1.0, clip / jnp.maximum(norms, clip))


def prior_gradient(posterior: GibbsPosterior, theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Gradient of ``-log prior`` at ``theta``."""
    return -jax.grad(posterior.log_prior_unconstrained)(theta)
