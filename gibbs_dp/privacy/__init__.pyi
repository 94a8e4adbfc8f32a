from .accountant import Accountant as Accountant
from .accountant import account as account
from .accountant import explain as explain
from .accountant import pure_dp_epsilon as pure_dp_epsilon
from .attacks import OneRunEpsilon as OneRunEpsilon
from .attacks import ShownEpsilon as ShownEpsilon
from .attacks import epsilon_of_one_run as epsilon_of_one_run
from .attacks import epsilon_shown as epsilon_shown
from .beta_bernoulli import BetaBernoulli as BetaBernoulli
from .chain import chain_guarantee as chain_guarantee
from .chain_calibration import calibrate_chain as calibrate_chain
from .chain_calibration import calibrate_minibatch_chain as calibrate_minibatch_chain
from .charge import ReleaseError as ReleaseError
from .columns import Date as Date
from .columns import Levels as Levels
from .columns import Number as Number
from .columns import Positive as Positive
from .columns import Range as Range
from .composition import compose as compose
from .dependent_rows import DependentRows as DependentRows
from .guarantee import load_guarantee as load_guarantee
from .ledger import BudgetExceededError as BudgetExceededError
from .ledger_file import DamagedLedgerError as DamagedLedgerError
from .ledger_file import FullDiskError as FullDiskError
from .mechanisms import ExponentialMechanism as ExponentialMechanism
from .mechanisms import GaussianMechanism as GaussianMechanism
from .mechanisms import LaplaceMechanism as LaplaceMechanism
from .released_model import ReleasedModel as ReleasedModel
from .released_model import load_released_model as load_released_model
from .releases.method import ReleaseMethod as ReleaseMethod
from .releases.method import ReleasePlan as ReleasePlan
from .releases.method import ReleaseRequest as ReleaseRequest

# The order of the command line.
# isort: off
from .releases.proven import ProvenDraw as ProvenDraw
from .releases.methods import ExactDraw as ExactDraw
from .releases.methods import ChainDraw as ChainDraw

# isort: on
from .attacks import largest_advantage as largest_advantage
from .attacks import largest_tpr as largest_tpr
from .releases.population_posterior import PopulationPosterior as PopulationPosterior
from .releases.release import Release as Release
from .schema import Schema as Schema
from .table import read_table as read_table
