"""Where one dataset's posterior lies and how wide it is: what chains start from."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.improper import is_improper
from gibbs_dp.sampling.kernels.base import Potential
from gibbs_dp.sampling.laplace import find_mode
from gibbs_dp.sampling.target import Target, Terms
from gibbs_dp.sampling.whitening import Whitening

# A dense Hessian of more coordinates costs more than the draws it would save.
MAX_LAPLACE_DIM = 512
DESCENT_STEPS = 200
DESCENT_RATE = 0.1
NUM_PROBES = 16


class Location(NamedTuple):
    """What is known of a posterior before it is sampled.

    Attributes
    ----------
    centers
        Where each start's mode search ended; the best mode where that is no point of finite
        density, from which no chain could move.
    whitening
        The best mode, and a Gaussian's scale there: the Laplace fit's, or (above
        ``MAX_LAPLACE_DIM`` coordinates) one over the root of ``curvature``.
    curvature
        Diagonal of the Hessian at the mode; estimated above ``MAX_LAPLACE_DIM`` coordinates.
    reference
        Energy terms at the mode.
    gaps
        Potential of the best mode minus that of each start's, at most 0.
    is_curved
        Whether the scale is that of a positive definite Hessian at a mode.
    is_improper
        Whether the posterior was found to have no normalizer.
    """

    centers: Float[Array, "starts dim"]
    whitening: Whitening
    curvature: Float[Array, " dim"]
    reference: Terms
    gaps: Float[Array, " starts"]
    is_curved: Bool[Array, ""]
    is_improper: Bool[Array, ""]


def locate(
    target: Target, starts: Float[Array, "starts dim"], num_newton: int | None = None
) -> Location:
    """Search for the mode from every start and fit a Gaussian at the best.

    Newton's method and a dense Hessian up to ``MAX_LAPLACE_DIM`` coordinates; Adam and an
    estimated diagonal, never below the prior's, above: rough, and meant to be adapted from.
    ``num_newton``: steps of every search, static; until all have ended where it is None.
    """
    posterior, dim = target.posterior, starts.shape[1]
    false = jnp.zeros((), bool)
    if dim > MAX_LAPLACE_DIM:
        modes = jax.vmap(lambda u: descend(target, u))(starts)
        potential, gaps, best = _compare(target, modes, jax.vmap(target.terms)(modes))
        mode = modes[best]
        curvature = hessian_diagonal(potential, mode, NUM_PROBES)
        curvature = jnp.maximum(curvature, prior_curvature(posterior, mode))
        here = Whitening(mode, _scale(curvature))
        centers = _with_density(modes, gaps, mode)
        gaps = gaps[best] - gaps
        return Location(centers, here, curvature, target.terms(mode), gaps, false, false)
    fits = jax.vmap(lambda u: find_mode(target, u, num_newton))(starts)
    _, gaps, best = _compare(target, fits.mode, fits.reference)
    fit = jax.tree.map(lambda a: a[best], fits)
    return Location(
        centers=_with_density(fits.mode, gaps, fit.mode),
        whitening=Whitening(fit.mode, fit.scale),
        curvature=jnp.diagonal(fit.hessian),
        reference=fit.reference,
        gaps=gaps[best] - gaps,
        is_curved=fit.is_curved & fit.is_converged,
        is_improper=is_improper(
            target, fit.mode, fit.reference, fit.hessian, fit.scale, fit.is_curved
        ),
    )


def _compare(
    target: Target, ends: Float[Array, "starts dim"], terms: Terms
) -> tuple[Potential, Float[Array, " starts"], Int[Array, ""]]:
    """Potential relative to an end of finite density, its value at all of them, and which is best.

    Relative to an end where a loss overflows nothing could be compared.
    """
    is_finite = jnp.isfinite(jnp.sum(terms.losses, axis=-1)) & jnp.isfinite(terms.log_prior)
    first = jnp.argmax(is_finite)
    potential = target.relative_to(jax.tree.map(lambda a: a[first], terms))
    gaps = jax.vmap(potential)(ends)
    return potential, gaps, jnp.argmin(jnp.where(jnp.isnan(gaps), jnp.inf, gaps))


def _with_density(
    ends: Float[Array, "starts dim"], gaps: Float[Array, " starts"], mode: Float[Array, " dim"]
) -> Float[Array, "starts dim"]:
    return jnp.where(jnp.isfinite(gaps)[:, None], ends, mode)


def hessian_diagonal(
    potential: Potential, at: Float[Array, " dim"], num_probes: int
) -> Float[Array, " dim"]:
    """Unbiased estimate of the Hessian's diagonal (Bekas, Kokiopoulou & Saad 2007).

    Exact with one probe where the Hessian is diagonal.
    """

    def one(probe: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return probe * jax.jvp(jax.grad(potential), (at,), (probe,))[1]

    probes = jax.random.rademacher(jax.random.key(0), (num_probes, at.shape[0]), at.dtype)
    return jnp.mean(jax.lax.map(one, probes), axis=0)


def prior_curvature(posterior: GibbsPosterior, at: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Diagonal of the Hessian of ``-log prior``: exact for parts that are independent."""
    return hessian_diagonal(lambda u: -posterior.log_prior_unconstrained(u), at, 1)


def _scale(curvature: Float[Array, " dim"]) -> Float[Array, " dim"]:
    floor = jnp.finfo(curvature.dtype).tiny * 1e6
    return jnp.where(curvature > 0, 1.0 / jnp.sqrt(jnp.maximum(curvature, floor)), 1.0)


def descend(target: Target, start: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Adam with a cosine schedule, in prior standard deviations: a rough mode."""
    import optax  # slow to import

    scale = _scale(prior_curvature(target.posterior, start))
    potential = target.relative_to(target.terms(start))
    rule = optax.adam(optax.cosine_decay_schedule(DESCENT_RATE, DESCENT_STEPS))

    def improve(_: Array, carry: tuple[Array, Any]) -> tuple[Array, Any]:
        v, state = carry
        gradient = scale * jax.grad(potential)(start + scale * v)
        change, state = rule.update(gradient, state)
        return v + jnp.asarray(change), state

    zero = jnp.zeros_like(start)
    v, _ = jax.lax.fori_loop(0, DESCENT_STEPS, improve, (zero, rule.init(zero)))
    return start + scale * v
