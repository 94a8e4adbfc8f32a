"""Privacy against an adversary from a restricted class of functions.

Chaudhuri, Imola & Machanavajjhala, *Capacity Bounded Differential Privacy* (2019). Divergences in
nats; adjacency is whatever a sensitivity (``shift``) was computed for.
"""

from gibbs_dp.capacity.atoms import finite_class_kl as finite_class_kl
from gibbs_dp.capacity.atoms import span_ipm as span_ipm
from gibbs_dp.capacity.atoms import span_kl as span_kl
from gibbs_dp.capacity.atoms import span_renyi as span_renyi
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
from gibbs_dp.capacity.line import Line as Line
from gibbs_dp.capacity.line import gaussian_line as gaussian_line
from gibbs_dp.capacity.line import laplace_line as laplace_line
from gibbs_dp.capacity.moments import gaussian_moments as gaussian_moments
from gibbs_dp.capacity.moments import laplace_moments as laplace_moments
from gibbs_dp.capacity.moments import monomials as monomials
from gibbs_dp.capacity.moments import product_renyi2 as product_renyi2
from gibbs_dp.capacity.moments import renyi2_from_moments as renyi2_from_moments
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
from gibbs_dp.capacity.regimes import regime_map as regime_map
from gibbs_dp.capacity.several import gaussian_renyi_of_polynomials as gaussian_renyi_of_polynomials
from gibbs_dp.capacity.several import laplace_renyi_of_linear as laplace_renyi_of_linear
from gibbs_dp.capacity.several import laplace_renyi_of_polynomials as laplace_renyi_of_polynomials
from gibbs_dp.capacity.valid import valid_gaussian as valid_gaussian
from gibbs_dp.capacity.valid import valid_laplace as valid_laplace
