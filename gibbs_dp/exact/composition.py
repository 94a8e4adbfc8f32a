"""Exact composition: the privacy curve of many releases of one pair of finite laws.

Composition of channels themselves is `FiniteChannel.then`, after which every quantity is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp, xlogy

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.types import enumerate_types, num_types, require_cells
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched


def composed_privacy_curve(
    p: ArrayLike, q: ArrayLike, num_releases: int, epsilons: Sequence[float]
) -> Float[np.ndarray, " epsilons"]:
    """Exact ``delta = E_{e^epsilon}(P^k || Q^k)`` of ``k`` independent releases, one direction.

    By types over outputs: ``C(k + outputs - 1, outputs - 1)`` terms. Randomized response with
    ``p = (e^epsilon, 1)/(1 + e^epsilon)`` and ``q`` its mirror is the worst pair of any
    ``epsilon``-DP algorithms, adaptive ones too, so this is the optimal composition theorem
    (Kairouz, Oh & Viswanath 2015).

    Parameters
    ----------
    p, q
        Output laws ``[outputs]`` on two neighbouring datasets.
    num_releases
        ``k``.
    epsilons
        Where to evaluate.

    Returns
    -------
    array
        ``delta`` at each of ``epsilons``.

    Raises
    ------
    ValueError
        If there are too many types.

    Examples
    --------
    >>> composed_privacy_curve([0.75, 0.25], [0.25, 0.75], 2, [0.0]).round(6)
    array([0.5])
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


def conditional_on_average_kl(first: FiniteChannel, kernel: ArrayLike, position: int = 0) -> float:
    """``E_{Z,z'} E_{theta ~ A(Z)} KL(B(Z, theta) || B(Z^(1), theta))`` in nats.

    The ``eps_2`` of the composition lemma, exactly: on-average KL of ``first.then(kernel)`` is
    ``eps_1`` plus this (chain rule).

    Parameters
    ----------
    first
        Channel ``A``.
    kernel
        ``P(B | S, A)``, ``[datasets, outputs, new_outputs]``.
    position
        The example replaced.

    Returns
    -------
    float
        Nats.

    Examples
    --------
    >>> a = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
    >>> kernel = np.repeat(a.probabilities[:, None, :], 2, axis=1)
    >>> round(conditional_on_average_kl(a, kernel), 6)  # B ignores theta: its own on-average KL
    0.274653
    """
    total = 0.0
    drawn = first.replacements([position])
    for pair, (log_weight, kl) in zip(drawn, _kernel_kls(first, kernel, position), strict=True):
        weight = np.exp(log_weight[:, None] + pair.log_p)
        total += float((weight * np.where(weight > 0, kl, 0.0)).sum())
    return total


def fixed_output_on_average_kl(
    first: FiniteChannel, kernel: ArrayLike, position: int = 0
) -> Float[np.ndarray, " outputs"]:
    """On-average KL of ``B(., theta)`` for every fixed ``theta``, in nats, ``[outputs]``.

    This is what the composition lemma must **not** use; parameters as in
    `conditional_on_average_kl`.

    Examples
    --------
    >>> a = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
    >>> fixed_output_on_average_kl(a, np.repeat(a.probabilities[:, None, :], 2, axis=1)).round(6)
    array([0.274653, 0.274653])
    """
    total = np.zeros(first.num_outputs)
    for log_weight, kl in _kernel_kls(first, kernel, position):
        weight = np.exp(log_weight)[:, None]
        total += (weight * np.where(weight > 0, kl, 0.0)).sum(axis=0)
    return total


def _kernel_kls(
    first: FiniteChannel, kernel: ArrayLike, position: int
) -> Iterator[tuple[Float[np.ndarray, " rest"], Float[np.ndarray, "rest outputs"]]]:
    """Log-weight of each replacement at a position, and ``KL(B(Z, w) || B(Z', w))`` of every w."""
    second = np.asarray(kernel, dtype=np.float64)
    if second.ndim != 3 or second.shape[:2] != first.log_laws.shape:
        raise ValueError(
            f"kernel must have shape [datasets, outputs, new_outputs] starting with "
            f"{list(first.log_laws.shape)}, got {list(second.shape)}."
        )
    # One channel that first draws w uniformly: its blocks are the laws at each w, over the number.
    num = first.num_outputs
    uniform = FiniteChannel(second.reshape(second.shape[0], -1) / num, first.data_probs, first.n)
    for pair in uniform.replacements([position]):
        blocks = (pair.log_weight.size, num, second.shape[2])
        kl = batched.kl(pair.log_p.reshape(blocks), pair.log_q.reshape(blocks))
        yield pair.log_weight, num * kl
