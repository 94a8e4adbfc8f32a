"""Damaged, edited and replaced ledger files: one sentence, or exactly what was recorded."""

import random
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

import gibbs_dp as gdp
from gibbs_dp.privacy import ledger_file
from gibbs_dp.privacy.ledger import BudgetExceededError
from gibbs_dp.privacy.ledger_file import DamagedLedgerError

OPEN_FILES = Path("/proc/self/fd")
LEFT = {"epsilon": 0.25, "delta": 5e-7}


def make(path):
    ledger = gdp.Ledger.create(path, adjacency="replace-one", epsilon=1.0, delta=1e-6)
    ledger.charge(purpose="a mean", epsilon=0.5, delta=1e-7)
    ledger.charge(purpose="a median", epsilon=0.125, delta=2e-7)
    ledger.charge(purpose="a regression", epsilon=0.125, delta=2e-7)
    return ledger


def mutant(content, rng):
    """Flip a bit or a byte, cut the file, blank or swap a stretch of it."""
    found = bytearray(content)
    kind = rng.choice(["bit", "byte", "byte", "cut", "zeros", "copy"])
    at = rng.randrange(len(found))
    if kind == "bit":
        found[at] ^= 1 << rng.randrange(8)
    elif kind == "byte":
        found[at] = (found[at] + rng.randrange(1, 256)) % 256
    elif kind == "cut":
        del found[at:]
    elif kind == "zeros":
        start = at - at % 512
        found[start : start + 512] = bytes(len(found[start : start + 512]))
    else:
        other = rng.randrange(len(found))
        found[at : at + 16] = found[other : other + 16]
    return bytes(found)


def judge(path, charges):
    """What a file says: "same", or "refused" by one sentence; anything else is an error."""
    try:
        ledger = gdp.Ledger(path)
        assert ledger.left() == LEFT
        assert (ledger.budget(), ledger.adjacency) == (
            {"epsilon": 1.0, "delta": 1e-6},
            "replace-one",
        )
        with pytest.raises(BudgetExceededError):
            ledger.charge(purpose="too much", epsilon=0.26)
        assert ledger.charges() == charges
        assert ledger.charge(purpose="what is left", epsilon=0.25) == 4
        assert ledger.left() == {"epsilon": 0.0, "delta": 5e-7}
    except DamagedLedgerError as error:
        sentence = str(error)
    else:
        return "same"
    assert sentence.startswith("ledger: ")
    assert not re.search("restore|backup", sentence)  # which would give budget back
    assert "\n" not in sentence
    return "refused"


def fuzz(folder, num_mutants, seed):
    ledger = make(folder / "l")
    charges, content = ledger.charges(), ledger.path.read_bytes()
    rng = random.Random(seed)
    counts = {"same": 0, "refused": 0}
    for _ in range(num_mutants):
        path = folder / "mutant"
        path.write_bytes(mutant(content, rng))
        counts[judge(path, charges)] += 1
    return counts


def test_mutants_are_refused_or_harmless(tmp_path):
    counts = fuzz(tmp_path, 120, seed=0)
    assert counts["refused"] > 10
    assert counts["same"] > 10  # most bytes of a page are unused


@pytest.mark.parametrize("word", [b"budget", b"CREATE", b"state", b"TEXT"])
def test_a_schema_that_is_no_text_is_refused(whole, tmp_path, word):
    """Python's module raises a UnicodeDecodeError of its own there."""
    path = tmp_path / "odd"
    path.write_bytes(whole[0].read_bytes().replace(word, b"\xb5" * len(word)))
    assert judge(path, whole[1]) == "refused"


EDITS = [
    "UPDATE budget SET epsilon = '2.0'",
    "UPDATE budget SET delta = '1'",
    "UPDATE budget SET epsilon = NULL",
    "UPDATE budget SET epsilon = x'00ff'",
    "UPDATE budget SET currency = 'zcdp'",
    "UPDATE budget SET adjacency = 'add-remove'",
    "UPDATE budget SET created = 'x'",
    "UPDATE budget SET identity = 'x'",
    "UPDATE budget SET seal = 'x'",
    "DELETE FROM budget",
    "UPDATE charge SET epsilon = '-0.5' WHERE id = 1",
    "UPDATE charge SET epsilon = 'NaN' WHERE id = 3",
    "UPDATE charge SET delta = '0' WHERE id = 2",
    "UPDATE charge SET delta = NULL WHERE id = 2",
    "UPDATE charge SET zcdp = '1' WHERE id = 2",
    "UPDATE charge SET purpose = 'x' WHERE id = 2",
    "UPDATE charge SET purpose = x'ff' WHERE id = 2",
    "UPDATE charge SET time = 'x' WHERE id = 1",
    "UPDATE charge SET seal = 'x' WHERE id = 3",
    "UPDATE charge SET id = 7 WHERE id = 3",
    "DELETE FROM charge WHERE id = 1",
    "DELETE FROM charge WHERE id = 3",
    "DELETE FROM charge",
    "INSERT INTO charge SELECT 4, time, purpose, epsilon, delta, zcdp, gdp, total_variation, seal "
    "FROM charge WHERE id = 3",
    "UPDATE budget SET total_variation = '1'",
    "UPDATE budget SET gdp = '1'",
    "UPDATE state SET epsilon = '0'",
    "UPDATE state SET epsilon = '-1'",
    "UPDATE state SET delta = '1e-7'",
    "UPDATE state SET count = 2",
    "UPDATE state SET count = 'x'",
    "UPDATE state SET last = 'x'",
    "UPDATE state SET seal = 'x'",
    "DELETE FROM state",
    "DROP TABLE state",
    "DROP TABLE charge",
    "ALTER TABLE budget RENAME COLUMN epsilon TO e",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = 1",
]


def edit(path, statement):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    ledger = make(tmp_path_factory.mktemp("whole") / "l")
    return ledger.path, ledger.charges()


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="open files are listed on Linux")
def test_a_damaged_file_is_closed(whole, tmp_path):
    """Even while the error is at hand, and with it the frames that opened the file."""
    path = tmp_path / "damaged"
    path.write_bytes(whole[0].read_bytes()[:50] + b"\xff" * 5000)
    with pytest.raises(ValueError, match="ledger: ") as told:
        gdp.Ledger(path)
    assert told.tb is not None
    assert path not in {link.readlink() for link in OPEN_FILES.iterdir() if link.is_symlink()}


@pytest.mark.parametrize("statement", EDITS)
def test_every_edited_field_is_found(whole, tmp_path, statement):
    path = tmp_path / "edited"
    shutil.copy(whole[0], path)
    edit(path, statement)
    with pytest.raises(DamagedLedgerError):  # before anything is charged to it
        gdp.Ledger(path)
    assert judge(path, whole[1]) == "refused"


def test_the_remedy_for_damage_gives_no_budget_back(whole, tmp_path):
    path = tmp_path / "edited"
    shutil.copy(whole[0], path)
    edit(path, EDITS[0])
    with pytest.raises(DamagedLedgerError, match=r"do not put an older copy back.*as spent"):
        gdp.Ledger(path)
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(DamagedLedgerError, match=r"do not put an older copy back.*as spent"):
        gdp.Ledger(path)


def test_a_negative_charge_is_damage_even_with_fitting_seals(tmp_path):
    """Someone who can seal what they write is a forger; negative amounts are still refused."""
    path = make(tmp_path / "l").path
    with ledger_file.reading(path) as connection, ledger_file.transaction(connection):
        budget = ledger_file.read_budget(connection)
        state = ledger_file.read_state(connection, budget)
        texts = {"epsilon": "-0.5", "delta": "0"}
        ledger_file.append(connection, budget, state, "now", "a refund", texts)
    with pytest.raises(DamagedLedgerError, match="no number of at least 0"):
        gdp.Ledger(path).charges()
    with ledger_file.reading(path) as connection, ledger_file.transaction(connection):
        state = ledger_file.read_state(connection, budget)
        ledger_file.append(
            connection, budget, state, "now", "more", {"epsilon": "-2", "delta": "0"}
        )
    with pytest.raises(DamagedLedgerError, match="no number of at least 0"):
        gdp.Ledger(path)


def test_an_open_ledger_notices_that_its_file_was_replaced(tmp_path):
    ledger = make(tmp_path / "l")
    older = tmp_path / "older"
    shutil.copy(ledger.path, older)
    other_process = gdp.Ledger(ledger.path)
    other_process.charge(purpose="one more", epsilon=0.125)
    assert ledger.left()["epsilon"] == 0.125  # what others charge is no damage
    shutil.copy(older, ledger.path)
    for use in (ledger.left, ledger.spent, ledger.charges):
        with pytest.raises(DamagedLedgerError, match="replaced by an older copy"):
            use()
    with pytest.raises(DamagedLedgerError, match="replaced by an older copy"):
        ledger.charge(purpose="p", epsilon=0.125)
    gdp.Ledger(older).charge(purpose="elsewhere", epsilon=0.25)
    shutil.copy(older, ledger.path)  # as many charges, but others
    with pytest.raises(DamagedLedgerError, match="replaced by an older copy"):
        ledger.left()
    make(tmp_path / "new")
    shutil.copy(tmp_path / "new", ledger.path)
    with pytest.raises(DamagedLedgerError, match="replaced by another ledger"):
        ledger.charge(purpose="p", epsilon=0.125)
    assert gdp.Ledger(ledger.path).left() == LEFT


def test_a_charge_reads_the_sums_and_not_every_charge(tmp_path, monkeypatch):
    ledger = make(tmp_path / "l")
    monkeypatch.setattr(ledger_file, "read_charges", None)  # would fail if it were called
    assert ledger.charge(purpose="p", epsilon=0.125) == 4
    statements = []
    monkeypatch.setattr(ledger_file, "connect", spying(ledger_file.connect, statements))
    ledger.charge(purpose="p", epsilon=0.0625)
    assert not [
        s for s in statements if "FROM charge" in s and "max(id)" not in s and "id =" not in s
    ]


def spying(connect, statements):
    def found(path):
        connection = connect(path)
        connection.set_trace_callback(statements.append)
        return connection

    return found
