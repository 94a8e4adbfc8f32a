"""Mutual information between dataset and draw: draws compared with other datasets' posteriors."""

from gibbs_dp.quantities.mutual_information.quantity import MutualInformation as MutualInformation
