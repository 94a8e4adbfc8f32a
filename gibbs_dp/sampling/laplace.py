"""The mode of a posterior by damped Newton steps, and the Gaussian fitted there."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp._jaxlib.linalg import cholesky, cholesky_solve, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.sampling.target import Target, Terms

MAX_ITERATIONS = 60
# Newton's predicted decrease of the potential, in nats: at 0.01 the start is 0.14 standard
# deviations from the mode, which the burn-in forgets at once.
TOLERANCE = 0.01


class LaplaceFit(NamedTuple):
    """A Gaussian approximation of one posterior in flat coordinates.

    Attributes
    ----------
    mode
        Where the search stopped.
    reference
        Energy terms at the mode.
    hessian
        Hessian of the potential there.
    scale
        Lower-triangular ``S`` with ``S S^T`` the fitted covariance; a diagonal guess from the
        gradient where the Hessian is of no use.
    is_curved
        Whether the Hessian is positive definite, so that ``scale`` comes from it.
    is_converged
        Whether the predicted decrease fell below the tolerance.
    """

    mode: Float[Array, " dim"]
    reference: Terms
    hessian: Float[Array, "dim dim"]
    scale: Float[Array, "dim dim"]
    is_curved: Bool[Array, ""]
    is_converged: Bool[Array, ""]


class _Search(NamedTuple):
    u: Float[Array, " dim"]
    hessian: Float[Array, "dim dim"]  # where the last step started
    first_gradient: Float[Array, ""]
    damping: Float[Array, ""]
    was_rejected: Bool[Array, ""]  # the last step, a longer one from the same point
    done: Bool[Array, ""]
    iteration: Int[Array, ""]


def _damped_step(
    gradient: Float[Array, " dim"], hessian: Float[Array, "dim dim"], damping: Float[Array, ""]
) -> tuple[Float[Array, " dim"], Bool[Array, ""]]:
    """Newton step of the damped Hessian where that is positive definite, which is returned too."""
    matrix = hessian + damping * jnp.eye(gradient.shape[0], dtype=gradient.dtype)
    factor = cholesky(matrix)  # NaN where not positive definite
    newton = -cholesky_solve(factor, gradient)
    # No curvature is above the norm of the Hessian: down the slope by no more than it allows.
    down = -gradient / (jnp.linalg.norm(hessian) + damping)
    is_definite = jnp.all(jnp.isfinite(newton))
    return jnp.where(is_definite, newton, down), is_definite


def find_mode(
    target: Target, start: Float[Array, " dim"], num_steps: int | None = None
) -> LaplaceFit:
    """Levenberg-Marquardt from ``start``: Newton where the curvature allows it, short steps else.

    Stops when a step predicts a decrease below ``TOLERANCE`` nats or after ``MAX_ITERATIONS``. With
    ``num_steps``, static, after so many: a search that has ended before stays where it is.
    The Hessian returned is the one the last step used: that step was short.
    """
    dim, dtype = start.shape[0], start.dtype
    tiny = jnp.finfo(dtype).tiny * 1e6

    def improve(s: _Search) -> _Search:
        potential = target.relative_to(target.terms(s.u))
        gradient, hessian = jax.grad(potential)(s.u), jax.hessian(potential)(s.u)
        norm = jnp.linalg.norm(gradient)
        step, is_definite = _damped_step(gradient, hessian, s.damping)
        predicted = -jnp.sum(gradient * step)
        candidate = s.u + step
        change = potential(candidate)
        accepted = jnp.isfinite(change) & (change <= 0)
        # A step may be short only because of its damping, in one narrow direction or in all: one
        # that is not damped has the last word.
        shrunk = jnp.where(predicted < TOLERANCE, 0.0, s.damping / 10.0)
        raised = 6.0 * jnp.maximum(s.damping, 1e-3 * norm + tiny)
        return _Search(
            u=jnp.where(accepted, candidate, s.u),
            hessian=hessian,
            first_gradient=jnp.where(s.iteration == 0, norm, s.first_gradient),
            # Damping that leaves the Hessian indefinite is too small, wherever the step led.
            damping=jnp.where(accepted & is_definite, shrunk, raised),
            was_rejected=~accepted,
            done=(predicted < TOLERANCE) & ((s.damping == 0) | s.was_rejected),
            iteration=s.iteration + 1,
        )

    zero, false = jnp.zeros((), dtype), jnp.zeros((), bool)
    begin = _Search(
        start, jnp.zeros((dim, dim), dtype), zero, zero, false, false, jnp.zeros((), int)
    )
    if num_steps is None:
        end = jax.lax.while_loop(lambda s: ~s.done & (s.iteration < MAX_ITERATIONS), improve, begin)
    else:
        end = jax.lax.fori_loop(
            0,
            num_steps,
            lambda _, s: jax.tree.map(lambda a, b: jnp.where(s.done, a, b), s, improve(s)),
            begin,
        )
    factor = cholesky(end.hessian)
    identity = jnp.eye(dim, dtype=dtype)
    inverse = solve_lower(factor, identity)
    # H = F F^T, so F^-T F^-1 is the covariance; its lower factor keeps every scale triangular.
    scale = cholesky(matmul(inverse.T, inverse))
    is_curved = jnp.all(jnp.isfinite(scale))
    # Between two kinks there is neither curvature nor gradient: flat coordinates are near 1.
    guess = jnp.where(end.first_gradient > 0, 1.0 / (end.first_gradient + tiny), 1.0)
    return LaplaceFit(
        mode=end.u,
        reference=target.terms(end.u),
        hessian=end.hessian,
        scale=jnp.where(is_curved, jnp.nan_to_num(scale), guess * identity),
        is_curved=is_curved,
        is_converged=end.done,
    )
