"""Per-dataset estimates from weighted draws, and their averages over datasets.

Estimators never see a sampler: they take losses of draws and weights, laid out
``[chains, draws, ...]``, and return one number per dataset.
"""

from gibbs_dp.estimators.average import Average as Average
from gibbs_dp.estimators.average import average as average
from gibbs_dp.estimators.direct import DirectKL as DirectKL
from gibbs_dp.estimators.direct import direct_kl as direct_kl
from gibbs_dp.estimators.direct import direct_kl_of_pairs as direct_kl_of_pairs
from gibbs_dp.estimators.ghost import gap as gap
from gibbs_dp.estimators.ghost import risk as risk
from gibbs_dp.estimators.two_sided import two_sided_kl as two_sided_kl
