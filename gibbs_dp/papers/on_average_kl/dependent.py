"""Datasets of dependent examples, exactly: the whole dataset is one example of a joint law.

Replacing one example of a dependent dataset by an independent ghost changes the law of the dataset,
and Theorem 4 fails. Replacing the **whole** dataset keeps it, so Remark 1 and Lemma 9 of Wang, Lei
& Fienberg 2016 hold for any joint law.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.exact import channels
from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.types import ordered_datasets
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched
from gibbs_dp.papers.verify.check import Record, equality

WANG = "Wang, Lei & Fienberg 2016"


def markov_chain_probs(
    start: ArrayLike, transition: ArrayLike, n: int
) -> Float[np.ndarray, " datasets"]:
    """Probability of every ordered dataset that is the first ``n`` states of a Markov chain.

    Parameters
    ----------
    start
        Law of the first state, ``[values]``.
    transition
        ``P(next | state)``, ``[values, values]``, rows are laws.
    n
        Number of states.

    Returns
    -------
    probs
        ``[values^n]`` in the order of `ordered_datasets`.

    Raises
    ------
    ValueError
        If something is not a law, shapes disagree, or there are too many datasets.

    Examples
    --------
    >>> markov_chain_probs([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]], 2)
    array([0.375, 0.125, 0.125, 0.375])
    """
    first = checks.law("start", start)
    table = np.asarray(transition, dtype=np.float64)
    if table.shape != (first.size, first.size):
        raise ValueError(
            f"transition must have shape [values, values] = {[first.size] * 2}, got "
            f"{list(table.shape)}; give one row per state."
        )
    rows = np.stack([checks.law("transition", row) for row in table])
    states = ordered_datasets(n, first.size)
    return np.asarray(first[states[:, 0]] * rows[states[:, :-1], states[:, 1:]].prod(axis=1))


def whole_dataset_gibbs(
    total_loss: ArrayLike, gamma: float, dataset_probs: ArrayLike, prior_probs: ArrayLike
) -> FiniteChannel:
    """Gibbs posterior of datasets of any joint law, as a channel of one example: the dataset.

    Of that channel, ``on_average_kl()`` replaces the whole dataset, ``generalization_error(L.T)``
    is ``E [L(theta, Z~) - L(theta, Z)]``, the informations are those of theta and the dataset, and
    worst cases are over *all* pairs of datasets: groups of ``n``.

    Parameters
    ----------
    total_loss
        ``L``, ``[datasets, hypotheses]``, such as `channels.summed_loss`.
    gamma
        Inverse temperature, positive.
    dataset_probs
        Joint law of the examples, ``[datasets]``, such as `markov_chain_probs`.
    prior_probs
        ``[hypotheses]``.

    Returns
    -------
    FiniteChannel
        Of ``n = 1``, whose example is the dataset.

    Examples
    --------
    >>> chain = markov_chain_probs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], 3)
    >>> loss = channels.summed_loss([[0.0, 1.0], [1.0, 0.0]], 3)
    >>> channel = whole_dataset_gibbs(loss, 1.0, chain, [0.5, 0.5])
    >>> round(channel.on_average_kl() / channel.generalization_error(loss.T), 9)  # Remark 1
    1.0
    """
    return channels.gibbs(total_loss, 1, gamma, dataset_probs, prior_probs)


def ghost_sides(
    total_loss: ArrayLike, gamma: float, dataset_probs: ArrayLike, prior_probs: ArrayLike, n: int
) -> tuple[float, float]:
    """Both sides of Theorem 4 when example 0 is replaced by a draw of its own marginal law.

    ``E KL(A(Z) || A(Z^(1)))`` and ``gamma E [L(theta, Z^(1)) - L(theta, Z)]``, equal when the
    examples are independent and in general not. Parameters are those of `whole_dataset_gibbs`,
    with the number of examples ``n``.

    Examples
    --------
    >>> loss = channels.summed_loss([[0.0, 1.0], [1.0, 0.0]], 2)
    >>> kl, gap = ghost_sides(loss, 1.0, np.full(4, 0.25), [0.5, 0.5], 2)  # independent
    >>> round(kl / gap, 9)
    1.0
    """
    loss = np.asarray(total_loss, dtype=np.float64)
    channel = whole_dataset_gibbs(loss, gamma, dataset_probs, prior_probs)
    values = round(channel.data_probs.size ** (1 / checks.count("n", n)))
    probs = channel.data_probs.reshape(values, -1)
    log_law = channel.log_laws.reshape(values, -1, loss.shape[1])
    law, by_value = np.exp(log_law), loss.reshape(log_law.shape)
    marginal = probs.sum(axis=1)
    kl = gap = 0.0
    for a in range(values):
        for b in range(values):
            weight = probs[a] * marginal[b]
            kl += float(weight @ batched.kl(log_law[a], log_law[b]))
            gap += float(weight @ (law[a] * (by_value[b] - by_value[a])).sum(axis=1))
    return kl, gamma * gap


def dependent_identities(
    total_loss: ArrayLike, gamma: float, dataset_probs: ArrayLike, prior_probs: ArrayLike
) -> list[Record]:
    """Check what holds for any joint law of the examples: Remark 1 and Lemma 9, all replaced.

    Parameters are those of `whole_dataset_gibbs`.

    Examples
    --------
    >>> chain = markov_chain_probs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], 3)
    >>> loss = channels.summed_loss([[0.0, 1.0], [1.0, 0.0]], 3)
    >>> all(record.holds for record in dependent_identities(loss, 1.0, chain, [0.5, 0.5]))
    True
    """
    channel = whole_dataset_gibbs(total_loss, gamma, dataset_probs, prior_probs)
    kl = channel.on_average_kl()
    gap = channel.generalization_error(np.asarray(total_loss, dtype=np.float64).T)
    total = channel.mutual_information() + channel.lautum_information()
    name = "Remark 1, dependent examples: E KL(A(Z) || A(Z~)) = gamma E[L(Z~) - L(Z)]"
    return [
        equality(name, WANG, kl, gamma * gap),
        equality("Lemma 9, dependent examples: E KL(A(Z) || A(Z~)) = I + lautum", WANG, kl, total),
    ]
