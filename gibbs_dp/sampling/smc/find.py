"""A path through a grid of gammas, step by step, on pilot datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.base import Kernel
from gibbs_dp.sampling.smc.path import Point, Segment, begin_point
from gibbs_dp.sampling.smc.tune import Found, begin_pilots, step_pilots
from gibbs_dp.sampling.whitening import Whitening

# Steps of a whole path beyond which its end is out of reach.
MOST_STEPS = 1024


def find_path(
    key: PRNGKeyArray,
    posterior: GibbsPosterior,
    data: PyTree,
    gammas: Sequence[float],
    origin: Whitening,
    kernel: Kernel,
    num_islands: int,
    num_each: int,
    least_ess: float,
    at_once: int,
    on_gamma: Callable[[], None] = lambda: None,
) -> Segment:
    """Find a path that serves all pilots, from where paths begin through all gammas.

    Parameters
    ----------
    key
        Random key of the pilots.
    posterior, data
        Loss and prior; pilot datasets (leading axis).
    gammas
        The grid, increasing.
    origin
        Wide normal to begin with where the prior is not proper.
    kernel
        What moves particles.
    num_islands, num_each
        Groups of particles, and particles in each.
    least_ess
        Share of particles that are to be effective after weighing, on average over pilots.
    at_once
        Pilots that are worked on at a time.
    on_gamma
        Called when a gamma is reached.

    Returns
    -------
    Segment
        One for each gamma (leading axis).

    Raises
    ------
    ValueError
        If a gamma is out of reach in ``MOST_STEPS`` steps.
    """
    dtype = jnp.zeros(()).dtype
    num_pilots = jax.tree.leaves(data)[0].shape[0]
    begin_key, walk_key = jax.random.split(key)
    keys = jax.random.split(begin_key, num_pilots)
    particles = begin_pilots(posterior, num_islands, num_each, at_once, keys, data, origin)
    at = begin_point(posterior.prior.has_draws, dtype)
    one = jnp.ones((), dtype)
    log_step = jnp.log(jnp.asarray(kernel.default_tuning(posterior.dim)[0], dtype))
    ask = jnp.asarray(least_ess, dtype)
    segments: list[list[Found]] = []
    total = 0
    for gamma in gammas:
        goal, steps = Point(jnp.asarray(gamma, dtype), one), list[Found]()
        while not steps or not bool(steps[-1].is_there):
            total += 1
            if total > MOST_STEPS:
                raise ValueError(
                    f"gammas: {gamma:g} is out of reach for SMC in {MOST_STEPS} steps from the "
                    f"prior (it got to {float(at.gamma):g}); lower it, or give a prior that is "
                    "less wide."
                )
            keys = jax.random.split(jax.random.fold_in(walk_key, total), num_pilots)
            found = step_pilots(
                posterior, kernel, at_once, keys, data, origin, particles, at, goal, log_step, ask
            )
            particles, at, log_step = found.particles, found.point, found.log_step
            steps.append(found._replace(particles=None))
        segments.append(steps)
        on_gamma()
    return _packed(segments, origin)


def _packed(segments: list[list[Found]], origin: Whitening) -> Segment:
    """Pad all segments to one length, a power of two, so that few shapes are compiled for."""
    longest = max(map(len, segments))
    length = 1 << max(2, (longest - 1).bit_length())

    def packed(steps: list[Found]) -> Segment:
        stacked: Any = jax.tree.map(lambda *a: np.stack([np.asarray(x) for x in a]), *steps)
        segment = Segment(
            points=stacked.point,
            scale=stacked.scale,
            step_size=np.exp(stacked.log_step),
            num_moves=stacked.num_moves,
            num_steps=jnp.asarray(len(steps), jnp.int32),
            origin=jax.tree.map(np.asarray, origin),
        )
        return segment.padded(length)

    return jax.tree.map(lambda *a: jnp.stack(a), *map(packed, segments))
