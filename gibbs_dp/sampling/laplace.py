"""The mode of a posterior, wherever the search begins, and the Gaussian around it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp._jaxlib.linalg import cholesky, eigh, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.base import Potential
from gibbs_dp.sampling.target import Target, Terms, Whitening

# The mode of a posterior by damped Newton steps, and the Gaussian fitted there.

MAX_ITERATIONS = 60
# New coordinates at most: the first ones tell curvatures apart that differ by up to 1e12 or so in
# single precision.
MOST_BASES = 2
# Newton's predicted decrease of the potential, in nats: at 0.01 the start is 0.14 standard
# deviations from the mode, which the burn-in forgets at once.
TOLERANCE = 0.01


class LaplaceFit(NamedTuple):
    """A Gaussian approximation of one posterior in flat coordinates."""

    mode: Float[Array, " dim"]  # where the search stopped
    reference: Terms  # energy terms at the mode
    hessian: Float[Array, "dim dim"]  # Hessian of the potential there
    # Lower-triangular ``S`` with ``S S^T`` the fitted covariance; a diagonal guess from the
    # gradient where the Hessian is of no use.
    scale: Float[Array, "dim dim"]
    # whether the Hessian is positive definite, so that ``scale`` comes from it.
    is_curved: Bool[Array, ""]
    is_converged: Bool[Array, ""]  # whether the predicted decrease fell below the tolerance


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


def _inverse_root(upper: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
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
    scale = _inverse_root(upper)
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
    scale = matmul(end.basis, _inverse_root(_upper(end.hessian)))
    is_curved = jnp.all(jnp.isfinite(scale))
    # On a ridge, where a search that begins there stays, there is no gradient; between two kinks
    # there is no curvature either: flat coordinates are near 1.
    bend = jnp.sqrt(jnp.linalg.norm(end.hessian))
    steep = jnp.maximum(end.first_gradient, jnp.where(jnp.isfinite(bend), bend, 0.0))
    guess = jnp.where(steep > 0, 1.0 / (steep + tiny), 1.0)
    return LaplaceFit(
        mode=end.u,
        reference=target.terms(end.u),
        hessian=matmul(back.T, matmul(end.hessian, back)),
        scale=jnp.where(is_curved, jnp.nan_to_num(scale), guess * identity),
        is_curved=is_curved,
        is_converged=end.done,
    )


# Posteriors that cannot be normalized: rays along which the density does not decay.
#
# A ray test can prove a posterior improper, never proper. It must not take numbers for more than
# they are: where curvature or slope is rounding, so are directions found from them, and a ray that
# follows one far leaves it.

# In standard deviations of the Gaussian fitted at the mode: where a loss of up to 1e9 nats has
# reached its ceiling, if it has one.
NEAR, FAR = 1e5, 1e7
# Of a density that decays as slowly as 1 / t, over a ray of a thousand of its units: 6.9 nats.
LEAST_RISE = math.log(1e3)
# Nats, two standard deviations along a ray.
LEAST_PROMISE = 2.0


class _Rays(NamedTuple):
    """Directions from the mode, in flat coordinates, one unit of the posterior's scale long."""

    vectors: Float[Array, "rays dim"]
    is_resolved: Bool[Array, " rays"]


def is_improper(
    target: Target,
    mode: Float[Array, " dim"],
    reference: Terms,
    hessian: Float[Array, "dim dim"],
    scale: Float[Array, "dim dim"],
    is_curved: Bool[Array, ""],
) -> Bool[Array, ""]:
    """Return True if the potential fails to rise along some ray from the mode.

    For priors flat on an unbounded support, rays both ways along: every eigenvector of the Hessian
    in units of each coordinate's own curvature; the direction of the mode itself (where a search
    that found no mode has been heading); and, unless the Hessian is positive definite, the
    direction that the examples' gradients see least (more coefficients than examples under a loss
    without curvature). A density that decays no faster than ``1 / t`` has no finite integral along
    the ray. For priors flat on a bounded support: see :func:`_is_pinned`.
    """
    potential = target.relative_to(reference)
    found = jnp.zeros((), bool)
    prior = target.posterior.prior
    if prior.is_flat:
        rays = _rays(target, mode, hessian)
        # Where the Hessian in flat coordinates is rounding that of the fit need not be: what rises
        # half as much as that promises rises. A fit to rounding promises nothing.
        promised = 0.5 * jnp.sum(solve_lower(scale, rays.vectors.T) ** 2, axis=0)
        is_known = is_curved & ~rays.is_resolved & (promised > LEAST_PROMISE)
        least = jnp.where(is_known, jnp.minimum(0.5 * promised, LEAST_RISE), LEAST_RISE)
        factor = jnp.where(rays.is_resolved, NEAR, 1.0)
        near = jax.vmap(lambda v, t: potential(mode + t * v))(rays.vectors, factor)
        found |= _fails_to_rise(potential, mode, rays, near, least)
        lowest = prior.lowest(mode.dtype)
        if any(map(math.isfinite, lowest)):
            found |= _is_flat_to_the_end(potential, mode, rays, near, lowest)
    if any(prior.is_bounded_flat):
        found |= _is_pinned(potential, mode, jnp.asarray(prior.is_bounded_flat))
    return found


def _rays(target: Target, mode: Float[Array, " dim"], hessian: Float[Array, "dim dim"]) -> _Rays:
    dim, dtype = mode.shape[0], mode.dtype
    eps, tiny = jnp.finfo(dtype).eps, jnp.finfo(dtype).tiny * 1e6
    slopes = target.gamma * jax.jacfwd(lambda u: target.terms(u).losses)(mode)
    # Units in which every coordinate has curvature 1; where a loss has none, slope 1.
    curve, slope = jnp.sqrt(jnp.abs(jnp.diagonal(hessian))), jnp.linalg.norm(slopes, axis=0)
    unit = jnp.where(curve > eps * slope + tiny, curve, slope)
    unit = jnp.where(unit > tiny, unit, 1.0)
    standard = hessian / unit / unit[:, None]
    values, vectors = eigh(standard)
    top = jnp.maximum(jnp.max(jnp.abs(values)), jnp.where(jnp.any(curve > 0), 0.0, 1.0))
    top = jnp.where(top > 0, top, 1.0)
    # Rounding of a Hessian's entries; of its eigenvectors it is as much, over the gap.
    noise = 64 * eps * dim * top
    # So far, a direction that is off by its rounding gains 0.005 nats where it should gain none.
    longest = 0.1 / (8 * eps * jnp.sqrt(top))

    heading = unit * mode
    heading = heading / (jnp.linalg.norm(heading) + tiny)
    axes = jnp.concatenate([vectors.T, heading[None]])
    curvature = jnp.append(values, jnp.sum(heading * matmul(standard, heading)))
    is_resolved = curvature > noise
    lengths = jnp.where(is_resolved, jax.lax.rsqrt(jnp.maximum(curvature, tiny)), longest)

    seen, directions = eigh(matmul((slopes / unit).T, slopes / unit))
    least = jnp.where(seen[0] > 64 * eps * dim * seen[-1], 1e3 / jnp.sqrt(seen[0] + tiny), longest)
    is_needed = ~jnp.all(values > noise)
    axes = jnp.concatenate([axes, jnp.where(is_needed, directions[:, :1].T, 0.0)])
    lengths = jnp.append(lengths, jnp.minimum(least, longest))
    vectors = lengths[:, None] * axes / unit
    both = jnp.concatenate([vectors, -vectors])
    return _Rays(both, jnp.tile(jnp.append(is_resolved, False), 2))


def _fails_to_rise(
    potential: Potential,
    mode: Float[Array, " dim"],
    rays: _Rays,
    near: Float[Array, " rays"],
    least: Float[Array, " rays"],
) -> Bool[Array, ""]:
    """Look at two points of each ray; at the one that can be reached where it is not resolved."""
    far = jax.vmap(lambda v: potential(mode + FAR * v))(rays.vectors)
    # At its ceiling a loss neither rises nor falls; the difference of large numbers is rounding.
    rounding = 64 * jnp.finfo(near.dtype).eps * jnp.abs(far)
    stays_low = _is_low(near, least)
    stays_flat = _is_low(jnp.abs(far - near), math.log(FAR / NEAR) + rounding)
    exists = jnp.sum(rays.vectors**2, axis=1) > 0
    return jnp.any(exists & (stays_low | (rays.is_resolved & stays_flat)))


# Standard deviations from where it counts that a density is flat, and what it may rise, nats.
LEAST_REACH, FLAT = 2.0, 0.1


def _is_flat_to_the_end(
    potential: Potential,
    mode: Float[Array, " dim"],
    rays: _Rays,
    near: Float[Array, " rays"],
    lowest: tuple[float, ...],
) -> Bool[Array, ""]:
    """Return True if a density, infinite far down a half line, is flat up to where it is not."""
    steps = (jnp.asarray(lowest, mode.dtype) - mode) / rays.vectors
    reach = jnp.min(jnp.where(rays.vectors < 0, steps, jnp.inf), axis=1)
    reach = jnp.minimum(reach, NEAR)
    end = jax.vmap(lambda v, t: potential(mode + t * v))(rays.vectors, reach)
    is_far = rays.is_resolved & (reach > LEAST_REACH)
    return jnp.any(is_far & jnp.isneginf(near) & _is_low(end, FLAT))


# Flat coordinates at which an end of a bounded support is near: to 6e-3 and 3e-7, which single
# precision tells from any end; to 1e-9 and 2e-33, which it tells from an end that is 0.
AT_ANY_END, AT_ZERO = (2.5, 5.0), (6.0, 12.0)


def _is_pinned(
    potential: Potential, mode: Float[Array, " dim"], is_bounded: Bool[Array, " dim"]
) -> Bool[Array, ""]:
    """Return True if a density grows too fast to be integrable towards an end of its support."""
    axes = jnp.eye(mode.shape[0], dtype=mode.dtype)

    def at(where: float) -> Float[Array, " rays"]:
        points = [mode + (end - mode[:, None]) * axes for end in (where, -where)]
        return jax.vmap(potential)(jnp.concatenate(points))

    far, near = (at(outer) - at(inner) for inner, outer in (AT_ZERO, AT_ANY_END))
    falls = jnp.where(jnp.isfinite(far), far < 0, _is_low(near, 0.0))
    return jnp.any(falls & jnp.tile(is_bounded, 2))


def _is_low(x: Float[Array, "*b"], least: Float[Array, "*b"] | float) -> Bool[Array, "*b"]:
    """Return True if below ``least``; NaN and infinity, where a loss overflowed, prove nothing."""
    return jnp.isfinite(x) & (x < least)


# A dense Hessian of more coordinates costs more than the draws it would save.
MAX_LAPLACE_DIM = 512
DESCENT_STEPS = 200
DESCENT_RATE = 0.1
NUM_PROBES = 16


class Location(NamedTuple):
    """Mode and scale of a posterior, before it is sampled."""

    # Where each start's mode search ended; the best mode where that is no point of finite density,
    # from which no chain could move.
    centers: Float[Array, "starts dim"]
    # The best mode, and a Gaussian's scale there: the Laplace fit's, or (above ``MAX_LAPLACE_DIM``
    # coordinates) one over the root of ``curvature``.
    whitening: Whitening
    # Diagonal of the Hessian at the mode; estimated above ``MAX_LAPLACE_DIM`` coordinates.
    curvature: Float[Array, " dim"]
    reference: Terms  # energy terms at the mode
    # Potential of the best mode minus that of each start's, at most 0.
    gaps: Float[Array, " starts"]
    is_curved: Bool[Array, ""]  # whether the scale is that of a positive definite Hessian at a mode
    is_improper: Bool[Array, ""]  # whether the posterior was found to have no normalizer


def locate(
    target: Target, starts: Float[Array, "starts dim"], num_newton: int | None = None
) -> Location:
    """Search for the mode from every start and fit a Gaussian at the best."""
    posterior, dim = target.posterior, starts.shape[1]
    false = jnp.zeros((), bool)
    if dim > MAX_LAPLACE_DIM:
        modes = jax.vmap(lambda u: descend(target, u))(starts)
        terms = jax.vmap(target.terms)(modes)
        potential, gaps, best = _compare(target, modes, terms)
        mode, reference = modes[best], jax.tree.map(lambda a: a[best], terms)
        curvature = hessian_diagonal(potential, mode, NUM_PROBES)
        curvature = jnp.maximum(curvature, prior_curvature(posterior, mode))
        here = Whitening(mode, _scale(curvature))
        centers = _with_density(modes, gaps, mode)
        gaps = gaps[best] - gaps
        return Location(centers, here, curvature, reference, gaps, false, false)
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
    """Potential relative to an end of finite density, its value at all ends, and the best one."""
    is_finite = jnp.isfinite(jnp.sum(terms.losses, axis=-1)) & jnp.isfinite(terms.log_prior)
    first = jnp.argmax(is_finite)
    potential = target.relative_to(jax.tree.map(lambda a: a[first], terms))
    if ends.shape[0] == 1:  # to itself: nothing to compile
        gaps = jnp.where(is_finite, jnp.zeros_like(ends, shape=1), jnp.nan)
    else:
        gaps = jax.vmap(potential)(ends)
    return potential, gaps, jnp.argmin(jnp.where(jnp.isnan(gaps), jnp.inf, gaps))


def _with_density(
    ends: Float[Array, "starts dim"], gaps: Float[Array, " starts"], mode: Float[Array, " dim"]
) -> Float[Array, "starts dim"]:
    return jnp.where(jnp.isfinite(gaps)[:, None], ends, mode)


def hessian_diagonal(
    potential: Potential, at: Float[Array, " dim"], num_probes: int
) -> Float[Array, " dim"]:
    """Estimate a diagonal without bias (Bekas, Kokiopoulou & Saad 2007); exact if diagonal."""

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
