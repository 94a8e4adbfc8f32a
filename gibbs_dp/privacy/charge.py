"""First the charge, then the draw: what a guarantee costs a ledger, and what comes after."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from gibbs_dp.privacy.figures import gdp_from_pure
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.table import unobserved

T = TypeVar("T")
NAMES = {"zcdp": "zCDP", "gdp": "Gaussian DP"}


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
    return ledger.charge(purpose=purpose, **cost_of(guarantee, ledger))


def cost_of(guarantee: Guarantee, ledger: Ledger) -> dict[str, float]:
    """Say what a release costs in a ledger's currency; raise where it has no such figure.

    >>> import tempfile, pathlib
    >>> from gibbs_dp.information.bounds import delta_from_gdp
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(pathlib.Path(folder.name) / "l", adjacency="replace-one", gdp=1.0,
    ...                        total_variation=1e-8)
    >>> delta = delta_from_gdp(0.5, 1.0)
    >>> exact = Guarantee("replace-one", "exact draw", 2, 1.0, epsilon=1.0, delta=delta, gdp=0.5)
    >>> cost_of(exact.within_total_variation(1e-12), ledger)
    {'gdp': 0.5, 'total_variation': 2e-12}
    >>> folder.cleanup()
    """
    name = ledger.currency
    if name == "epsilon":
        if not math.isfinite(guarantee.epsilon):
            raise ValueError(
                "ledger: its budget is in (epsilon, delta), and this release has no finite "
                "epsilon; use a ledger in a currency that it has, such as gdp=, or a smaller gamma."
            )
        return {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
    text, source = NAMES[name], guarantee.exact or guarantee
    amount = getattr(source, name)
    if amount is None and name == "gdp" and source.pure_epsilon is not None:
        amount = gdp_from_pure(source.pure_epsilon)
    if amount is None:
        raise ValueError(
            f"ledger: its budget is in {text}, and this release has no {text} guarantee; use a "
            "ledger in (epsilon, delta)."
        )
    if not guarantee.distance:
        return {name: amount}
    if "total_variation" not in ledger.budget():
        raise ValueError(
            f"ledger: its budget in {text} pays for no total variation, which these draws have; "
            "make one with total_variation=, or use one in (epsilon, delta)."
        )
    return {name: amount, "total_variation": guarantee.distance}
