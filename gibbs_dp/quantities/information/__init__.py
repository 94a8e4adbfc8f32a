"""More information from the same comparison of datasets, each kind on request."""

from gibbs_dp.quantities.information.columns import NAMES as NAMES
from gibbs_dp.quantities.information.columns import InformationName as InformationName
from gibbs_dp.quantities.information.columns import check_names as check_names
from gibbs_dp.quantities.information.further import FurtherInformation as FurtherInformation
from gibbs_dp.quantities.information.further import Supersample as Supersample
