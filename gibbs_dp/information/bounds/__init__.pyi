from .bounded_range import dp_erasure_information as dp_erasure_information
from .bounded_range import gibbs_erasure_information as gibbs_erasure_information
from .bounded_range import gibbs_generalization as gibbs_generalization
from .bounded_range import gibbs_kl_stability as gibbs_kl_stability
from .bounded_range import kl_from_range as kl_from_range
from .bounded_range import loss_difference_range as loss_difference_range
from .bounded_range import pure_dp_fixed_normalizer as pure_dp_fixed_normalizer
from .bounded_range import pure_dp_from_log_density as pure_dp_from_log_density
from .bounded_range import pure_dp_from_range as pure_dp_from_range
from .bounded_range import renyi_from_range as renyi_from_range
from .bounded_range import total_variation_from_range as total_variation_from_range
from .bounded_range import zcdp_from_range as zcdp_from_range
from .composition import ApproximateDP as ApproximateDP
from .composition import advanced_composition as advanced_composition
from .composition import advanced_composition_inverse as advanced_composition_inverse
from .composition import (
    advanced_composition_inverse_small_epsilon as advanced_composition_inverse_small_epsilon,
)
from .composition import approximate_draw as approximate_draw
from .composition import basic_composition as basic_composition
from .conditional_information import (
    generalization_from_alpha_information as generalization_from_alpha_information,
)
from .conditional_information import generalization_from_cmi as generalization_from_cmi
from .conditional_information import (
    generalization_from_individual_cmi as generalization_from_individual_cmi,
)
from .conditional_information import (
    generalization_from_jensen_shannon as generalization_from_jensen_shannon,
)
from .conditional_information import (
    generalization_from_on_average_kl_bounded as generalization_from_on_average_kl_bounded,
)
from .conditional_information import (
    generalization_from_t_information as generalization_from_t_information,
)
from .conditional_information import (
    generalization_tail_from_alpha_information as generalization_tail_from_alpha_information,
)
from .conditional_information import interpolating_risk_from_cmi as interpolating_risk_from_cmi
from .gaussian_dp import bounded_convex_gdp as bounded_convex_gdp
from .gaussian_dp import delta_from_gdp as delta_from_gdp
from .gaussian_dp import delta_from_zcdp as delta_from_zcdp
from .gaussian_dp import gdp_composition as gdp_composition
from .gaussian_dp import langevin_last_iterate_gdp as langevin_last_iterate_gdp
from .gaussian_dp import langevin_trajectory_gdp as langevin_trajectory_gdp
from .gaussian_dp import projected_langevin_gdp as projected_langevin_gdp
from .gaussian_dp import strongly_convex_gdp as strongly_convex_gdp
from .gaussian_dp import zcdp_from_gdp as zcdp_from_gdp
from .generalization import (
    erasure_information_from_average_kl_stability as erasure_information_from_average_kl_stability,
)
from .generalization import (
    erasure_information_from_on_average_kl as erasure_information_from_on_average_kl,
)
from .generalization import (
    erasure_information_from_uniform_kl_stability as erasure_information_from_uniform_kl_stability,
)
from .generalization import (
    erasure_t_information_from_tv_stability as erasure_t_information_from_tv_stability,
)
from .generalization import generalization_from_dp as generalization_from_dp
from .generalization import (
    generalization_from_erasure_t_information as generalization_from_erasure_t_information,
)
from .generalization import (
    generalization_from_individual_information as generalization_from_individual_information,
)
from .generalization import (
    generalization_from_mutual_information as generalization_from_mutual_information,
)
from .generalization import generalization_subexponential as generalization_subexponential
from .generalization import selection_bias as selection_bias
from .max_information import adaptive_event_tail as adaptive_event_tail
from .max_information import (
    approximate_dp_max_information_bits as approximate_dp_max_information_bits,
)
from .max_information import (
    approximate_dp_max_information_bits_at as approximate_dp_max_information_bits_at,
)
from .max_information import (
    approximate_dp_max_information_rate as approximate_dp_max_information_rate,
)
from .max_information import composed_max_information as composed_max_information
from .max_information import dp_approx_max_information_bits as dp_approx_max_information_bits
from .max_information import (
    dp_approx_max_information_bits_kappa as dp_approx_max_information_bits_kappa,
)
from .max_information import (
    dp_approx_max_information_bits_published as dp_approx_max_information_bits_published,
)
from .max_information import event_probability as event_probability
from .max_information import general_event_tail as general_event_tail
from .max_information import low_sensitivity_tail as low_sensitivity_tail
from .max_information import (
    mutual_information_from_max_information as mutual_information_from_max_information,
)
from .max_information import pure_dp_max_information_bits as pure_dp_max_information_bits
from .max_information import statistical_query_tail as statistical_query_tail
from .max_information import statistical_query_tail_root as statistical_query_tail_root
from .on_average_kl import auc_from_total_variation as auc_from_total_variation
from .on_average_kl import auc_lower_from_total_variation as auc_lower_from_total_variation
from .on_average_kl import composed_on_average_kl as composed_on_average_kl
from .on_average_kl import (
    epsilon_from_approximate_max_divergence as epsilon_from_approximate_max_divergence,
)
from .on_average_kl import generalization_from_on_average_kl as generalization_from_on_average_kl
from .on_average_kl import (
    generalization_lower_from_mutual_information as generalization_lower_from_mutual_information,
)
from .on_average_kl import gibbs_generalization_subgaussian as gibbs_generalization_subgaussian
from .on_average_kl import gibbs_mutual_information as gibbs_mutual_information
from .on_average_kl import group_on_average_kl as group_on_average_kl
from .on_average_kl import (
    hockey_stick_lower_from_total_variation as hockey_stick_lower_from_total_variation,
)
from .on_average_kl import jensen_shannon_from_kl as jensen_shannon_from_kl
from .on_average_kl import kl_from_max_divergence as kl_from_max_divergence
from .on_average_kl import (
    mutual_information_from_on_average_kl as mutual_information_from_on_average_kl,
)
from .on_average_kl import on_average_kl_from_generalization as on_average_kl_from_generalization
from .on_average_kl import post_processed_on_average_kl as post_processed_on_average_kl
from .on_average_kl import repeated_draws_on_average_kl as repeated_draws_on_average_kl
from .on_average_kl import subgaussian_parameter as subgaussian_parameter
from .on_average_kl import total_variation_from_kl as total_variation_from_kl
from .on_average_kl import total_variation_from_kl_large as total_variation_from_kl_large
