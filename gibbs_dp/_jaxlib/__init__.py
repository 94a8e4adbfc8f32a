"""What JAX and XLA make necessary: each file says for which versions, and what would end it."""
