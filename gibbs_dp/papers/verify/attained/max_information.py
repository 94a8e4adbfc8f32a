"""Cases of max-information, and of events that were chosen after looking at the data."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gibbs_dp.exact.finite_channel import FiniteChannel
from gibbs_dp.information import bounds
from gibbs_dp.information import divergences as dv
from gibbs_dp.information.bounds.max_information import approximate_dp_bits_at
from gibbs_dp.papers import bounds as paper_bounds
from gibbs_dp.papers.verify.attained.cases import (
    Case,
    Sides,
    agreement_bits,
    matched_guess,
    response,
    response_bits,
    revealed,
    single,
)

N, EPS, TAIL = 100_000, 1e-3, 1e-200  # far out in a Gaussian tail
ROOT_EPS = math.sqrt(0.25 - math.log(2) / 14) * (1 - 1e-12)
EVENT_EPS = math.sqrt(math.log(2) / 2) * (1 - 1e-12)
LOW_TAU = math.sqrt(10 * 1000)


def subsets() -> tuple[float, float]:
    """Take copies of the extreme eps-DP channel: subsets of 4 in 11, likelier with the value."""
    kept = 4 * math.e / (4 * math.e + 7)
    n, beta = 200_000, 1e-6
    truth = agreement_bits(n, kept, 4 / 11, beta)
    return truth, bounds.max_information_bits(n, 1.0, beta=beta)


def mean_part(
    bound: Callable[[], Callable[..., float]], n: int = 10**6, eps: float = 0.3, beta: float = 0.5
) -> Sides:
    """Take so many examples that the mean outweighs the deviation."""
    return lambda: (response_bits(n, eps, beta), bound()(n, eps, beta=beta))


def two_leaks() -> tuple[float, float]:
    """Let two people reveal their values with probability delta each: beta at 0 bits."""
    delta, num = 1e-3, 10**6
    joint, product = revealed(num, delta)
    needed = dv.hockey_stick(joint, product, 1.0)
    return dv.hockey_stick(np.kron(joint, joint), np.kron(product, product), 1.0), 2 * needed


def two_bits() -> tuple[float, float]:
    """Release two fair bits of the data, one after the other."""
    first = FiniteChannel(np.repeat(np.eye(2), 2, axis=0), [0.5, 0.5], 2)
    second = FiniteChannel(np.tile(np.eye(2), (2, 1)), [0.5, 0.5], 2)
    both = first.then(second.probabilities).max_information_bits()
    return both, first.max_information_bits() + second.max_information_bits()


def rare_leak() -> tuple[float, float]:
    """Find the beta at the bound's bits when one of e^300 values leaks with probability .1."""
    bits, beta = approximate_dp_bits_at(1, 0.0, 0.1, margin=10.0, slack=100.0, azuma_beta=1e-12)
    return dv.hockey_stick(*revealed(math.exp(300), 0.1), 2**bits), beta


def free_numbers() -> tuple[float, float]:
    """Give the bits at free numbers that spend nearly all of beta on Azuma's inequality."""
    bits, beta = approximate_dp_bits_at(N, EPS, 1e-250, margin=1e-5, slack=1e-3, azuma_beta=TAIL)
    return response_bits(N, EPS, min(beta, 1.0)), bits


CLIPPED = (
    "(eps, delta)-DP bounds the log-likelihood ratio of one example to [-eps, eps] only, twice "
    "the range that pure DP gives, and no case is known that needs it"
)
UNION = (
    "the tail at the worst output and the largest max-information do not come together; "
    "adaptive_event_tail is the sharp form"
)

CASES: dict[str, list[Case]] = {
    "max_information_bits": [
        Case(
            lambda: (
                3 * FiniteChannel(response(1.0), [1 - 1e-6, 1e-6], 1).max_information_bits(),
                bounds.max_information_bits(3, 1.0),
            ),
            0.999,
        ),
        Case(subsets, 0.98),
        Case(
            lambda: (
                response_bits(N, EPS, TAIL),
                bounds.max_information_bits(N, EPS, 1e-250, beta=TAIL),
            ),
            0.48,
            loose=CLIPPED,
        ),
    ],
    "dp_max_information_bits_published": [
        Case(
            lambda: (
                response_bits(N, EPS, TAIL),
                paper_bounds.dp_max_information_bits_published(N, EPS, beta=TAIL),
            ),
            0.97,
        ),
        Case(
            mean_part(lambda: paper_bounds.dp_max_information_bits_published),
            0.24,
            loose="the published mean n eps^2 / 2 is four times n eps^2 / 8, which is sharp",
        ),
    ],
    "dp_max_information_bits_eighth": [
        Case(
            lambda: (
                response_bits(N, EPS, TAIL),
                paper_bounds.dp_max_information_bits_eighth(N, EPS, beta=TAIL),
            ),
            0.98,
        ),
        Case(mean_part(lambda: paper_bounds.dp_max_information_bits_eighth), 0.97),
    ],
    "approximate_dp_bits_at": [
        Case(free_numbers, 0.48, part=0, loose=CLIPPED),
        Case(rare_leak, 0.999, part=1),
    ],
    "max-information adds": single(two_bits),
    "beta of max-information adds": single(two_leaks),
    "statistical_query_tail": single(
        lambda: (
            matched_guess(3, 0.25, lambda k: np.abs(k / 3 - 0.5) >= 0.5),
            paper_bounds.statistical_query_tail(3, 0.5, epsilon=0.25),
        ),
        0.27,
        loose=UNION,
    ),
    "statistical_query_tail_root": single(
        lambda: (
            matched_guess(7, ROOT_EPS, lambda k: np.abs(k / 7 - 0.5) >= 0.5),
            paper_bounds.statistical_query_tail_root(7, 0.5, epsilon=ROOT_EPS),
        ),
        0.04,
        loose=UNION,
    ),
    "low_sensitivity_tail": single(
        lambda: (
            matched_guess(1000, 0.1 * (1 - 1e-12), lambda k: np.abs(k - 500) >= LOW_TAU),
            paper_bounds.low_sensitivity_tail(
                1000, LOW_TAU * (1 + 1e-12), sensitivity=1.0, epsilon=0.1 * (1 - 1e-12)
            ),
        ),
        9e-4,
        loose=UNION,
    ),
    "general_event_tail": single(
        lambda: (
            matched_guess(4, EVENT_EPS, lambda k: k == 4),
            paper_bounds.general_event_tail(4, fixed_tail=2.0**-4, epsilon=EVENT_EPS),
        ),
        0.22,
        loose=UNION,
    ),
    "adaptive_event_tail": single(
        lambda: (
            matched_guess(4, EVENT_EPS, lambda k: k == 4),
            paper_bounds.adaptive_event_tail(4, fixed_tail=2.0**-4, epsilon=EVENT_EPS),
        ),
        0.47,
        loose="the best beta still adds the mass given away to the event's own",
    ),
}
