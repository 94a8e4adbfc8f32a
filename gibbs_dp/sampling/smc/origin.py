"""Where paths begin if the prior cannot be drawn from: a wide normal over the modes found."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.errors import ImproperPosteriorError
from gibbs_dp.sampling.locate import MAX_LAPLACE_DIM, locate
from gibbs_dp.sampling.target import Target
from gibbs_dp.sampling.whitening import Whitening

# Searches of every pilot begin at overdispersed points, times these.
SPREADS = (1.0, 1.0, 4.0, 4.0, 16.0, 16.0, 64.0, 64.0)
# Nats below the best mode at which an end of a search holds nothing worth reaching.
LEAST_MASS = 50.0
# Standard deviations of the normal over those of modes and ends together.
WIDER = 3.0


def _ends_of(
    posterior: GibbsPosterior, keys: Array, data: PyTree, gamma: Array
) -> tuple[Array, Array, Array, Array, Array]:
    def one(pair: tuple[PRNGKeyArray, PyTree]) -> tuple[Array, ...]:
        key, data = pair
        starts = jax.vmap(posterior.initial)(jax.random.split(key, len(SPREADS)))
        spreads = jnp.asarray(SPREADS, starts.dtype)
        found = locate(Target(posterior, data, gamma), starts * spreads[:, None])
        scale = found.whitening.scale
        variance = scale**2 if scale.ndim == 1 else jnp.sum(scale**2, axis=1)
        return found.centers, found.gaps, variance, found.is_curved, found.is_improper

    return jax.lax.map(one, (keys, data))


_ends = on_default_backend(_ends_of, "posterior")


def wide_origin(
    key: PRNGKeyArray, posterior: GibbsPosterior, data: PyTree, gamma: float
) -> Whitening:
    """Return the normal that paths begin at; a standard one, unused, where the prior has draws.

    Parameters
    ----------
    key
        Random key.
    posterior, data
        Loss and prior; pilot datasets (leading axis).
    gamma
        The smallest of the path: its posteriors are widest.

    Returns
    -------
    Whitening
        Its mean, and its standard deviations.

    Raises
    ------
    ImproperPosteriorError
        If pilots' posteriors are improper or have no mode with curvature.
    """
    dim, dtype = posterior.dim, jnp.zeros(()).dtype
    if posterior.prior.has_draws:
        return Whitening(jnp.zeros(dim, dtype), jnp.ones(dim, dtype))
    keys = jax.random.split(key, jax.tree.leaves(data)[0].shape[0])
    found = _ends(posterior, keys, data, jnp.asarray(gamma, dtype))
    ends, gaps, variance, is_curved, is_improper = (np.asarray(a) for a in found)
    usable = ~is_improper & (is_curved | (dim > MAX_LAPLACE_DIM))
    if usable.mean() < 0.5:
        raise ImproperPosteriorError(
            f"posterior: the prior is flat, and at gamma={gamma:g} there is no mode with curvature "
            f"that SMC could begin around (on {1 - usable.mean():.0%} of the datasets looked at); "
            "give a proper prior, or a larger gamma."
        )
    is_mode = np.isfinite(gaps) & (gaps >= -LEAST_MASS) & usable[:, None]
    modes = ends[is_mode].astype(float)
    width = WIDER * np.sqrt(modes.var(axis=0) + variance[usable].mean(axis=0))
    return Whitening(jnp.asarray(modes.mean(axis=0), dtype), jnp.asarray(width, dtype))
