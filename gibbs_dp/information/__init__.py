"""Divergences, measures of dependence and bounds, in NumPy and float64."""

from gibbs_dp.information import bounds as bounds
from gibbs_dp.information import dependence as dependence
from gibbs_dp.information import divergences as divergences
