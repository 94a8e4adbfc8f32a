"""Per-dataset estimates from weighted draws, and their averages over datasets.

Estimators never see a sampler: they take losses of draws and weights, laid out
``[chains, draws, ...]``, and return one number per dataset.
"""

from gibbs_dp.estimators.average import Average as Average
from gibbs_dp.estimators.average import Interval as Interval
from gibbs_dp.estimators.average import RowAverages as RowAverages
from gibbs_dp.estimators.average import average as average
from gibbs_dp.estimators.average import average_by_row as average_by_row
from gibbs_dp.estimators.average import control_share as control_share
from gibbs_dp.estimators.average import is_tame as is_tame
from gibbs_dp.estimators.average import mean_interval as mean_interval
from gibbs_dp.estimators.average import students as students
from gibbs_dp.estimators.cross_fitting import Halves as Halves
from gibbs_dp.estimators.cross_fitting import constant as constant
from gibbs_dp.estimators.cross_fitting import crossed as crossed
from gibbs_dp.estimators.cross_fitting import fold_of as fold_of
from gibbs_dp.estimators.cross_fitting import halves as halves
from gibbs_dp.estimators.cross_fitting import least_upper as least_upper
from gibbs_dp.estimators.exposure import ExampleExposure as ExampleExposure
from gibbs_dp.estimators.exposure import example_exposure as example_exposure
from gibbs_dp.estimators.mutual_information import Baseline as Baseline
from gibbs_dp.estimators.mutual_information import Contrast as Contrast
from gibbs_dp.estimators.mutual_information import ContrastSums as ContrastSums
from gibbs_dp.estimators.on_average_kl import DirectKL as DirectKL
from gibbs_dp.estimators.on_average_kl import PairVariance as PairVariance
from gibbs_dp.estimators.on_average_kl import direct_kl as direct_kl
from gibbs_dp.estimators.on_average_kl import direct_kl_of_pairs as direct_kl_of_pairs
from gibbs_dp.estimators.on_average_kl import gap as gap
from gibbs_dp.estimators.on_average_kl import group_variances as group_variances
from gibbs_dp.estimators.on_average_kl import pair_variance as pair_variance
from gibbs_dp.estimators.on_average_kl import pair_variance_of_pairs as pair_variance_of_pairs
from gibbs_dp.estimators.on_average_kl import reference_gap as reference_gap
from gibbs_dp.estimators.on_average_kl import risk as risk
from gibbs_dp.estimators.on_average_kl import two_sided_kl as two_sided_kl
from gibbs_dp.estimators.on_average_kl import variance_of_pairs as variance_of_pairs
from gibbs_dp.estimators.pareto import ParetoSmoothed as ParetoSmoothed
from gibbs_dp.estimators.pareto import k_hat_limit as k_hat_limit
from gibbs_dp.estimators.pareto import pareto_smooth as pareto_smooth
from gibbs_dp.estimators.privacy_loss import Integral as Integral
from gibbs_dp.estimators.privacy_loss import Normalizer as Normalizer
from gibbs_dp.estimators.privacy_loss import bridge as bridge
from gibbs_dp.estimators.privacy_loss import integrate_mean_loss as integrate_mean_loss
from gibbs_dp.estimators.privacy_loss import log_normalizer_ratio as log_normalizer_ratio
from gibbs_dp.estimators.privacy_loss import point_worth as point_worth
from gibbs_dp.estimators.privacy_loss import quasi_normals as quasi_normals
from gibbs_dp.estimators.table_sums import ConsistencySums as ConsistencySums
