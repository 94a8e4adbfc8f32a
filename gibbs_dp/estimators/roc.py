"""The average attacker's ROC, from tails of the privacy loss averaged over pairs and datasets.

Pooled: one threshold on the loss for all pairs, so that false positives are ``alpha`` on average.
``pooled(alpha) = min_c [c alpha + E H_c]``, the dual of the profile ``E H_c``. A pair has one law
under both hypotheses, so the curve is its own mirror image, and thresholds above 0 are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Bins = Float[np.ndarray, " bins"]
_HALVINGS = 60


class Roc(NamedTuple):
    """A curve known at thresholds on the privacy loss, where it has slope ``e^epsilon``.

    Attributes
    ----------
    epsilon
        Thresholds, nats, from 0 up.
    above
        True positive rates ``P_p(L > epsilon)``.
    excess
        True positive rates less false ones.
    """

    epsilon: Bins
    above: Bins
    excess: Bins

    @property
    def fpr(self) -> Bins:
        """False positive rates."""
        return self.above - self.excess

    def profile(self, epsilon: float) -> float:
        """Average hockey-stick divergence ``E H``, between thresholds by a cubic.

        Parameters
        ----------
        epsilon
            Nats, at least 0.

        Returns
        -------
        float
            0 beyond the last threshold.
        """
        if epsilon > self.epsilon[-1]:
            return 0.0
        i = min(int(np.searchsorted(self.epsilon, epsilon, side="right")), self.epsilon.size - 1)
        c = np.exp(self.epsilon[i - 1 : i + 1])
        # The profile falls in c at the rate of false positives.
        values = self.profiles[i - 1 : i + 1]
        return float(_cubic(np.exp(epsilon), c, values, -self.fpr[i - 1 : i + 1]))

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
        """Return true positive rates at false positive rates.

        Parameters
        ----------
        fpr
            In [0, 1].

        Returns
        -------
        Float[np.ndarray, " points"]
            In [0, 1].
        """
        alpha = np.asarray(fpr, np.float64)
        s, d, slope = self._turned()
        s = s / max(1.0, s[-1])  # it may pass the mirror line by noise
        s, d = np.concatenate([s, 2.0 - s[::-1]]), np.concatenate([d, d[::-1]])
        slope = np.concatenate([slope, -slope[::-1]])
        false = np.maximum.accumulate((s - d) / 2)
        last = np.searchsorted(false, alpha, side="right").clip(1, false.size - 1)
        found = [
            a + _solve(a, s[i - 1 : i + 1], d[i - 1 : i + 1], slope[i - 1 : i + 1])
            for a, i in zip(alpha, last, strict=True)
        ]
        return np.clip(found, alpha, 1.0)

    def _turned(self) -> tuple[Bins, Bins, Bins]:
        """``T + F``, ``T - F``, and the latter's slope, from (0, 0) to the threshold 0."""
        above, excess = self.above[::-1], self.excess[::-1]
        s = np.concatenate([[0.0], 2 * above - excess])
        slope = np.concatenate([[1.0], np.tanh(self.epsilon[::-1] / 2)])
        return s, np.concatenate([[0.0], excess]), slope


def _cubic(
    x: float,
    ends: Float[np.ndarray, 2],
    values: Float[np.ndarray, 2],
    slopes: Float[np.ndarray, 2],
) -> float:
    """Hermite's cubic through two points with slopes."""
    h = ends[1] - ends[0]
    if not h > 0:
        return float(values[0])
    t = (x - ends[0]) / h
    square, cube = t * t, t * t * t
    return float(
        (2 * cube - 3 * square + 1) * values[0]
        + (cube - 2 * square + t) * h * slopes[0]
        + (3 * square - 2 * cube) * values[1]
        + (cube - square) * h * slopes[1]
    )


def _solve(
    fpr: float,
    s: Float[np.ndarray, 2],
    d: Float[np.ndarray, 2],
    slope: Float[np.ndarray, 2],
) -> float:
    """``T - F`` where ``F = (s - (T - F)) / 2`` is as asked, by halving an interval."""
    low, high = s
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if middle - _cubic(middle, s, d, slope) < 2 * fpr:
            low = middle
        else:
            high = middle
    return _cubic(0.5 * (low + high), s, d, slope)


def linearized(
    function: Callable[[Float[np.ndarray, " values"]], float],
    values: Float[np.ndarray, "datasets values"],
) -> Float[np.ndarray, " datasets"]:
    """Numbers of datasets whose mean is a function of the datasets' means (the delta method).

    Their standard error is that of the function, to first order.

    Parameters
    ----------
    function
        Of means; smooth.
    values
        Of each dataset.

    Returns
    -------
    Float[np.ndarray, " datasets"]
        ``f(mean) + gradient (values - mean)``.

    Examples
    --------
    >>> linearized(lambda mean: float(mean[0] * mean[1]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([ 1., 11.])
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
