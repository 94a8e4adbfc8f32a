"""Worst-case privacy: of exact draws, of the chain that is run, and of what is released."""

from gibbs_dp.privacy.accountant import Accountant as Accountant
from gibbs_dp.privacy.accountant import account as account
from gibbs_dp.privacy.calibrate import Calibration as Calibration
from gibbs_dp.privacy.calibrate import Target as Target
from gibbs_dp.privacy.calibrate import calibrate_gamma as calibrate_gamma
from gibbs_dp.privacy.calibrate_chain import ChainCalibration as ChainCalibration
from gibbs_dp.privacy.calibrate_chain import calibrate_chain as calibrate_chain
from gibbs_dp.privacy.chain import ChainConstants as ChainConstants
from gibbs_dp.privacy.chain import chain_constants as chain_constants
from gibbs_dp.privacy.chain import chain_guarantee as chain_guarantee
from gibbs_dp.privacy.compose import compose as compose
from gibbs_dp.privacy.explain import explain as explain
from gibbs_dp.privacy.explain import rows as rows
from gibbs_dp.privacy.guarantee import Guarantee as Guarantee
from gibbs_dp.privacy.ledger import BudgetExceededError as BudgetExceededError
from gibbs_dp.privacy.ledger import Ledger as Ledger
from gibbs_dp.privacy.pld import PrivacyLoss as PrivacyLoss
from gibbs_dp.privacy.pld import dominating_pair_pld as dominating_pair_pld
from gibbs_dp.privacy.pld import enumerated_pld as enumerated_pld
from gibbs_dp.privacy.pld import location_family_pld as location_family_pld
from gibbs_dp.privacy.private_chain import ChainDraws as ChainDraws
from gibbs_dp.privacy.private_chain import private_chain as private_chain
from gibbs_dp.privacy.pure import pure_dp_epsilon as pure_dp_epsilon
