"""Gradients that Langevin chains follow: full, clipped per example, or of a minibatch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.devices import is_accelerator, target_platform
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.noise import integers

# Batches of examples.


class Batch(NamedTuple):
    """Weighted examples whose weighted sum estimates the sum over all examples without bias."""

    data: PyTree
    weight: Float[Array, " batch"]


def everything(data: PyTree, n: int, dtype: jnp.dtype) -> Batch:
    """Take all examples, once each."""
    return Batch(data, jnp.ones((n,), dtype))


def poisson_batch(key: PRNGKeyArray, data: PyTree, n: int, rate: float, dtype: jnp.dtype) -> Batch:
    """Each example with probability ``rate``, weighted by its inverse; the others weigh nothing."""
    # In mode "low" no rate is below 2^-23, whatever was asked and is accounted for.
    is_in = jax.random.bernoulli(key, float(rate), (n,), mode="high")
    return Batch(data, is_in.astype(dtype) / rate)


def fixed_batch(key: PRNGKeyArray, data: PyTree, n: int, size: int, dtype: jnp.dtype) -> Batch:
    """Draw ``size`` examples with replacement."""
    rows = integers(key, size, n)
    chosen = jax.tree.map(lambda a: a[rows], data)
    return Batch(chosen, jnp.full((size,), n / size, dtype))


# The sum over a batch, part by part.

# Numbers of examples' gradients that a step holds at once, on CPUs and on accelerators; fewer than
# the least are not worth a loop.
MOST_NUMBERS, MOST_NUMBERS_OF_A_GPU, LEAST_NUMBERS = 2**18, 2**26, 2**16
# Log of one over the probability that a Poisson sample is larger than what steps are made for.
RARELY = math.log(1e9)


class Parts(NamedTuple):
    """How the gradients of a batch are summed."""

    size: int  # rows at once
    # Rows that are looked at, in the batch or not, so that the time tells nothing of a sample.
    least: int


def parts_of(n: int, dim: int, clip: float | None, rate: float | None = None) -> Parts:
    """Parts of ``n`` rows, or of a Poisson sample of them; one where no loop is worth it."""
    if clip is None and rate is None:  # one backward pass serves all
        return Parts(n, n)
    most = MOST_NUMBERS_OF_A_GPU if is_accelerator(target_platform()) else MOST_NUMBERS
    rate = rate or 1.0
    mean = rate * n
    reach = math.sqrt(2 * mean * (1 - rate) * RARELY) + 2 / 3 * RARELY  # Bernstein's inequality
    least = min(n, math.ceil(mean + reach))
    size = min(least, max(1, most // dim))
    return Parts(size, least) if n * dim > LEAST_NUMBERS and size < n else Parts(n, n)


def in_parts(
    of: Callable[[Batch], Float[Array, " dim"]], batch: Batch, parts: Parts
) -> Float[Array, " dim"]:
    """Sum over a batch part by part, without rows that weigh nothing.

    So that a small sample of many examples costs what it may hold, and all of it is summed
    whatever its size.
    """
    n, size = batch.weight.shape[0], parts.size
    if size >= n:
        return of(batch)
    upto = jnp.cumsum(batch.weight > 0)  # rows in it, up to each
    wanted = jnp.maximum(upto[-1], parts.least)

    def add(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        done, total = carry
        numbers = done + 1 + jnp.arange(size)
        rows = jnp.minimum(jnp.searchsorted(upto, numbers), n - 1)
        weight = jnp.where(numbers <= upto[-1], batch.weight[rows], 0.0)
        part = Batch(jax.tree.map(lambda a: a[rows], batch.data), weight)
        return done + size, total + of(part)

    shape = jax.eval_shape(of, batch)
    begin = jnp.zeros((), upto.dtype), jnp.zeros(shape.shape, shape.dtype)
    return jax.lax.while_loop(lambda carry: carry[0] < wanted, add, begin)[1]


# What is summed.

ClipBy = Literal["example", "array"]


def example_gradients(
    posterior: GibbsPosterior,
    theta: Float[Array, " dim"],
    data: PyTree,
    clip: float | None,
    clip_by: ClipBy = "example",
) -> Float[Array, "n dim"]:
    """Gradient of each example's loss at ``theta``, shortened to norm ``clip``.

    Shortened, one that is not finite is zero. By array, each of the parameter's ``L`` arrays has
    norm ``clip / sqrt(L)`` at most.
    """

    def one(z: PyTree) -> Float[Array, " dim"]:
        def value(u: Float[Array, " dim"]) -> Float[Array, ""]:
            return jnp.reshape(posterior.loss(posterior.constrain(u), z), ())  # type: ignore[misc]

        return jax.grad(value)(theta)

    gradients = jax.vmap(one)(data)
    if clip is None:
        return gradients
    if clip_by == "array":
        parts = [part.reshape(len(part), -1) for part in jax.vmap(posterior.split)(gradients)]
        limit = clip / math.sqrt(len(parts))
        return jnp.concatenate([_shortened(part, limit) for part in parts], axis=1)
    return _shortened(gradients, clip)


def _shortened(gradients: Float[Array, "n dim"], clip: float) -> Float[Array, "n dim"]:
    norms = jnp.linalg.norm(gradients, axis=1, keepdims=True)
    shortened = gradients * jnp.minimum(1.0, clip / jnp.maximum(norms, clip))
    # One example must not be able to end a private chain: that would tell of it.
    return jnp.where(jnp.isfinite(norms), shortened, 0.0)


def loss_gradient(
    posterior: GibbsPosterior,
    theta: Float[Array, " dim"],
    batch: Batch,
    clip: float | None,
    clip_by: ClipBy = "example",
) -> Float[Array, " dim"]:
    """Weighted sum of the batch's gradients; one backward pass where nothing is clipped."""
    if clip is not None:
        each = example_gradients(posterior, theta, batch.data, clip, clip_by)
        weight = batch.weight[:, None]
        # Examples outside the batch leave no trace, whatever their gradient.
        return jnp.sum(jnp.where(weight > 0, each, 0.0) * weight, axis=0)

    def total(u: Float[Array, " dim"]) -> Float[Array, ""]:
        return matmul(batch.weight, posterior.losses(posterior.constrain(u), batch.data))

    return jax.grad(total)(theta)


def prior_gradient(posterior: GibbsPosterior, theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Gradient of ``-log prior`` at ``theta``."""
    return -jax.grad(posterior.log_prior_unconstrained)(theta)
