"""HMC on one chip: a dataset stays there from its chains' first step to their last."""
