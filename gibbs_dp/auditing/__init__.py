"""Audits and certificates: from arguments to a result, and what is done with results."""
