"""One holdout, many questions: Thresholdout, sparse vector, plans.

Privacy figures are in nats and name their adjacency; releases take their noise from
`gibbs_dp.privacy.noise`.
"""

import lazy_loader

# What is here is imported when it is used; its names and their types are in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
