"""What every route of a release does: check what was asked, charge, draw, hand out."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.charge import charge_guarantee
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.paged import release_page
from gibbs_dp.privacy.releases.arguments import (
    blank_data,
    check_kinds,
    check_program,
    check_shapes,
    check_structure,
    require_accepted,
    without_checks,
)
from gibbs_dp.privacy.schema import Schema
from gibbs_dp.privacy.shown import draws_as_html, draws_in_words
from gibbs_dp.privacy.table import clip_data, dataset_size, unobserved
from gibbs_dp.results.table import block

TIMING_CAVEAT = "running time is not protected; do not let an adversary measure it."


class ReleaseError(ValueError):
    """A release that failed after its charge: nothing is handed out, and the charge stands."""


@dataclass(frozen=True, eq=False)
class Release:
    """What is handed out: draws and their guarantee, nothing else about the data.

    Parameters
    ----------
    theta
        The prior's pytree; leaves ``[draws, ...]``.
    guarantee
        What holds, and under which assumptions.
    charge
        Number of the charge in the ledger.
    """

    theta: Any
    guarantee: Guarantee
    charge: int

    def __repr__(self) -> str:
        return f"Release({draws_in_words(self.theta)}, charge {self.charge}, {self.guarantee!r})"

    def _repr_html_(self) -> str:
        head = f"Release of {draws_in_words(self.theta)}, charge {self.charge}"
        return block(head, draws_as_html(self.theta), self.guarantee._repr_html_())

    def to_html(
        self,
        path: str | os.PathLike[str],
        title: str | None = None,
        about: Iterable[str] = (),
        schema: Schema | None = None,
    ) -> None:
        """Write a page for a browser in one file, whole or not at all; it loads nothing else.

        There is nothing in it about the data but what is released, and what is declared.

        Parameters
        ----------
        path
            The file, which ends in ``.html``.
        title
            Its heading.
        about
            Sentences on what was released, to be shown with it; they must be public.
        schema
            What the table was declared to hold: it names the numbers of a draw.

        Raises
        ------
        ValueError
            If the name does not end so.
        OSError
            If the folder cannot be written.
        """
        promise = self.guarantee.to_dict()
        release_page(self.theta, promise, self.charge, schema, title, about).save(path)


def check_request(
    posterior: Any,
    data: PyTree,
    domain: Any,
    adjacency: Adjacency,
    ledger: Any,
    num_draws: int,
    n: int | None,
    accept: Collection[str],
    needed: Collection[str],
) -> tuple[int, int]:
    """Refuse what no route takes, from kinds and shapes alone; return ``num_draws`` and ``n``."""
    require_accepted(accept, needed)
    check_kinds(posterior, domain, ledger)
    num_draws = checks.count("num_draws", num_draws)
    return num_draws, dataset_size(check_shapes(data), adjacency, n)


def charge_and_draw(
    posterior: GibbsPosterior,
    data: PyTree,
    domain: Domain,
    ledger: Ledger,
    guarantee: Guarantee,
    purpose: str,
    program: Callable[[GibbsPosterior, PyTree], Any],
    draw: Callable[[GibbsPosterior, PyTree], PyTree | None],
    failed: str,
) -> Release:
    """Trace the program without values, charge the ledger, draw from clipped data.

    Parameters
    ----------
    posterior, data, domain, ledger, purpose
        As in `gibbs_dp.release`.
    guarantee
        What is charged, and handed out with the draws.
    program
        Traced on blank data. It and ``draw`` get a posterior whose loss inspects no data: a
        complaint about them would be a release.
    draw
        The draws from clipped data; None where they are no good.
    failed
        The one sentence for whatever fails after the charge.

    Returns
    -------
    Release
        Draws and guarantee.

    Raises
    ------
    ValueError
        If the loss cannot be traced; nothing is charged.
    BudgetExceededError
        If the budget does not suffice; nothing is charged.
    ReleaseError
        If the draws fail; the charge stands.
    """
    unchecked = without_checks(posterior)
    with unobserved():
        blank = blank_data(posterior, data, domain)
        check_structure(unchecked, blank)
        check_program(partial(program, unchecked), blank)
    charge = charge_guarantee(ledger, guarantee, purpose=purpose)
    try:
        with unobserved():
            theta = draw(unchecked, clip_data(posterior, data, domain))
    except Exception:
        theta = None  # the error's message may quote the data
    if theta is None:
        raise ReleaseError(failed)
    return Release(theta, guarantee, charge)


def finite_draws(posterior: GibbsPosterior, flat: Float[Array, "draws dim"]) -> PyTree | None:
    """Give flat draws the prior's structure; None unless all are finite."""
    if not np.isfinite(flat).all():
        return None
    return jax.tree.map(np.asarray, jax.vmap(posterior.constrain)(flat))
