"""Markov kernels: settings as frozen dataclasses over pure ``init`` and ``step`` functions."""

from gibbs_dp.sampling.kernels.base import Kernel as Kernel
from gibbs_dp.sampling.kernels.hmc import HMC as HMC
from gibbs_dp.sampling.kernels.mala import MALA as MALA
from gibbs_dp.sampling.kernels.sgld import SGLD as SGLD
from gibbs_dp.sampling.kernels.ula import ULA as ULA
from gibbs_dp.sampling.kernels.unadjusted import Unadjusted as Unadjusted
from gibbs_dp.sampling.kernels.underdamped import UnderdampedLangevin as UnderdampedLangevin
