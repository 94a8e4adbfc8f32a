"""Critics as JAX functions: the inputs, parameters and values of each adversary class."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.papers.capacity.adversaries import Adversary, Polynomial, RandomFeatures, TwoLayerReLU
from gibbs_dp.papers.capacity.learned import KernelBall, LinearFeatures
from gibbs_dp.papers.capacity.moments import monomials

# Added to the kernel's matrix of landmarks: norms are overstated by it, never understated.
_RIDGE = 1e-4


class Inputs(NamedTuple):
    """Inputs of a critic at draws of P and of Q."""

    p: Float[Array, "draws inputs"]
    q: Float[Array, "draws inputs"]


def check_trainable(adversary: Adversary) -> Adversary:
    """Return an adversary that can be trained.

    Raises
    ------
    ValueError
        If it is not of one of the trainable classes.

    Examples
    --------
    >>> check_trainable(Polynomial(2))
    Polynomial(degree=2)
    """
    trainable = Polynomial | RandomFeatures | TwoLayerReLU | LinearFeatures | KernelBall
    if not isinstance(adversary, trainable):
        raise ValueError(
            f"adversary: {adversary!r} has no critic to train; pass Polynomial, RandomFeatures, "
            "TwoLayerReLU, LinearFeatures or KernelBall."
        )
    return adversary


def inputs_of(adversary: Adversary, x: Float[Array, "draws dim"]) -> Float[Array, "draws inputs"]:
    """Compute the inputs of a class for outputs ``x``: features, or ``x`` itself for networks.

    Those of a `KernelBall` depend on landmarks; see `kernel_inputs`.

    Raises
    ------
    ValueError
        If features of the user's are not a vector.

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
    if isinstance(adversary, LinearFeatures):
        return _features(adversary, x)
    if isinstance(adversary, RandomFeatures):
        direction_key, phase_key = jax.random.split(jax.random.key(adversary.seed))
        count = adversary.num_features
        directions = jax.random.normal(direction_key, (x.shape[1], count), x.dtype)
        phase = jax.random.uniform(phase_key, (count,), x.dtype, maxval=2 * jnp.pi)
        return jnp.sqrt(2.0 / count) * jnp.cos(matmul(x, directions) / adversary.bandwidth + phase)
    return x


def _features(
    adversary: LinearFeatures, x: Float[Array, "draws dim"]
) -> Float[Array, "draws inputs"]:
    found = jax.vmap(adversary.phi)(x)
    shape = getattr(found, "shape", None)
    if shape is None or len(shape) != 2 or shape[1] == 0:
        raise ValueError(
            "phi: must return one vector of features [k] for an output "
            f"[{x.shape[1]}]; got {'no array' if shape is None else f'shape {shape[1:]}'}."
        )
    return found.astype(x.dtype)


def kernel_inputs(
    adversary: KernelBall,
    x: Float[Array, "draws dim"],
    landmarks: Float[Array, "landmarks dim"],
) -> Float[Array, "draws landmarks"]:
    """Features whose coefficients' Euclidean norm is at least the function's norm in the space.

    With the kernel's matrix of the landmarks ``K + r I = L L'`` they are ``L^-1 k(landmarks, x)``:
    coefficients ``a`` belong to ``sum_j c_j k(z_j, x)``, ``c = L'^-1 a``, of squared norm
    ``c' K c <= |a|^2``.

    Examples
    --------
    >>> z = jnp.array([[0.0], [1.0]])
    >>> found = kernel_inputs(KernelBall(), z, z)
    >>> [round(float(v), 3) for v in jnp.sum(found**2, axis=1)]  # k(z, z) = 1
    [1.0, 1.0]
    """
    center = jnp.mean(landmarks, axis=0)
    near = (landmarks - center) / adversary.bandwidth

    def kernel(points: Float[Array, "points dim"]) -> Float[Array, "points landmarks"]:
        at = (points - center) / adversary.bandwidth
        lengths = jnp.sum(jnp.square(at), axis=1)[:, None] + jnp.sum(jnp.square(near), axis=1)
        return jnp.exp(-jnp.maximum(lengths / 2 - matmul(at, near.T), 0.0))

    ridge = _RIDGE * jnp.eye(landmarks.shape[0], dtype=x.dtype)
    return solve_lower(cholesky(kernel(landmarks) + ridge), kernel(x).T).T


def landmarks_of(
    adversary: KernelBall, p: Float[Array, "draws dim"], q: Float[Array, "draws dim"]
) -> Float[Array, "landmarks dim"]:
    """Draws of both laws in turn, evenly spaced along the chains."""
    both = jnp.stack([p, q], axis=1).reshape(-1, p.shape[1])
    count = min(adversary.num_landmarks, both.shape[0])
    rows = [i * both.shape[0] // count for i in range(count)]
    # Even rows are P's: every other landmark moves on by one, to Q's.
    rows = [2 * (row // 2) + i % 2 for i, row in enumerate(rows)]
    return both[jnp.asarray(rows)]


def projected(adversary: Adversary, parameters: PyTree) -> PyTree:
    """Return the nearest parameters that belong to the class: inside the ball of a kernel."""
    if not isinstance(adversary, KernelBall):
        return parameters
    size = jnp.sqrt(jnp.sum(jnp.square(parameters["out"])))
    shrink = adversary.norm / jnp.maximum(size, adversary.norm)
    return {**parameters, "out": shrink * parameters["out"]}


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

    Affine changes of the output leave the classes as they are; features of polynomials and of the
    user's are also whitened, so that one learning rate suits all. A ball of a kernel is of the
    output as it is.
    """
    if isinstance(adversary, KernelBall):
        landmarks = landmarks_of(adversary, x_p[:num_train], x_q[:num_train])
        return Inputs(*(kernel_inputs(adversary, x, landmarks) for x in (x_p, x_q)))
    pooled = jnp.concatenate([x_p[:num_train], x_q[:num_train]])
    tiny = jnp.finfo(pooled.dtype).tiny
    center, scale = jnp.mean(pooled, axis=0), jnp.std(pooled, axis=0) + tiny
    is_given = isinstance(adversary, LinearFeatures)
    p, q = (inputs_of(adversary, x if is_given else (x - center) / scale) for x in (x_p, x_q))
    if not isinstance(adversary, Polynomial | LinearFeatures):
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
