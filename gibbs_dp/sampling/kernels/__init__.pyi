# The order of the command line.
# isort: off
from .base import Kernel as Kernel
from .hmc import HMC as HMC
from .langevin import MALA as MALA
from .langevin import UnderdampedLangevin as UnderdampedLangevin
from .langevin import SGLD as SGLD
from .langevin import ULA as ULA
from .langevin import Unadjusted as Unadjusted
