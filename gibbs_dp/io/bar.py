"""The progress bar: a widget in notebooks that have ipywidgets, and text everywhere else."""

from __future__ import annotations

import warnings

from tqdm import TqdmWarning

with warnings.catch_warnings():
    # A notebook without ipywidgets gets the bar of terminals: nothing that needs a warning.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm as tqdm
