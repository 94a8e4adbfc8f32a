"""Guarantees and releases as pages: what is public of them, and nothing of the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import PyTree

from gibbs_dp.privacy.figures import NOT_COVERED
from gibbs_dp.privacy.schema import Schema
from gibbs_dp.privacy.shown import draws_in_words
from gibbs_dp.results import page
from gibbs_dp.results.page import Page, Section
from gibbs_dp.results.table import Heading, TextTable, counted
from gibbs_dp.sampling.whitening import label, named_leaves

TITLE, OF_RELEASE = "A privacy guarantee", "A private release"
# Draws, and numbers of each, on a page.
MOST_DRAWS, MOST_NUMBERS = 50, 1000
NAMES = {
    "adjacency": "neighbours",
    "mechanism": "mechanism",
    "num_draws": "draws",
    "gamma": "gamma (inverse temperature)",
    "epsilon": "epsilon",
    "delta": "delta",
    "pure_epsilon": "pure epsilon",
    "bayesian_epsilon": "Bayesian DP epsilon, for the declared law of the rows",
    "zcdp": "zCDP rho",
    "gdp": "Gaussian DP mu",
    "total_variation": "declared total variation",
}
CHANGED = {
    "replace-one": "Replacing any one record",
    "add-remove": "Adding or removing any one record",
}
HOLDS = {
    "exact draw": "for exact draws, which a Markov chain's draws only approximate",
    "approximate draw": "if the draws are as close to exact ones as is declared",
    "chain": "for the chain that was run, converged or not",
    "direct draw": "for draws made from a law that is known in closed form",
}
NO_PROMISE = (
    "The guarantee is about what one record changes. It does not hide what the data say as a "
    "whole, and a group of people loses more than one of them.",
    "Whatever else is released from the same data adds up; a ledger adds what is charged to it.",
    "It holds under the assumptions above, none of which is checked on the data, and for nothing "
    "else that is computed from them.",
)
NO_PROMISE_OF_DRAWS = (
    "Nothing says how well a draw predicts, or whether the declared bounds fit the data: that "
    "would be a further release. Records that could not be read as declared count as zeros, and "
    "nobody is told how many there were.",
)


def guarantee_page(
    promise: Mapping[str, Any], title: str | None = None, about: Iterable[str] = ()
) -> Page:
    """Say a guarantee on a page.

    Parameters
    ----------
    promise
        As `Guarantee.to_dict` returns it.
    title
        Its heading.
    about
        Sentences on what it is of.

    Returns
    -------
    Page
        To be saved.
    """
    before = page.section("What it is of", page.bullets(about))
    sections = (before, *_sections(promise), page.settings({}))
    is_void = any(text.startswith(NOT_COVERED) for text in promise.get("caveats", ()))
    said = verdict(promise)
    if is_void:
        said += " It does NOT cover what was taken from the data: see the caveats."
    return Page(title or TITLE, _what(promise), said, sections, is_warned=is_void)


def release_page(
    theta: PyTree,
    promise: Mapping[str, Any],
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
        As `Guarantee.to_dict` returns it.
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
        title or OF_RELEASE,
        f"{draws_in_words(theta)}, charge {charge} of the ledger",
        verdict(promise),
        (
            page.section("What is released", _draws(theta, schema), page.bullets(about)),
            page.section("How its numbers follow from a record", _rules(schema)),
            *_sections(promise, NO_PROMISE_OF_DRAWS),
            page.settings({"charge in the ledger": charge}),
        ),
    )


def verdict(promise: Mapping[str, Any]) -> str:
    """Say in one sentence what is promised.

    Parameters
    ----------
    promise
        As `Guarantee.to_dict` returns it.

    Returns
    -------
    str
        For people who do not know epsilon.

    Examples
    --------
    >>> verdict({"adjacency": "replace-one", "mechanism": "chain", "epsilon": 1.0, "delta": 1e-6})
    'Replacing any one record changes the chance of whatever is released by a factor of at most \
2.72 (epsilon = 1), but for a probability of 1e-06 (delta); this holds for the chain that was run, \
converged or not.'
    """
    epsilon, delta = float(promise["epsilon"]), float(promise["delta"])
    holds = HOLDS[str(promise["mechanism"])]
    if not math.isfinite(epsilon):
        return f"No finite epsilon bounds what one record changes; what is stated holds {holds}."
    factor = f"{math.exp(epsilon):.3g}" if epsilon < 20 else f"e^{epsilon:.6g}"
    but = f", but for a probability of {delta:.6g} (delta)" if delta else ""
    return (
        f"{CHANGED[str(promise['adjacency'])]} changes the chance of whatever is released by a "
        f"factor of at most {factor} (epsilon = {epsilon:.6g}){but}; this holds {holds}."
    )


def _what(promise: Mapping[str, Any]) -> str:
    draws = counted(int(promise["num_draws"]), "draw")
    return f"{promise['adjacency']} neighbours, {draws} at gamma = {promise['gamma']:.6g}"


def _sections(promise: Mapping[str, Any], more: Iterable[str] = ()) -> tuple[Section, ...]:
    figures = [(name, page.told(promise[key])) for key, name in NAMES.items() if key in promise]
    return (
        page.section("What is promised", page.facts(figures)),
        page.section("What it rests on", page.bullets(promise.get("assumptions", ()))),
        page.section("Caveats", page.bullets(promise.get("caveats", ()))),
        page.section("What it does not promise", page.bullets([*NO_PROMISE, *more])),
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
