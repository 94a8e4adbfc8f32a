"""Notions of privacy: over gamma, in a table, and what implies what."""
