"""Normalizers and empirical risks from particles along a path."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.certificates.evidence import Column, Evidence, from_islands
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.sample_path import LEAST_PILOTS
from gibbs_dp.sampling.smc.path import Segment
from gibbs_dp.sampling.smc.sampler import SMC


class Islands(NamedTuple):
    """What leaves the device of each dataset."""

    log_normalizer: Float[Array, "*b gammas islands"]
    mean_loss: Float[Array, "*b gammas islands"]
    lowest: Float[Array, "*b"]
    highest: Float[Array, "*b"]
    reference_losses: Float[Array, "*b gammas n"]
    reference_log_prior: Float[Array, "*b gammas"]


def _run_of(
    posterior: GibbsPosterior,
    sampler: SMC,
    keys: Key[Array, " datasets"],
    batch: PyTree,
    segments: Segment,
) -> Islands:
    def one(pair: tuple[PRNGKeyArray, PyTree]) -> Islands:
        key, data = pair
        draws = sampler.draw_path(key, posterior, data, segments)

        def of_particles(u: Float[Array, "each dim"]) -> tuple[Array, Array, Array]:
            losses = jax.vmap(lambda x: posterior.losses(posterior.constrain(x), data))(u)
            return jnp.mean(losses), jnp.min(losses), jnp.max(losses)

        islands = draws.u.reshape(-1, *draws.u.shape[2:])
        mean, low, high = jax.lax.map(of_particles, islands)
        assert draws.island_log_normalizer is not None
        return Islands(
            draws.island_log_normalizer,
            mean.reshape(draws.u.shape[:2]),
            jnp.min(low),
            jnp.max(high),
            draws.reference.losses,
            draws.reference.log_prior,
        )

    return jax.lax.map(one, (keys, batch))


_run = on_default_backend(_run_of, "posterior", "sampler")


def follow_path(
    posterior: GibbsPosterior, data: PyTree, gammas: Column, sampler: SMC, key: PRNGKeyArray
) -> Evidence:
    """Find a path with particles that enter nothing else, and run others along it.

    Parameters
    ----------
    posterior, data
        Loss and a prior that can be drawn from; examples.
    gammas
        Increasing.
    sampler
        How many particles, and what moves them.
    key
        Random key.

    Returns
    -------
    Evidence
        Of the particles, whose normalizer is unbiased.

    Raises
    ------
    ValueError
        If a gamma is out of reach.
    """
    pilot_key, run_key = jax.random.split(key)
    pilots = jax.tree.map(lambda a: jnp.stack([a] * LEAST_PILOTS), data)
    segments = sampler.find_path(pilot_key, posterior, pilots, [float(g) for g in gammas])
    batch = jax.tree.map(lambda a: a[None], data)
    return run_frozen(posterior, batch, gammas, sampler, segments, run_key[None])[0]


def run_frozen(
    posterior: GibbsPosterior,
    batch: PyTree,
    gammas: Column,
    sampler: SMC,
    segments: Segment,
    keys: Key[Array, " datasets"],
) -> list[Evidence]:
    """Run particles along a path that was found before, for each dataset of a batch.

    Parameters
    ----------
    posterior
        Loss and prior.
    batch
        Datasets (leading axis).
    gammas
        The grid of the path.
    sampler
        As the path was found with.
    segments
        The path. It may depend on the data, but not on the particles that run along it here.
    keys
        One a dataset.

    Returns
    -------
    list of Evidence
        One a dataset.
    """
    found = jax.tree.map(lambda a: np.asarray(a, np.float64), _run(
        posterior, sampler, keys, batch, segments
    ))  # fmt: skip
    log_mass = float(posterior.prior.log_mass)
    # Islands' normalizers are of the law over its density at the reference.
    height = found.reference_log_prior - gammas * found.reference_losses.sum(axis=-1) - log_mass
    level = found.log_normalizer + height[..., None]
    n = num_examples(jax.tree.map(lambda a: a[0], batch))
    ends = np.stack([found.lowest, found.highest], axis=1)
    return [
        from_islands(gammas, level[i], found.mean_loss[i], n, (float(low), float(high)))
        for i, (low, high) in enumerate(ends)
    ]
