"""Bounds of Sibson's alpha-mutual information and of maximal leakage, from densities of draws."""

from __future__ import annotations

import math

import numpy as np

from gibbs_dp.estimators.average import Average
from gibbs_dp.estimators.group_sums import Columns, Grouped, Out
from gibbs_dp.estimators.left_out import left_out

# A logarithm this large is of a mean that draws do not determine; it only has to stay finite.
_LARGEST_LOG = 100.0


def alpha_information_lower(sums: Grouped, alpha: float) -> Average:
    """Lower bound in mean of ``I_alpha(theta; Z)``, or of maximal leakage: that of M datasets.

    ``exp((alpha - 1) / alpha I_alpha)`` is the integral over theta of ``(E p(theta|Z)^alpha)^(1 /
    alpha)`` (Sibson 1969), concave in the law of ``Z``. With the law that puts ``1 / M`` on each
    of the datasets it is therefore too small on average (Jensen), and so is its logarithm. The
    integral is a mean over draws of the datasets, which are draws of the mixture. For ``alpha =
    inf``, maximal leakage (Issa, Wagner & Kamath 2020, Theorem 1), fewer datasets have a smaller
    maximum.

    Parameters
    ----------
    sums
        Of powers 1 and ``alpha``.
    alpha
        Above 1; ``inf`` for leakage.

    Returns
    -------
    Average
        In nats, at most ``log M``.
    """
    factor = 1.0 if math.isinf(alpha) else alpha / (alpha - 1.0)
    found = factor * np.log(sums.mean(_ratio_to_mixture(sums, alpha, None)))
    return left_out(found, sums.num_datasets)


def _ratio_to_mixture(sums: Grouped, alpha: float, half: int | None) -> Out:
    """Power mean of the densities over their mean, at draws of the datasets that both are of."""
    size = sums.size(half)
    mean = np.logaddexp(sums.log_sum(1.0, half), 0.0) - np.log(size)
    others = sums.log_sum(alpha, half)
    if math.isinf(alpha):
        return np.exp(np.maximum(others, 0.0) - mean)
    return np.exp((np.logaddexp(others, 0.0) - np.log(size)) / alpha - mean)


def alpha_information_upper(sums: Grouped, alpha: float) -> Average | None:
    """Upper bound in mean of ``I_alpha(theta; Z)``: the divergence from one half's best guess.

    ``I_alpha`` is the least ``D_alpha(P_{theta Z} || q x P_Z)`` over densities ``q`` (Sibson 1969;
    Verdú 2015, equation 23). Here ``q`` is the power mean of one half's densities, normalized
    with that half's draws, and the divergence is that of the other half's datasets, an integral
    that their draws find; both ways, averaged. Logarithms of means are bounded by ``x / c - 1 +
    log c``, ``c`` the other way's mean: what noise would take from a logarithm it adds.

    Parameters
    ----------
    sums
        Of powers 1 and ``alpha``.
    alpha
        Above 1, finite.

    Returns
    -------
    Average or None
        In nats. None where its error is as large as the bound itself: the two ways differ so much
        that datasets are too few for the information.
    """
    powers, norms = [], []
    for half in (0, 1):
        size, is_mine = sums.size(half), (sums.own_fold == half).astype(np.float64)
        mixture = np.logaddexp(sums.log_sum(1.0, half), 0.0) - np.log(size)
        mine = np.logaddexp(sums.log_sum(alpha, half), 0.0) - np.log(size)
        guess = (sums.log_sum(alpha, 1 - half) - np.log(sums.size(1 - half))) / alpha
        log_ratio = mine - (alpha - 1.0) * guess - mixture
        if np.max(log_ratio[is_mine > 0, 0]) > _LARGEST_LOG:
            return None
        log_ratio = np.minimum(log_ratio, _LARGEST_LOG)
        powers.append(sums.mean(np.exp(log_ratio), is_mine))
        norms.append(sums.mean(_ratio_to_mixture(sums, alpha, half), is_mine))
    found = left_out(_above_log(*powers) / (alpha - 1.0) + _above_log(*norms), sums.num_datasets)
    return found if found.se < found.value else None


def _above_log(one: Columns, two: Columns) -> Columns:
    """Average of two logarithms of means, each from above, with the other as where to touch."""
    touch = 0.5 * (one / two + two / one) - 1.0
    return np.asarray(touch + 0.5 * (np.log(one) + np.log(two)))
