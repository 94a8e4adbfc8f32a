"""Problems to audit: the built-in ones, and `Problem` for users' own."""

from gibbs_dp.problems.base import Problem as Problem
from gibbs_dp.problems.registry import build_problem as build_problem
from gibbs_dp.problems.registry import load_problem as load_problem
