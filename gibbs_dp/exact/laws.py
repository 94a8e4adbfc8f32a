"""A family of output laws with the probability of each: how much the output tells.

The family is ``log_laws [datasets, outputs]`` and the weights ``log_weight [datasets]``; datasets
may be ordered ones or multinomial types. ``-inf`` is a probability of zero. Nats, unless a name
says bits.
"""

from __future__ import annotations

import abc
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import logsumexp, softmax

from gibbs_dp.information import checks
from gibbs_dp.information.dependence import alpha_information_of_laws
from gibbs_dp.information.divergences import batched
from gibbs_dp.information.divergences.finite import approximate_max_divergence_of_logs

LogWeight = Float[np.ndarray, " datasets"]
LogLaws = Float[np.ndarray, "datasets outputs"]


def mixture(log_weight: LogWeight, log_laws: LogLaws) -> Float[np.ndarray, " outputs"]:
    """Log of the marginal law of the output."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(log_weight[:, None] + log_laws, axis=0))


def average(log_weight: LogWeight, values: LogWeight) -> float:
    """Mean of ``values [datasets]``; a weight of zero silences even an infinite value."""
    seen = ~np.isneginf(log_weight)
    return float(np.exp(log_weight[seen]) @ values[seen])


def mutual_information(log_weight: LogWeight, log_laws: LogLaws) -> float:
    """``I(W; S)``, the average KL of the laws to their mixture."""
    return average(log_weight, batched.kl(log_laws, repeated_mixture(log_weight, log_laws)))


def lautum_information(log_weight: LogWeight, log_laws: LogLaws) -> float:
    """Lautum information, the average KL of the mixture to the laws; may be ``inf``."""
    return average(log_weight, batched.kl(repeated_mixture(log_weight, log_laws), log_laws))


def max_information_bits(log_weight: LogWeight, log_laws: LogLaws) -> float:
    """Max-information over datasets of positive probability, in bits."""
    seen = ~np.isneginf(log_weight)
    ratio = batched.max_divergence(log_laws, repeated_mixture(log_weight, log_laws))
    return float(ratio[seen].max()) / math.log(2)


def repeated_mixture(log_weight: LogWeight, log_laws: LogLaws) -> LogLaws:
    """Repeat the `mixture` once per dataset."""
    return np.broadcast_to(mixture(log_weight, log_laws), log_laws.shape)


class MaxInformationOverLaws(NamedTuple):
    """What approximate max-information is between, and a law of the dataset that shows the first.

    Bits; ``law [datasets]``. With ``beta = 0`` the supremum is approached by laws that hardly ever
    have one of two datasets, and the lower bound is that of one such law.
    """

    lower_bits: float
    upper_bits: float
    law: Float[np.ndarray, " datasets"]


class WeightedLaws(abc.ABC):
    """A family of output laws with the probability of each: base of the exact tables.

    Subclasses have ``log_laws [datasets, outputs]`` and ``log_weight [datasets]``, where datasets
    are ordered ones or types, and their examples need not be independent.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> table.t_information(), round(table.mutual_information(), 6)
    (0.25, 0.130812)
    """

    log_laws: Float[np.ndarray, "datasets outputs"]

    @property
    @abc.abstractmethod
    def log_weight(self) -> Float[np.ndarray, " datasets"]:
        """Log-probability of every dataset, ``[datasets]``."""

    def mutual_information(self) -> float:
        """``I(W; S)`` in nats."""
        return mutual_information(self.log_weight, self.log_laws)

    def lautum_information(self) -> float:
        """Lautum information in nats; ``inf`` when some output is impossible on some dataset."""
        return lautum_information(self.log_weight, self.log_laws)

    def t_information(self) -> float:
        """T-information, in ``[0, 1]``."""
        mixed = repeated_mixture(self.log_weight, self.log_laws)
        return average(self.log_weight, batched.total_variation(self.log_laws, mixed))

    def max_information_bits(self) -> float:
        """Max-information in bits."""
        return max_information_bits(self.log_weight, self.log_laws)

    def approx_max_information_bits(self, beta: float) -> float:
        """Approximate max-information in bits, ``0 <= beta < 1``; may be negative."""
        checks.unit_interval("beta", beta)
        weight = self.log_weight[:, None]
        joint = (weight + self.log_laws).ravel()
        product = (weight + mixture(self.log_weight, self.log_laws)).ravel()
        return approximate_max_divergence_of_logs(joint, product, beta) / math.log(2)

    def max_information_over_laws(self, beta: float) -> MaxInformationOverLaws:
        """Approximate max-information of the algorithm: the supremum over all laws of the dataset.

        The laws are all on the table's datasets, dependent examples and fixed ones among them; its
        own counts no more than others. The upper bound is proven, the lower one is that of a law
        found by search. They agree where each output has at most two probabilities, over datasets:
        deterministic algorithms, randomized response; and for two outputs.

        With ``m_w`` and ``M_w`` the least and largest probability of an output, ``I <= log2 t`` as
        soon as ``sum_w f_w(q_w) <= beta`` for all laws ``q`` of the output, where ``f_w(q) =
        (q - m_w) (M_w - t q)_+ / (M_w - m_w)``. Proof: ``I <= log2 t`` for a law ``p`` of the
        dataset if and only if ``sum_w sum_s p_s (K_sw - t q_w)_+ <= beta``, ``q = p K``. Under the
        dataset's law given ``w``, ``1 / K_sw`` has mean ``1 / q_w`` and is in ``[1/M_w, 1/m_w]``,
        and ``(1 - t q_w / K_sw)_+`` is convex in it: at its largest at two ends. The peaks of
        ``f_w`` alone show ``I <= max(0, log2(sum_w M_w / (4 beta)))``: maximal leakage, in bits,
        plus ``log2(1 / (4 beta))``.

        Parameters
        ----------
        beta
            Mass given away, ``0 <= beta < 1``.

        Returns
        -------
        MaxInformationOverLaws
            Both bounds, bits, and the law of the lower one.

        Raises
        ------
        ValueError
            If beta is not in ``[0, 1)``.

        References
        ----------
        Dwork, Feldman, Hardt, Pitassi, Reingold & Roth (2015), *Generalization in adaptive data
        analysis and holdout reuse*, Definition 10.

        Examples
        --------
        >>> from gibbs_dp.exact import FiniteChannel
        >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
        >>> found = channel.max_information_over_laws(0.01)
        >>> round(channel.approx_max_information_bits(0.01), 4)
        0.5656
        >>> round(found.lower_bits, 4), round(found.upper_bits, 4), found.law.round(3)
        (1.1158, 1.1158, array([0.096, 0.904]))
        """
        checks.unit_interval("beta", beta)
        table = np.exp(self.log_laws)
        lower, law = _law_of_most_information(table, beta)
        upper = max(lower, _most_over_laws(table.min(axis=0), table.max(axis=0), beta))
        return MaxInformationOverLaws(lower / math.log(2), upper / math.log(2), law)

    def alpha_mutual_information(self, alpha: float) -> float:
        """Sibson's alpha-mutual information in nats; see `information.dependence`."""
        if alpha == 1:
            return self.mutual_information()
        return alpha_information_of_laws(self.log_weight, self.log_laws, alpha)

    def maximal_leakage(self) -> float:
        """Maximal leakage ``log sum_w max_s P(w | s)`` in nats, over datasets that can occur."""
        return alpha_information_of_laws(self.log_weight, self.log_laws, math.inf)


# Approximate max-information over all laws of the dataset, in nats.

Ends = Float[np.ndarray, " outputs"]
# Halvings of an interval: to rounding.
HALVINGS = 60
# Mass of a rare dataset where none is given away, and how many masses are tried.
RAREST, NUM_MASSES, NUM_STARTS = 1e-9, 24, 8


def _most_over_laws(low: Ends, high: Ends, beta: float) -> float:
    """Least ``log t`` at which the relaxed excess is at most ``beta``, of outputs' ends."""
    possible = high > 0
    with np.errstate(divide="ignore"):
        most = float(np.log(high[possible] / low[possible]).max())
    if beta == 0:
        return most
    least, most = math.log1p(-beta), min(most, math.log(1.0 + float(high.sum()) / (4 * beta)))
    for _ in range(HALVINGS):
        middle = 0.5 * (least + most)
        is_enough = _excess_over_laws(math.exp(middle), low, high) <= beta
        least, most = (least, middle) if is_enough else (middle, most)
    return most


def _excess_over_laws(t: float, low: Ends, high: Ends) -> float:
    """Bound ``sum_w sum_s p_s (K_sw - t q_w)_+`` over laws ``p``: the largest ``sum_w f_w(q_w)``.

    ``f_w`` is a parabola from 0 at ``low`` to 0 at some ``cap``, and 0 beyond. Either no output is
    beyond, and the sum is concave: solved by its multiplier, any of which is a bound. Or one is,
    adds nothing, and lets the others be at their peaks. Below ``t = 1`` the same holds of
    ``low + high - q``, beside ``1 - t``.
    """
    width = high - low
    is_flat = width <= 0
    safe = np.where(is_flat, 1.0, width)
    top, budget = high, 1.0
    if t < 1:
        top, budget = t * high - (1 - t) * low, float((low + high).sum()) - 1.0
    slope = np.where(is_flat, 0.0, np.maximum(top - t * low, 0.0) / safe)
    curve = np.where(is_flat, 1.0, t / safe)
    cap = low + slope / curve

    def beyond(multiplier: float) -> NDArray[np.float64]:
        return np.asarray(np.clip((slope - multiplier) / (2 * curve), 0.0, slope / curve))

    def dual(multiplier: float) -> NDArray[np.float64]:
        step = beyond(multiplier)
        return step * (slope - curve * step) - multiplier * (low + step)

    best = 0.0
    if cap.sum() >= budget:  # none beyond its cap
        a, b = -1.0, 1.0
        for _ in range(HALVINGS):
            half = 0.5 * (a + b)
            a, b = (half, b) if (low + beyond(half)).sum() > budget else (a, half)
        best = float(dual(b).sum() + b * budget)
    # Who is beyond leaves the others at their peaks; if these leave too little, none is beyond.
    peaks, at_peaks = dual(0.0), low + beyond(0.0)
    is_beyond = at_peaks.sum() - at_peaks + cap <= budget
    best = max(best, float(np.max(peaks.sum() - peaks, where=is_beyond, initial=0.0)))
    return best + max(0.0, 1.0 - t)


def _law_of_most_information(
    table: Float[np.ndarray, "datasets outputs"], beta: float
) -> tuple[float, Float[np.ndarray, " datasets"]]:
    """Search laws on the datasets at which outputs are most and least likely."""
    rows = np.unique(np.concatenate([table.argmax(axis=0), table.argmin(axis=0)]))
    part = table[rows]
    size, likely = len(rows), np.unique(part.argmax(axis=0))
    masses = np.geomspace(max(1.001 * beta, RAREST), 0.999, NUM_MASSES)
    pairs = {(s, r) for s, r in zip(part.argmax(axis=0), part.argmin(axis=0), strict=True)}
    rare = [
        *(np.eye(size)[s] for s, _ in pairs),
        *[np.isin(np.arange(size), likely) / len(likely)] * size,
    ]
    rest = [*(np.eye(size)[r] for _, r in pairs), *np.eye(size)]
    starts = [np.full(size, 1.0 / size)]
    starts += [x * a + (1 - x) * b for a, b in zip(rare, rest, strict=True) for x in masses]
    starts.sort(key=lambda law: -_information_of_law(part, law, beta)[0])

    def minus(logits: Float[np.ndarray, " rows"]) -> tuple[float, Float[np.ndarray, " rows"]]:
        law = softmax(logits)
        value, slope = _information_of_law(part, law, beta)
        return -value, -law * (slope - law @ slope)

    tried = starts[:1]
    for start in starts[:NUM_STARTS]:
        logits = np.log(np.maximum(start, RAREST))
        tried.append(softmax(optimize.minimize(minus, logits, jac=True, method="L-BFGS-B").x))
    best, value = max(
        ((law, _information_of_law(part, law, beta)[0]) for law in tried), key=lambda pair: pair[1]
    )
    law = np.zeros(len(table))
    law[rows] = best
    return value, law


def _information_of_law(
    table: Float[np.ndarray, "rows outputs"], law: Float[np.ndarray, " rows"], beta: float
) -> tuple[float, Float[np.ndarray, " rows"]]:
    """Approximate max-information under one law, and its slope in the law: that of its event."""
    joint, product = law[:, None] * table, law[:, None] * (law @ table)
    inside = np.flatnonzero(joint > 0)
    order = inside[np.argsort(product.flat[inside] / joint.flat[inside], kind="stable")]
    excess, mass = np.cumsum(joint.flat[order]) - beta, np.cumsum(product.flat[order])
    keep = excess > 1e-13
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(keep, np.log(np.where(keep, excess, 1.0)) - np.log(mass), -np.inf)
    best = int(np.argmax(values))
    event = np.zeros(table.shape, dtype=bool)
    event.flat[order[: best + 1]] = True
    told = (event * table).sum(axis=1)
    across = event.astype(float) @ table.T
    slope = told / excess[best] - (across @ law + law @ across) / mass[best]
    return float(values[best]), slope
