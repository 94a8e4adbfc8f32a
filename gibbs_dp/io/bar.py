"""The progress bar: a widget in notebooks that have ipywidgets, and text everywhere else."""

from __future__ import annotations

import sys
import warnings

from tqdm import TqdmWarning

with warnings.catch_warnings():
    # A notebook without ipywidgets gets the bar of terminals: nothing that needs a warning.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm as tqdm


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


def has_bar() -> bool:
    """Whether a bar can be drawn again and again: not in a pipe, nor in the log of a batch job."""
    return is_notebook() or (sys.stderr is not None and sys.stderr.isatty())
