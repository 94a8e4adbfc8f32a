"""What certificates are computed from, by whatever route."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

Column = Float[np.ndarray, " gammas"]


class Evidence(NamedTuple):
    """Normalizers and empirical risks of one dataset's posteriors, a number a gamma.

    Attributes
    ----------
    log_normalizer, log_normalizer_se
        Log of the prior mean of ``exp(-gamma L)``, and its Monte Carlo error; nats. Where it is
        sampled, its exponential is unbiased.
    empirical_risk, empirical_risk_se
        Mean loss on the data, of the posterior or of weighted particles, and how far off the
        posterior's the latter may be.
    kl, kl_se
        Divergence from the prior, and its Monte Carlo error; nats.
    lowest, highest
        Of all losses that were met, at all gammas.
    """

    log_normalizer: Column
    log_normalizer_se: Column
    empirical_risk: Column
    empirical_risk_se: Column
    kl: Column
    kl_se: Column
    lowest: float
    highest: float


def from_sums(
    gammas: Column,
    total_loss: Float[np.ndarray, " points"],
    log_prior: Float[np.ndarray, " points"],
    n: int,
    ends: tuple[float, float],
) -> Evidence:
    """Sum over a finite class.

    Parameters
    ----------
    gammas
        Inverse temperatures.
    total_loss, log_prior
        Of each of its members; the prior is normalized here.
    n
        Number of examples.
    ends
        Smallest and largest loss.

    Returns
    -------
    Evidence
        Without errors.
    """
    prior = log_prior - logsumexp(log_prior)
    height = prior - np.multiply.outer(gammas, total_loss)
    log_normalizer = logsumexp(height, axis=1)
    risk = np.exp(height - log_normalizer[:, None]) @ total_loss / n
    none = np.zeros_like(gammas)
    kl = np.maximum(0.0, -gammas * n * risk - log_normalizer)
    return Evidence(log_normalizer, none, risk, none, kl, none, *ends)


def from_islands(
    gammas: Column,
    log_normalizer: Float[np.ndarray, "gammas islands"],
    mean_loss: Float[np.ndarray, "gammas islands"],
    n: int,
    ends: tuple[float, float],
) -> Evidence:
    """Pool independent islands, each with an unbiased normalizer; errors by leaving out each.

    No bias is taken off: the mean of the islands' normalizers is unbiased as it is, which is what
    bounds rest on.

    Parameters
    ----------
    gammas
        Inverse temperatures.
    log_normalizer, mean_loss
        Of each island: the log of its normalizer, and its particles' mean loss an example.
    n
        Number of examples.
    ends
        Smallest and largest loss.

    Returns
    -------
    Evidence
        Of all particles, islands weighing by their normalizers.
    """
    count = log_normalizer.shape[1]
    others = ~np.eye(count, dtype=bool)
    # Last axis: who is in; first all islands, then all but one.
    groups = np.concatenate([np.ones((1, count), bool), others])
    level = np.where(groups, log_normalizer[:, None, :], -np.inf)
    log_c = logsumexp(level, axis=-1) - np.log(groups.sum(axis=1))
    share = np.exp(level - logsumexp(level, axis=-1, keepdims=True))
    risk = (share * mean_loss[:, None, :]).sum(axis=-1)
    kl = -gammas[:, None] * n * risk - log_c

    def error(values: Float[np.ndarray, "gammas groups"]) -> Column:
        without = values[:, 1:]
        spread = ((without - without.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        return np.asarray(np.sqrt((count - 1) / count * spread))

    return Evidence(
        log_c[:, 0],
        error(log_c),
        risk[:, 0],
        error(risk),
        np.maximum(0.0, kl[:, 0]),
        error(kl),
        *ends,
    )
