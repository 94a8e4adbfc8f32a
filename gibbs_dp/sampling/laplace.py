"""The mode of a posterior by damped Newton steps, and the Gaussian fitted there."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.sampling.target import Target, Terms

MAX_ITERATIONS = 60
# New coordinates at most: the first ones tell curvatures apart that differ by up to 1e12 or so in
# single precision.
MOST_BASES = 2
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
    basis: Float[Array, "dim dim"]  # of the coordinates that steps are made in; lower triangular
    num_bases: Int[Array, ""]
    hessian: Float[Array, "dim dim"]  # in these coordinates, where the last step started
    first_gradient: Float[Array, ""]
    damping: Float[Array, ""]
    was_rejected: Bool[Array, ""]  # the last step, a longer one from the same point
    done: Bool[Array, ""]
    iteration: Int[Array, ""]


class _Step(NamedTuple):
    step: Float[Array, " dim"]
    is_definite: Bool[Array, ""]  # whether it is Newton's, of the damped Hessian
    scale: Float[Array, "dim dim"]  # as of a Gaussian with that Hessian
    is_rough: Bool[Array, ""]  # whether some curvature is mostly rounding of the others


def _upper(matrix: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
    """Upper-triangular ``U`` with ``U U^T`` the matrix; NaN where it is not positive definite."""
    return cholesky(matrix[::-1, ::-1])[::-1, ::-1]


def _scale(upper: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
    """``U^-T``, lower triangular: of the Gaussian whose precision is ``U U^T``."""
    return solve_lower(upper.T, jnp.eye(upper.shape[0], dtype=upper.dtype))


def _damped_step(
    gradient: Float[Array, " dim"], hessian: Float[Array, "dim dim"], damping: Float[Array, ""]
) -> _Step:
    """Newton step of the damped Hessian where that is positive definite, but for its rounding."""
    (dim,), eps = gradient.shape, jnp.finfo(gradient.dtype).eps
    diagonal = jnp.diagonal(hessian)
    matrix = hessian + jnp.diag(damping + 4 * eps * dim * jnp.abs(diagonal))
    upper = _upper(matrix)
    scale = _scale(upper)
    newton = -matmul(scale, matmul(gradient, scale))
    # No curvature is above the norm of the Hessian: down the slope by no more than it allows.
    down = -gradient / (jnp.linalg.norm(hessian) + damping)
    is_definite = jnp.all(jnp.isfinite(newton))
    share = jnp.diagonal(upper) ** 2 / jnp.diagonal(matrix)
    # Of such a pivot the rounding of the others is a thousandth (in double, 1e-8), or more.
    is_rough = is_definite & (jnp.min(share) < jnp.sqrt(eps))
    return _Step(jnp.where(is_definite, newton, down), is_definite, scale, is_rough)


def find_mode(
    target: Target, start: Float[Array, " dim"], num_steps: int | None = None
) -> LaplaceFit:
    """Levenberg-Marquardt from ``start``: Newton where the curvature allows it, short steps else.

    Stops when a step predicts a decrease below ``TOLERANCE`` nats or after ``MAX_ITERATIONS``. With
    ``num_steps``, static, after so many: a search that has ended before stays where it is.
    The Hessian returned is the one the last step used: that step was short. Where one curvature is
    lost in the rounding of another, the search goes on in coordinates in which they are alike: a
    Hessian taken in these is exact.
    """
    dim, dtype = start.shape[0], start.dtype
    tiny = jnp.finfo(dtype).tiny * 1e6
    origin, identity = jnp.zeros_like(start), jnp.eye(dim, dtype=dtype)

    def improve(s: _Search) -> _Search:
        around = target.relative_to(target.terms(s.u))

        def potential(w: Float[Array, " dim"]) -> Float[Array, ""]:
            return around(s.u + matmul(s.basis, w))

        gradient, hessian = jax.grad(potential)(origin), jax.hessian(potential)(origin)
        norm = jnp.linalg.norm(gradient)
        step, is_definite, scale, is_rough = _damped_step(gradient, hessian, s.damping)
        predicted = -jnp.sum(gradient * step)
        change = potential(step)
        accepted = jnp.isfinite(change) & (change <= 0)
        # A step may be short only because of its damping, in one narrow direction or in all: one
        # that is not damped has the last word.
        shrunk = jnp.where(predicted < TOLERANCE, 0.0, s.damping / 10.0)
        raised = 6.0 * jnp.maximum(s.damping, 1e-3 * norm + tiny)
        is_short = (predicted < TOLERANCE) & ((s.damping == 0) | s.was_rejected)
        is_plain = (s.damping == 0) | is_short
        is_moved = is_rough & is_plain & (s.num_bases < MOST_BASES)
        return _Search(
            u=jnp.where(accepted, s.u + matmul(s.basis, step), s.u),
            basis=jnp.where(is_moved, matmul(s.basis, scale), s.basis),
            num_bases=s.num_bases + is_moved,
            # That of the last coordinates goes with them.
            hessian=jnp.where(is_moved, matmul(scale.T, matmul(hessian, scale)), hessian),
            first_gradient=jnp.where(s.iteration == 0, norm, s.first_gradient),
            # Damping that leaves the Hessian indefinite is too small, wherever the step led.
            damping=jnp.where(accepted & is_definite | is_moved, shrunk, raised),
            was_rejected=~accepted & ~is_moved,
            done=is_short & ~is_moved,
            iteration=s.iteration + 1,
        )

    zero, false, none = jnp.zeros((), dtype), jnp.zeros((), bool), jnp.zeros((), int)
    blank = jnp.zeros((dim, dim), dtype)
    begin = _Search(start, identity, none, blank, zero, zero, false, false, none)
    if num_steps is None:
        end = jax.lax.while_loop(lambda s: ~s.done & (s.iteration < MAX_ITERATIONS), improve, begin)
    else:
        end = jax.lax.fori_loop(
            0,
            num_steps,
            lambda _, s: jax.tree.map(lambda a, b: jnp.where(s.done, a, b), s, improve(s)),
            begin,
        )
    back = solve_lower(end.basis, identity)
    scale = matmul(end.basis, _scale(_upper(end.hessian)))
    is_curved = jnp.all(jnp.isfinite(scale))
    # Between two kinks there is neither curvature nor gradient: flat coordinates are near 1.
    guess = jnp.where(end.first_gradient > 0, 1.0 / (end.first_gradient + tiny), 1.0)
    return LaplaceFit(
        mode=end.u,
        reference=target.terms(end.u),
        hessian=matmul(back.T, matmul(end.hessian, back)),
        scale=jnp.where(is_curved, jnp.nan_to_num(scale), guess * identity),
        is_curved=is_curved,
        is_converged=end.done,
    )
