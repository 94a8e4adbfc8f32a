"""NumPyro models as Gibbs posteriors."""
