"""Private models for scikit-learn's pipelines: each fit is a draw from a Gibbs posterior."""

import lazy_loader

from gibbs_dp._extras import require

require("sklearn")
# What is here is imported when it is used; its names and their types are in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
