"""Supports of parameters."""

from gibbs_dp.model.supports import Support, box, l2_ball, positive, real, simplex

__all__ = ["Support", "box", "l2_ball", "positive", "real", "simplex"]
