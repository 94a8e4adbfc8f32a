"""Exact figures of attackers: who knows all other examples, and who knows only the law."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betainc, log_ndtr, ndtr, ndtri

from gibbs_dp.exact import laws
from gibbs_dp.exact.types import Neighbours, require_cells
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched


class PairLaws(abc.ABC):
    """The laws ``p`` of the output on ``Z`` and ``p'`` on its neighbour, for random pairs.

    The attacker knows the pair, sees one output and says which law it came from, by a threshold on
    ``L = log p/p'``. *Pooled* figures use one threshold for all pairs; *vertical* ones are means
    over pairs of what a threshold of the pair's own achieves. Informations are in nats.
    """

    @abc.abstractmethod
    def kl(self) -> float:
        """``E KL(p || p')`` in nats."""

    @abc.abstractmethod
    def total_variation(self) -> float:
        """``E TV(p, p')``: the best attacker's true minus false positive rate."""

    @abc.abstractmethod
    def auc(self) -> float:
        """Area under the pooled ROC."""

    @abc.abstractmethod
    def auc_per_pair(self) -> float:
        """Mean area under the ROC of a pair."""

    @abc.abstractmethod
    def renyi(self, order: float) -> float:
        """``E D_order(p || p')`` in nats."""

    @abc.abstractmethod
    def pooled_renyi(self, order: float) -> float:
        """``log E exp((order - 1) D_order(p || p')) / (order - 1)`` in nats."""

    @abc.abstractmethod
    def hockey_stick(self, epsilon: float) -> float:
        """``E sup_A [p(A) - e^epsilon p'(A)]``, for any real ``epsilon``."""

    @abc.abstractmethod
    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Pooled ROC: the largest mean true positive rate at a mean false positive rate."""

    @abc.abstractmethod
    def vertical_true_positive_rate(self, false_positive_rate: float) -> float:
        """Vertical ROC: the mean over pairs of the largest rate at this rate in every pair."""


# Random pairs of finite output laws, as a table.


class FinitePairs(PairLaws):
    """Pairs of laws over finitely many outputs, with the probability of each pair.

    The pair is public, so pooled figures are those of the joint laws of pair and output. What the
    weights lack of 1 is the probability that the two laws are the same, as where a ghost has the
    value that it replaces.
    """

    def __init__(
        self,
        log_weight: Float[np.ndarray, " pairs"],
        log_p: Float[np.ndarray, "pairs outputs"],
        log_q: Float[np.ndarray, "pairs outputs"],
    ) -> None:
        seen = ~np.isneginf(log_weight)
        self.log_weight, self.log_p, self.log_q = log_weight[seen], log_p[seen], log_q[seen]
        self.same = max(0.0, 1.0 - float(np.exp(self.log_weight).sum()))

    @classmethod
    def of(cls, neighbours: Iterable[Neighbours]) -> FinitePairs:
        """Stack neighbours, such as those of `TypeTable.replacements`."""
        held = list(neighbours)
        if not held:  # examples have one value: nothing can be replaced
            return cls(np.empty(0), np.empty((0, 1)), np.empty((0, 1)))
        require_cells("pairs x outputs", sum(pair.log_p.size for pair in held))
        log_weight, log_p, log_q = zip(*(pair[2:] for pair in held), strict=True)
        return cls(np.concatenate(log_weight), np.concatenate(log_p), np.concatenate(log_q))

    @cached_property
    def joint(self) -> tuple[Float[np.ndarray, " cells"], Float[np.ndarray, " cells"]]:
        """Log of the joint laws of pair and output, by falling likelihood ratio, ``[cells]``."""
        with np.errstate(divide="ignore"):
            same = np.log(self.same)
        p, q = (
            np.append((self.log_weight[:, None] + law).ravel(), same)
            for law in (self.log_p, self.log_q)
        )
        order = np.argsort(-batched.log_likelihood_ratio(p, q), kind="stable")
        return p[order], q[order]

    @cached_property
    def log_ratio(self) -> Float[np.ndarray, " cells"]:
        """``L`` of every cell of `joint`, falling, ``[cells]``."""
        return batched.log_likelihood_ratio(*self.joint)

    @cached_property
    def corners(self) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Corners of the pooled ROC: false and true positive rates, ``[points]``."""
        return batched.roc(*self.joint)

    def _average(self, values: Float[np.ndarray, " pairs"]) -> float:
        return laws.average(self.log_weight, values)

    def kl(self) -> float:
        """``E KL(p || p')`` in nats."""
        return self._average(batched.kl(self.log_p, self.log_q))

    def total_variation(self) -> float:
        """``E TV(p, p')``."""
        return self._average(batched.total_variation(self.log_p, self.log_q))

    def jensen_shannon(self) -> float:
        """``E JS(p, p')`` in nats."""
        return self._average(batched.jensen_shannon(self.log_p, self.log_q))

    def auc(self) -> float:
        """Area under the pooled ROC."""
        return float(batched.auc(*self.joint))

    def auc_per_pair(self) -> float:
        """Mean area under the ROC of a pair."""
        return self._average(batched.auc(self.log_p, self.log_q)) + self.same / 2

    def renyi(self, order: float) -> float:
        """``E D_order(p || p')`` in nats."""
        return self._average(batched.renyi(self.log_p, self.log_q, order))

    def pooled_renyi(self, order: float) -> float:
        """Rényi divergence of the joint laws of pair and output, in nats."""
        return float(batched.renyi(*self.joint, order))

    def hockey_stick(self, epsilon: float) -> float:
        """``E sup_A [p(A) - e^epsilon p'(A)]``."""
        above = int(np.searchsorted(-self.log_ratio, -epsilon))
        mass = np.exp(self.joint[0][:above])
        return float(mass @ -np.expm1(epsilon - self.log_ratio[:above]))

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Pooled ROC at one false positive rate."""
        fpr, tpr = self.corners
        # Of corners at the same rate the last counts; lines join the others.
        return min(1.0, float(np.interp(false_positive_rate, fpr, tpr)))

    def vertical_true_positive_rate(self, false_positive_rate: float) -> float:
        """Vertical ROC at one false positive rate."""
        rates = batched.true_positive_rate(self.log_p, self.log_q, false_positive_rate)
        return self._average(rates) + self.same * false_positive_rate


# What an attacker who knows all examples but one learns from an output, on average.


@dataclass(frozen=True)
class Attacker:
    """Exact figures of the attacker who knows every other example, on average over pairs.

    The dataset is ``Z`` or ``Z`` with one example replaced by a ghost, each with probability 1/2;
    the attacker knows both and sees one output. The likelihood ratio ``L = log p/p'`` is the best
    test (Neyman & Pearson 1933; Hajek & Kang 2022). Adjacency is replace-one.

    Parameters
    ----------
    on_average_kl
        ``E KL(p || p')``, in nats.
    on_average_tv
        ``E TV(p, p')``, the attacker's advantage: true minus false positive rate.
    attack_auc
        Area under the pooled ROC: one threshold for all pairs.
    attack_auc_per_pair
        Mean area under the ROC of a pair.
    attack_tpr_1pct, attack_tpr_01pct
        True positive rate of the pooled ROC at a false positive rate of 1% and of 0.1%.
    on_average_renyi_2, on_average_renyi_8
        ``E D_a(p || p')`` of orders 2 and 8, in nats.
    pairs
        The laws that the figures, and the curves below, are of.

    Examples
    --------
    >>> from gibbs_dp.exact import FiniteChannel
    >>> attacker = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1).attacker()
    >>> attacker.on_average_tv, attacker.privacy_profile([0.0, 1.0]).round(6)
    (0.25, array([0.25    , 0.035215]))
    """

    on_average_kl: float
    on_average_tv: float
    attack_auc: float
    attack_auc_per_pair: float
    attack_tpr_1pct: float
    attack_tpr_01pct: float
    on_average_renyi_2: float
    on_average_renyi_8: float
    pairs: PairLaws = field(repr=False)

    @classmethod
    def of(cls, pairs: PairLaws) -> Attacker:
        """Take every figure of random pairs of laws."""
        return cls(
            on_average_kl=pairs.kl(),
            on_average_tv=pairs.total_variation(),
            attack_auc=pairs.auc(),
            attack_auc_per_pair=pairs.auc_per_pair(),
            attack_tpr_1pct=pairs.true_positive_rate(0.01),
            attack_tpr_01pct=pairs.true_positive_rate(0.001),
            on_average_renyi_2=pairs.renyi(2.0),
            on_average_renyi_8=pairs.renyi(8.0),
            pairs=pairs,
        )

    def privacy_profile(self, epsilon: ArrayLike | float) -> Float[np.ndarray, "*epsilon"]:
        """On-average hockey-stick divergence ``E sup_A [p(A) - e^epsilon p'(A)]``.

        Parameters
        ----------
        epsilon
            Real numbers in nats, of any shape; 0 gives `on_average_tv`.

        Returns
        -------
        array
            The profile, of the shape of ``epsilon``: at most ``delta`` of ``(epsilon, delta)``-DP.

        Raises
        ------
        ValueError
            If an ``epsilon`` is not finite.
        """
        values = np.asarray(epsilon, dtype=np.float64)
        if not np.all(np.isfinite(values)):
            raise ValueError("epsilon must be finite; drop the other entries.")
        return _each(self.pairs.hockey_stick, values)

    def roc(self, fpr: ArrayLike | float) -> Float[np.ndarray, "*fpr"]:
        """Pooled ROC: largest true positive rate at false positive rates on average over pairs.

        Dual to the profile: ``roc(a) = min_eps [e^eps a + privacy_profile(eps)]``.

        Parameters
        ----------
        fpr
            False positive rates in ``[0, 1]``, of any shape.

        Returns
        -------
        array
            True positive rates, of the shape of ``fpr``.

        Raises
        ------
        ValueError
            If a rate lies outside ``[0, 1]``.
        """
        return at_rates(self.pairs.true_positive_rate, fpr)

    def vertical_roc(self, fpr: ArrayLike | float) -> Float[np.ndarray, "*fpr"]:
        """Mean over pairs of the true positive rate, where every pair keeps the same ``fpr``.

        Never above `roc`, whose attacker may raise more alarms on some pairs than on others. The
        area under it is `attack_auc_per_pair`. Parameters are those of `roc`.
        """
        return at_rates(self.pairs.vertical_true_positive_rate, fpr)

    def pooled_renyi(self, order: float) -> float:
        """``log E exp((a - 1) D_a(p || p')) / (a - 1)`` in nats: never below ``E D_a`` for a > 1.

        It is the Rényi divergence of the joint laws of pair and output; may be ``inf``.

        Parameters
        ----------
        order
            ``a``, positive; at 1 the limit, `on_average_kl`.

        Returns
        -------
        float
            Nats.

        Raises
        ------
        ValueError
            If the order is not positive and finite.
        """
        return self.pairs.pooled_renyi(checks.positive("order", order))


def at_rates(rate: Callable[[float], float], fpr: ArrayLike | float) -> Float[np.ndarray, "*fpr"]:
    """Take a true positive rate at every false positive rate, which must lie in ``[0, 1]``.

    >>> at_rates(lambda fpr: fpr, [0.0, 0.5])
    array([0. , 0.5])
    """
    rates = np.asarray(fpr, dtype=np.float64)
    if not np.all((rates >= 0) & (rates <= 1)):
        raise ValueError("fpr must lie in [0, 1]; pass false positive rates.")
    return _each(rate, rates)


def _each(
    function: Callable[[float], float], values: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    return np.array([function(float(x)) for x in values.ravel()]).reshape(values.shape)


# Membership from one output, the rest of the dataset unknown: exact figures.


@dataclass(frozen=True)
class Membership:
    """Exact figures of the attacker who is shown one output and one example, and knows the law.

    The example is ``z_i`` or fresh, each with probability 1/2; the other examples are averaged out.
    The best test is a threshold on ``Lambda = log p(w | z_i = z) / p(w)``.

    Parameters
    ----------
    advantage
        True minus false positive rate: ``T(W; Z_i)``, a total variation. It is at least
        ``gen / B`` for a loss in ``[0, B]``, which is the advantage of a guess by the loss (Yeom et
        al. 2018, Thm 2), and at most ``sqrt(I(W; Z_i) / 2)``.
    attack_auc
        Area under the ROC.
    attack_tpr_1pct, attack_tpr_01pct
        True positive rate at a false positive rate of 1% and of 0.1%.
    individual_information
        ``I(W; Z_i)``, the mean of ``Lambda`` over members, in nats.
    lautum_information
        Minus the mean of ``Lambda`` over non-members, in nats.
    rate
        From a false to the largest true positive rate.

    Examples
    --------
    >>> from gibbs_dp.exact import FiniteChannel
    >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
    >>> channel.membership(0).advantage
    0.25
    """

    advantage: float
    attack_auc: float
    attack_tpr_1pct: float
    attack_tpr_01pct: float
    individual_information: float
    lautum_information: float
    rate: Callable[[float], float] = field(repr=False)

    def roc(self, fpr: ArrayLike | float) -> Float[np.ndarray, "*fpr"]:
        """Largest true positive rate at false positive rates ``fpr`` in ``[0, 1]``, any shape.

        Raises
        ------
        ValueError
            If a rate lies outside ``[0, 1]``.
        """
        return at_rates(self.rate, fpr)


def membership_of_table(
    log_weight: Float[np.ndarray, " values"], log_laws: Float[np.ndarray, "values outputs"]
) -> Membership:
    """Take the figures of laws of the output given one example.

    >>> table = np.log([[0.75, 0.25], [0.25, 0.75]])
    >>> round(membership_of_table(np.log([0.5, 0.5]), table).attack_auc, 6)
    0.625
    """
    pairs = FinitePairs(log_weight, log_laws, laws.repeated_mixture(log_weight, log_laws))
    return Membership(
        advantage=pairs.total_variation(),
        attack_auc=pairs.auc(),
        attack_tpr_1pct=pairs.true_positive_rate(0.01),
        attack_tpr_01pct=pairs.true_positive_rate(0.001),
        individual_information=pairs.kl(),
        lautum_information=laws.lautum_information(log_weight, log_laws),
        rate=pairs.true_positive_rate,
    )


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
Values = Float[np.ndarray, " nodes"]


# The attacker of the Gaussian mean: closed forms with Student's t, quadrature over a chi.


def posterior_precision(gamma: float, n: int, data_variance: float, prior_variance: float) -> float:
    """Check the parameters of a Gaussian mean, and return the precision of its posterior."""
    checks.positive("gamma", gamma)
    checks.positive("data_variance", data_variance)
    if math.isnan(prior_variance) or prior_variance <= 0:
        raise ValueError(f"prior_variance must be positive or inf, got {prior_variance}.")
    return checks.count("n", n) * gamma + 1 / prior_variance


def gaussian_mean_attacker(
    gamma: float,
    n: int,
    dim: int,
    data_variance: float,
    prior_variance: float = math.inf,
    num_draws: int = 1,
) -> Attacker:
    """Attack figures of the Gaussian mean of `closed_forms.gaussian_mean`, for Gaussian examples.

    The two posteriors are Gaussians of one covariance at Mahalanobis distance ``mu = s chi_d``,
    ``s^2 = 2 gamma^2 v / P`` with ``P = n gamma + 1/t^2``; ``m`` draws make it ``m s^2``. With
    ``F_k`` the law of Student's t,

    - ``E TV = 2 F_d(s sqrt(d)/2) - 1``, ``E AUC = F_d(s sqrt(d/2))``, pooled
      ``AUC = F_{2d}(s sqrt(d/2))``;
    - ``E D_a = a d s^2 / 2``, and pooled ``-d log(1 - a (a - 1) s^2) / (2 (a - 1))``, finite while
      ``a (a - 1) s^2 < 1``;
    - the profile is the mean over ``mu`` of
      ``Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)`` (Balle & Wang 2018, Thm 8).

    Parameters
    ----------
    gamma
        Inverse temperature, positive, of the total loss ``sum_i |theta - z_i|^2 / 2``.
    n, dim
        Dataset size and dimension ``d``.
    data_variance
        ``v``, of every coordinate of an example.
    prior_variance
        ``t^2``; ``inf``, the default, is the flat prior.
    num_draws
        Independent draws ``m`` that the attacker sees; default 1.

    Returns
    -------
    Attacker
        Closed forms, and quadrature to about 1e-12 for the profile and the ROC.

    Raises
    ------
    ValueError
        If a variance or gamma is not positive, or a count is not a positive integer.

    Examples
    --------
    >>> attacker = gaussian_mean_attacker(gamma=20.0, n=30, dim=1, data_variance=1.0)
    >>> round(attacker.on_average_tv, 6), round(attacker.attack_auc, 6)
    (0.333333, 0.75)
    """
    precision = posterior_precision(gamma, n, data_variance, prior_variance)
    one = gamma * math.sqrt(2 * data_variance / precision)
    scale = one * math.sqrt(checks.count("num_draws", num_draws))
    return Attacker.of(GaussianPairs(scale, checks.count("dim", dim)))


class GaussianPairs(PairLaws):
    """Pairs of Gaussian laws of one covariance, ``mu = scale chi_dim`` apart."""

    def __init__(self, scale: float, dim: int) -> None:
        self.scale, self.dim = scale, dim

    def _central_t(self, t: float, degrees: int) -> float:
        """``P(|T| <= t)`` of Student's t, to a relative accuracy."""
        return float(betainc(0.5, degrees / 2, t * t / (degrees + t * t)))

    def kl(self) -> float:
        """``d s^2 / 2``."""
        return self.renyi(1.0)

    def total_variation(self) -> float:
        """``2 F_d(s sqrt(d) / 2) - 1``."""
        return self._central_t(self.scale * math.sqrt(self.dim) / 2, self.dim)

    def auc(self) -> float:
        """``F_{2d}(s sqrt(d / 2))``."""
        return 0.5 + self._central_t(self.scale * math.sqrt(self.dim / 2), 2 * self.dim) / 2

    def auc_per_pair(self) -> float:
        """``F_d(s sqrt(d / 2))``."""
        return 0.5 + self._central_t(self.scale * math.sqrt(self.dim / 2), self.dim) / 2

    def renyi(self, order: float) -> float:
        """``order d s^2 / 2``."""
        return order * self.dim * self.scale**2 / 2

    def pooled_renyi(self, order: float) -> float:
        """``-d log(1 - a (a - 1) s^2) / (2 (a - 1))``."""
        if order == 1:
            return self.kl()
        growth = order * (order - 1) * self.scale**2
        if growth >= 1:
            return math.inf
        return -self.dim * math.log1p(-growth) / (2 * (order - 1))

    def hockey_stick(self, epsilon: float) -> float:
        """Mean over ``mu`` of the hockey stick of two Gaussians."""

        def excess(mu: Values) -> Values:
            level = epsilon / mu
            return np.asarray(
                ndtr(mu / 2 - level) - np.exp(epsilon + log_ndtr(-mu / 2 - level)), dtype=float
            )

        return max(0.0, self._mean(excess, epsilon))

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Pooled ROC: the threshold on ``L`` by bisection, its rates by quadrature."""
        if false_positive_rate in (0.0, 1.0):
            return false_positive_rate

        def alarms(level: float, shift: float) -> float:
            return self._mean(lambda mu: np.asarray(ndtr(-level / mu + shift * mu)), level)

        def too_many(level: float) -> float:
            return math.log(max(alarms(level, -0.5), 1e-300) / false_positive_rate)

        reach = self.scale * math.sqrt(self.dim)
        while too_many(reach) > 0 or too_many(-reach) < 0:
            reach *= 2
        level = brentq(too_many, -reach, reach, xtol=1e-14 * reach)
        return min(1.0, alarms(float(level), 0.5))

    def vertical_true_positive_rate(self, false_positive_rate: float) -> float:
        """Mean over ``mu`` of ``Phi(Phi^{-1}(a) + mu)``."""
        start = float(ndtri(false_positive_rate))
        return self._mean(lambda mu: np.asarray(ndtr(start + mu)), start**2 / 2)

    def _mean(self, function: Callable[[Values], Values], level: float) -> float:
        """Mean over ``mu`` of a function that turns near 0 and near ``sqrt(2 |level|)``."""
        middle = math.sqrt(self.dim)
        low, high = max(0.0, middle - 12), middle + 12
        turn = math.sqrt(2 * min(abs(level), 1e300))
        edges = np.concatenate(
            [
                [low],
                high * 2.0 ** np.arange(-60, 1),
                np.arange(low, high),
                (turn + np.arange(-10, 11)) / self.scale,
            ]
        )
        edges = np.unique(np.clip(edges, low, high))
        half = np.diff(edges)[:, None] / 2
        chi = (edges[:-1, None] + half * (1 + _NODES)).ravel()
        log_density = (self.dim - 1) * np.log(chi) - chi**2 / 2
        # Dividing by the sum is more exact than the gamma function of a large dimension.
        weight = np.exp(log_density - log_density.max()) * (half * _WEIGHTS).ravel()
        return float(weight @ function(self.scale * chi) / weight.sum())
