"""Problems to audit: the built-in ones, and what a user's own is made of."""

from gibbs_dp.problems.base import Problem as Problem
from gibbs_dp.problems.registry import build_problem as build_problem
from gibbs_dp.problems.registry import load_problem as load_problem
