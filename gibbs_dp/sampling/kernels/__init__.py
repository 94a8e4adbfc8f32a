"""Markov kernels: settings as frozen dataclasses over pure ``init`` and ``step`` functions."""

from gibbs_dp.sampling.kernels.base import Kernel as Kernel
from gibbs_dp.sampling.kernels.hmc import HMC as HMC
from gibbs_dp.sampling.kernels.langevin import MALA as MALA
from gibbs_dp.sampling.kernels.langevin import UnderdampedLangevin as UnderdampedLangevin
from gibbs_dp.sampling.kernels.unadjusted import SGLD as SGLD
from gibbs_dp.sampling.kernels.unadjusted import ULA as ULA
from gibbs_dp.sampling.kernels.unadjusted import Unadjusted as Unadjusted
