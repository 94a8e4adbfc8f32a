"""Bayesian differential privacy of rows that depend on each other.

Yang, Sato & Nakagawa (2015); Zhao (2019). Privacy figures are in nats and name their adjacency;
networks need networkx (extra ``adaptive``).
"""

import lazy_loader

# What is here is imported when it is used; its names and their types are in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
