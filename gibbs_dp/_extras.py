"""Libraries of the optional extras, imported when first needed."""

from __future__ import annotations

import importlib
from typing import Any


def install_hint(package: str, extra: str) -> str:
    """Say how to install what an extra brings, in words that hold wherever gibbs_dp came from.

    Parameters
    ----------
    package
        What to install, as pip takes it.
    extra
        Extra of this package that brings it.

    Returns
    -------
    str
        The end of a sentence.

    Examples
    --------
    >>> install_hint("pyarrow", "tables")
    "install it with pip install pyarrow, or gibbs_dp with its extra 'tables'."
    """
    return f"install it with pip install {package}, or gibbs_dp with its extra {extra!r}."


def require(module: str, extra: str = "privacy") -> Any:
    """Import a module of an extra.

    Parameters
    ----------
    module
        Name, such as ``dp_accounting``.
    extra
        Extra of this package that brings it.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ValueError
        If it is not installed, with the command that installs it.

    Examples
    --------
    >>> require("math").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise ValueError(
            f"this needs {package}, which is not installed; {install_hint(package, extra)}"
        ) from error
