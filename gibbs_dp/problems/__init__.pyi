from .base import Problem as Problem
from .base import build_problem as build_problem
from .base import load_problem as load_problem
