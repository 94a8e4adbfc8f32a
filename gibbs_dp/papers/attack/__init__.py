"""Attacks that are run on posteriors, beside what was computed."""
