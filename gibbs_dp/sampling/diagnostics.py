"""What one dataset's chains contribute to diagnostics pooled over datasets."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from gibbs_dp.sampling.sampler import ChainDraws


class Spread(NamedTuple):
    """Variances of one dataset's draws, per whitened coordinate and (last) the potential.

    Attributes
    ----------
    within
        Variance within a chain, once what all chains do at the same draw is taken out: chains
        may share their noise. For independent chains that is the variance within a chain.
    between
        Variance of the chains' means.
    drift
        Mean of the first half of the draws minus the second, of: potential energy, squared
        radius in whitened coordinates.
    drift_scale
        Standard deviations of the same two.
    """

    within: Float[Array, "*batch coordinates"]
    between: Float[Array, "*batch coordinates"]
    drift: Float[Array, "*batch 2"]
    drift_scale: Float[Array, "*batch 2"]


def spread(draws: ChainDraws) -> Spread:
    """Reduce one dataset's draws to what pooled R-hat, ESS and the drift test need."""
    x = jnp.concatenate([draws.v, draws.potential[..., None]], axis=-1)
    num_samples = x.shape[1]
    radius = jnp.sum(draws.v**2, axis=-1)
    moving = jnp.stack([draws.potential, radius], axis=-1)
    half = num_samples // 2
    first = jnp.mean(moving[:, :half], axis=(0, 1))
    second = jnp.mean(moving[:, num_samples - half :], axis=(0, 1))
    return Spread(
        within=_within(x),
        between=jnp.var(jnp.mean(x, axis=1), axis=0, ddof=1),
        drift=first - second,
        drift_scale=jnp.std(moving, axis=(0, 1)),
    )


def _within(x: Float[Array, "chains draws coordinates"]) -> Float[Array, " coordinates"]:
    if x.shape[0] == 1:
        return jnp.var(x[0], axis=0, ddof=1)
    rest = x - jnp.mean(x, axis=0)
    rest -= jnp.mean(rest, axis=1, keepdims=True)
    return jnp.sum(rest**2, axis=(0, 1)) / ((x.shape[0] - 1) * (x.shape[1] - 1))


class Pooled(NamedTuple):
    """Convergence diagnostics over all datasets of one gamma.

    Attributes
    ----------
    r_hat
        Largest over coordinates of R-hat with variances averaged over datasets. Pooling makes it
        sharp: for chains that agree it is 1 within about ``1 / sqrt(datasets)`` of a percent.
    r_hat_exceed
        Fraction of (dataset, coordinate) cells whose own between/within ratio lies beyond the
        99% quantile for independent draws, after scaling by the pooled ratio: about 0.01 when
        all datasets mix alike.
    ess_min
        Effective draws per dataset in the worst coordinate.
    drift_z
        Largest absolute z-score of first-half minus second-half means.
    drift_size
        The same drift in posterior standard deviations.
    """

    r_hat: float
    r_hat_exceed: float
    ess_min: float
    drift_z: float
    drift_size: float


def pool(values: Spread, num_chains: int, num_samples: int) -> Pooled:
    """Pool :class:`Spread` of many datasets (leading axis) into diagnostics."""
    # Summed in double precision, and not turned into it: of 100,000 datasets that is most memory.
    within, between = np.asarray(values.within), np.asarray(values.between)
    mean_within = within.mean(axis=0, dtype=np.float64)
    mean_between = between.mean(axis=0, dtype=np.float64)
    tiny = np.finfo(np.float32).tiny
    r_hat = np.sqrt((num_samples - 1) / num_samples + mean_between / (mean_within + tiny))
    # A chain's mean of independent draws has variance within / num_samples.
    ratio = num_samples * mean_between / (mean_within + tiny)
    ess = num_chains * num_samples / np.maximum(ratio, tiny)
    cells = between / (within + tiny)
    cells *= (num_samples / np.maximum(ratio, tiny)).astype(cells.dtype)
    cut = special.fdtri(num_chains - 1, num_chains * (num_samples - 1), 0.99)
    drift = np.asarray(values.drift, np.float64)
    scale = np.asarray(values.drift_scale, np.float64).mean(axis=0) + tiny
    error = drift.std(axis=0, ddof=1) / np.sqrt(drift.shape[0]) + tiny
    return Pooled(
        r_hat=float(r_hat.max()),
        r_hat_exceed=float((cells > cut).mean()),
        ess_min=float(min(ess.min(), num_chains * num_samples)),
        drift_z=float(np.abs(drift.mean(axis=0) / error).max()),
        drift_size=float(np.abs(drift.mean(axis=0) / scale).max()),
    )
