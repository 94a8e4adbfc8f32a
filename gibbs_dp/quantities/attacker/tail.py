"""Which of the attacker's Rényi divergences hang on few draws, or few datasets."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.estimators import mean_interval
from gibbs_dp.estimators.privacy_loss import ORDERS, LossTails
from gibbs_dp.quantities.attacker.columns import RENYI

# Mean share of one draw in the mean of e^((a-1) L) above which that mean is too small: measured on
# Gaussians, where the divergence is then 2% off or more.
HEAVY_SHARE = 0.1
# How much farther an interval for the mean over datasets reaches up than down, above which the
# pairs that most of the mean comes from may be missing. Of 512 audits of 128 datasets of lognormal
# numbers, at a KL of 0.02, no draw is too heavy in 267; 35 of these are below it, and 8% too small.
LOPSIDED = 1.15
# Largest (a - 1) tail of a pair, above which the moment of order a may not exist. It does not from
# 1; ten draws beyond the point know a tail to a third, of thousands of pairs the worst to a half.
LARGEST_TAIL = 1.5
# And from where that is said: the worst of thousands of pairs whose moments all exist is below.
ENDLESS_TAIL = 2.5


def doubtful_orders(
    loss: LossTails, is_good: Bool[np.ndarray, " datasets"], is_exact: bool
) -> list[str]:
    """Orders whose mean is likely to be too small, such as ``["8"]``.

    Parameters
    ----------
    loss
        Of every dataset.
    is_good
        Datasets that count.
    is_exact
        Whether a dataset's numbers are sums over all there is, and not over draws.

    Returns
    -------
    list of str
        Names of the orders.
    """
    heavy = (heaviest(loss, is_good) > HEAVY_SHARE) & (not is_exact)
    endless = endless_orders(loss, is_good)
    orders = [name.rpartition("_")[2] for name in RENYI]
    return [
        order
        for order, is_heavy, values in zip(orders, heavy, loss.renyi.T, strict=True)
        if is_heavy or order in endless or is_lopsided(values[is_good])
    ]


def endless_orders(
    loss: LossTails, is_good: Bool[np.ndarray, " datasets"], largest: float = LARGEST_TAIL
) -> list[str]:
    """Orders whose divergence may be infinite: some pair's losses have so slow a tail.

    One such pair, however rare, makes the mean infinite, of which draws are silent.
    """
    tail = loss.tail[is_good]
    worst = float(np.max(tail[np.isfinite(tail)], initial=0.0))
    return [f"{order:g}" for order in ORDERS if (order - 1.0) * worst > largest]


def heaviest(
    loss: LossTails, is_good: Bool[np.ndarray, " datasets"]
) -> Float[np.ndarray, " orders"]:
    """Share of one draw in what Rényi divergences are made of; datasets count by theirs."""
    share, renyi = loss.weight[is_good], loss.renyi[is_good]
    is_known = np.isfinite(share) & np.isfinite(renyi)
    part = np.where(is_known, np.maximum(renyi, np.finfo(np.float64).tiny), 0.0)
    total = np.maximum(part.sum(axis=0), np.finfo(np.float64).tiny)
    found: Float[np.ndarray, " orders"] = (part / total * np.where(is_known, share, 0.0)).sum(
        axis=0
    )
    return found


def is_lopsided(values: Float[np.ndarray, " datasets"]) -> bool:
    """Whether datasets are so skewed that a mean over them is likely to be too small."""
    values = values[np.isfinite(values)]
    if values.size < 2:
        return False
    found, mean = mean_interval(values), values.mean()
    return bool(found.high - mean > LOPSIDED * (mean - found.low))
