"""More information from the same comparison of datasets, each kind on request."""

from gibbs_dp.quantities.information.found import Supersample as Supersample
from gibbs_dp.quantities.information.further import FurtherInformation as FurtherInformation
from gibbs_dp.quantities.information.names import NAMES as NAMES
from gibbs_dp.quantities.information.names import InformationName as InformationName
from gibbs_dp.quantities.information.names import check_names as check_names
