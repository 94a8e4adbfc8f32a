"""Constructors of finite channels: textbook mechanisms, private and not.

Datasets are rows of `ordered_datasets`; statistics and utilities are arrays over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp, xlogy

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.types import enumerate_types, num_types, ordered_datasets, require_cells
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched


def summed_loss(loss_matrix: ArrayLike, n: int) -> Float[np.ndarray, "datasets hypotheses"]:
    """Sum the losses of every ordered dataset, ``[datasets, hypotheses]``."""
    loss = np.asarray(loss_matrix, dtype=np.float64)
    if loss.ndim != 2:
        raise ValueError(f"loss_matrix must be [hypotheses, values], got shape {loss.shape}.")
    require_cells("datasets x examples x hypotheses", loss.shape[1] ** n * n * loss.shape[0])
    return np.asarray(loss.T[ordered_datasets(n, loss.shape[1])].sum(axis=1))


def gibbs(
    total_loss: ArrayLike, n: int, gamma: float, data_probs: ArrayLike, prior_probs: ArrayLike
) -> FiniteChannel:
    """Gibbs posterior of any loss of the ordered dataset, structured or summed."""
    checks.positive("gamma", gamma)
    prior = checks.law("prior_probs", prior_probs)
    loss = np.asarray(total_loss, dtype=np.float64)
    if loss.ndim != 2 or loss.shape[1] != prior.size or np.any(np.isnan(loss)):
        raise ValueError(
            f"total_loss must be numbers [datasets, hypotheses = {prior.size}], got shape "
            f"{list(loss.shape)}; give one column per hypothesis."
        )
    with np.errstate(divide="ignore"):
        exponent = -gamma * loss + np.log(prior)
    best = exponent.max(axis=1, keepdims=True)
    if not np.all(np.isfinite(best)):
        raise ValueError("total_loss leaves no hypothesis on some dataset; keep one finite there.")
    weight = np.exp(exponent - best)
    return FiniteChannel(weight / weight.sum(axis=1, keepdims=True), data_probs, n)


def uniform_noise(
    statistic: ArrayLike, n: int, half_width: int, data_probs: ArrayLike
) -> FiniteChannel:
    """Add to an integer statistic uniform noise on ``{-w, ..., w}``: **not** pure DP."""
    checks.count("half_width", half_width, minimum=0)
    values = np.asarray(statistic)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise ValueError("statistic must be a vector of integers, one per dataset; round it.")
    outputs = np.arange(values.min() - half_width, values.max() + half_width + 1)
    inside = np.abs(outputs - values[:, None]) <= half_width
    return FiniteChannel(inside / (2 * half_width + 1), data_probs, n)


# Exact composition: the privacy curve of many releases of one pair of finite laws.
#
# Composition of channels themselves is `FiniteChannel.then`, after which every quantity is exact.


def composed_privacy_curve(
    p: ArrayLike, q: ArrayLike, num_releases: int, epsilons: Sequence[float]
) -> Float[np.ndarray, " epsilons"]:
    """Exact ``delta = E_{e^epsilon}(P^k || Q^k)`` of ``k`` independent releases, one direction.

    By types over outputs: ``C(k + outputs - 1, outputs - 1)`` terms. Randomized response with
    ``p = (e^epsilon, 1)/(1 + e^epsilon)`` and ``q`` its mirror is the worst pair of any
    ``epsilon``-DP algorithms, adaptive ones too, so this is the optimal composition theorem
    (Kairouz, Oh & Viswanath 2015).
    """
    p_law, q_law = checks.law("p", p), checks.law("q", q)
    checks.same_length("p", p_law, "q", q_law)
    checks.count("num_releases", num_releases)
    require_cells("types x outputs", num_types(num_releases, p_law.size) * p_law.size)
    counts = enumerate_types(num_releases, p_law.size)
    multiplicity = gammaln(num_releases + 1) - gammaln(counts + 1).sum(axis=1)
    with np.errstate(divide="ignore"):
        log_p = multiplicity + xlogy(counts, p_law).sum(axis=1)
        log_q = multiplicity + xlogy(counts, q_law).sum(axis=1)
    log_p, log_q = log_p - logsumexp(log_p), log_q - logsumexp(log_q)
    values = [float(batched.hockey_stick(log_p, log_q, math.exp(eps))) for eps in epsilons]
    return np.array(values)


def conditional_on_average_kl(first: FiniteChannel, kernel: ArrayLike) -> float:
    """``E_{Z,z'} E_{theta ~ A(Z)} KL(B(Z, theta) || B(Z^(1), theta))`` in nats."""
    total = 0.0
    drawn = first.replacements([0])
    for pair, (log_weight, kl) in zip(drawn, _kernel_kls(first, kernel), strict=True):
        weight = np.exp(log_weight[:, None] + pair.log_p)
        total += float((weight * np.where(weight > 0, kl, 0.0)).sum())
    return total


def fixed_output_on_average_kl(
    first: FiniteChannel, kernel: ArrayLike
) -> Float[np.ndarray, " outputs"]:
    """On-average KL of ``B(., theta)`` for every fixed ``theta``, in nats, ``[outputs]``."""
    total = np.zeros(first.num_outputs)
    for log_weight, kl in _kernel_kls(first, kernel):
        weight = np.exp(log_weight)[:, None]
        total += (weight * np.where(weight > 0, kl, 0.0)).sum(axis=0)
    return total


def _kernel_kls(
    first: FiniteChannel, kernel: ArrayLike
) -> Iterator[tuple[Float[np.ndarray, " rest"], Float[np.ndarray, "rest outputs"]]]:
    """Log-weight of each replacement of the first example, and the KL at every output w."""
    second = np.asarray(kernel, dtype=np.float64)
    if second.ndim != 3 or second.shape[:2] != first.log_laws.shape:
        raise ValueError(
            f"kernel must have shape [datasets, outputs, new_outputs] starting with "
            f"{list(first.log_laws.shape)}, got {list(second.shape)}."
        )
    # One channel that first draws w uniformly: its blocks are the laws at each w, over the number.
    num = first.num_outputs
    uniform = FiniteChannel(second.reshape(second.shape[0], -1) / num, first.data_probs, first.n)
    for pair in uniform.replacements([0]):
        blocks = (pair.log_weight.size, num, second.shape[2])
        kl = batched.kl(pair.log_p.reshape(blocks), pair.log_q.reshape(blocks))
        yield pair.log_weight, num * kl
