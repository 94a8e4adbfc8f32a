"""PAC-Bayes certificates: bounds on the risk of one posterior, from its own data."""

from gibbs_dp.certificates.api import certify as certify
from gibbs_dp.certificates.certificate import Certificate as Certificate
