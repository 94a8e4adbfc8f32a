"""Datasets of dependent examples, exactly: the whole dataset is one example of a joint law.

Replacing one example of a dependent dataset by an independent ghost changes the law of the dataset,
and Theorem 4 fails. Replacing the **whole** dataset keeps it, so Remark 1 and Lemma 9 of Wang, Lei
& Fienberg 2016 hold for any joint law.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.exact.finite_problem import FiniteProblem, StructuredProblem
from gibbs_dp.exact.types import ordered_datasets
from gibbs_dp.information import bounds, checks, dependence
from gibbs_dp.information.divergences import batched
from gibbs_dp.papers import channels
from gibbs_dp.papers.bounds import advanced_composition_inverse_small_epsilon
from gibbs_dp.papers.channels import (
    composed_privacy_curve,
    conditional_on_average_kl,
    fixed_output_on_average_kl,
    summed_loss,
    uniform_noise,
)
from gibbs_dp.papers.verify.check import Record, counterexample, equality, inequality

__all__ = ["all_counterexamples"]

WANG = "Wang, Lei & Fienberg 2016"


def markov_chain_probs(
    start: ArrayLike, transition: ArrayLike, n: int
) -> Float[np.ndarray, " datasets"]:
    """Probability of every ordered dataset that is the first ``n`` states of a Markov chain."""
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
    """Gibbs posterior of datasets of any joint law, as a channel of one example: the dataset."""
    return channels.gibbs(total_loss, 1, gamma, dataset_probs, prior_probs)


def ghost_sides(
    total_loss: ArrayLike, gamma: float, dataset_probs: ArrayLike, prior_probs: ArrayLike, n: int
) -> tuple[float, float]:
    """Both sides of Theorem 4 when example 0 is replaced by a draw of its own marginal law."""
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
    """Check what holds for any joint law of the examples: Remark 1 and Lemma 9, all replaced."""
    channel = whole_dataset_gibbs(total_loss, gamma, dataset_probs, prior_probs)
    kl = channel.on_average_kl()
    gap = channel.generalization_error(np.asarray(total_loss, dtype=np.float64).T)
    total = channel.mutual_information() + channel.lautum_information()
    name = "Remark 1, dependent examples: E KL(A(Z) || A(Z~)) = gamma E[L(Z~) - L(Z)]"
    return [
        equality(name, WANG, kl, gamma * gap),
        equality("Lemma 9, dependent examples: E KL(A(Z) || A(Z~)) = I + lautum", WANG, kl, total),
    ]


# Statements that look true, or are in print, and are false: one exact counterexample each.


def composition_for_fixed_theta() -> list[Record]:
    """Composition needs ``theta ~ A(Z)``: an average for every fixed ``theta`` is not enough.

    ``A`` reports one of 20 values, at random half of the time; ``B`` says, right 19 times in 20,
    whether ``theta`` is the value. At a fixed ``theta`` that question is rarely worth asking, but
    ``A`` supplies the ``theta`` at which it is.
    """
    num = 20
    first = FiniteChannel(0.5 * np.eye(num) + 0.5 / num, np.full(num, 1 / num), 1)
    hit = np.where(np.eye(num, dtype=bool), 0.95, 0.05)
    kernel = np.stack([hit, 1 - hit], axis=2)
    truth = first.then(kernel).on_average_kl()
    eps_1 = first.on_average_kl()
    eps_2 = float(fixed_output_on_average_kl(first, kernel).max())
    honest = conditional_on_average_kl(first, kernel)
    return [
        counterexample("composition with eps_2 for every fixed theta", WANG, truth, eps_1 + eps_2),
        equality("composition with eps_2 over theta ~ A(Z)", WANG, truth, eps_1 + honest),
    ]


def groups_of_structured_losses() -> list[Record]:
    """Lemma 6 needs a sum of losses: with a structured loss two people may cost over twice one.

    Two bits, two hypotheses, ``L`` is 0 for one and ``3 (number of ones)^2`` for the other.
    """
    problem = StructuredProblem(
        lambda counts: np.column_stack([0 * counts[:, 1], 3.0 * counts[:, 1] ** 2]),
        [0.5, 0.5],
        [0.5, 0.5],
    )
    one, two = problem.group_privacy(1.0, 2).on_average_kl
    name = "two ghosts cost at most 2 eps_KL for any loss"
    return [counterexample(name, WANG, float(two), 2 * float(one))]


def colder_is_not_worse() -> list[Record]:
    """Remark 2: a larger ``gamma`` need not generalize worse; ``gamma gen`` is the privacy."""
    problem = FiniteProblem([[0.0, 1.0], [0.2, 0.5]], [0.5, 0.5], [0.5, 0.5])
    warm, cold = (problem.generalization_error(gamma, 3) for gamma in (8.0, 64.0))
    mild = problem.generalization_error(1.0, 3)
    return [
        counterexample("gen grows with gamma: gen(8) <= gen(64)", WANG, warm, cold),
        counterexample("gen falls with gamma: gen(8) <= gen(1)", WANG, warm, mild),
    ]


def bounded_noise() -> list[Record]:
    """Noise of bounded support is not DP: no ``epsilon`` works, nor does ``delta`` fall with it."""
    channel = uniform_noise(ordered_datasets(3, 2).sum(axis=1), 3, 2, [0.5, 0.5])
    delta = float(channel.privacy_curve([50.0])[0])
    return [
        counterexample("uniform noise has a finite eps", "Dwork & Roth", channel.dp_epsilon(), 1e9),
        counterexample("delta(50) of uniform noise is small", "Dwork & Roth", delta, 1e-9),
    ]


def max_information_of_one_law() -> list[Record]:
    """Max-information adds when it is bounded for every law of the data, not for the data's own.

    One of three values, and each answer names one that it is not, at random: worth ``log2 3/2``
    bits. Two different answers leave one value, worth ``log2 3``. After the first answer the law
    of the data is another one, on which the second is worth a whole bit.
    """
    probs = np.full(3, 1 / 3)
    answer = FiniteChannel((1 - np.eye(3)) / 2, probs, 1)
    both = answer.then(answer.probabilities).max_information_bits()
    given = FiniteChannel(answer.probabilities, [0.5, 0.5, 0.0], 1).max_information_bits()
    bits, source = answer.max_information_bits(), "Dwork et al. 2015, Lemma 14"
    return [
        counterexample("max-information adds for a fixed law of the data", source, both, 2 * bits),
        equality("max-information adds for the law given the output", source, both, bits + given),
    ]


def dependent_examples() -> list[Record]:
    """Independent ghosts and the order of informations need independent examples.

    A chain of bits that rarely flips: after one bit is replaced by a draw of its own law the
    dataset is no longer a draw of the chain, and ``gamma gen`` is not the KL. With two copies of
    one bit, each copy tells all there is to know, and nothing more given the other.
    """
    chain = markov_chain_probs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], 3)
    loss = summed_loss([[0.0, 1.0], [1.0, 0.0]], 3)
    kl, gap = ghost_sides(loss, 2.0, chain, [0.5, 0.5], 3)
    copies = np.zeros((2, 2, 2))  # axes [W, z_1, z_2], all three equal
    copies[0, 0, 0] = copies[1, 1, 1] = 0.5
    information = dependence.mutual_information(copies.reshape(2, 4))
    each = float(dependence.individual_information(copies).sum())
    erasure = dependence.erasure_mutual_information(copies)
    rakhlin = "Rakhlin, lecture 20"
    return [
        counterexample("Theorem 4 in a Markov chain: gamma gen <= eps_KL", WANG, gap, kl),
        counterexample("sum_i I(W; Z_i) <= I(W; S), copies", "Bu et al. 2020", each, information),
        counterexample("I(W; S) <= I^-(W; S), copies", rakhlin, information, erasure),
    ]


def small_epsilon_composition() -> list[Record]:
    """``epsilon'/sqrt(2 k ln(1/delta'))`` per release, as printed, is not a guarantee.

    It drops ``k epsilon (e^epsilon - 1)``: with 100 releases, ``epsilon' = 20``, ``delta' = 0.1``,
    the exact composition of randomized response has ``delta`` far above the promised one.
    """
    k, total, slack = 100, 20.0, 0.1
    records = []
    for solve in (advanced_composition_inverse_small_epsilon, bounds.advanced_composition_inverse):
        eps = solve(k, total, delta_slack=slack)
        p = np.array([1.0, math.exp(-eps)]) / (1 + math.exp(-eps))
        delta = float(composed_privacy_curve(p, p[::-1], k, [total])[0])
        if solve is bounds.advanced_composition_inverse:
            name = "solving the full formula keeps delta"
            records.append(inequality(name, "Dwork et al. 2010", delta, slack, 0.0))
        else:
            name = "small-eps advanced composition keeps delta"
            records.append(counterexample(name, "lecture notes", delta, slack))
    return records


def all_counterexamples() -> list[Record]:
    """List every counterexample in this file, beside its corrected form where there is one.

    Examples
    --------
    >>> all(record.holds for record in all_counterexamples())
    True
    """
    return [
        *composition_for_fixed_theta(),
        *groups_of_structured_losses(),
        *colder_is_not_worse(),
        *bounded_noise(),
        *max_information_of_one_law(),
        *dependent_examples(),
        *small_epsilon_composition(),
    ]
