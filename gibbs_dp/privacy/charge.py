"""What a guarantee costs in a ledger's currency."""

from __future__ import annotations

from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.ledger import Ledger


def charge_guarantee(ledger: Ledger, guarantee: Guarantee, *, purpose: str) -> int:
    """Charge a release to a ledger, before anything of it is computed or handed out.

    Parameters
    ----------
    ledger
        Budget in ``(epsilon, delta)`` or zCDP.
    guarantee
        Of the release.
    purpose
        For the record; it must not tell anything about the data.

    Returns
    -------
    int
        Number of the charge.

    Raises
    ------
    BudgetExceededError
        If less is left; nothing was recorded.
    ValueError
        If the guarantee is for another adjacency, or has no figure in this currency.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(pathlib.Path(folder.name) / "l", adjacency="replace-one", zcdp=0.1)
    >>> g = Guarantee("replace-one", "chain", 1, 1.0, epsilon=1.0, delta=1e-6, zcdp=0.04)
    >>> charge_guarantee(ledger, g, purpose="a draw"), ledger.left()
    (1, {'zcdp': 0.06})
    >>> folder.cleanup()
    """
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
