"""Losses: callables ``loss(theta, z)`` that know their constants on a declared domain."""

from typing import Any

from gibbs_dp._source import losses_of
from gibbs_dp.information.checks import shown
from gibbs_dp.model.domain import LossConstants as LossConstants
from gibbs_dp.model.losses.base import Declared as Declared
from gibbs_dp.model.losses.base import LinearLoss as LinearLoss
from gibbs_dp.model.losses.base import Loss as Loss
from gibbs_dp.model.losses.base import array_namespace as array_namespace
from gibbs_dp.model.losses.classification import Hinge as Hinge
from gibbs_dp.model.losses.classification import Logistic as Logistic
from gibbs_dp.model.losses.classification import SoftmaxCrossEntropy as SoftmaxCrossEntropy
from gibbs_dp.model.losses.classification import TwoClassLoss as TwoClassLoss
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


def as_loss(given: Any, *labels: str) -> Loss:
    """Return a built-in loss by its name, or a loss as it is, if it takes such labels."""
    names = losses_of(*labels)
    if isinstance(given, str) and given in names:
        loss: Loss = globals()[names[given]]()
        return loss
    if isinstance(given, Loss) and given.labels in labels:
        return given
    if isinstance(given, Loss) and given.labels is not None:
        raise ValueError(
            f"loss: the {given.name} loss takes {given.labels}, and here labels are "
            f"{' or '.join(labels)}; use one of {', '.join(names)}."
        )
    raise ValueError(
        f"loss: {shown(given)} is none of {', '.join(names)}; use one, or a loss of your own, of a "
        "class derived from gibbs_dp.losses.LinearLoss."
    )
