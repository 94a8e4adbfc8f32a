"""On-average KL-privacy, by several estimators: one file each."""

from gibbs_dp.quantities.on_average_kl.quantity import OnAverageKL as OnAverageKL
