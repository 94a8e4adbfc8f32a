"""Gradients that Langevin chains follow: full, clipped per example, or of a minibatch."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model.posterior import GibbsPosterior


class Batch(NamedTuple):
    """Weighted examples whose weighted sum estimates the sum over all examples without bias."""

    data: PyTree
    weight: Float[Array, " batch"]


def everything(data: PyTree, n: int, dtype: jnp.dtype) -> Batch:
    """Take all examples, once each."""
    return Batch(data, jnp.ones((n,), dtype))


def poisson_batch(key: PRNGKeyArray, data: PyTree, n: int, rate: float, dtype: jnp.dtype) -> Batch:
    """Each example with probability ``rate``, weighted by its inverse; the others weigh nothing."""
    is_in = jax.random.bernoulli(key, rate, (n,))
    return Batch(data, is_in.astype(dtype) / rate)


def fixed_batch(key: PRNGKeyArray, data: PyTree, n: int, size: int, dtype: jnp.dtype) -> Batch:
    """Draw ``size`` examples with replacement."""
    rows = jax.random.randint(key, (size,), 0, n)
    chosen = jax.tree.map(lambda a: a[rows], data)
    return Batch(chosen, jnp.full((size,), n / size, dtype))


def example_gradients(
    posterior: GibbsPosterior, theta: Float[Array, " dim"], data: PyTree, clip: float | None
) -> Float[Array, "n dim"]:
    """Gradient of each example's loss at ``theta``, shortened to norm ``clip``.

    Parameters
    ----------
    posterior
        With a per-example loss.
    theta
        Flat unconstrained parameter.
    data
        Examples, leaves with leading axis ``n``.
    clip
        Largest norm; None leaves gradients as they are.

    Returns
    -------
    Float[Array, "n dim"]
        A row an example.
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


def loss_gradient(
    posterior: GibbsPosterior, theta: Float[Array, " dim"], batch: Batch, clip: float | None
) -> Float[Array, " dim"]:
    """Weighted sum of the batch's gradients; one backward pass where nothing is clipped."""
    if clip is not None:
        each = example_gradients(posterior, theta, batch.data, clip)
        weight = batch.weight[:, None]
        # Examples outside the batch leave no trace, whatever their gradient.
        return jnp.sum(jnp.where(weight > 0, each, 0.0) * weight, axis=0)

    def total(u: Float[Array, " dim"]) -> Float[Array, ""]:
        return matmul(batch.weight, posterior.losses(posterior.constrain(u), batch.data))

    return jax.grad(total)(theta)


def prior_gradient(posterior: GibbsPosterior, theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Gradient of ``-log prior`` at ``theta``."""
    return -jax.grad(posterior.log_prior_unconstrained)(theta)
