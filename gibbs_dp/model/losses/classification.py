"""Losses of class labels: logistic, hinge, softmax; and how labels are told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped
from scipy.special import expit

from gibbs_dp._jaxlib.precision import log1p_of_share
from gibbs_dp.model.charts import distinct_values
from gibbs_dp.model.domain import Domain, LossConstants, product
from gibbs_dp.model.losses.base import (
    Labelled,
    Labels,
    LinearLoss,
    Loss,
    Values,
    array_namespace,
    check_labelled,
    largest_gap,
    smoothed_kink,
)


@dataclass(frozen=True)
class TwoClassLoss(LinearLoss):
    """A linear loss of labels 0 and 1, which `gibbs_dp.sklearn.GibbsClassifier` takes too."""

    labels = "two classes"

    def clip(self, data: Any, domain: Domain) -> Any:
        """Project onto the domain, and labels onto [0, 1], where the constants hold."""
        x, y = super().clip(data, domain)
        return x, array_namespace(y).clip(y, 0.0, 1.0)

    def check_examples(self, data: Any) -> None:
        """Raise a ValueError unless the labels are 0 and 1."""
        super().check_examples(data)
        found = distinct_values(data[1], limit=6)
        if not np.isin(found, (0, 1)).all():
            raise ValueError(
                f"data: the {self.name} loss needs labels 0 and 1, got {shown(found)}; recode them."
            )

    def check_data(self, data: Any) -> None:
        """Raise a ValueError unless the labels are 0 and 1, both present."""
        super().check_data(data)
        found = distinct_values(data[1], limit=6)
        if found.size < 2:
            raise ValueError(
                f"data: every label is {found[0]:g}; the {self.name} loss needs both classes."
            )


def shown(values: Shaped[np.ndarray, " k"]) -> str:
    """Write out the first few of some numbers.

    >>> shown(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    '1, 2, 3, 4, ...'
    """
    return ", ".join(f"{v:g}" for v in values[:4]) + (", ..." if values.size > 4 else "")


# Logistic loss of a linear prediction.


@jax.custom_jvp
def softplus(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``log(1 + e^x)`` with a sigmoid as derivative, so that gradients compute no logarithm."""
    return jnp.maximum(x, 0.0) + log1p_of_share(jnp.exp(-jnp.abs(x)))


@softplus.defjvp
def _softplus_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Array, Array]:
    return softplus(primals[0]), jax.nn.sigmoid(primals[0]) * tangents[0]


def _sigmoid(x: Values) -> Values:
    return jax.nn.sigmoid(x) if isinstance(x, jax.Array) else expit(x)


@dataclass(frozen=True)
class Logistic(TwoClassLoss):
    """``log(1 + exp(x·theta)) - y x·theta`` for labels ``y`` in {0, 1}: a negative log-likelihood.

    >>> import jax.numpy as jnp
    >>> round(float(Logistic()(jnp.array([0.0]), (jnp.array([1.0]), jnp.array(1.0)))), 6)
    0.693147
    """

    def value(self, prediction: Values, y: Labels) -> Values:
        """``softplus(prediction) - y prediction``."""
        if isinstance(prediction, jax.Array):
            return softplus(prediction) - y * prediction
        rest = np.log1p(np.exp(-np.abs(prediction)))
        return np.maximum(prediction, 0.0) + rest - y * prediction

    def slope(self, prediction: Values, y: Labels) -> Values:
        """``sigmoid(prediction) - y``."""
        return _sigmoid(prediction) - y

    def curvature(self, prediction: Values, y: Labels) -> Values:
        """``sigmoid(prediction) sigmoid(-prediction)``."""
        return _sigmoid(prediction) * _sigmoid(-prediction)

    def precise(self, prediction: Decimal, y: Decimal) -> Decimal:
        """``softplus(prediction) - y prediction`` to more digits."""
        rest = (1 + (-abs(prediction)).exp()).ln()
        return max(prediction, Decimal(0)) + rest - y * prediction

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P``; ``softplus(P) - softplus(-P) = P``."""
        p = domain.prediction_bound
        sigmoid = 1.0 / (1.0 + np.exp(-p))
        return LossConstants.of(
            range=(float(np.logaddexp(0.0, -p)), float(np.logaddexp(0.0, p))),
            oscillation=p,
            lipschitz=product(sigmoid, domain.x_bound),
            smoothness=domain.x_bound**2 / 4,
            exchange_lipschitz=product(_largest_gap(p), domain.x_bound),
        )


@lru_cache(maxsize=256)
def _largest_gap(prediction_bound: float) -> float:
    return largest_gap(expit, prediction_bound)


# Hinge loss of a linear prediction.


@dataclass(frozen=True)
class Hinge(TwoClassLoss):
    """``max(0, 1 - s x·theta)`` with the sign ``s = 2 y - 1`` of a label ``y`` in {0, 1}.

    Labels are those of the logistic loss, so that the two can be compared on one dataset.

    >>> import jax.numpy as jnp
    >>> float(Hinge()(jnp.array([2.0]), (jnp.array([0.25]), jnp.array(1.0))))
    0.5
    """

    def value(self, prediction: Values, y: Labels) -> Values:
        """``max(0, 1 - (2 y - 1) prediction)``."""
        return array_namespace(prediction).maximum(0.0, 1.0 - (2.0 * y - 1.0) * prediction)

    def slope(self, prediction: Values, y: Labels) -> Values:
        """``1 - 2 y`` where the loss is positive, else 0."""
        sign = 2.0 * y - 1.0
        return -sign * array_namespace(prediction).heaviside(1.0 - sign * prediction, 0.5)

    def curvature(self, prediction: Values, y: Labels) -> Values:
        """0, but for the kink."""
        return array_namespace(prediction).zeros_like(prediction)

    def smoothed_curvature(self, prediction: Values, y: Labels) -> Values:
        """Smoothed kink at a margin of 1."""
        return smoothed_kink(1.0 - (2.0 * y - 1.0) * prediction, 1.0)

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x·theta| <= P``; linear where ``P < 1``, with a kink otherwise."""
        p = domain.prediction_bound
        oscillation = min(2 * p, 1 + p)
        return LossConstants.of(
            range=(max(0.0, 1 - p), 1 + p),
            oscillation=oscillation,
            lipschitz=domain.x_bound,
            smoothness=0.0 if p < 1 else np.inf,
        )


# Softmax cross-entropy of linear scores.

# Grid cells per angle in the search for the largest loss.
NUM_ANGLES = 600


def cross_entropy(scores: Values, y: Labels) -> Values:
    """``log sum_k exp(scores_k) - scores_y``, in nats: scores ``[..., k]``, labels ``[...]``.

    >>> import jax.numpy as jnp
    >>> round(float(cross_entropy(jnp.zeros((1, 4)), jnp.array([3]))[0]), 6)  # log 4
    1.386294
    """
    own = array_namespace(scores).take_along_axis(scores, y.astype(int)[..., None], axis=-1)[..., 0]
    if isinstance(scores, jax.Array):
        return jax.nn.logsumexp(scores, axis=-1) - own
    top = scores.max(axis=-1)
    return top + np.log(np.exp(scores - top[..., None]).sum(axis=-1)) - own


def _shares(scores: Values) -> Values:
    """Probabilities of the classes."""
    shares = array_namespace(scores).exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class SoftmaxCrossEntropy(Loss):
    """``log sum_k exp(x·theta_k) - x·theta_y`` for labels ``y`` in ``0..K-1``.

    The parameter is a matrix ``theta [d, K]`` of one column per class, or the same as one vector.
    It is a negative log-likelihood, invariant under adding a vector to all columns: use a proper
    prior or a bounded support.

    Parameters
    ----------
    num_classes
        ``K >= 2``.

    Raises
    ------
    ValueError
        If there are fewer than two classes.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> loss = SoftmaxCrossEntropy(num_classes=4)
    >>> round(float(loss(jnp.zeros((2, 4)), (jnp.ones(2), jnp.array(3.0)))), 6)      # log 4
    1.386294
    """

    name = "softmax"
    labels = "classes"
    num_classes: int = 2

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise ValueError(
                f"SoftmaxCrossEntropy(num_classes) must be at least 2, got {self.num_classes}."
            )

    def __call__(
        self, theta: Float[Array, ...], z: tuple[Float[Array, " d"], Shaped[Array, ""]]
    ) -> Float[Array, ""]:
        """Loss of one example ``(x [d], y)``."""
        x, y = z
        return self.batch(theta, (x[None], y[None]))[0]

    def batch(self, theta: Float[Array, ...], data: Labelled) -> Float[Array, " n"]:
        """Losses of ``(x [n, d], y [n])``."""
        x, y = data
        theta = theta.reshape(x.shape[1], self.num_classes)
        return self.value(jnp.matmul(x, theta, precision="highest"), y)

    def value(self, scores: Values, y: Labels) -> Values:
        """Losses of scores ``[..., k]`` and labels ``[...]``."""
        return cross_entropy(scores, y)

    def slope(self, scores: Values, y: Labels) -> Values:
        """Differentiate in the scores, ``[..., k]``: probabilities less 1 for the label's."""
        is_own = np.arange(self.num_classes) == y[..., None]
        return _shares(scores) - is_own

    def curvature(self, scores: Values, y: Labels) -> Values:
        """Differentiate twice in the scores, ``[..., k, k]``: ``diag(p) - p p'``."""
        del y
        shares = _shares(scores)
        return shares[..., None] * (np.eye(self.num_classes) - shares[..., None, :])

    def precise(self, scores: Sequence[Decimal], y: Decimal) -> Decimal:
        """Evaluate the loss of one example to the digits of `decimal`."""
        most = max(scores)
        rest = sum(((score - most).exp() for score in scores), Decimal(0))
        return most - scores[int(y)] + rest.ln()

    def constants(self, domain: Domain) -> LossConstants:
        """Constants with ``|x| <= x_bound`` and the Frobenius norm ``|theta| <= theta_bound``.

        The scores of an example then fill a ball of radius ``P``, the product of the two. The
        range is exact below and within 0.5% above. Lipschitz and smoothness constants are exact
        for two classes and for very small or large ``P``, and a bound between.
        """
        p, k = domain.prediction_bound, self.num_classes
        # Smallest where the other scores are equal (Jensen), the margin is P sqrt(K / (K - 1)).
        spread = math.exp(-p * math.sqrt(k / (k - 1)))
        low, high = math.log1p((k - 1) * spread), _largest(p, k)
        oscillation = max(0.0, high - low)
        # |p - e_y|^2 = (1 - p_y)^2 + sum of squares of the others, whose largest share is `share`.
        share = 1.0 if k == 2 else 1 / (1 + (k - 2) * math.exp(-p * math.sqrt((k - 1) / (k - 2))))
        slope = -math.expm1(-high) * math.sqrt(1 + share)
        # The covariance diag(p) - p p' has eigenvalues up to max p_k, and (Gershgorin) up to
        # max 2 p_k (1 - p_k).
        top = 1 / (1 + (k - 1) * spread)
        curve = min(top, 2 * top * (1 - top) if top < 0.5 else 0.5)
        lipschitz = product(slope, domain.x_bound)
        return LossConstants.of(
            range=(low, high),
            oscillation=oscillation,
            lipschitz=lipschitz,
            smoothness=product(curve, domain.x_bound**2),
        )

    def clip(self, data: Any, domain: Domain) -> Any:
        """Project onto the domain, and labels onto the nearest class."""
        x, y = super().clip(data, domain)
        xp = array_namespace(y)
        return x, xp.clip(xp.round(y), 0, self.num_classes - 1)

    def check_examples(self, data: Any) -> None:
        """Raise a ValueError unless the examples are ``(x [n, d], y [n])``, ``y`` in ``0..K-1``."""
        check_labelled(data, "softmax cross-entropy")
        labels = np.unique(np.asarray(data[1]))
        if not np.isin(labels, np.arange(self.num_classes)).all():
            raise ValueError(
                f"data: the softmax cross-entropy of {self.num_classes} classes needs labels "
                f"0..{self.num_classes - 1}, got {shown(labels)}; recode them."
            )


@lru_cache(maxsize=64)
def _largest(p: float, k: int) -> float:
    """Bound the loss over scores ``v`` with ``|v| <= p``, within 0.5% of its maximum.

    At the maximum ``v_y <= 0 <= v_k`` and ``|v| = p``, as the loss is convex. Given ``v_y``, the
    sum of ``exp(sqrt(s_k))`` is largest for given ``sum s_k = sum v_k^2``: the summand is concave
    below ``s = 1`` and convex above, so that at most one score differs from the other rivals. Two
    angles then describe every candidate; the loss is ``sqrt(2)``-Lipschitz in ``v``, which bounds
    the loss between the points of a grid.
    """
    if p == 0 or math.isinf(p):
        return math.log(k) if p == 0 else math.inf
    if k == 2:
        return float(np.logaddexp(0.0, math.sqrt(2.0) * p))
    step = 0.5 * math.pi / NUM_ANGLES
    angle = step * (np.arange(NUM_ANGLES) + 0.5)
    own, rest = -p * np.cos(angle)[:, None], p * np.sin(angle)[:, None]
    rival, others = rest * np.cos(angle), rest * np.sin(angle) / math.sqrt(k - 2)
    loss = np.logaddexp(0.0, np.logaddexp(rival, math.log(k - 2) + others) - own)
    # No point is further than half a diagonal of a cell from a centre, on the sphere.
    return float(loss.max() + p * step)
