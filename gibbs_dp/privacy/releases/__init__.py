"""Releases of private draws: the contract of methods, those of this library, and what runs them."""
