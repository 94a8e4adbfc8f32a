"""Released draws as people see them, in notebooks and on pages: nothing computed from them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import PyTree

from gibbs_dp.privacy.guarantee import Guarantee, promise_sections, verdict
from gibbs_dp.privacy.schema import Schema
from gibbs_dp.results import page
from gibbs_dp.results.page import Page
from gibbs_dp.results.table import Heading, TextTable, counted, remarks
from gibbs_dp.sampling.diagnostics import label, named_leaves

TITLE = "A private release"
# Draws, and numbers of each, on a page and in a notebook.
MOST_DRAWS, MOST_NUMBERS = 50, 1000
FEW_DRAWS, FEW_NUMBERS = 8, 20
NO_PROMISE_OF_DRAWS = (
    "Nothing says how well a draw predicts, or whether the declared bounds fit the data: that "
    "would be a further release. Records that could not be read as declared count as zeros, and "
    "nobody is told how many there were.",
)


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
    rows = [_row(*found) for found in islice(every, FEW_NUMBERS)]
    total, num_draws = sum(leaf[0].size for _, leaf in leaves), max(map(len, rows), default=1) - 1
    headings = [Heading("parameter", is_text=True)]
    headings += [Heading(f"draw {i + 1}") for i in range(num_draws)]
    more = max((len(leaf) for _, leaf in leaves), default=0) - num_draws
    told = [("note", f"{counted(more, 'further draw')} not shown.")] if more > 0 else []
    table = TextTable(headings, rows, total - len(rows), "numbers")
    return table.to_html() + remarks(told)


def _row(name: str, leaf: Any, index: tuple[int, ...]) -> list[str]:
    return [label(name, index), *(f"{value:.6g}" for value in leaf[(slice(FEW_DRAWS), *index)])]


def release_page(
    theta: PyTree,
    promise: Guarantee,
    charge: int,
    schema: Schema | None = None,
    title: str | None = None,
    about: Iterable[str] = (),
) -> Page:
    """Say on a page what was released, and nothing else about the data.

    Parameters
    ----------
    theta
        Leaves ``[draws, ...]``.
    promise
        What holds for them.
    charge
        Number of the charge in the ledger.
    schema
        Names the numbers of a draw, and says how they follow from a record.
    title
        Its heading.
    about
        Sentences on what was released, which are public.

    Returns
    -------
    Page
        To be saved.
    """
    return Page(
        title or TITLE,
        f"{draws_in_words(theta)}, charge {charge} of the ledger",
        verdict(promise),
        (
            page.section("What is released", _draws(theta, schema), page.bullets(about)),
            page.section("How its numbers follow from a record", _rules(schema)),
            *promise_sections(promise, NO_PROMISE_OF_DRAWS),
            page.settings({"charge in the ledger": charge}),
        ),
    )


def _draws(theta: PyTree, schema: Schema | None) -> str:
    """Show a line a number and a column a draw."""
    leaves = [(name, np.asarray(leaf)) for name, leaf in named_leaves(theta)]
    names = [label(name, i) for name, leaf in leaves for i in np.ndindex(leaf.shape[1:])]
    if not names:
        return ""
    values = np.concatenate([leaf.reshape(len(leaf), -1) for _, leaf in leaves], axis=1)
    if schema is not None and len(schema.names) == len(names):
        names = list(schema.names)
    shown = values[:MOST_DRAWS, :MOST_NUMBERS]
    headings = [Heading("parameter", is_text=True)]
    headings += [Heading(f"draw {i + 1}") for i in range(len(shown))]
    rows = [
        [name, *(f"{value:.6g}" for value in column)]
        for name, column in zip(names, shown.T, strict=False)
    ]
    table = TextTable(headings, rows, len(names) - len(rows), "numbers")
    more = len(values) - len(shown)
    return table.to_html() + page.paragraphs(
        [f"{counted(more, 'further draw')} not shown."] * (more > 0)
    )


def _rules(schema: Schema | None) -> str:
    if schema is None:
        return ""
    told = list(schema.rules().items())
    if schema.label is not None and schema.target is not None:
        told.append((f"{schema.target} (label)", schema.label.label_rule(schema.target)))
    if schema.domain.x_bound < schema.norm:
        bound = f"at most {schema.domain.x_bound:.12g}; a longer feature vector is shortened to it"
        told.append(("norm of the features", bound))
    return page.facts(told)
