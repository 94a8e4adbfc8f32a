"""Libraries of the optional extras, imported when first needed."""

from __future__ import annotations

import importlib
from typing import Any

# What each module of an extra is installed as, and the extra that brings it.
PACKAGES = {
    "arviz": ("arviz", "arviz"),
    "cloudpickle": ("cloudpickle", "distributed"),
    "distributed": ("distributed", "distributed"),
    "dp_accounting": ("dp-accounting", "privacy"),
    "openpyxl": ("openpyxl", "excel"),
    "networkx": ("networkx", "adaptive"),
    "pyarrow": ("pyarrow", "tables"),
    "shtab": ("shtab", "completion"),
    "sklearn": ("scikit-learn", "tables"),
}


def install_hint(module: str) -> str:
    """Say how to install what an extra brings, in words that hold wherever gibbs_dp came from.

    >>> install_hint("sklearn")
    "install it with pip install scikit-learn, or gibbs_dp with its extra 'tables'."
    """
    package, extra = PACKAGES[module.partition(".")[0]]
    return f"install it with pip install {package}, or gibbs_dp with its extra {extra!r}."


def require(module: str) -> Any:
    """Import a module of an extra.

    >>> require("dp_accounting").__name__
    'dp_accounting'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package, _ = PACKAGES[module.partition(".")[0]]
        raise ValueError(
            f"this needs {package}, which is not installed; {install_hint(module)}"
        ) from error


def stand_in(name: str, error: ModuleNotFoundError) -> type:
    """Make a class in place of one that needs an extra: it says so to who makes an object of it."""
    module = (error.name or "").partition(".")[0]
    if module not in PACKAGES:
        raise error

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        return require(module)

    return type(name, (), {"__new__": refuse, "__doc__": f"Needs {PACKAGES[module][0]}."})
