"""Losses: callables ``loss(theta, z)`` that know their constants on a declared domain."""

from gibbs_dp.model.losses.absolute import Absolute as Absolute
from gibbs_dp.model.losses.base import LinearLoss as LinearLoss
from gibbs_dp.model.losses.base import Loss as Loss
from gibbs_dp.model.losses.declared import Declared as Declared
from gibbs_dp.model.losses.half_squared_distance import HalfSquaredDistance as HalfSquaredDistance
from gibbs_dp.model.losses.logistic import Logistic as Logistic
from gibbs_dp.model.losses.squared import Squared as Squared

squared = Squared()
absolute = Absolute()
logistic = Logistic()
half_squared_distance = HalfSquaredDistance()
