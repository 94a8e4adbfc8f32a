"""SMC along a path that was frozen before: for every fixed kernel ``E Chat = C``."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.sampling.kernels.base import Kernel, Tuning
from gibbs_dp.sampling.rejection import chain_keys
from gibbs_dp.sampling.sampler import ChainDraws
from gibbs_dp.sampling.smc.particles import (
    Landscape,
    Moved,
    Particles,
    cess,
    move,
    reweigh,
)
from gibbs_dp.sampling.smc.path import Point, Segment, begin_point
from gibbs_dp.sampling.whitening import Whitening, fit_whitening

# Transitions of every particle in one step: the random numbers of so many are set apart.
MOST_MOVES = 32


class Walk(NamedTuple):
    """What goes from step to step.

    Attributes
    ----------
    particles
        Equally weighted, of the law at ``point``.
    point
        Where on the path.
    worst_ess
        Smallest share of particles that were effective after weighing.
    last
        The last step's moves.
    number
        Of the step.
    """

    particles: Particles
    point: Point
    worst_ess: Float[Array, ""]
    last: Moved
    number: Any


def run_path(
    key: PRNGKeyArray,
    landscape: Landscape,
    segments: Segment,
    kernel: Kernel,
    num_islands: int,
    num_each: int,
) -> ChainDraws:
    """Draws of one dataset's posteriors at every gamma of a grid, in one go.

    Parameters
    ----------
    key
        Random key of the dataset.
    landscape
        Posterior, data and where the path begins.
    segments
        The frozen path, a segment for each gamma (leading axis: gammas, increasing).
    kernel
        What moves particles.
    num_islands, num_each
        Independent groups of particles, and particles in each.

    Returns
    -------
    ChainDraws
        With a leading axis of gammas; islands are chains.
    """
    begin_key, walk_key, resample_key = jax.random.split(key, 3)
    particles = landscape.begin(begin_key, num_islands, num_each)
    u, dtype = particles.u, particles.u.dtype
    streams = chain_keys(walk_key, num_islands * num_each)
    streams = streams.reshape(num_islands, num_each, *streams.shape[1:])
    none = jnp.zeros(u.shape[:2], dtype)
    walk = Walk(
        particles,
        begin_point(landscape.is_proper, dtype),
        jnp.ones((), dtype),
        Moved(u, u, none, none, jnp.ones(u.shape[:2], bool)),
        jnp.zeros((), jnp.int32),
    )
    num_inner = kernel.default_tuning(u.shape[-1])[1]

    def one_step(i: Array, carry: tuple[Walk, Segment]) -> tuple[Walk, Segment]:
        walk, segment = carry
        to = jax.tree.map(lambda a: a[i], segment.points)
        at, before = walk.point, walk.particles
        resampling = jax.random.fold_in(resample_key, walk.number)
        weighed = reweigh(resampling, before, landscape, at, to)
        found = weighed.particles
        whitening = Whitening(found.best, segment.scale[i])
        moved = move(
            streams,
            walk.number * (MOST_MOVES + 1),
            segment.num_moves[i],
            found.u,
            landscape.potential(to, found.reference, whitening),
            whitening,
            kernel,
            Tuning(segment.step_size[i], num_inner),
        )
        energies = landscape.energies(moved.u, found.reference, whitening)
        new = Walk(
            found._replace(u=moved.u, energies=energies),
            to,
            jnp.minimum(walk.worst_ess, cess(weighed.log_weight)),
            moved,
            walk.number + 1,
        )
        return new, segment

    def to_gamma(walk: Walk, segment: Segment) -> tuple[Walk, ChainDraws]:
        walk, _ = jax.lax.fori_loop(0, segment.num_steps, one_step, (walk, segment))
        like = Whitening(walk.particles.best, segment.scale[segment.num_steps - 1])
        flat = walk.particles.u.reshape(-1, walk.particles.u.shape[-1])
        return walk, _as_draws(walk, landscape, fit_whitening(flat, like))

    _, draws = jax.lax.scan(to_gamma, walk, segments)
    return draws


def _as_draws(walk: Walk, landscape: Landscape, whitening: Whitening) -> ChainDraws:
    """Pack the particles of a law that is one of the grid's."""
    particles, moved = walk.particles, walk.last
    num_islands, num_each = particles.u.shape[:2]
    false, zeros = jnp.zeros((), bool), jnp.zeros((num_islands,), particles.u.dtype)
    own = whitening._replace(center=particles.best)
    potential = landscape.potential(walk.point, particles.reference, own)
    pulled = whitening.pull_back(potential)
    v = jax.vmap(jax.vmap(whitening.whiten))(particles.u)
    normalizer, normalizer_se = pooled(particles.log_normalizer)
    return ChainDraws(
        u=particles.u,
        v=v,
        weight=_weights(particles.log_normalizer, num_each),
        potential=moved.potential,
        log_normalizer=normalizer,
        log_normalizer_se=normalizer_se,
        worst_ess=walk.worst_ess,
        accept_prob=jnp.mean(moved.accept_prob, axis=1),
        virial=jax.vmap(lambda v: jax.jvp(pulled, (v,), (v,))[1])(v[:, 0]),
        is_stuck=~jnp.any(moved.has_moved, axis=1),
        whitening=whitening,
        reference=particles.reference,
        mode=particles.best,
        mode_potential_gap=zeros[:1],
        is_curved=~false,
        is_improper=false,
        edge_weight=zeros[0],
        inflation=zeros,
        kl_inflation=zeros[0],
        island_log_normalizer=particles.log_normalizer,
    )


def _weights(
    log_normalizer: Float[Array, " islands"], num_each: int
) -> Float[Array, "islands each"]:
    """Weights of islands by their normalizers: alike, they would bias means by 1 / num_each."""
    share = jax.nn.softmax(log_normalizer)
    share = jnp.where(jnp.isnan(share), 1.0 / share.size, share)
    return jnp.repeat(share[:, None] * share.size / num_each, num_each, axis=1)


def pooled(
    log_normalizer: Float[Array, " islands"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Log of the islands' mean normalizer, and its standard error.

    Both by leaving out each island: the logarithm of an unbiased mean is too small by half its
    relative variance.
    """
    count = log_normalizer.shape[0]
    largest = jnp.max(log_normalizer)
    share = jnp.exp(log_normalizer - jnp.where(jnp.isfinite(largest), largest, 0.0))
    whole = jnp.log(jnp.mean(share))
    without = jnp.log((jnp.sum(share) - share) / (count - 1))
    value = count * whole - (count - 1) * jnp.mean(without)
    se = jnp.sqrt((count - 1) * jnp.mean((without - jnp.mean(without)) ** 2))
    return value + largest, se
