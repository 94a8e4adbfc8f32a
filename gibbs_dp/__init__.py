"""Privacy and generalization of Gibbs posteriors, by sampling and exactly."""

import lazy_loader

import gibbs_dp._jaxlib.threads  # noqa: F401  (before JAX starts)

# What is here is imported when it is used; its names and their types are in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
