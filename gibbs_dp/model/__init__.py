"""What is sampled: posteriors, supports, domains, losses and populations."""

from gibbs_dp.model import losses as losses
from gibbs_dp.model import populations as populations
from gibbs_dp.model import supports as supports
from gibbs_dp.model.domain import Domain as Domain
from gibbs_dp.model.domain import LossConstants as LossConstants
from gibbs_dp.model.posterior import GibbsPosterior as GibbsPosterior
from gibbs_dp.model.prior import Flat as Flat
