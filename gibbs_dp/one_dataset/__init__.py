"""The audit of one posterior, from the log-likelihoods of its draws."""
