"""Divergences of two laws: finite, Gaussian, Laplace, of one family, densities by quadrature."""

from gibbs_dp.information.divergences.exponential_family import (
    exponential_family_renyi as exponential_family_renyi,
)
from gibbs_dp.information.divergences.finite import alpha_divergence as alpha_divergence
from gibbs_dp.information.divergences.finite import (
    approximate_max_divergence as approximate_max_divergence,
)
from gibbs_dp.information.divergences.finite import (
    approximate_max_divergence_of_logs as approximate_max_divergence_of_logs,
)
from gibbs_dp.information.divergences.finite import chi_square as chi_square
from gibbs_dp.information.divergences.finite import hockey_stick as hockey_stick
from gibbs_dp.information.divergences.finite import kl_divergence as kl_divergence
from gibbs_dp.information.divergences.finite import max_divergence as max_divergence
from gibbs_dp.information.divergences.finite import renyi_divergence as renyi_divergence
from gibbs_dp.information.divergences.finite import squared_hellinger as squared_hellinger
from gibbs_dp.information.divergences.finite import total_variation as total_variation
from gibbs_dp.information.divergences.gaussian import (
    gaussian_alpha_divergence as gaussian_alpha_divergence,
)
from gibbs_dp.information.divergences.gaussian import (
    gaussian_approximate_max_divergence as gaussian_approximate_max_divergence,
)
from gibbs_dp.information.divergences.gaussian import gaussian_chi_square as gaussian_chi_square
from gibbs_dp.information.divergences.gaussian import (
    gaussian_hockey_stick as gaussian_hockey_stick,
)
from gibbs_dp.information.divergences.gaussian import gaussian_kl as gaussian_kl
from gibbs_dp.information.divergences.gaussian import (
    gaussian_max_divergence as gaussian_max_divergence,
)
from gibbs_dp.information.divergences.gaussian import gaussian_renyi as gaussian_renyi
from gibbs_dp.information.divergences.gaussian import (
    gaussian_squared_hellinger as gaussian_squared_hellinger,
)
from gibbs_dp.information.divergences.gaussian import (
    gaussian_total_variation as gaussian_total_variation,
)
from gibbs_dp.information.divergences.laplace import (
    laplace_alpha_divergence as laplace_alpha_divergence,
)
from gibbs_dp.information.divergences.laplace import (
    laplace_approximate_max_divergence as laplace_approximate_max_divergence,
)
from gibbs_dp.information.divergences.laplace import laplace_chi_square as laplace_chi_square
from gibbs_dp.information.divergences.laplace import laplace_hockey_stick as laplace_hockey_stick
from gibbs_dp.information.divergences.laplace import laplace_kl as laplace_kl
from gibbs_dp.information.divergences.laplace import (
    laplace_max_divergence as laplace_max_divergence,
)
from gibbs_dp.information.divergences.laplace import laplace_renyi as laplace_renyi
from gibbs_dp.information.divergences.laplace import (
    laplace_squared_hellinger as laplace_squared_hellinger,
)
from gibbs_dp.information.divergences.laplace import (
    laplace_total_variation as laplace_total_variation,
)
from gibbs_dp.information.divergences.quadrature import (
    divergence_by_quadrature as divergence_by_quadrature,
)
from gibbs_dp.information.divergences.quadrature import quadrature_law as quadrature_law
