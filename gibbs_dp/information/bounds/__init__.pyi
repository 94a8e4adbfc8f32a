from .bounded_range import kl_from_range as kl_from_range
from .bounded_range import renyi_from_range as renyi_from_range
from .bounded_range import total_variation_from_range as total_variation_from_range
from .bounded_range import zcdp_from_range as zcdp_from_range
from .composition import ApproximateDP as ApproximateDP
from .composition import advanced_composition as advanced_composition
from .composition import advanced_composition_inverse as advanced_composition_inverse
from .composition import approximate_draw as approximate_draw
from .gaussian_dp import bounded_convex_gdp as bounded_convex_gdp
from .gaussian_dp import delta_from_gdp as delta_from_gdp
from .gaussian_dp import langevin_last_iterate_gdp as langevin_last_iterate_gdp
from .gaussian_dp import langevin_trajectory_gdp as langevin_trajectory_gdp
from .gaussian_dp import projected_langevin_gdp as projected_langevin_gdp
from .gaussian_dp import strongly_convex_gdp as strongly_convex_gdp
from .gaussian_dp import zcdp_from_gdp as zcdp_from_gdp
from .generalization import generalization_from_cmi as generalization_from_cmi
from .generalization import (
    generalization_from_individual_information as generalization_from_individual_information,
)
from .generalization import (
    generalization_from_mutual_information as generalization_from_mutual_information,
)
from .generalization import generalization_from_t_information as generalization_from_t_information
from .generalization import (
    generalization_lower_from_mutual_information as generalization_lower_from_mutual_information,
)
from .generalization import generalization_subexponential as generalization_subexponential
from .generalization import (
    generalization_tail_from_alpha_information as generalization_tail_from_alpha_information,
)
from .generalization import gibbs_generalization_subgaussian as gibbs_generalization_subgaussian
from .generalization import gibbs_mutual_information as gibbs_mutual_information
from .generalization import subgaussian_parameter as subgaussian_parameter
from .generalization import total_variation_from_kl as total_variation_from_kl
from .max_information import max_information_bits as max_information_bits
