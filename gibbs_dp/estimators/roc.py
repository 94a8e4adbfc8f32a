"""The average attacker's ROC, from tails of the privacy loss averaged over pairs and datasets.

Pooled: one threshold on the loss for all pairs, so that false positives are ``alpha`` on average.
``pooled(alpha) = min_c [c alpha + E H_c]``, the dual of the profile ``E H_c``. A pair has one law
under both hypotheses, so the curve is its own mirror image, and thresholds above 0 are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

Bins = Float[np.ndarray, " bins"]
# Points between two thresholds that the least of ``c alpha + E H_c`` is looked for at.
PER_BIN = 16
# Share of the draws whose loss is beyond the last threshold that is taken for none.
NEGLIGIBLE = 1e-6


class Roc(NamedTuple):
    """A curve known at thresholds on the privacy loss, where it has slope ``e^epsilon``."""

    epsilon: Bins  # thresholds, nats, from 0 up
    above: Bins  # true positive rates ``P_p(L > epsilon)``
    excess: Bins  # true positive rates less false ones

    @property
    def fpr(self) -> Bins:
        """False positive rates."""
        return self.above - self.excess

    def profile(self, epsilon: float | Float[np.ndarray, " points"]) -> Any:
        """Average hockey-stick divergence ``E H``.

        Between thresholds by a cubic with the slopes that are known there, of its logarithm where
        it has one: its tails are near Gaussian.
        """
        at = np.asarray(epsilon, np.float64)
        i = np.clip(np.searchsorted(self.epsilon, at, side="right"), 1, self.epsilon.size - 1)
        values, slopes = self.profiles, -np.exp(self.epsilon) * self.fpr
        is_log = (values[i - 1] > 0) & (values[i] > 0) & (slopes[i - 1] < 0) & (slopes[i] < 0)
        safe = np.where(values > 0, values, 1.0)
        plain = _cubic(at, self.epsilon, values, slopes, i)
        logs = _cubic(at, self.epsilon, np.log(safe), slopes / safe, i)
        found = np.where(is_log, np.exp(np.minimum(np.where(is_log, logs, 0.0), 0.0)), plain)
        beyond = np.nan if self.above[-1] > NEGLIGIBLE else 0.0
        found = np.where(at > self.epsilon[-1], beyond, found)
        return found if found.ndim else float(found)

    @property
    def profiles(self) -> Bins:
        """The same at the thresholds."""
        return self.excess - np.expm1(self.epsilon) * self.fpr

    def auc(self) -> float:
        """Area under the curve.

        ``1/2 + int_0^1 (T - F) d(T + F)`` over the half above the mirror line, where ``T - F`` has
        slope ``tanh(epsilon / 2)``.
        """
        s, d, slope = self._turned()
        h = np.diff(s)
        inner = np.sum(h * (d[1:] + d[:-1]) / 2 - h**2 * np.diff(slope) / 12)
        return float(0.5 + inner + d[-1] * (1.0 - s[-1]))

    def tpr(self, fpr: float) -> float:
        """Return the true positive rate at a false positive rate."""
        return float(self.curve(np.array([fpr]))[0])

    def curve(self, fpr: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        """Return true positive rates at false positive rates."""
        alpha = np.asarray(fpr, np.float64)
        # False positives at the last threshold are at most so many.
        least = self.above[-1] * np.exp(-self.epsilon[-1])
        is_beyond = (alpha < least) & (self.above[-1] > NEGLIGIBLE)
        return np.where(is_beyond, np.nan, self.best(alpha)[0])

    def best(
        self, fpr: Float[np.ndarray, " points"]
    ) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Return true positive rates, and the thresholds that give them: below 0 too, nats."""
        steps = np.arange(PER_BIN * (self.epsilon.size - 1) + 1) / PER_BIN
        epsilon = np.interp(steps, np.arange(self.epsilon.size), self.epsilon)
        # e^epsilon makes much of the rounding of rates, and the least would be found there.
        high = np.maximum(np.asarray(self.profile(epsilon)), 0.0)
        # E H_c = 1 - c + c E H_{1/c}, as the pair is exchangeable.
        at = np.concatenate([-epsilon[::-1], epsilon])
        c = np.exp(at)
        low = 1.0 - c[: high.size] + c[: high.size] * high[::-1]
        alpha = np.asarray(fpr, np.float64)
        allowed = c * alpha[:, None] + np.concatenate([low, high])
        return np.clip(allowed.min(axis=1), alpha, 1.0), at[allowed.argmin(axis=1)]

    def _turned(self) -> tuple[Bins, Bins, Bins]:
        """``T + F``, ``T - F``, and the latter's slope, from (0, 0) to the threshold 0."""
        above, excess = self.above[::-1], self.excess[::-1]
        s = np.concatenate([[0.0], 2 * above - excess])
        slope = np.concatenate([[1.0], np.tanh(self.epsilon[::-1] / 2)])
        return s, np.concatenate([[0.0], excess]), slope


def _cubic(
    x: Float[np.ndarray, "*points"],
    ends: Bins,
    values: Bins,
    slopes: Bins,
    i: Int[np.ndarray, "*points"] | np.intp,
) -> Float[np.ndarray, "*points"] | np.float64:
    """Hermite's cubic through points ``i - 1`` and ``i``, with their slopes."""
    h = ends[i] - ends[i - 1]
    t = (x - ends[i - 1]) / h
    square, cube = t * t, t * t * t
    return (
        (2 * cube - 3 * square + 1) * values[i - 1]
        + (cube - 2 * square + t) * h * slopes[i - 1]
        + (3 * square - 2 * cube) * values[i]
        + (cube - square) * h * slopes[i]
    )


def linearized(
    function: Callable[[Float[np.ndarray, " values"]], float],
    values: Float[np.ndarray, "datasets values"],
) -> Float[np.ndarray, " datasets"]:
    """Numbers of datasets whose mean is a function of the datasets' means (the delta method).

    Their standard error is that of the function, to first order.
    """
    values = np.asarray(values, np.float64)
    mean = values.mean(axis=0)
    steps = 1e-3 * values.std(axis=0) / np.sqrt(max(1, values.shape[0]))
    gradient = np.zeros(mean.size)
    for k in np.flatnonzero(steps > 0):
        up, down = mean.copy(), mean.copy()
        up[k] += steps[k]
        down[k] -= steps[k]
        gradient[k] = (function(up) - function(down)) / (2 * steps[k])
    return np.asarray(function(mean) + (values - mean) @ gradient)
