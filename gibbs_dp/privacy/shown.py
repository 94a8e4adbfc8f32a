"""Released draws as people see them: the numbers themselves, and nothing computed from them."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import PyTree

from gibbs_dp.results.table import Heading, TextTable, counted, remarks
from gibbs_dp.sampling.whitening import label, named_leaves

MOST_DRAWS = 8
MOST_NUMBERS = 20


def draws_in_words(theta: PyTree) -> str:
    """Count draws and their numbers.

    Parameters
    ----------
    theta
        Leaves ``[draws, ...]``.

    Returns
    -------
    str
        A few words.

    Examples
    --------
    >>> draws_in_words(np.zeros((2, 3)))
    '2 draws of 3 numbers'
    """
    leaves = [np.shape(leaf) for _, leaf in named_leaves(theta)]
    num_draws = leaves[0][0] if leaves else 0
    of = counted(sum(math.prod(shape[1:]) for shape in leaves), "number")
    return f"{counted(num_draws, 'draw')} of {of}"


def draws_as_html(theta: PyTree) -> str:
    """Show the first draws, a column each.

    Parameters
    ----------
    theta
        Leaves ``[draws, ...]``.

    Returns
    -------
    str
        A table.
    """
    leaves = [(name, np.asarray(leaf)) for name, leaf in named_leaves(theta)]
    every = ((name, leaf, index) for name, leaf in leaves for index in np.ndindex(leaf.shape[1:]))
    rows = [_row(*found) for found in islice(every, MOST_NUMBERS)]
    total, num_draws = sum(leaf[0].size for _, leaf in leaves), max(map(len, rows), default=1) - 1
    headings = [Heading("parameter", is_text=True)]
    headings += [Heading(f"draw {i + 1}") for i in range(num_draws)]
    more = max((len(leaf) for _, leaf in leaves), default=0) - num_draws
    told = [("note", f"{counted(more, 'further draw')} not shown.")] if more > 0 else []
    table = TextTable(headings, rows, total - len(rows), "numbers")
    return table.to_html() + remarks(told)


def _row(name: str, leaf: Any, index: tuple[int, ...]) -> list[str]:
    return [label(name, index), *(f"{value:.6g}" for value in leaf[(slice(MOST_DRAWS), *index)])]
