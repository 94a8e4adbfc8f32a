"""Experiments with one holdout used many times, after Dwork et al. (2015)."""
