"""Privacy against an adversary from a restricted class of functions.

Chaudhuri, Imola & Machanavajjhala, *Capacity Bounded Differential Privacy* (2019). Divergences in
nats; adjacency is that for which a sensitivity (``shift``) was computed.
"""

from gibbs_dp.capacity.adversaries import Adversary as Adversary
from gibbs_dp.capacity.adversaries import AnyMap as AnyMap
from gibbs_dp.capacity.adversaries import FiniteClass as FiniteClass
from gibbs_dp.capacity.adversaries import Polynomial as Polynomial
from gibbs_dp.capacity.adversaries import PolynomialMap as PolynomialMap
from gibbs_dp.capacity.adversaries import QueryHull as QueryHull
from gibbs_dp.capacity.adversaries import RandomFeatures as RandomFeatures
from gibbs_dp.capacity.adversaries import SumClass as SumClass
from gibbs_dp.capacity.adversaries import TwoLayerReLU as TwoLayerReLU
from gibbs_dp.capacity.adversaries import Unrestricted as Unrestricted
from gibbs_dp.capacity.atoms import finite_class_kl as finite_class_kl
from gibbs_dp.capacity.atoms import span_ipm as span_ipm
from gibbs_dp.capacity.atoms import span_kl as span_kl
from gibbs_dp.capacity.atoms import span_renyi as span_renyi
from gibbs_dp.capacity.bound import CapacityBound as CapacityBound
from gibbs_dp.capacity.closed_forms import gaussian_kl_of_shift as gaussian_kl_of_shift
from gibbs_dp.capacity.closed_forms import (
    gaussian_unrestricted_renyi as gaussian_unrestricted_renyi,
)
from gibbs_dp.capacity.closed_forms import laplace_linear_kl as laplace_linear_kl
from gibbs_dp.capacity.closed_forms import laplace_unrestricted_kl as laplace_unrestricted_kl
from gibbs_dp.capacity.closed_forms import laplace_unrestricted_renyi as laplace_unrestricted_renyi
from gibbs_dp.capacity.closed_forms import (
    laplace_unrestricted_renyi_lower as laplace_unrestricted_renyi_lower,
)
from gibbs_dp.capacity.composition import mixture as mixture
from gibbs_dp.capacity.composition import parallel as parallel
from gibbs_dp.capacity.composition import post_process as post_process
from gibbs_dp.capacity.composition import sequential as sequential
from gibbs_dp.capacity.line import Line as Line
from gibbs_dp.capacity.line import gaussian_line as gaussian_line
from gibbs_dp.capacity.line import laplace_line as laplace_line
from gibbs_dp.capacity.matrix_mechanism import MatrixMechanism as MatrixMechanism
from gibbs_dp.capacity.moments import gaussian_moments as gaussian_moments
from gibbs_dp.capacity.moments import laplace_moments as laplace_moments
from gibbs_dp.capacity.moments import monomials as monomials
from gibbs_dp.capacity.moments import product_renyi2 as product_renyi2
from gibbs_dp.capacity.moments import renyi2_from_moments as renyi2_from_moments
from gibbs_dp.capacity.on_average import OnAverageCapacity as OnAverageCapacity
from gibbs_dp.capacity.on_average import on_average_capacity_kl as on_average_capacity_kl
from gibbs_dp.capacity.polynomial import PolynomialCritic as PolynomialCritic
from gibbs_dp.capacity.polynomial import alpha_from_renyi as alpha_from_renyi
from gibbs_dp.capacity.polynomial import polynomial_renyi as polynomial_renyi
from gibbs_dp.capacity.polynomial import renyi_from_alpha as renyi_from_alpha
from gibbs_dp.capacity.polynomial_kl import polynomial_kl as polynomial_kl
from gibbs_dp.capacity.printed import printed_gaussian as printed_gaussian
from gibbs_dp.capacity.printed import printed_gaussian_several as printed_gaussian_several
from gibbs_dp.capacity.printed import printed_laplace as printed_laplace
from gibbs_dp.capacity.printed import printed_matrix_mechanism as printed_matrix_mechanism
from gibbs_dp.capacity.regimes import Regime as Regime
from gibbs_dp.capacity.regimes import failing_below as failing_below
from gibbs_dp.capacity.regimes import gaussian_regime as gaussian_regime
from gibbs_dp.capacity.regimes import laplace_regime as laplace_regime
from gibbs_dp.capacity.regimes import matrix_regime as matrix_regime
from gibbs_dp.capacity.regimes import regime_map as regime_map
from gibbs_dp.capacity.sampled import TrainedDivergence as TrainedDivergence
from gibbs_dp.capacity.sampled import trained_divergence as trained_divergence
from gibbs_dp.capacity.several import gaussian_renyi_of_polynomials as gaussian_renyi_of_polynomials
from gibbs_dp.capacity.several import laplace_renyi_of_linear as laplace_renyi_of_linear
from gibbs_dp.capacity.several import laplace_renyi_of_polynomials as laplace_renyi_of_polynomials
from gibbs_dp.capacity.strategies import hierarchical_strategy as hierarchical_strategy
from gibbs_dp.capacity.strategies import identity_strategy as identity_strategy
from gibbs_dp.capacity.strategies import optimized_strategy as optimized_strategy
from gibbs_dp.capacity.theorems import generalization_from_kl as generalization_from_kl
from gibbs_dp.capacity.theorems import ipm_from_kl as ipm_from_kl
from gibbs_dp.capacity.theorems import ipm_from_kl_by_hoeffding as ipm_from_kl_by_hoeffding
from gibbs_dp.capacity.theorems import query_hull_kl as query_hull_kl
from gibbs_dp.capacity.training import Training as Training
from gibbs_dp.capacity.valid import valid_gaussian as valid_gaussian
from gibbs_dp.capacity.valid import valid_laplace as valid_laplace
