"""Losses: callables ``loss(theta, z)`` that know their constants on a declared domain."""

from gibbs_dp.model.domain import LossConstants as LossConstants
from gibbs_dp.model.losses.base import Declared as Declared
from gibbs_dp.model.losses.base import LinearLoss as LinearLoss
from gibbs_dp.model.losses.base import Loss as Loss
from gibbs_dp.model.losses.classification import Hinge as Hinge
from gibbs_dp.model.losses.classification import Logistic as Logistic
from gibbs_dp.model.losses.classification import SoftmaxCrossEntropy as SoftmaxCrossEntropy
from gibbs_dp.model.losses.location import HalfSquaredDistance as HalfSquaredDistance
from gibbs_dp.model.losses.location import KMeans as KMeans
from gibbs_dp.model.losses.location import Linear as Linear
from gibbs_dp.model.losses.regression import Absolute as Absolute
from gibbs_dp.model.losses.regression import GaussianNLL as GaussianNLL
from gibbs_dp.model.losses.regression import Huber as Huber
from gibbs_dp.model.losses.regression import Pinball as Pinball
from gibbs_dp.model.losses.regression import Poisson as Poisson
from gibbs_dp.model.losses.regression import Squared as Squared

squared = Squared()
absolute = Absolute()
logistic = Logistic()
half_squared_distance = HalfSquaredDistance()
huber = Huber()
hinge = Hinge()
poisson = Poisson()
gaussian_nll = GaussianNLL()
linear = Linear()
