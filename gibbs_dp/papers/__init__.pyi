from . import bayesian_dp as bayesian_dp
from . import capacity as capacity
from . import on_average_kl as on_average_kl
