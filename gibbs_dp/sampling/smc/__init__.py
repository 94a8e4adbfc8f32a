"""Sequential Monte Carlo along gamma: particles from the prior to the coldest posterior."""
