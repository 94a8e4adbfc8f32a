"""Losses: callables ``loss(theta, z)`` that know their constants on a declared domain."""

from gibbs_dp.model.losses.absolute import Absolute as Absolute
from gibbs_dp.model.losses.base import LinearLoss as LinearLoss
from gibbs_dp.model.losses.base import Loss as Loss
from gibbs_dp.model.losses.declared import Declared as Declared
from gibbs_dp.model.losses.gaussian import GaussianNLL as GaussianNLL
from gibbs_dp.model.losses.half_squared_distance import HalfSquaredDistance as HalfSquaredDistance
from gibbs_dp.model.losses.hinge import Hinge as Hinge
from gibbs_dp.model.losses.huber import Huber as Huber
from gibbs_dp.model.losses.kmeans import KMeans as KMeans
from gibbs_dp.model.losses.linear import Linear as Linear
from gibbs_dp.model.losses.logistic import Logistic as Logistic
from gibbs_dp.model.losses.pinball import Pinball as Pinball
from gibbs_dp.model.losses.poisson import Poisson as Poisson
from gibbs_dp.model.losses.softmax import SoftmaxCrossEntropy as SoftmaxCrossEntropy
from gibbs_dp.model.losses.squared import Squared as Squared

squared = Squared()
absolute = Absolute()
logistic = Logistic()
half_squared_distance = HalfSquaredDistance()
huber = Huber()
hinge = Hinge()
poisson = Poisson()
gaussian_nll = GaussianNLL()
linear = Linear()
