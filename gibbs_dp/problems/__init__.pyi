from .base import Problem as Problem
from .base import build_problem as build_problem
