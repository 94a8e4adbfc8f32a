"""Closed forms: Gaussian mean, linear regression, Beta-Bernoulli, Laplace mechanism."""

from gibbs_dp.exact.closed_form.gaussian import ClosedForm as ClosedForm
from gibbs_dp.exact.closed_form.gaussian import beta_bernoulli as beta_bernoulli
from gibbs_dp.exact.closed_form.gaussian import beta_kl as beta_kl
from gibbs_dp.exact.closed_form.gaussian import correlated_mean as correlated_mean
from gibbs_dp.exact.closed_form.gaussian import gaussian_mean as gaussian_mean
from gibbs_dp.exact.closed_form.laplace_mechanism import ChannelInformation as ChannelInformation
from gibbs_dp.exact.closed_form.laplace_mechanism import (
    laplace_mechanism_information as laplace_mechanism_information,
)
from gibbs_dp.exact.closed_form.laplace_mechanism import private_mean as private_mean
from gibbs_dp.exact.closed_form.laplace_mechanism import (
    private_mean_dp_epsilon as private_mean_dp_epsilon,
)
from gibbs_dp.exact.closed_form.laplace_mechanism import (
    private_mean_on_average_kl as private_mean_on_average_kl,
)
from gibbs_dp.exact.closed_form.laplace_mechanism import (
    truncated_normal_mean_law as truncated_normal_mean_law,
)
from gibbs_dp.exact.closed_form.linear_regression import GaussianPosterior as GaussianPosterior
from gibbs_dp.exact.closed_form.linear_regression import (
    ReplacedRegression as ReplacedRegression,
)
from gibbs_dp.exact.closed_form.linear_regression import (
    linear_regression_averaged as linear_regression_averaged,
)
from gibbs_dp.exact.closed_form.linear_regression import (
    linear_regression_fixed_design as linear_regression_fixed_design,
)
from gibbs_dp.exact.closed_form.linear_regression import (
    linear_regression_kl as linear_regression_kl,
)
from gibbs_dp.exact.closed_form.linear_regression import (
    linear_regression_posterior as linear_regression_posterior,
)
from gibbs_dp.exact.closed_form.linear_regression import (
    linear_regression_replaced as linear_regression_replaced,
)
