"""Worst-case privacy of Gibbs posteriors."""

from gibbs_dp.privacy.pure import pure_dp_epsilon as pure_dp_epsilon
