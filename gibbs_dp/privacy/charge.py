"""First the charge, then the draw: what a guarantee costs a ledger, and what comes after."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.table import unobserved

T = TypeVar("T")


class ReleaseError(ValueError):
    """A release that failed after its charge: nothing is handed out, and the charge stands."""


def charge_and_draw(
    ledger: Ledger | None,
    guarantee: Guarantee,
    draw: Callable[[], T | None],
    *,
    purpose: str,
    failed: str,
) -> tuple[int | None, T]:
    """Charge a ledger, where there is one, then draw: the number of the charge, and the draws.

    Where the charge fails, nothing is drawn. Whatever fails afterwards, None included, becomes a
    `ReleaseError` of the one sentence ``failed``: messages may quote the data.
    """
    charge = None if ledger is None else charge_guarantee(ledger, guarantee, purpose=purpose)
    try:
        with unobserved():
            drawn = draw()
    except Exception:
        drawn = None
    if drawn is None:
        raise ReleaseError(failed)
    return charge, drawn


def charge_guarantee(ledger: Ledger, guarantee: Guarantee, *, purpose: str) -> int:
    """Charge a release to a ledger, before anything of it is computed or handed out."""
    if guarantee.adjacency != ledger.adjacency:
        raise ValueError(
            f"adjacency: the ledger is for {ledger.adjacency} neighbours, the release for "
            f"{guarantee.adjacency}; use one of them for both."
        )
    if ledger.currency == "zcdp":
        if guarantee.zcdp is None:
            raise ValueError(
                "ledger: its budget is in zCDP, and this release has no zCDP guarantee; use a "
                "ledger in (epsilon, delta)."
            )
        return ledger.charge(purpose=purpose, zcdp=guarantee.zcdp)
    return ledger.charge(purpose=purpose, epsilon=guarantee.epsilon, delta=guarantee.delta)
