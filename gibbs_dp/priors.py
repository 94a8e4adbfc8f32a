"""Priors for parameters that come as a tree of arrays."""

from gibbs_dp.model.prior import normal_in_ball, normal_like

__all__ = ["normal_in_ball", "normal_like"]
