"""HMC on one chip: a chain's data stay in registers from its first step to its last."""

from gibbs_dp.sampling.fused.allowed import check as check
from gibbs_dp.sampling.fused.program import last_round as last_round
