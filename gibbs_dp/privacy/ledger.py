"""What has been spent on one dataset: a SQLite file that concurrent processes share.

Imports nothing but the standard library, so that any process can charge it.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Context, Decimal
from pathlib import Path

APPLICATION_ID = 0x67445031
SCHEMA = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    "CREATE TABLE budget (only INTEGER PRIMARY KEY CHECK (only = 1), currency TEXT NOT NULL, "
    "adjacency TEXT NOT NULL, epsilon TEXT, delta TEXT, zcdp TEXT, created TEXT NOT NULL)",
    "CREATE TABLE charge (id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, "
    "purpose TEXT NOT NULL, epsilon TEXT, delta TEXT, zcdp TEXT)",
)
PARTS = ("epsilon", "delta", "zcdp")
BUSY_SECONDS = 60.0
# Sums are exact: amounts are decimals of at most 17 digits over a few hundred powers of ten.
EXACT = Context(prec=800)


class BudgetExceededError(ValueError):
    """A charge larger than what is left; nothing was recorded."""


@dataclass(frozen=True)
class Charge:
    """One line of a ledger; amounts in the ledger's currency, nats.

    Parameters
    ----------
    number, time, purpose
        Counted from 1; UTC; what for.
    amounts
        ``epsilon`` and ``delta``, or ``zcdp``.
    """

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
    budgets by adding ``rho``, and both are filters (Rogers et al. 2016; Feldman & Zrnic 2021).

    Parameters
    ----------
    path
        A file that `Ledger.create` made.

    Raises
    ------
    ValueError
        If there is no such file, or it is not a ledger.

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
        if not self.path.is_file():
            raise ValueError(
                f"ledger: there is no file {str(self.path)!r}; make one with gibbs-dp ledger "
                "create, or Ledger.create."
            )
        with self._reading() as connection:
            row = connection.execute("SELECT * FROM budget").fetchone()
        if row is None:
            raise ValueError(f"ledger: {str(self.path)!r} has no budget; it was never finished.")
        self.currency: str = row["currency"]
        self.adjacency: str = row["adjacency"]
        names = ("zcdp",) if self.currency == "zcdp" else ("epsilon", "delta")
        self._budget = {name: Decimal(row[name]) for name in names}

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        adjacency: str,
        epsilon: float | None = None,
        delta: float = 0.0,
        zcdp: float | None = None,
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
        zcdp
            Instead: budget in ``rho`` of zero-concentrated DP.

        Raises
        ------
        ValueError
            If the file exists or the budget makes no sense.
        """
        if adjacency not in ("replace-one", "add-remove"):
            raise ValueError(f"adjacency must be 'replace-one' or 'add-remove', got {adjacency!r}.")
        texts = _amounts(epsilon, delta, zcdp, "budget")
        if not any(Decimal(text) > 0 for text in texts.values()):
            raise ValueError("budget: it is zero, so nothing could ever be released; raise it.")
        target = Path(path)
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            exists = isinstance(error, FileExistsError)
            reason = "it exists, and a ledger is never overwritten" if exists else error.strerror
            raise ValueError(
                f"ledger: cannot make {str(target)!r} ({reason}); choose another name or folder."
            ) from None
        currency = "zcdp" if zcdp is not None else "epsilon"
        row = (1, currency, adjacency, *(texts.get(name) for name in PARTS), _now())
        with closing(_connect(target)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO budget VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            connection.execute("COMMIT")
        return cls(target)

    # -- charging -------------------------------------------------------------------------

    def charge(
        self,
        *,
        purpose: str,
        epsilon: float | None = None,
        delta: float = 0.0,
        zcdp: float | None = None,
    ) -> int:
        """Record a charge, durably, or refuse it.

        Parameters
        ----------
        purpose
            What for; kept in the ledger, so it must not tell anything about the data.
        epsilon, delta, zcdp
            The cost, in the ledger's currency.

        Returns
        -------
        int
            Number of the charge.

        Raises
        ------
        BudgetExceededError
            If less is left; nothing was recorded.
        ValueError
            If the cost is in another currency, negative or not finite.
        """
        if not (isinstance(purpose, str) and purpose.isprintable()):
            raise ValueError("purpose must be one line of text; say in it what the charge is for.")
        given = _amounts(epsilon, delta, zcdp, "cost")
        if set(given) != set(self._budget):
            raise ValueError(
                f"cost: this ledger's budget is in {', '.join(self._budget)}; give it so."
            )
        cost = {name: Decimal(text) for name, text in given.items()}
        if not any(cost.values()):
            raise ValueError("epsilon: a charge of nothing; every release costs something.")
        with self._writing() as connection:
            spent = self._spent(connection)
            for name, amount in cost.items():
                left = EXACT.subtract(self._budget[name], spent[name])
                if amount > left:
                    raise BudgetExceededError(
                        f"{name}: this costs {float(amount)}, but {float(left)} of "
                        f"{float(self._budget[name])} is left; nothing was recorded."
                    )
            cursor = connection.execute(
                "INSERT INTO charge (time, purpose, epsilon, delta, zcdp) VALUES (?, ?, ?, ?, ?)",
                (_now(), purpose, *(given.get(name) for name in PARTS)),
            )
            number = cursor.lastrowid
        assert number is not None
        return number

    # -- reading --------------------------------------------------------------------------

    def budget(self) -> dict[str, float]:
        """Budget, by part."""
        return {name: float(value) for name, value in self._budget.items()}

    def spent(self) -> dict[str, float]:
        """Sum of all charges."""
        with self._reading() as connection:
            return {name: float(value) for name, value in self._spent(connection).items()}

    def left(self) -> dict[str, float]:
        """Budget minus charges."""
        with self._reading() as connection:
            spent = self._spent(connection)
        return {n: float(EXACT.subtract(b, spent[n])) for n, b in self._budget.items()}

    def charges(self) -> tuple[Charge, ...]:
        """List all charges, oldest first."""
        with self._reading() as connection:
            rows = connection.execute("SELECT * FROM charge ORDER BY id").fetchall()
        return tuple(
            Charge(r["id"], r["time"], r["purpose"], {k: float(r[k]) for k in self._budget})
            for r in rows
        )

    def _spent(self, connection: sqlite3.Connection) -> dict[str, Decimal]:
        totals = dict.fromkeys(self._budget, Decimal(0))
        for row in connection.execute("SELECT epsilon, delta, zcdp FROM charge"):
            for name in totals:
                totals[name] = EXACT.add(totals[name], Decimal(row[name]))
        return totals

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(_connect(self.path)) as connection:
                mark = connection.execute("PRAGMA application_id").fetchone()[0]
                if mark != APPLICATION_ID:
                    raise ValueError(f"ledger: {str(self.path)!r} is not a ledger of gibbs_dp.")
                yield connection
        except sqlite3.Error as error:
            raise ValueError(f"ledger: {str(self.path)!r} cannot be used ({error}).") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One exclusive transaction: committed at the end, rolled back by any exception."""
        with self._reading() as connection:
            connection.execute("BEGIN IMMEDIATE")  # others wait: nobody reads a stale sum
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA synchronous = EXTRA")  # on disk, journal removal too
    return connection


def _amount(name: str, value: float | None) -> Decimal:
    """Take a number as the decimal that it prints as: ten times 0.1 is 1."""
    if value is None or not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and at least 0, got {value}; pass such a number.")
    if name == "delta" and value >= 1:
        raise ValueError(f"delta must lie in [0, 1), got {value}; pass a probability in it.")
    return Decimal(repr(float(value)))


def _amounts(epsilon: float | None, delta: float, zcdp: float | None, what: str) -> dict[str, str]:
    """Decimals of a budget or cost, in whichever of the two currencies it was given."""
    if (epsilon is None) == (zcdp is None):
        raise ValueError(f"{what}: give either epsilon (with delta) or zcdp.")
    if zcdp is not None and delta != 0.0:
        raise ValueError(f"delta: it belongs to a {what} in epsilon; leave it out with zcdp.")
    values = {"zcdp": zcdp} if zcdp is not None else {"epsilon": epsilon, "delta": delta}
    return {name: str(_amount(name, value)) for name, value in values.items()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
