"""Markov chains for thousands of posteriors at once."""
