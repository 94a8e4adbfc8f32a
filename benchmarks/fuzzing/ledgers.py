"""Ledgers: SQLite files that are harmed, edited, or something else."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random

from fuzzing.harm import harmed
from fuzzing.verdict import Case, Failure

VALUES = (
    *("'0'", "'-1'", "'NaN'", "'1e400'", "'0x1'", "NULL", "x'00ff'", "''", "1e400", "-1", "0"),
    *("9223372036854775807", "'" + "9" * 5000 + "'", "char(27) || '[2J'", "'١'", "randomblob(9)"),
    "zeroblob(100000000)",
)
PARTS = ("epsilon", "delta", "zcdp", "gdp", "total_variation")
COLUMNS = {
    "budget": ("currency", "adjacency", *PARTS, "created", "seal", "identity"),
    "charge": ("id", "time", "purpose", *PARTS, "seal"),
    "state": ("count", *PARTS, "last", "seal"),
}
STATEMENTS = (
    *("DELETE FROM charge", "DELETE FROM budget", "DROP TABLE state", "DROP TABLE charge"),
    *("PRAGMA user_version = 1", "PRAGMA user_version = 99", "PRAGMA application_id = 7"),
    "CREATE TRIGGER t BEFORE INSERT ON charge BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER t AFTER INSERT ON charge BEGIN DELETE FROM charge; END",
    "CREATE TRIGGER t AFTER INSERT ON charge BEGIN UPDATE state SET epsilon = '0'; END",
    "ALTER TABLE charge RENAME TO held; CREATE VIEW charge AS SELECT * FROM held",
    "ALTER TABLE budget RENAME TO held; CREATE VIEW budget AS WITH RECURSIVE c(x) AS (SELECT 1 "
    "UNION ALL SELECT x + 1 FROM c) SELECT x, 'i', 'epsilon', 'a', '1', '0', NULL, NULL, NULL, "
    "'t', 's' FROM c",
    "PRAGMA encoding = 'UTF-16'",
    "CREATE TABLE other (x); INSERT INTO other VALUES (1)",
    "PRAGMA journal_mode = WAL",
    "VACUUM",
)


def prepare(folder: Path, is_small: bool) -> tuple[bytes, tuple[object, ...]]:
    """Make a ledger with three charges."""
    import gibbs_dp as gdp

    ledger = gdp.Ledger.create(folder / "l", adjacency="replace-one", epsilon=1.0, delta=1e-6)
    for epsilon in (0.5, 0.125, 0.125):
        ledger.charge(purpose=f"costs {epsilon}", epsilon=epsilon, delta=1e-7)
    return ledger.path.read_bytes(), ledger.charges()


def make(rng: Random, base: tuple[bytes, tuple[object, ...]]) -> Case:
    """Harm the file, or edit its rows and its schema with SQLite."""
    content, charges = base
    words: list[str] = []
    if rng.randrange(3) == 0:
        for _ in range(rng.choice((1, 1, 2))):
            if rng.randrange(2):
                words.append(rng.choice(STATEMENTS))
                continue
            table = rng.choice(tuple(COLUMNS))
            words.append(f"UPDATE {table} SET {rng.choice(COLUMNS[table])} = {rng.choice(VALUES)}")
    else:
        content = harmed(rng, content)
    return Case(content, "l", words, charges)


def judge(case: Case, folder: Path) -> bool:
    """Ask it for everything, and charge it: it holds what was recorded, or is refused."""
    import gibbs_dp as gdp
    from gibbs_dp.privacy.ledger import BudgetExceededError

    path = folder / case.name
    path.write_bytes(case.content)
    _edit(path, case.options)
    ledger = gdp.Ledger(path)
    if ledger.left() != {"epsilon": 0.25, "delta": 7e-7} or ledger.adjacency != "replace-one":
        raise Failure(f"it is accepted with {ledger.left()} left")
    try:
        ledger.charge(purpose="too much", epsilon=0.26)
    except BudgetExceededError:
        pass
    else:
        raise Failure("it let itself be overcharged")
    if ledger.charges() != case.expected:
        raise Failure("it is accepted with other charges")
    number = ledger.charge(purpose="what is left", epsilon=0.25)
    if number != 4 or ledger.left()["epsilon"] != 0 or len(ledger.charges()) != 4:
        raise Failure("a charge was not recorded")
    return True


def _edit(path: Path, statements: list[str]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for statement in statements:
            try:
                connection.executescript(statement)
            except sqlite3.Error:  # one that a constraint of the file refuses
                continue
    finally:
        connection.close()
