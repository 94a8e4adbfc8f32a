"""Private models for scikit-learn's pipelines: each fit is a draw from a Gibbs posterior."""

from typing import Any

import lazy_loader

from gibbs_dp._extras import stand_in

# What is here is imported when it is used; its names and their types are in __init__.pyi.
_get, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as error:  # of scikit-learn, which is an extra
        return stand_in(name, error)
