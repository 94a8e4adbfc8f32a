"""Exact answers on finite problems and in closed form, in NumPy and float64."""

from gibbs_dp.exact import attacks as attacks
from gibbs_dp.exact import channels as channels
from gibbs_dp.exact import closed_form as closed_form
from gibbs_dp.exact import composition as composition
from gibbs_dp.exact import counterexamples as counterexamples
from gibbs_dp.exact import dependent as dependent
from gibbs_dp.exact import identities as identities
from gibbs_dp.exact.finite_channel import FiniteChannel as FiniteChannel
from gibbs_dp.exact.finite_problem import FiniteProblem as FiniteProblem
from gibbs_dp.exact.finite_problem import StructuredProblem as StructuredProblem
from gibbs_dp.exact.groups import GroupPrivacy as GroupPrivacy
from gibbs_dp.exact.problem import TypeProblem as TypeProblem
from gibbs_dp.exact.record import Record as Record
from gibbs_dp.exact.types import ordered_datasets as ordered_datasets
