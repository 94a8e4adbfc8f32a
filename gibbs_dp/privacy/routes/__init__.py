"""Routes from a posterior's constants to guarantees: one assumption, all its consequences."""

from gibbs_dp.privacy.routes.base import Route as Route
from gibbs_dp.privacy.routes.bounded_range import BoundedRange as BoundedRange
from gibbs_dp.privacy.routes.bounded_ratio import BoundedRatio as BoundedRatio
from gibbs_dp.privacy.routes.gaussian import GaussianDP as GaussianDP
