"""How a ledger lies in its file: rows, exact sums, and the seals that show damage.

Imports nothing but the standard library, so that any process can charge a ledger.

Every row carries a SHA-256 **seal** of its content, and a charge's seal covers the seal before it,
so that all of them hang on the budget's. The row ``state`` holds their count, their sums and the
last seal: what the next charge needs, however many there were. A seal has no key. It finds
accidents (a flipped byte, an edited amount, a lost or doubled row), not forgers: whoever may write
the file can also seal what they write.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import sqlite3
import tempfile
from collections.abc import Container, Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

APPLICATION_ID = 0x67445031
VERSION = 3
# Parts of an amount, by currency; the second one may be left out of a budget, but for delta.
CURRENCIES = {
    "epsilon": ("epsilon", "delta"),
    "zcdp": ("zcdp", "total_variation"),
    "gdp": ("gdp", "total_variation"),
}
PARTS = ("epsilon", "delta", "zcdp", "gdp", "total_variation")
# Squares of these add up: mu of Gaussian DP.
SQUARED = "gdp"
_COLUMNS = ", ".join(f"{name} TEXT" for name in PARTS)
TABLES = (
    "CREATE TABLE budget (only INTEGER PRIMARY KEY CHECK (only = 1), identity TEXT NOT NULL, "
    f"currency TEXT NOT NULL, adjacency TEXT NOT NULL, {_COLUMNS}, created TEXT NOT NULL, "
    "seal TEXT NOT NULL)",
    "CREATE TABLE charge (id INTEGER PRIMARY KEY, time TEXT NOT NULL, purpose TEXT NOT NULL, "
    f"{_COLUMNS}, seal TEXT NOT NULL)",
    "CREATE TABLE state (only INTEGER PRIMARY KEY CHECK (only = 1), count INTEGER NOT NULL, "
    f"{_COLUMNS}, last TEXT NOT NULL, seal TEXT NOT NULL)",
)
BUDGET = ("identity", "currency", "adjacency", *PARTS, "created", "seal")
CHARGE = ("id", "time", "purpose", *PARTS, "seal")
STATE = ("count", *PARTS, "last", "seal")
BUSY_SECONDS = 60.0
# Sums are exact: amounts are decimals of at most 17 digits over a few hundred powers of ten, and
# their squares of twice as many.
EXACT = Context(prec=1600)
# What a sum may exceed its budget by, as a share: eleven times 1/11, each rounded, is a little more
# than 1. Whatever is told of sums is rounded towards more spent, so that it stays a bound.
ALLOWANCE = Decimal("1e-14")
REMEDY = (
    "do not put an older copy back, which would give budget back: count this budget as spent, or "
    "make a new ledger with what is surely left after every release that was made"
)

Amounts = dict[str, Decimal]


class FullDiskError(ValueError):
    """A charge that the disk has no room for: nothing was recorded, and nothing was drawn."""


class DamagedLedgerError(ValueError):
    """A file whose rows do not fit their seals, or that was replaced while a ledger was open."""


class Budget(NamedTuple):
    """What may be spent, and which ledger this is."""

    identity: str
    currency: str
    adjacency: str
    amounts: Amounts
    created: str
    seal: str


class State(NamedTuple):
    """How much was spent: the number of charges, sums (of squares), and the last one's seal."""

    num_charges: int
    spent: Amounts
    last: str


class Row(NamedTuple):
    """One charge."""

    number: int
    time: str
    purpose: str
    amounts: Amounts
    seal: str


def connect(path: Path) -> sqlite3.Connection:
    """Open a database that exists; what is committed is on disk."""
    address = f"{path.resolve().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = EXTRA")  # journal removal too
    except BaseException:  # of a damaged file
        connection.close()
        raise
    return connection


@contextmanager
def created(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to a new database, which gets its name when it is whole and on disk."""
    if path.exists():
        raise FileExistsError(path)
    # Its name is random: what a process that was killed has left is in nobody's way.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)  # readable by its owner alone
    temporary = Path(name)
    try:
        with closing(connect(temporary)) as connection:
            yield connection
        _name(temporary, path)
    finally:
        for ending in ("", "-journal"):
            Path(name + ending).unlink(missing_ok=True)


def _name(temporary: Path, path: Path) -> None:
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        temporary.replace(path)


def _num_names(path: Path) -> int:
    try:
        return path.stat().st_nlink
    except OSError:  # SQLite says what is wrong
        return 0


def _power(name: str, amount: Decimal) -> Decimal:
    """Take what adds up of an amount: of mu of Gaussian DP the square, else the amount."""
    return EXACT.multiply(amount, amount) if name == SQUARED else amount


def _root(name: str, total: Decimal) -> float:
    return float(Context(prec=40).sqrt(total)) if name == SQUARED else float(total)


def rounded_up(name: str, total: Decimal) -> float:
    """Return the smallest double whose amount is at least a sum's.

    >>> rounded_up("epsilon", Decimal("0.1")), rounded_up("zcdp", Decimal("1.00000000000000001"))
    (0.1, 1.0000000000000002)
    >>> rounded_up("gdp", Decimal("0.25"))  # a sum of squares
    0.5
    """
    found = _root(name, total)
    while _power(name, Decimal(repr(found))) < total:
        found = math.nextafter(found, math.inf)
    return found


def left_of(name: str, budget: Decimal, spent: Decimal) -> float:
    """Return what one more charge may cost, rounded down; nothing where the allowance was used.

    >>> left_of("epsilon", Decimal(1), Decimal("0.4"))
    0.6
    >>> left_of("epsilon", Decimal(1), Decimal("1.00000000000000001"))
    0.0
    >>> left_of("gdp", Decimal("0.5"), Decimal("0.09"))  # of mu = 0.5, 0.3 is spent
    0.4
    """
    left = max(EXACT.subtract(_power(name, budget), spent), Decimal(0))
    found = _root(name, left)
    while _power(name, Decimal(repr(found))) > left:
        found = math.nextafter(found, 0.0)
    return found


def has_room(name: str, budget: Decimal, spent: Decimal, amount: Decimal) -> bool:
    """Whether a charge fits, but for the allowance.

    >>> has_room("epsilon", Decimal(1), Decimal("0.9"), Decimal("0.1000000000000001"))
    True
    """
    limit = _power(name, EXACT.add(budget, EXACT.multiply(budget, ALLOWANCE)))
    return EXACT.add(spent, _power(name, amount)) <= limit


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect for one operation; turn any failure to read the file into one sentence."""
    try:
        # SQLite's journal has the name that the file was opened by, and undoes what was charged by
        # another one.
        if _num_names(path) > 1:
            raise DamagedLedgerError(
                f"ledger: {str(path)!r} has a second name (a hard link), and two of them lose each "
                "other's charges; remove one of them, and use symbolic links."
            )
        with closing(connect(path)) as connection:
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                raise DamagedLedgerError(f"ledger: {str(path)!r} is not a ledger of gibbs_dp.")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != VERSION:
                raise _damage(f"version {version} of the format is not known")
            yield connection
    except (sqlite3.Error, OverflowError, UnicodeError) as error:  # the module's own, of odd bytes
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            # SQLite undoes what it could not write, and the file stays as it was.
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            full.__cause__ = error
            raise FullDiskError(
                f"ledger: the disk of {str(path)!r} is full, so nothing was charged, and nothing "
                "was drawn; make room on it, and try again."
            ) from full
        words = str(error)[:200] or type(error).__name__
        reason = "".join(c if c.isprintable() else "?" for c in words)
        # What SQLite calls operational (locked, not permitted) says nothing against the file.
        is_damage = not isinstance(error, sqlite3.OperationalError)
        then = f"; {REMEDY}" if is_damage else ""
        raise DamagedLedgerError(
            f"ledger: {str(path)!r} cannot be used ({reason}){then}."
        ) from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end; any exception rolls back. Others wait: nobody reads a stale sum."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # some errors of SQLite end it themselves
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


# -- rows ---------------------------------------------------------------------------------------


def write_new(
    connection: sqlite3.Connection, currency: str, adjacency: str, texts: dict[str, str], now: str
) -> None:
    """Make the tables, the budget and a state without charges, inside a transaction."""
    for statement in (
        f"PRAGMA application_id = {APPLICATION_ID}",
        f"PRAGMA user_version = {VERSION}",
        *TABLES,
    ):
        connection.execute(statement)
    identity = os.urandom(16).hex()
    row = (identity, currency, adjacency, *(texts.get(name) for name in PARTS), now)
    _insert(connection, "budget", (1, *row, _seal("budget", row)))
    _write_state(connection, State(0, dict.fromkeys(texts, Decimal(0)), _seal("budget", row)))


def read_budget(connection: sqlite3.Connection) -> Budget:
    """Read and check the budget."""
    identity, currency, adjacency, *texts, created, seal = row = _only(connection, "budget", BUDGET)
    if _seal("budget", row[:-1]) != seal or currency not in CURRENCIES:
        raise _damage("its budget does not fit its seal")
    is_given = dict(zip(PARTS, texts, strict=True))
    names = [name for name in CURRENCIES[currency] if is_given[name] is not None]
    return Budget(identity, currency, adjacency, _amounts(texts, names), created, seal)


def read_state(connection: sqlite3.Connection, budget: Budget) -> State:
    """Read and check the sums, against their seal and against the last charge."""
    count, *texts, last, seal = row = _only(connection, "state", STATE)
    if _seal("state", (budget.seal, *row[:-1])) != seal:
        raise _damage("its sums do not fit their seal")
    state = State(count, _amounts(texts, budget.amounts), last)
    newest = connection.execute("SELECT max(id) FROM charge").fetchone()[0]
    if (newest or 0) != state.num_charges or seal_at(
        connection, budget, state.num_charges
    ) != state.last:
        raise _damage("a charge is missing or was added by something else")
    return state


def seal_at(connection: sqlite3.Connection, budget: Budget, number: int) -> str | None:
    """Seal of one charge, of the budget for number 0, and None for a charge that is not there."""
    if number == 0:
        return budget.seal
    row = connection.execute("SELECT seal FROM charge WHERE id = ?", (number,)).fetchone()
    return None if row is None else row[0]


def append(
    connection: sqlite3.Connection,
    budget: Budget,
    state: State,
    time: str,
    purpose: str,
    texts: dict[str, str],
) -> State:
    """Add one charge and the new sums, inside a transaction."""
    row = (state.num_charges + 1, time, purpose, *(texts.get(name) for name in PARTS))
    seal = _seal("charge", (state.last, *row))
    _insert(connection, "charge", (*row, seal))
    spent = {n: EXACT.add(state.spent[n], _power(n, Decimal(texts[n]))) for n in budget.amounts}
    after = State(state.num_charges + 1, spent, seal)
    _write_state(connection, after)
    return after


def read_charges(connection: sqlite3.Connection, budget: Budget, state: State) -> list[Row]:
    """Read all charges, oldest first, checking the whole chain of seals and the sums."""
    found, last, spent = [], budget.seal, dict.fromkeys(budget.amounts, Decimal(0))
    query = f"SELECT {', '.join(CHARGE)} FROM charge ORDER BY id"
    for number, row in enumerate(connection.execute(query), start=1):
        if row[0] != number or _seal("charge", (last, *row[:-1])) != row[-1]:
            raise _damage(f"charge {number} does not fit its seal")
        _, time, purpose, *texts, seal = row
        charge = Row(number, time, purpose, _amounts(texts, budget.amounts), seal)
        found.append(charge)
        last = charge.seal
        for name, amount in charge.amounts.items():
            spent[name] = EXACT.add(spent[name], _power(name, amount))
    if (len(found), spent, last) != (state.num_charges, state.spent, state.last):
        raise _damage("its charges do not add up to its sums")
    return found


def _only(connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> tuple[Any, ...]:
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    if len(rows) != 1:
        raise _damage(f"it has {len(rows)} rows of {table}")
    return tuple(rows[0])


def _insert(connection: sqlite3.Connection, table: str, row: tuple[Any, ...]) -> None:
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)


def _write_state(connection: sqlite3.Connection, state: State) -> None:
    seal = connection.execute("SELECT seal FROM budget").fetchone()[0]
    texts = {name: str(value) for name, value in state.spent.items()}
    row = (state.num_charges, *(texts.get(name) for name in PARTS), state.last)
    _insert(connection, "state", (1, *row, _seal("state", (seal, *row))))


def _seal(kind: str, content: tuple[Any, ...]) -> str:
    if not all(value is None or isinstance(value, (str, int)) for value in content):
        raise _damage(f"a {kind} holds what no ledger writes")
    text = json.dumps([VERSION, kind, *content], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _amounts(texts: Sequence[Any], names: Container[str]) -> Amounts:
    found = {}
    for name, text in zip(PARTS, texts, strict=True):
        if (text is not None) != (name in names):
            raise _damage(f"it holds an amount of {name} in another currency")
        if text is None:
            continue
        try:
            amount = Decimal(text) if isinstance(text, str) else Decimal("NaN")
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_finite() or amount < 0:
            raise _damage(f"it holds an amount of {name} that is no number of at least 0")
        found[name] = amount
    return found


def _damage(what: str) -> DamagedLedgerError:
    return DamagedLedgerError(f"ledger: the file is damaged or was edited ({what}); {REMEDY}.")
