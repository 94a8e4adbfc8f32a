"""Draws of one dataset's posterior, or of several datasets', along an SMC path."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.sampler import ChainDraws, PathSampler
from gibbs_dp.sampling.smc.particles import evenly
from gibbs_dp.sampling.smc.path import Segment

# Of the same data, with particles of their own: a path is found on at least so many.
LEAST_PILOTS = 4


def _draw_of(
    posterior: GibbsPosterior,
    sampler: PathSampler,
    keys: Key[Array, " datasets"],
    data: PyTree,
    segments: Segment,
) -> tuple[ChainDraws, PyTree]:
    def one(pair: tuple[PRNGKeyArray, PyTree, Segment]) -> tuple[ChainDraws, PyTree]:
        key, data, segments = pair
        at_gammas = sampler.draw_path(key, posterior, data, segments)
        draws = jax.tree.map(lambda a: a[0], at_gammas)
        # Islands weigh by their normalizers; draws that users average do not.
        rows = evenly(jnp.log(draws.weight), draws.weight.shape)
        u = draws.u.reshape(-1, draws.u.shape[-1])[rows]
        potential = draws.potential.ravel()[rows]
        draws = draws._replace(
            u=u, potential=potential, weight=jnp.full_like(draws.weight, 1.0 / rows.shape[1])
        )
        return draws, jax.vmap(jax.vmap(posterior.constrain))(u)

    return jax.lax.map(one, (keys, data, segments))


_draw = on_default_backend(_draw_of, "posterior", "sampler")


def sample_path(
    posterior: GibbsPosterior,
    batch: PyTree,
    gamma: float,
    sampler: PathSampler,
    key: PRNGKeyArray,
) -> tuple[ChainDraws, PyTree]:
    """Find each dataset's own path, with other particles, then draw along it.

    Posteriors of a batch may be as far apart as their data are, and a path that served all of them
    would go at the pace of the narrowest.

    Parameters
    ----------
    posterior
        Loss and prior.
    batch
        Datasets (leading axis).
    gamma
        Where the path ends.
    sampler
        Goes along it.
    key
        Random key.

    Returns
    -------
    draws, theta
        With a leading axis of datasets; in flat coordinates, and on the prior's support.

    Raises
    ------
    ValueError
        If gamma is out of reach.
    ImproperPosteriorError
        If there is nothing to begin with.
    """
    count = num_examples(batch)
    path_key, draw_key = jax.random.split(key)
    paths = []
    for i, one in enumerate(jax.random.split(path_key, count)):
        pilots = jax.tree.map(lambda a, i=i: jnp.stack([a[i]] * LEAST_PILOTS), batch)
        paths.append(sampler.find_path(one, posterior, pilots, [gamma]))
    length = max(path.length for path in paths)
    segments = jax.tree.map(lambda *a: jnp.stack(a), *(path.padded(length) for path in paths))
    return _draw(posterior, sampler, jax.random.split(draw_key, count), batch, segments)
