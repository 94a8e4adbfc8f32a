from .base import Kernel as Kernel
from .hmc import HMC as HMC
from .langevin import MALA as MALA
from .langevin import UnderdampedLangevin as UnderdampedLangevin
from .unadjusted import SGLD as SGLD
from .unadjusted import ULA as ULA
from .unadjusted import Unadjusted as Unadjusted
