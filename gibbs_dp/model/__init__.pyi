from . import losses as losses
from . import populations as populations
from . import supports as supports
from .domain import Domain as Domain
from .domain import LossConstants as LossConstants
from .numpyro_models.build import temper as temper
from .posterior import GibbsPosterior as GibbsPosterior
from .prior import Flat as Flat
