"""A path through a grid of gammas, step by step, on pilot datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.recentring import Recentring
from gibbs_dp.sampling.ensemble import learn_share
from gibbs_dp.sampling.kernels.base import Kernel, Tuning
from gibbs_dp.sampling.noise import chain_keys
from gibbs_dp.sampling.smc_particles import (
    MOST_MOVES,
    Landscape,
    Particles,
    Point,
    Segment,
    begin_point,
    cess,
    log_weights,
    move,
    reweigh,
)
from gibbs_dp.sampling.target import MAX_DENSE_DIM, Target, Whitening

# A path found on pilot datasets: how far each step goes, in what coordinates, with what moves.
#
# Its particles never enter an estimate. What they are used for is frozen before others run along
# it.

# Rounds in which the step size follows the acceptance, on every step of the path.
ADAPT_ROUNDS = 6
# Mean square displacement over that between independent draws of a Gaussian, in the coordinate
# that moves least, and of the potential: half way. Particles then go as far again, but after a
# step so short that they have hardly been weighed. No more could be asked for: those of separate
# modes never meet.
LEAST_JUMP, SHORT_STEP = 0.5, 0.75
# Least share of effective particles on the worst pilot, over that which is asked for on average.
WORST_SHARE = 0.25
# Particles that coordinates are chosen by, of each pilot.
TELLING = 32
# Halvings of the logarithm of a step's length, which begins between 1 and exp(-SHORTEST).
HALVINGS, SHORTEST = 24, 80.0


class PathStep(NamedTuple):
    """One step of the path, and where it leaves the pilots."""

    particles: Particles  # leading axis: pilots
    point: Point
    is_there: Array
    scale: Array
    share: Array
    log_step: Array
    num_moves: Array


def _begin_of(
    posterior: GibbsPosterior,
    num_islands: int,
    num_each: int,
    at_once: int,
    keys: Array,
    data: PyTree,
    origin: Whitening,
) -> Particles:
    def one(pair: tuple[PRNGKeyArray, PyTree]) -> Particles:
        return Landscape(posterior, pair[1], origin).begin(pair[0], num_islands, num_each)

    return jax.lax.map(one, (keys, data), batch_size=at_once)


def _step_of(
    posterior: GibbsPosterior,
    kernel: Kernel,
    recentring: Recentring | None,
    at_once: int,
    keys: Array,
    data: PyTree,
    origin: Whitening,
    particles: Particles,
    at: Point,
    goal: Point,
    log_step: Float[Array, ""],
    least_ess: Float[Array, ""],
) -> PathStep:
    """Go one step from ``at`` towards ``goal``, the same on all pilots."""
    num_islands, num_each, dim = particles.u.shape[1:]

    def each(function: Callable[..., Any], *arrays: Any) -> Any:
        return jax.lax.map(lambda a: function(*a), arrays, batch_size=at_once)

    def landscape(data: PyTree) -> Landscape:
        return Landscape(posterior, data, origin, recentring)

    to, is_there, ess = _next_point(particles, at, goal, least_ess)
    new = each(
        lambda key, data, p: reweigh(key, p, landscape(data), at, to).particles,
        keys,
        data,
        particles,
    )
    share = jnp.ones((dim,), new.u.dtype)
    if recentring is not None:
        told = each(lambda data, p: _told_share(landscape(data), p, to), data, new)
        share = jnp.median(told, axis=0)
    scale = _scale(each(lambda data, p: _slopes(landscape(data), p, to, share), data, new))
    streams = jax.vmap(lambda k: chain_keys(k, num_islands * num_each))(keys)
    streams = streams.reshape(*new.u.shape[:3], *streams.shape[2:])
    num_inner = kernel.default_tuning(dim)[1]

    def move_all(number: Array, u: Array, log_step: Array) -> tuple[Array, Array, Array, Array]:
        tuning = Tuning(jnp.exp(log_step), num_inner)

        def one(data: PyTree, p: Particles, streams: Array, u: Array) -> tuple[Array, ...]:
            whitening = Whitening(p.best, scale)
            potential = landscape(data).potential(to, p.reference, whitening)
            own = landscape(data).coordinates(share)
            moved = move(streams, 2 * number, 1, u, potential, own, whitening, kernel, tuning)
            return moved.u, moved.v, moved.potential, jnp.mean(moved.accept_prob)

        u, v, height, accept = each(one, data, new, streams, u)
        return u, v, height, jnp.mean(accept)

    def adapt(t: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        u, log_step = carry
        u, _, _, accept = move_all(t, u, log_step)
        log_step += 2.0 / jnp.sqrt(1.0 + t) * (accept - kernel.target_accept)
        # No longer than a quarter orbit: half a one would only turn particles round.
        return u, jnp.minimum(log_step, longest)

    longest = jnp.log(jnp.asarray(kernel.default_tuning(dim)[0], new.u.dtype))
    u, log_step = jax.lax.fori_loop(0, ADAPT_ROUNDS, adapt, (new.u, log_step))
    u, v, height, _ = move_all(jnp.asarray(ADAPT_ROUNDS), u, log_step)

    def is_short(carry: tuple[Array, Array, Array]) -> Array:
        _, count, jump = carry
        return (jump < LEAST_JUMP) & (2 * count < MOST_MOVES)

    def more(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        u, count, _ = carry
        u, now, high, _ = move_all(ADAPT_ROUNDS + 1 + count, u, log_step)
        jump = jnp.min(jnp.mean((now - v) ** 2, axis=(0, 1, 2))) / 2.0
        return u, count + 1, jnp.minimum(jump, _renewal(height, high))

    none = jnp.zeros((), jnp.int32), jnp.zeros((), u.dtype)
    u, count, _ = jax.lax.while_loop(is_short, more, (u, *none))
    energies = each(
        lambda data, p, u: landscape(data).energies(u, p.reference, Whitening(p.best, scale)),
        data,
        new,
        u,
    )
    particles = new._replace(u=u, energies=energies)
    count = jnp.where(ess > SHORT_STEP, count, 2 * count)
    return PathStep(particles, to, is_there, scale, share, log_step, count)


def _renewal(before: Float[Array, "pilots islands each"], after: Array) -> Float[Array, ""]:
    """One minus the correlation of the particles' potentials before and after, within pilots."""
    centre = jnp.mean(before, axis=(1, 2), keepdims=True)
    spread = jnp.sum((before - centre) ** 2) + jnp.sum((after - centre) ** 2)
    return jnp.sum((after - before) ** 2) / jnp.maximum(spread, jnp.finfo(spread.dtype).tiny)


def _next_point(
    particles: Particles, at: Point, goal: Point, least_ess: Float[Array, ""]
) -> tuple[Point, Array, Array]:
    """Farthest point with enough effective particles, if it is the goal, and their mean share."""

    def between(log_share: Array) -> Point:
        return jax.tree.map(lambda a, b: a + jnp.exp(log_share) * (b - a), at, goal)

    def shares(to: Point) -> Float[Array, " pilots"]:
        found = jax.vmap(lambda e: cess(log_weights(e, at, to)))(particles.energies)
        return jnp.where(jnp.isnan(found), 0.0, found)

    dtype = particles.u.dtype
    # Where a loss is infinite a particle is lost at any gamma: no shorter step would keep it.
    least = jnp.maximum(shares(between(jnp.asarray(-SHORTEST, dtype))), 1e-6)

    def is_near(to: Point) -> Array:
        found = shares(to) / least
        return (jnp.mean(found) >= least_ess) & (jnp.min(found) >= WORST_SHARE * least_ess)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        near = is_near(between(middle))
        return jnp.where(near, middle, low), jnp.where(near, high, middle)

    is_there = is_near(goal)
    ends = jnp.asarray(-SHORTEST, dtype), jnp.zeros((), dtype)
    low, _ = jax.lax.fori_loop(0, HALVINGS, halve, ends)
    to = jax.tree.map(lambda a, b: jnp.where(is_there, b, a), between(low), goal)
    return to, is_there, jnp.mean(shares(to))


def _told_share(landscape: Landscape, particles: Particles, to: Point) -> Array:
    """How far coordinates are to be centred, by some of the particles."""
    assert landscape.recentring is not None
    flat = particles.u.reshape(-1, particles.u.shape[-1])
    some = flat[:: max(1, flat.shape[0] // TELLING)]
    target = Target(landscape.posterior, landscape.data, to.gamma)
    return learn_share(landscape.recentring, target, particles.reference, some)


def _slopes(
    landscape: Landscape, particles: Particles, to: Point, share: Float[Array, " dim"]
) -> Array:
    """Mean of ``grad U grad U^T`` over the particles, or of its diagonal in many coordinates."""
    best = particles.best
    potential = landscape.potential(to, particles.reference, Whitening(best, jnp.ones_like(best)))
    dim = particles.u.shape[-1]
    own = landscape.coordinates(share)
    w = jax.vmap(own.from_flat)(particles.u.reshape(-1, dim))
    slopes = jax.vmap(jax.grad(own.pull_back(potential)))(w)
    slopes = jnp.where(jnp.all(jnp.isfinite(slopes), axis=1, keepdims=True), slopes, 0.0)
    if dim > MAX_DENSE_DIM:
        return jnp.mean(slopes**2, axis=0)
    return matmul(slopes.T, slopes) / slopes.shape[0]


def _scale(precisions: Array) -> Array:
    """Coordinates in which the mean curvature is 1.

    ``E grad U grad U^T = E Hessian``: of Gaussians the precision, of several separated ones the
    mean of theirs, however far they are from each other. A covariance would be the distance of the
    modes, and steps in its units would all be refused.
    """
    precision = jnp.mean(precisions, axis=0)
    tiny = jnp.finfo(precision.dtype).tiny * 1e6
    if precision.ndim == 1:
        return jnp.where(precision > tiny, jax.lax.rsqrt(jnp.maximum(precision, tiny)), 1.0)
    diagonal = jnp.diagonal(precision)
    unit = jnp.where(diagonal > tiny, jnp.sqrt(jnp.maximum(diagonal, tiny)), 1.0)
    dim = unit.shape[0]
    correlation = precision / unit / unit[:, None]
    correlation = correlation.at[jnp.diag_indices(dim)].set(1.0)
    inverse = solve_lower(cholesky(correlation), jnp.eye(dim, dtype=unit.dtype))
    covariance = matmul(inverse.T, inverse)
    spread = jnp.sqrt(jnp.diagonal(covariance))
    scale = spread[:, None] * cholesky(covariance / spread / spread[:, None]) / unit[:, None]
    return jnp.where(jnp.all(jnp.isfinite(scale)), scale, jnp.diag(1.0 / unit))


begin_pilots = on_default_backend(_begin_of, "posterior", "num_islands", "num_each", "at_once")
step_pilots = on_default_backend(_step_of, "posterior", "kernel", "recentring", "at_once")


# Steps of a whole path beyond which its end is out of reach.
MOST_STEPS = 1024


def find_path(
    key: PRNGKeyArray,
    posterior: GibbsPosterior,
    data: PyTree,
    gammas: Sequence[float],
    origin: Whitening,
    kernel: Kernel,
    recentring: Recentring | None,
    num_islands: int,
    num_each: int,
    least_ess: float,
    at_once: int,
    on_gamma: Callable[[], None] = lambda: None,
) -> Segment:
    """Find a path that serves all pilots, from where paths begin through all gammas."""
    dtype = jnp.result_type(float)
    num_pilots = jax.tree.leaves(data)[0].shape[0]
    begin_key, walk_key = jax.random.split(key)
    keys = jax.random.split(begin_key, num_pilots)
    particles = begin_pilots(posterior, num_islands, num_each, at_once, keys, data, origin)
    if not np.isfinite(particles.energies.loss).any(axis=(1, 2)).all():
        raise ValueError(
            f"posterior: none of the {num_islands * num_each} points where SMC begins has a finite "
            "loss; give a prior that has some, or start chains where the density is finite, as "
            "init=."
        )
    at = begin_point(posterior.prior.has_draws, dtype)
    one = jnp.ones((), dtype)
    log_step = jnp.log(jnp.asarray(kernel.default_tuning(posterior.dim)[0], dtype))
    ask = jnp.asarray(least_ess, dtype)
    segments: list[list[PathStep]] = []
    total = 0
    for gamma in gammas:
        goal, steps = Point(jnp.asarray(gamma, dtype), one), list[PathStep]()
        while not steps or not bool(steps[-1].is_there):
            total += 1
            if total > MOST_STEPS:
                raise ValueError(
                    f"gammas: {gamma:g} is out of reach for SMC in {MOST_STEPS} steps from the "
                    f"prior (it got to {float(at.gamma):g}); lower it, or give a prior that is "
                    "less wide."
                )
            keys = jax.random.split(jax.random.fold_in(walk_key, total), num_pilots)
            static = posterior, kernel, recentring, at_once
            walk = particles, at, goal, log_step, ask
            found = step_pilots(*static, keys, data, origin, *walk)
            particles, at, log_step = found.particles, found.point, found.log_step
            steps.append(found._replace(particles=None))
        segments.append(steps)
        on_gamma()
    return _packed(segments, origin)


def _packed(segments: list[list[PathStep]], origin: Whitening) -> Segment:
    """Pad all segments to one length, a power of two, so that few shapes are compiled for."""
    longest = max(map(len, segments))
    length = 1 << max(2, (longest - 1).bit_length())

    def packed(steps: list[PathStep]) -> Segment:
        stacked: Any = jax.tree.map(lambda *a: np.stack([np.asarray(x) for x in a]), *steps)
        segment = Segment(
            points=stacked.point,
            scale=stacked.scale,
            share=stacked.share,
            step_size=np.exp(stacked.log_step),
            num_moves=stacked.num_moves,
            num_steps=jnp.asarray(len(steps), jnp.int32),
            origin=jax.tree.map(np.asarray, origin),
        )
        return segment.padded(length)

    return jax.tree.map(lambda *a: jnp.stack(a), *map(packed, segments))
