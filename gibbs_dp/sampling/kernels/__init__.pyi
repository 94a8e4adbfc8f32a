from .base import Kernel as Kernel
from .hmc import HMC as HMC
from .langevin import MALA as MALA
from .langevin import SGLD as SGLD
from .langevin import ULA as ULA
from .langevin import Unadjusted as Unadjusted
from .langevin import UnderdampedLangevin as UnderdampedLangevin
