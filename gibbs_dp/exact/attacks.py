"""Two attacks on counting queries, as exact channels, with and without noise.

Examples are bits. `FiniteChannel.guessing_accuracy` of person 0 is the attacker's success: pure
DP bounds it by ``e^epsilon/(1 + e^epsilon)`` when the bit is fair and the others are known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlogy

from gibbs_dp.exact.channels import geometric_count
from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.types import enumerate_types, ordered_datasets
from gibbs_dp.information import checks


def _bits(data_probs: ArrayLike) -> int:
    if checks.law("data_probs", data_probs).size != 2:
        raise ValueError("data_probs must have two entries; the attacks count ones.")
    return 2


def differencing_attack(n: int, epsilon: float | None, data_probs: ArrayLike) -> FiniteChannel:
    """Ask how many ones there are among all, and among all but person 0; subtract.

    Parameters
    ----------
    n
        Number of people, at least 2.
    epsilon
        Clamped geometric noise of ``epsilon``-DP on each answer (so ``2 epsilon`` together);
        ``None`` for none, where the two innocent counts reveal the bit.
    data_probs
        Law of one bit, ``[2]``.

    Returns
    -------
    FiniteChannel
        Outputs are the pair of answers.

    Examples
    --------
    >>> bare = differencing_attack(3, None, [0.5, 0.5])
    >>> round(bare.guessing_accuracy(0, others_known=False), 9)
    1.0
    >>> noisy = differencing_attack(3, 0.1, [0.5, 0.5])
    >>> noisy.guessing_accuracy(0, others_known=False) < 0.55
    True
    """
    checks.count("n", n, minimum=2)
    bits = ordered_datasets(n, _bits(data_probs))
    everyone = geometric_count(bits.sum(axis=1), n, epsilon)
    others = geometric_count(bits[:, 1:].sum(axis=1), n - 1, epsilon)
    return FiniteChannel(everyone, data_probs, n).then(others)


def averaging_attack(
    n: int, num_queries: int, epsilon: float | None, data_probs: ArrayLike
) -> FiniteChannel:
    """Ask one count many times, with fresh noise each time, and average the noise away.

    Parameters
    ----------
    n, num_queries
        Number of people, and of repetitions ``k``.
    epsilon
        Clamped geometric noise of ``epsilon``-DP on each answer (so ``k epsilon`` together);
        ``None`` for none.
    data_probs
        Law of one bit, ``[2]``.

    Returns
    -------
    FiniteChannel
        Outputs say how often each answer occurred; the order of answers tells nothing.

    Examples
    --------
    >>> few, many = (averaging_attack(2, k, 0.5, [0.5, 0.5]) for k in (1, 30))
    >>> round(few.guessing_accuracy(0, others_known=True), 2)
    0.62
    >>> round(many.guessing_accuracy(0, others_known=True), 2)
    0.91
    """
    checks.count("n", n)
    checks.count("num_queries", num_queries)
    counts = ordered_datasets(n, _bits(data_probs)).sum(axis=1)
    answer = geometric_count(np.arange(n + 1), n, epsilon)
    seen = enumerate_types(num_queries, n + 1)
    log_multiplicity = gammaln(num_queries + 1) - gammaln(seen + 1).sum(axis=1)
    with np.errstate(divide="ignore"):
        log_law = log_multiplicity + xlogy(seen[None], answer[:, None, :]).sum(axis=2)
    law = np.exp(log_law)
    # gammaln is only good to 1e-12; the true rows sum to one.
    law /= law.sum(axis=1, keepdims=True)
    return FiniteChannel(law[counts], data_probs, n)
