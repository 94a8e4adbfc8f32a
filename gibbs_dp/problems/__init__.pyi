from .base import Problem as Problem
from .build import build_problem as build_problem
from .build import load_problem as load_problem
