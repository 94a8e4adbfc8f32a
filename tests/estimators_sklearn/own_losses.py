"""Losses of a user's own, in a file of their own: nothing of gibbs_dp lists them."""

from dataclasses import dataclass

import numpy as np

from gibbs_dp.losses import LinearLoss, LossConstants, TwoClassLoss, array_namespace


@dataclass(frozen=True)
class Cauchy(LinearLoss):
    """``w^2 / 2 log(1 + (r / w)^2)`` of a residual ``r``: not convex, of bounded slope."""

    width: float = 0.5

    def value(self, prediction, y):
        ratio = (prediction - y) / self.width
        return 0.5 * self.width**2 * array_namespace(prediction).log1p(ratio**2)

    def slope(self, prediction, y):
        return (prediction - y) / (1 + ((prediction - y) / self.width) ** 2)

    def curvature(self, prediction, y):
        square = ((prediction - y) / self.width) ** 2
        return (1 - square) / (1 + square) ** 2

    def constants(self, domain):
        most = domain.prediction_bound + domain.y_bound
        top = 0.5 * self.width**2 * np.log1p((most / self.width) ** 2)
        near = min(most, self.width)  # where the slope is largest
        return LossConstants.of(
            range=(0.0, top),
            oscillation=top,
            lipschitz=near / (1 + (near / self.width) ** 2) * domain.x_bound,
            smoothness=domain.x_bound**2,
            strong_convexity=-(domain.x_bound**2) / 8,
        )


class SquaredHinge(TwoClassLoss):
    """``max(0, 1 - s p)^2`` with the sign ``s = 2 y - 1``."""

    def value(self, prediction, y):
        return array_namespace(prediction).maximum(0.0, 1 - (2 * y - 1) * prediction) ** 2

    def slope(self, prediction, y):
        sign = 2 * y - 1
        return -2 * sign * array_namespace(prediction).maximum(0.0, 1 - sign * prediction)

    def curvature(self, prediction, y):
        return 2.0 * ((2 * y - 1) * prediction < 1).astype(prediction.dtype)

    def constants(self, domain):
        p = domain.prediction_bound
        least = max(0.0, 1 - p) ** 2
        return LossConstants.of(
            range=(least, (1 + p) ** 2),
            oscillation=(1 + p) ** 2 - least,
            lipschitz=2 * (1 + p) * domain.x_bound,
            smoothness=2 * domain.x_bound**2,
        )
