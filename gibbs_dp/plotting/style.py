"""The style of all pictures, and its colours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from matplotlib import style

# Okabe-Ito.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, ORANGE, BLACK = "#56B4E9", "#E69F00", "#000000"
COLORS = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE)
"""Of series that are alike, in this order."""

NAME = "gibbs_dp.style"


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of the library, whatever the user's own settings are.

    Also a decorator. Matplotlib's settings are as before at the end.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> before = dict(mpl.rcParams)
    >>> with styled():
    ...     mpl.rcParams["svg.fonttype"]
    'none'
    >>> dict(mpl.rcParams) == before
    True
    """
    with style.context(["default", NAME]):
        yield
