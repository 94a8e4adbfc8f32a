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
# Of one curve, or of several at once.
Rates = Float[np.ndarray, "*curves bins"]
Points = Float[np.ndarray, " points"]
# Points between two thresholds that the least of ``c alpha + E H_c`` is looked for at.
PER_BIN = 6
# Share of the draws whose loss is beyond the last threshold that is taken for none.
NEGLIGIBLE = 1e-6


class Roc(NamedTuple):
    """A curve known at thresholds on the privacy loss, where it has slope ``e^epsilon``.

    Or several: what is read off them then has their axes first.
    """

    epsilon: Bins  # thresholds, nats, from 0 up
    above: Rates  # true positive rates ``P_p(L > epsilon)``
    excess: Rates  # true positive rates less false ones

    @property
    def fpr(self) -> Rates:
        """False positive rates."""
        return self.above - self.excess

    def profile(self, epsilon: float | Points) -> Any:
        """Average hockey-stick divergence ``E H``.

        Between thresholds by a cubic with the slopes that are known there, of its logarithm where
        it has one: its tails are near Gaussian.
        """
        at = np.atleast_1d(np.asarray(epsilon, np.float64))
        i = np.clip(np.searchsorted(self.epsilon, at, side="right"), 1, self.epsilon.size - 1)
        values, slopes = self.profiles, -np.exp(self.epsilon) * self.fpr
        has_log = (values > 0) & (slopes < 0)
        is_log = has_log[..., i - 1] & has_log[..., i]
        safe = np.where(values > 0, values, 1.0)
        plain = _cubic(at, self.epsilon, values, slopes, i)
        logs = _cubic(at, self.epsilon, np.log(safe), slopes / safe, i)
        found = np.where(is_log, np.exp(np.minimum(np.where(is_log, logs, 0.0), 0.0)), plain)
        beyond = np.where(self.above[..., -1:] > NEGLIGIBLE, np.nan, 0.0)
        found = np.where(at > self.epsilon[-1], beyond, found)
        return found if np.ndim(epsilon) else _number(found[..., 0])

    @property
    def profiles(self) -> Rates:
        """The same at the thresholds."""
        return self.excess - np.expm1(self.epsilon) * self.fpr

    def auc(self) -> Any:
        """Area under the curve, a number of each.

        ``1/2 + int_0^1 (T - F) d(T + F)`` over the half above the mirror line, where ``T - F`` has
        slope ``tanh(epsilon / 2)``.
        """
        s, d, slope = self._turned()
        h = np.diff(s)
        inner = np.sum(h * (d[..., 1:] + d[..., :-1]) / 2 - h**2 * np.diff(slope) / 12, axis=-1)
        return _number(0.5 + inner + d[..., -1] * (1.0 - s[..., -1]))

    def tpr(self, fpr: float) -> float:
        """Return the true positive rate at a false positive rate."""
        return float(self.curve(np.array([fpr]))[0])

    def curve(self, fpr: Points) -> Float[np.ndarray, "*curves points"]:
        """Return true positive rates at false positive rates."""
        alpha = np.asarray(fpr, np.float64)
        # False positives at the last threshold are at most so many.
        last = self.above[..., -1:]
        least = last * np.exp(-self.epsilon[-1])
        is_beyond = (alpha < least) & (last > NEGLIGIBLE)
        return np.where(is_beyond, np.nan, self.best(alpha)[0])

    def best(
        self, fpr: Points
    ) -> tuple[Float[np.ndarray, "*curves points"], Float[np.ndarray, "*curves points"]]:
        """Return true positive rates, and the thresholds that give them: below 0 too, nats."""
        steps = np.arange(PER_BIN * (self.epsilon.size - 1) + 1) / PER_BIN
        epsilon = np.interp(steps, np.arange(self.epsilon.size), self.epsilon)
        # e^epsilon makes much of the rounding of rates, and the least would be found there.
        high = np.maximum(self.profile(epsilon), 0.0)
        # E H_c = 1 - c + c E H_{1/c}, as the pair is exchangeable.
        at = np.concatenate([-epsilon[::-1], epsilon])
        c = np.exp(at)
        low = 1.0 - c[: epsilon.size] + c[: epsilon.size] * high[..., ::-1]
        alpha = np.asarray(fpr, np.float64)
        both = np.concatenate([low, high], axis=-1)
        allowed = c * alpha[:, None] + both[..., None, :]
        return np.clip(allowed.min(axis=-1), alpha, 1.0), at[allowed.argmin(axis=-1)]

    def _turned(self) -> tuple[Rates, Rates, Bins]:
        """``T + F``, ``T - F``, and the latter's slope, from (0, 0) to the threshold 0."""
        above, excess = self.above[..., ::-1], self.excess[..., ::-1]
        nought = np.zeros_like(above[..., :1])
        s = np.concatenate([nought, 2 * above - excess], axis=-1)
        slope = np.concatenate([[1.0], np.tanh(self.epsilon[::-1] / 2)])
        return s, np.concatenate([nought, excess], axis=-1), slope


def _number(found: Any) -> Any:
    """Return a number of Python where there is one curve."""
    return found if np.ndim(found) else float(found)


def _cubic(
    x: Points, ends: Bins, values: Rates, slopes: Rates, i: Int[np.ndarray, " points"]
) -> Float[np.ndarray, "*curves points"]:
    """Hermite's cubic through points ``i - 1`` and ``i``, with their slopes."""
    h = ends[i] - ends[i - 1]
    t = (x - ends[i - 1]) / h
    square, cube = t * t, t * t * t
    return (
        (2 * cube - 3 * square + 1) * values[..., i - 1]
        + (cube - 2 * square + t) * h * slopes[..., i - 1]
        + (3 * square - 2 * cube) * values[..., i]
        + (cube - square) * h * slopes[..., i]
    )


def linearized(
    function: Callable[[Float[np.ndarray, "means values"]], Float[np.ndarray, " means"]],
    values: Float[np.ndarray, "datasets values"],
) -> Float[np.ndarray, " datasets"]:
    """Numbers of datasets whose mean is a function of the datasets' means (the delta method).

    Their standard error is that of the function, to first order. The function is called once, on
    many means.
    """
    values = np.asarray(values, np.float64)
    mean = values.mean(axis=0)
    steps = 1e-3 * values.std(axis=0) / np.sqrt(max(1, values.shape[0]))
    moved = np.flatnonzero(steps > 0)
    moves = np.zeros((moved.size, mean.size))
    moves[np.arange(moved.size), moved] = steps[moved]
    found = function(np.concatenate([mean[None], mean + moves, mean - moves]))
    up, down = found[1 : 1 + moved.size], found[1 + moved.size :]
    gradient = (up - down) / (2 * steps[moved])
    return np.asarray(found[0] + (values - mean)[:, moved] @ gradient)
