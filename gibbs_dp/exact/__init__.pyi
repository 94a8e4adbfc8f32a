from .attacker import Attacker as Attacker
from .attacker import Membership as Membership
from .finite_channel import FiniteChannel as FiniteChannel
from .finite_problem import FiniteProblem as FiniteProblem
from .finite_problem import StructuredProblem as StructuredProblem
from .notions import GroupPrivacy as GroupPrivacy
from .supersample import SupersampleInformation as SupersampleInformation
from .types import ordered_datasets as ordered_datasets
