"""What theory says is wrong with unadjusted Langevin draws, to first order around a draw.

Near a point with Hessian ``H`` the chain is linear, ``e <- A e + sqrt(2 h) xi - h eta`` with
``A = I - h H`` and minibatch noise ``eta`` of covariance ``N``: its stationary covariance is
``sum_k A^k (2 h I + h^2 N) A^k`` where the posterior's is ``H^-1 = h sum_k A^k``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model.examples import num_examples
from gibbs_dp.sampling.kernels import langevin
from gibbs_dp.sampling.kernels.base import Potential
from gibbs_dp.sampling.kernels.sgld import SGLD
from gibbs_dp.sampling.kernels.unadjusted import Unadjusted
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.whitening import Whitening

# Terms of the sums over k: both sums are cut alike, so that their ratio is that of chains which
# started at the mode so many steps ago.
NUM_TERMS = 128

Vector = Float[Array, " dim"]
Scalar = Float[Array, ""]


def batch_variance(
    target: Target, center: Vector, coordinates: Whitening, kernel: Unadjusted
) -> Callable[[Vector, Vector], Scalar]:
    """Return ``(v, probe) ->`` variance of ``probe . minibatch gradient`` at ``v``; 0 in full."""
    posterior, data, gamma = target
    if not isinstance(kernel, SGLD):
        return lambda v, probe: jnp.zeros((), v.dtype)
    n = num_examples(data)

    def slopes(u: Vector, direction: Vector) -> Float[Array, " n"]:
        if kernel.clip is not None:
            return matmul(langevin.example_gradients(posterior, u, data, kernel.clip), direction)
        return jax.jvp(lambda x: target.terms(x).losses, (u,), (direction,))[1]

    def variance(v: Vector, probe: Vector) -> Scalar:
        direction = coordinates.color(probe) - coordinates.center
        each = slopes(coordinates.color(v), direction)
        if kernel.control_variate:
            each -= slopes(center, direction)
        if kernel.sampling_rate is not None:
            rate = kernel.sampling_rate
            return gamma**2 * (1.0 - rate) / rate * jnp.sum(each**2)
        return gamma**2 * n**2 / kernel.size_of_batch(n) * jnp.var(each)

    return variance


def variance_inflation(
    key: PRNGKeyArray,
    pulled: Potential,
    variance: Callable[[Vector, Vector], Scalar],
    v: Vector,
    size: Scalar,
) -> Scalar:
    """Estimate the relative excess of the draws' variance, a mean over coordinates.

    Exact where ``H`` and ``N`` are multiples of the identity.
    """
    probe = jax.random.rademacher(key, v.shape, v.dtype)
    trace = jnp.sum(probe * jax.jvp(jax.grad(pulled), (v,), (probe,))[1])
    drift, noise = (0.5 * size * x / v.shape[0] for x in (trace, variance(v, probe)))
    return jnp.where(drift < 1, (drift + noise) / (1.0 - drift), jnp.inf)


def kl_inflation(
    key: PRNGKeyArray,
    target: Target,
    pulled: Potential,
    variance: Callable[[Vector, Vector], Scalar],
    coordinates: Whitening,
    v: Vector,
    size: Scalar,
    is_fixed: bool = False,
) -> Scalar:
    """Estimate the relative excess of ``Var(loss(theta, z') - loss(theta, z))`` over draws.

    Half of gamma squared times that variance is the one-sided on-average KL to second order. It
    weighs directions by the examples' gradients, which is where minibatch noise is largest.
    Examples of the dataset stand for the ghosts. The sums end where the chain stops contracting:
    along directions of negative curvature there is no stationary law to compare with. With
    ``is_fixed`` the loop goes on, and the sums stay as they are.
    """
    losses = target.terms(coordinates.color(v)).losses
    signs = jax.random.normal(key, losses.shape, v.dtype)
    signs -= jnp.mean(signs) if losses.shape[0] > 1 else 0.0

    def contrast(x: Vector) -> Scalar:
        return matmul(signs, target.terms(coordinates.color(x)).losses)

    def is_stable(carry: tuple[Vector, Scalar, Scalar, Array, Bool[Array, ""]]) -> Array:
        return carry[4] & (carry[3] < NUM_TERMS)

    def add(
        carry: tuple[Vector, Scalar, Scalar, Array, Bool[Array, ""]],
    ) -> tuple[Vector, Scalar, Scalar, Array, Bool[Array, ""]]:
        q, found, exact, count, _ = carry
        step = q - size * jax.jvp(jax.grad(pulled), (v,), (q,))[1]
        square = jnp.sum(q * q)
        found += 2.0 * square + size * variance(v, q)
        exact += square + jnp.sum(q * step)
        return step, found, exact, count + 1, jnp.sum(step * step) < square

    zero = jnp.zeros((), v.dtype)
    direction = jax.grad(contrast)(v)
    direction /= jnp.linalg.norm(direction) + jnp.finfo(v.dtype).tiny * 1e6
    begin = (direction, zero, zero, jnp.zeros((), int), jnp.ones((), bool))
    if is_fixed:
        _, found, exact, _, _ = jax.lax.fori_loop(
            0,
            NUM_TERMS,
            lambda _, c: jax.tree.map(lambda a, b: jnp.where(is_stable(c), a, b), add(c), c),
            begin,
        )
    else:
        _, found, exact, _, _ = jax.lax.while_loop(is_stable, add, begin)
    return jnp.where(exact > 0, found / exact - 1.0, jnp.inf)
