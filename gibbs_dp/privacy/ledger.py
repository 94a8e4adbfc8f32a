"""What has been spent on one dataset: a SQLite file that concurrent processes share.

Charging imports nothing but the standard library and `ledger_file`, so that any process can do it.
"""

from __future__ import annotations

import math
import os
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from gibbs_dp.privacy import ledger_file
from gibbs_dp.privacy.ledger_file import Budget, DamagedLedgerError, State


class BudgetExceededError(ValueError):
    """A charge larger than what is left; nothing was recorded."""


@dataclass(frozen=True)
class Charge:
    """One line of a ledger; amounts in the ledger's currency, nats."""

    number: int
    time: str
    purpose: str
    amounts: dict[str, float]


class Ledger:
    """The privacy budget of one dataset, and every charge against it.

    A charge is one transaction that is on disk before `charge` returns: it checks the sum and
    records the charge, or raises and records nothing. So charge first, and compute or hand out
    afterwards: a process that dies in between has spent its charge, and there is no refund.
    Charges may be chosen adaptively: ``(epsilon, delta)`` budgets add by basic composition, zCDP
    budgets by adding ``rho``, Gaussian DP budgets by adding ``mu^2``, and all are filters (Rogers
    et al. 2016; Feldman & Zrnic 2021; Smith & Thakurta 2022). Draws that are near exact ones cost
    their total variation besides, which adds up too (each is coupled with an exact one): a budget
    in ``mu`` or ``rho`` pays for more proven draws than one in epsilon. An amount is the decimal
    that it prints as, and sums are exact. Eleven charges of 1/11, rounded as they are, fit in 1: a
    sum may exceed its budget by one part in 10^14. `spent` is rounded up, so that it bounds what
    was released even then.

    A ledger is bookkeeping for people who keep their own promise, not a lock. Every row is sealed
    (`gibbs_dp.privacy.ledger_file`), so that accidents are found; someone who may write the file
    can forge it. **A copy of the file has the same budget once more**: keep one file per dataset,
    where every process that releases can reach it, and never restore one over a newer one; a file
    with a second name (a hard link) is refused. Copies of this *object*, by ``copy``, ``pickle`` or
    a fork, are the same file, wherever their process runs. An open
    ledger notices when its file is replaced by another or by an older copy of itself, and refuses;
    one that is opened afterwards cannot.

    Parameters
    ----------
    path
        A file that `gibbs_dp.Ledger.create` made.

    Raises
    ------
    ValueError
        If there is no such file.
    DamagedLedgerError
        A ValueError: if it is not a ledger, or its rows do not fit their seals.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "patients.ledger"
    >>> ledger = Ledger.create(path, adjacency="replace-one", epsilon=1.0, delta=1e-6)
    >>> ledger.charge(purpose="a mean", epsilon=0.4)
    1
    >>> ledger.left()
    {'epsilon': 0.6, 'delta': 1e-06}
    >>> ledger.charge(purpose="too much", epsilon=0.7)
    Traceback (most recent call last):
    ...
    gibbs_dp.privacy.ledger.BudgetExceededError: epsilon: this costs 0.7, but 0.6 of 1.0 is left; \
nothing was recorded.
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        # Copies in processes that run elsewhere, and after os.chdir, mean the same file.
        self._file = self.path.absolute()
        if not self._file.is_file():
            raise ValueError(
                f"ledger: there is no file {str(self.path)!r}; make one with gibbs-dp ledger "
                "create, or Ledger.create."
            )
        self._read: Budget | None = None
        self._seen: State | None = None
        with ledger_file.reading(self._file) as connection:
            connection.execute("BEGIN")
            budget, state = self._look(connection)
            ledger_file.read_charges(connection, budget, state)  # each fits its seal
        self.currency: str = budget.currency
        self.adjacency: str = budget.adjacency
        self._budget = budget.amounts

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        adjacency: str,
        epsilon: float | None = None,
        delta: float = 0.0,
        zcdp: float | None = None,
        gdp: float | None = None,
        total_variation: float | None = None,
    ) -> Ledger:
        """Make a new ledger; an existing file is never touched.

        Parameters
        ----------
        path
            File to make.
        adjacency
            Which datasets count as neighbours, of every charge.
        epsilon, delta
            Budget in ``(epsilon, delta)``-DP.
        zcdp, gdp
            Instead: budget in ``rho`` of zero-concentrated DP, or in ``mu`` of Gaussian DP.
        total_variation
            With ``zcdp`` or ``gdp``: also pay for draws that are only near exact ones, up to this
            sum. All of it together is ``(epsilon, delta + (1 + e^epsilon) total_variation)``-DP
            for every ``(epsilon, delta)`` that the other part implies. None: no such draws.

        Returns
        -------
        Ledger
            The new ledger, with nothing spent.

        Raises
        ------
        ValueError
            If the file exists or the budget is invalid.
        """
        if adjacency not in ("replace-one", "add-remove"):
            raise ValueError(f"adjacency must be 'replace-one' or 'add-remove', got {adjacency!r}.")
        texts = _amounts("budget", epsilon, delta, zcdp, gdp, total_variation)
        if not any(Decimal(text) > 0 for text in texts.values()):
            raise ValueError("budget: it is zero, so nothing could ever be released; raise it.")
        target = Path(path)
        (currency,) = set(texts) & set(ledger_file.CURRENCIES)
        try:
            with ledger_file.created(target) as connection, ledger_file.transaction(connection):
                ledger_file.write_new(connection, currency, adjacency, texts, _now())
        except (OSError, sqlite3.Error) as error:
            exists = isinstance(error, FileExistsError)
            reason = getattr(error, "strerror", None) or error
            reason = "it exists, and a ledger is never overwritten" if exists else reason
            raise ValueError(
                f"ledger: cannot make {str(target)!r} ({reason}); choose another name or folder."
            ) from None
        return cls(target)

    # -- charging -------------------------------------------------------------------------

    def charge(
        self,
        *,
        purpose: str,
        epsilon: float | None = None,
        delta: float = 0.0,
        zcdp: float | None = None,
        gdp: float | None = None,
        total_variation: float = 0.0,
    ) -> int:
        """Record a charge, durably, or refuse it.

        Parameters
        ----------
        purpose
            What for; kept in the ledger, so it must not tell anything about the data.
        epsilon, delta, zcdp, gdp, total_variation
            The cost, in the ledger's currency.

        Returns
        -------
        int
            Number of the charge.

        Raises
        ------
        BudgetExceededError
            If less is left; nothing was recorded.
        FullDiskError
            If the disk is full; nothing was recorded.
        ValueError
            If the cost is in another currency, negative or not finite.
        """
        if not (isinstance(purpose, str) and purpose.isprintable()):
            raise ValueError("purpose must be one line of text; say in it what the charge is for.")
        given = _amounts("cost", epsilon, delta, zcdp, gdp, total_variation or None)
        if "total_variation" in self._budget:
            given.setdefault("total_variation", "0.0")
        if set(given) != set(self._budget):
            raise ValueError(
                f"cost: this ledger's budget is in {', '.join(self._budget)}; give it so."
            )
        cost = {name: Decimal(text) for name, text in given.items()}
        if not any(cost.values()):
            raise ValueError("epsilon: a charge of nothing; every release costs something.")
        with ledger_file.reading(self._file) as connection, ledger_file.transaction(connection):
            budget, state = self._look(connection)
            for name, amount in cost.items():
                all_of_it, spent = budget.amounts[name], state.spent[name]
                if not ledger_file.has_room(name, all_of_it, spent, amount):
                    left = ledger_file.left_of(name, all_of_it, spent)
                    raise BudgetExceededError(
                        f"{name}: this costs {float(amount)}, but {left} of "
                        f"{float(all_of_it)} is left; nothing was recorded."
                    )
            state = ledger_file.append(connection, budget, state, _now(), purpose, given)
        self._seen = state
        return state.num_charges

    # -- reading --------------------------------------------------------------------------

    def budget(self) -> dict[str, float]:
        """Budget, by part."""
        return {name: float(value) for name, value in self._budget.items()}

    def spent(self) -> dict[str, float]:
        """Sum of all charges (of ``gdp`` the root of the sum of squares), rounded up."""
        with ledger_file.reading(self._file) as connection:
            connection.execute("BEGIN")  # everything of one moment
            spent = self._look(connection)[1].spent
        return {name: ledger_file.rounded_up(name, value) for name, value in spent.items()}

    def left(self) -> dict[str, float]:
        """Budget minus charges, rounded down: the most that one more charge may cost."""
        with ledger_file.reading(self._file) as connection:
            connection.execute("BEGIN")  # everything of one moment
            spent = self._look(connection)[1].spent
        return {n: ledger_file.left_of(n, b, spent[n]) for n, b in self._budget.items()}

    def charges(self) -> tuple[Charge, ...]:
        """List all charges, oldest first; each of them is checked against its seal.

        Raises
        ------
        DamagedLedgerError
            If one does not fit.
        """
        with ledger_file.reading(self._file) as connection:
            connection.execute("BEGIN")
            rows = ledger_file.read_charges(connection, *self._look(connection))
        return tuple(
            Charge(r.number, r.time, r.purpose, {k: float(v) for k, v in r.amounts.items()})
            for r in rows
        )

    def __repr__(self) -> str:
        """Name file and budget; nothing is read, so that it never waits for a lock."""
        budget = ", ".join(f"{name} {value:g}" for name, value in self.budget().items())
        return f"Ledger({str(self.path)!r}, {self.adjacency} neighbours, budget {budget})"

    def _repr_html_(self) -> str:
        from gibbs_dp.results.table import MOST_LINES, Heading, TextTable, block, remarks

        try:
            budget, spent, left, charges = self.budget(), self.spent(), self.left(), self.charges()
        except (ValueError, OSError, sqlite3.Error) as error:
            return block(repr(self), remarks([("UNREADABLE", str(error))]))
        titles = [Heading(name) for name in ("budget", "spent", "left")]
        amounts = [[k, *(f"{x[k]:.6g}" for x in (budget, spent, left))] for k in budget]
        head = [Heading("charge"), Heading("time, UTC", is_text=True)]
        head += [*map(Heading, budget), Heading("purpose", is_text=True)]
        last = charges[-MOST_LINES:]
        rows = [
            [str(c.number), c.time, *(f"{c.amounts[k]:.6g}" for k in budget), c.purpose]
            for c in last
        ]
        return block(
            repr(self),
            TextTable([Heading("", is_text=True), *titles], amounts),
            TextTable(head, rows, len(charges) - len(last), "earlier charges") if rows else "",
        )

    def _look(self, connection: sqlite3.Connection) -> tuple[Budget, State]:
        """Read budget and sums; refuse a file that is not a later state of the same ledger."""
        budget = ledger_file.read_budget(connection)
        state = ledger_file.read_state(connection, budget)
        if self._read is not None and self._seen is not None:
            number, seal = self._seen.num_charges, self._seen.last
            is_other = budget != self._read
            if is_other or ledger_file.seal_at(connection, budget, number) != seal:
                what = "another ledger" if is_other else "an older copy of itself"
                raise DamagedLedgerError(
                    f"ledger: {str(self.path)!r} was replaced by {what} while it was open; put the "
                    "newest file back, or count its budget as spent."
                )
        self._read, self._seen = budget, state
        return budget, state


def _amount(name: str, value: float | None) -> Decimal:
    """Take a number as the decimal that it prints as: ten times 0.1 is 1."""
    is_number = hasattr(value, "__float__") and not isinstance(value, (bool, str))
    if value is None or not (is_number and math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and at least 0, got {value}; pass such a number.")
    if name in ("delta", "total_variation") and value >= 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value}; pass a number in it.")
    return Decimal(repr(float(value)))


def _amounts(
    what: str,
    epsilon: float | None,
    delta: float,
    zcdp: float | None,
    gdp: float | None,
    total_variation: float | None,
) -> dict[str, str]:
    """Decimals of a budget or cost, in whichever of the currencies it was given."""
    heads = {"epsilon": epsilon, "zcdp": zcdp, "gdp": gdp}
    given = [name for name, value in heads.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"{what}: give one of epsilon (with delta), zcdp and gdp.")
    (currency,) = given
    values = {currency: heads[currency]}
    if currency == "epsilon":
        if total_variation is not None:
            raise ValueError(
                f"total_variation: a {what} in epsilon has it in delta; leave it out, or use gdp."
            )
        values["delta"] = delta
    elif delta != 0.0:
        raise ValueError(f"delta: it belongs to a {what} in epsilon; leave it out with {currency}.")
    elif total_variation is not None:
        values["total_variation"] = total_variation
    return {name: str(_amount(name, value)) for name, value in values.items()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
