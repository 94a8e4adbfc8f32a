"""Libraries of the optional extras, imported when first needed."""

from __future__ import annotations

import importlib
from typing import Any


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
            f"this needs {package}, which is not installed; pip install 'gibbs-dp[{extra}]'."
        ) from error
