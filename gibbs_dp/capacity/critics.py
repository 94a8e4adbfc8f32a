"""Critics as JAX functions: the inputs, parameters and values of each adversary class."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.capacity.adversaries import Adversary, Polynomial, RandomFeatures, TwoLayerReLU
from gibbs_dp.capacity.moments import monomials


class Inputs(NamedTuple):
    """Inputs of a critic at draws of P and of Q."""

    p: Float[Array, "draws inputs"]
    q: Float[Array, "draws inputs"]


def check_trainable(adversary: Adversary) -> Adversary:
    """Return an adversary that can be trained.

    Raises
    ------
    ValueError
        If it is not of one of the three trainable classes.

    Examples
    --------
    >>> check_trainable(Polynomial(2))
    Polynomial(degree=2)
    """
    if not isinstance(adversary, Polynomial | RandomFeatures | TwoLayerReLU):
        raise ValueError(
            f"adversary: {adversary!r} has no critic to train; pass Polynomial, RandomFeatures or "
            "TwoLayerReLU."
        )
    return adversary


def inputs_of(adversary: Adversary, x: Float[Array, "draws dim"]) -> Float[Array, "draws inputs"]:
    """Compute the inputs of a class for outputs ``x``: features, or ``x`` itself for networks.

    Examples
    --------
    >>> inputs_of(Polynomial(2), jnp.array([[3.0]])).tolist()
    [[3.0, 9.0]]
    """
    if isinstance(adversary, Polynomial):
        powers = monomials(x.shape[1], adversary.degree)[1:]
        # A product per monomial: `x ** array` would take logarithms of negative numbers.
        columns = [
            jnp.prod(jnp.stack([x[:, i] ** int(k) for i, k in enumerate(row)]), axis=0)
            for row in powers
        ]
        return jnp.stack(columns, axis=1)
    if isinstance(adversary, RandomFeatures):
        direction_key, phase_key = jax.random.split(jax.random.key(adversary.seed))
        count = adversary.num_features
        directions = jax.random.normal(direction_key, (x.shape[1], count), x.dtype)
        phase = jax.random.uniform(phase_key, (count,), x.dtype, maxval=2 * jnp.pi)
        return jnp.sqrt(2.0 / count) * jnp.cos(matmul(x, directions) / adversary.bandwidth + phase)
    return x


def initial(key: PRNGKeyArray, adversary: Adversary, num_inputs: int, dtype: jnp.dtype) -> PyTree:
    """Parameters of the critic that is 0 everywhere."""
    if isinstance(adversary, TwoLayerReLU):
        weight_key, offset_key = jax.random.split(key)
        width = adversary.width
        return {
            "weights": jax.random.normal(weight_key, (num_inputs, width), dtype)
            / jnp.sqrt(jnp.asarray(num_inputs, dtype)),
            "offsets": jax.random.normal(offset_key, (width,), dtype),
            "out": jnp.zeros((width,), dtype),
        }
    return {"out": jnp.zeros((num_inputs,), dtype)}


def value(parameters: PyTree, inputs: Float[Array, "draws inputs"]) -> Float[Array, " draws"]:
    """Evaluate a critic, without its constant."""
    if "weights" in parameters:
        inputs = jax.nn.relu(matmul(inputs, parameters["weights"]) + parameters["offsets"])
    return matmul(inputs, parameters["out"])


def standardized(
    adversary: Adversary,
    x_p: Float[Array, "draws dim"],
    x_q: Float[Array, "draws dim"],
    num_train: int,
) -> Inputs:
    """Compute inputs in coordinates fitted to the first ``num_train`` draws of each law.

    Affine changes of the output leave the classes as they are; polynomials' features are also
    whitened, so that one learning rate suits all.
    """
    pooled = jnp.concatenate([x_p[:num_train], x_q[:num_train]])
    tiny = jnp.finfo(pooled.dtype).tiny
    center, scale = jnp.mean(pooled, axis=0), jnp.std(pooled, axis=0) + tiny
    p, q = (inputs_of(adversary, (x - center) / scale) for x in (x_p, x_q))
    if not isinstance(adversary, Polynomial):
        return Inputs(p, q)
    features = jnp.concatenate([p[:num_train], q[:num_train]])
    mean = jnp.mean(features, axis=0)
    width = jnp.std(features, axis=0) + tiny
    scaled = (features - mean) / width
    ridge = 1e-4 * jnp.eye(features.shape[1], dtype=features.dtype)
    factor = cholesky(matmul(scaled.T, scaled) / features.shape[0] + ridge)

    def whiten(f: Float[Array, "draws inputs"]) -> Float[Array, "draws inputs"]:
        return solve_lower(factor, ((f - mean) / width).T).T

    return Inputs(whiten(p), whiten(q))
