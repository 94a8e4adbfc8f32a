"""Declared bounds on examples and parameters, and the loss constants that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Domain:
    """Bounds that every example and every parameter is promised to satisfy.

    Privacy in the worst case is a statement about *all* examples of this domain, so it has to be
    declared; it is never estimated from data.

    Parameters
    ----------
    x_bound
        Largest Euclidean norm of a feature vector (or of the whole example when there is no
        label).
    y_range
        Smallest and largest label.
    theta_bound
        Largest Euclidean norm of the parameter. ``None``: taken from the prior's support where
        that is bounded.

    Raises
    ------
    ValueError
        If a bound is negative, NaN, or the label range is empty.

    Examples
    --------
    >>> from gibbs_dp import losses
    >>> losses.squared.constants(Domain(x_bound=1.0, y_range=(-2.0, 2.0), theta_bound=2.0)).range
    (0.0, 16.0)
    """

    x_bound: float = np.inf
    y_range: tuple[float, float] = (-np.inf, np.inf)
    theta_bound: float | None = None

    def __post_init__(self) -> None:
        if not self.x_bound >= 0:
            raise ValueError(f"Domain(x_bound) must be at least 0, got {self.x_bound}.")
        low, high = self.y_range
        if not low <= high:
            raise ValueError(f"Domain(y_range) must be (low, high), got {self.y_range}.")
        if self.theta_bound is not None and not self.theta_bound >= 0:
            raise ValueError(f"Domain(theta_bound) must be at least 0, got {self.theta_bound}.")

    @property
    def y_bound(self) -> float:
        """Largest absolute label."""
        return max(abs(self.y_range[0]), abs(self.y_range[1]))

    @property
    def prediction_bound(self) -> float:
        """Largest ``|x·theta|``: infinite until both norms are bounded."""
        theta = np.inf if self.theta_bound is None else self.theta_bound
        return product(self.x_bound, theta)


class LossConstants(NamedTuple):
    """What a loss guarantees on a domain; infinite where nothing finite holds.

    Attributes
    ----------
    range
        Smallest and largest loss over the domain.
    oscillation
        ``sup_z (sup_theta - inf_theta) loss(theta, z)``. Between neighbours the log ratio of two
        Gibbs posteriors has range at most ``gamma * oscillation`` (add/remove) and at most
        ``2 gamma * oscillation`` (replace-one).
    lipschitz
        Largest Euclidean norm of the gradient in theta.
    smoothness
        Largest eigenvalue of the Hessian in theta.
    """

    range: tuple[float, float]
    oscillation: float
    lipschitz: float
    smoothness: float


def product(*factors: float) -> float:
    """Multiply bounds; zero wins over infinity.

    >>> product(0.0, float("inf"), 2.0)
    0.0
    """
    return 0.0 if 0.0 in factors else float(np.prod(factors))
