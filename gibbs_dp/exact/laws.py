"""A family of output laws indexed by datasets with a weight each: how much the output tells.

The family is ``log_laws [datasets, outputs]`` and the weights ``log_weight [datasets]``; datasets
may be ordered ones or multinomial types. ``-inf`` is a probability of zero. Nats, unless a name
says bits.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from gibbs_dp.information.divergences import batched

LogWeight = Float[np.ndarray, " datasets"]
LogLaws = Float[np.ndarray, "datasets outputs"]


def mixture(log_weight: LogWeight, log_laws: LogLaws) -> Float[np.ndarray, " outputs"]:
    """Log of the marginal law of the output.

    Examples
    --------
    >>> np.exp(mixture(np.log([0.5, 0.5]), np.log([[0.2, 0.8], [0.4, 0.6]]))).round(6)
    array([0.3, 0.7])
    """
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(log_weight[:, None] + log_laws, axis=0))


def average(log_weight: LogWeight, values: LogWeight) -> float:
    """Mean of ``values [datasets]``; a weight of zero silences even an infinite value.

    Examples
    --------
    >>> average(np.log([0.5, 0.5]), np.array([1.0, 3.0]))
    2.0
    """
    seen = ~np.isneginf(log_weight)
    return float(np.exp(log_weight[seen]) @ values[seen])


def mutual_information(log_weight: LogWeight, log_laws: LogLaws) -> float:
    """``I(W; S)``, the average KL of the laws to their mixture.

    Examples
    --------
    >>> laws = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    >>> round(mutual_information(np.log([0.5, 0.5]), laws), 6)
    0.693147
    """
    return average(log_weight, batched.kl(log_laws, repeated_mixture(log_weight, log_laws)))


def lautum_information(log_weight: LogWeight, log_laws: LogLaws) -> float:
    """Lautum information, the average KL of the mixture to the laws; may be ``inf``.

    Examples
    --------
    >>> laws = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    >>> lautum_information(np.log([0.5, 0.5]), laws)
    inf
    """
    return average(log_weight, batched.kl(repeated_mixture(log_weight, log_laws), log_laws))


def max_information_bits(log_weight: LogWeight, log_laws: LogLaws) -> float:
    """Max-information over datasets of positive probability, in bits.

    Examples
    --------
    >>> round(max_information_bits(np.log([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]])), 6)
    0.584963
    """
    seen = ~np.isneginf(log_weight)
    ratio = batched.max_divergence(log_laws, repeated_mixture(log_weight, log_laws))
    return float(ratio[seen].max()) / math.log(2)


def repeated_mixture(log_weight: LogWeight, log_laws: LogLaws) -> LogLaws:
    """Repeat the `mixture` once per dataset."""
    return np.broadcast_to(mixture(log_weight, log_laws), log_laws.shape)
