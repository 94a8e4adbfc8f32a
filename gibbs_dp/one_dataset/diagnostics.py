"""How well the log-likelihoods of draws mix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpyro import diagnostics

# Examples that are looked at, evenly spaced.
LOOKED_AT = 50


class Mixing(NamedTuple):
    """Convergence of log-likelihoods.

    Attributes
    ----------
    r_hat
        Largest split R-hat, of their sum over examples and of 50 examples; infinite where a chain
        never moved.
    ess_min
        Fewest effective draws of these.
    relative_efficiency
        Mean effective draws over draws, of the examples' likelihoods; at most 1.
    """

    r_hat: float
    ess_min: float
    relative_efficiency: float


def mixing(log_likelihood: Float[np.ndarray, "chain draw example"]) -> Mixing:
    """Look at the sum over examples, and at some examples.

    Returns
    -------
    Mixing
        1 for R-hat and all draws effective where nothing varies.
    """
    chains, draws, examples = log_likelihood.shape
    places = np.unique(np.linspace(0, examples - 1, LOOKED_AT).round().astype(int))
    some = np.asarray(log_likelihood[:, :, places], np.float64)
    total = log_likelihood.sum(axis=2, dtype=np.float64)[:, :, None]
    if (np.ptp(total, axis=1) == 0).any() and np.ptp(total) > 0:
        return Mixing(np.inf, 0.0, 1.0)  # a chain is stuck
    looked_at = _varying(np.concatenate([total, some], axis=2))
    if not looked_at.shape[2]:
        return Mixing(1.0, float(chains * draws), 1.0)
    likelihood = _varying(np.exp(some - some.max(axis=(0, 1))))
    ess = _ess(looked_at)
    efficiency = float(np.mean(_ess(likelihood))) / (chains * draws) if likelihood.size else 1.0
    return Mixing(
        r_hat=float(np.max(diagnostics.split_gelman_rubin(looked_at))),
        ess_min=float(np.min(ess)),
        relative_efficiency=min(1.0, efficiency),
    )


def _varying(
    values: Float[np.ndarray, "chain draw column"],
) -> Float[np.ndarray, "chain draw varying"]:
    """Leave out what is the same in all draws of a chain: it has no effective number."""
    return np.asarray(values[:, :, (np.ptp(values, axis=1) > 0).all(axis=0)])


def _ess(values: Float[np.ndarray, "chain draw column"]) -> Float[np.ndarray, " column"]:
    return np.asarray(diagnostics.effective_sample_size(values), np.float64)
