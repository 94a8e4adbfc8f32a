"""The ledger: exact sums, refusals that change nothing, races, and processes that are killed."""

import copy
import math
import os
import pickle
import random
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gibbs_dp as gdp
from gibbs_dp.privacy import ledger as module
from gibbs_dp.privacy import ledger_file
from gibbs_dp.privacy.charge import charge_guarantee
from gibbs_dp.privacy.ledger import BudgetExceededError

HELPER = Path(__file__).with_name("ledger_process.py")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ledger"


def make(path, **budget):
    return gdp.Ledger.create(path, adjacency="replace-one", **budget)


def test_ten_tenths_are_one(path):
    ledger = make(path, epsilon=1.0, delta=1e-5)
    for i in range(10):
        assert ledger.charge(purpose="tenth", epsilon=0.1, delta=1e-6) == i + 1
    assert ledger.spent() == {"epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(BudgetExceededError, match="nothing was recorded"):
        ledger.charge(purpose="one more", epsilon=1e-12)
    assert len(ledger.charges()) == 10
    assert gdp.Ledger(path).left() == {"epsilon": 0.0, "delta": 0.0}


def test_eleven_elevenths_are_one_and_no_more(path):
    ledger = make(path, epsilon=1.0, delta=1e-6)
    for _ in range(11):
        ledger.charge(purpose="eleventh", epsilon=1 / 11, delta=1e-6 / 11)
    assert ledger.left()["epsilon"] == 0.0
    assert ledger.left()["delta"] <= 1e-21  # this share is rounded down
    spent = ledger.spent()
    for name, cost in (("epsilon", 1 / 11), ("delta", 1e-6 / 11)):
        assert Fraction(repr(spent[name])) >= 11 * Fraction(repr(cost))
        assert spent[name] <= (1 + 1e-14) * ledger.budget()[name]
    for cost in (1e-12, 1e-13, 1 / 11):
        with pytest.raises(BudgetExceededError, match=r"but 0\.0 of 1\.0 is left"):
            ledger.charge(purpose="one more", epsilon=cost)


def total_of(budget, costs):
    """What a ledger would record of these costs: the sum, or None at the first that is refused."""
    spent = Decimal(0)
    for cost in costs:
        amount = Decimal(repr(cost))
        if not ledger_file.has_room("epsilon", Decimal(repr(budget)), spent, amount):
            return None
        spent += amount
    return spent


@pytest.mark.trust(but=["1.0", "0.1", "3e-09"])
@pytest.mark.parametrize("budget", [1.0, 0.1, 0.3, 2.0, 7.3, 1e-6, 3e-9, 1234.5, math.pi])
def test_equal_shares_of_a_budget_all_fit(budget):
    for count in (*range(1, 130), 365, 997):
        for share in (budget / count, budget * (1 / count), math.exp(math.log(budget / count))):
            costs = [share] * count
            assert total_of(budget, costs) is not None, count
            assert total_of(budget, [*costs, budget * 1e-13]) is None
        halves = [budget / count / 2] * (2 * count)
        assert total_of(budget, halves) is not None


@settings(max_examples=200, deadline=None)
@given(
    costs=st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=20),
    budget=st.floats(1e-9, 10.0),
)
def test_what_is_told_of_a_sum_bounds_it(costs, budget):
    """Rounded towards more spent and less left, against rational arithmetic."""
    exact = sum(Fraction(repr(cost)) for cost in costs)
    total = reduce(ledger_file.EXACT.add, map(Decimal, map(repr, costs)))
    told = ledger_file.rounded_up("epsilon", total)
    assert exact <= Fraction(repr(told)) <= exact * (1 + Fraction(1, 2**51))
    left = ledger_file.left_of("epsilon", Decimal(repr(budget)), Decimal(repr(told)))
    room = Fraction(repr(budget)) - Fraction(repr(told))
    assert 0 <= Fraction(repr(left)) <= max(room, 0)
    allowed = total_of(budget, costs)
    if allowed is not None:
        assert Fraction(allowed) <= Fraction(repr(budget)) * (1 + Fraction(1, 10**14))
    else:
        assert exact > Fraction(repr(budget))


def test_squares_of_mu_add_up(path):
    ledger = make(path, gdp=1.0, total_variation=1e-9)
    for _ in range(3):
        ledger.charge(purpose="a half", gdp=0.5, total_variation=2e-10)
    assert ledger.spent() == {"gdp": math.nextafter(math.sqrt(0.75), 1), "total_variation": 6e-10}
    assert ledger.left() == {"gdp": 0.5, "total_variation": 4e-10}
    assert ledger.charges()[0].amounts == {"gdp": 0.5, "total_variation": 2e-10}
    with pytest.raises(BudgetExceededError, match=r"gdp: this costs 0.6, but 0.5 of 1.0 is left"):
        ledger.charge(purpose="p", gdp=0.6)
    with pytest.raises(BudgetExceededError, match="total_variation: this costs 5e-10"):
        ledger.charge(purpose="p", gdp=0.5, total_variation=5e-10)
    assert ledger.charge(purpose="the last", gdp=0.5) == 4
    assert gdp.Ledger(path).left() == {"gdp": 0.0, "total_variation": 4e-10}


@settings(max_examples=100, deadline=None)
@given(mus=st.lists(st.floats(1e-9, 10.0), min_size=1, max_size=20), budget=st.floats(1e-6, 10.0))
def test_what_is_told_of_squares_bounds_them(mus, budget):
    exact = sum(Fraction(repr(mu)) ** 2 for mu in mus)
    told = ledger_file.rounded_up("gdp", Decimal(exact.numerator) / Decimal(exact.denominator))
    assert Fraction(repr(told)) ** 2 >= exact * (1 - Fraction(1, 10**27))  # 28 digits above
    assert told <= math.sqrt(exact) * (1 + 1e-15)
    spent = Decimal(repr(min(mus))) ** 2
    left = ledger_file.left_of("gdp", Decimal(repr(budget)), spent)
    room = Fraction(repr(budget)) ** 2 - Fraction(repr(min(mus))) ** 2
    assert Fraction(repr(left)) ** 2 <= max(room, 0) or room < Fraction(1, 10**25)


@settings(max_examples=25, deadline=None)
@given(costs=st.lists(st.floats(1e-9, 0.7), min_size=1, max_size=12), data=st.data())
def test_the_sum_never_exceeds_the_budget(costs, data, tmp_path_factory):
    ledger = make(tmp_path_factory.mktemp("l") / "x", zcdp=1.0)
    accepted = []
    for cost in costs:
        before = ledger.charges()
        try:
            ledger.charge(purpose="p", zcdp=cost)
            accepted.append(cost)
        except BudgetExceededError:
            assert ledger.charges() == before
            assert sum(accepted) + cost > 1.0 - 1e-12
    assert sum(accepted) <= 1.0 + 1e-12
    assert ledger.spent()["zcdp"] == pytest.approx(sum(accepted), abs=1e-15)


def test_delta_runs_out_too_and_a_refusal_changes_nothing(path):
    ledger = make(path, epsilon=5.0, delta=1e-6)
    before = path.read_bytes()
    with pytest.raises(BudgetExceededError, match="delta: this costs 2e-06"):
        ledger.charge(purpose="p", epsilon=0.1, delta=2e-6)
    assert path.read_bytes() == before
    assert ledger.left() == {"epsilon": 5.0, "delta": 1e-6}


def test_guarantees_are_charged_in_the_ledgers_currency(path, tmp_path):
    g = gdp.Guarantee("replace-one", "exact draw", 1, 1.0, 0.5, 1e-7, zcdp=0.03)
    assert charge_guarantee(make(path, zcdp=0.05), g, purpose="p") == 1
    assert gdp.Ledger(path).spent() == {"zcdp": 0.03}
    other = make(tmp_path / "b", epsilon=1.0, delta=1e-6)
    charge_guarantee(other, g, purpose="p")
    assert other.charges()[0].amounts == {"epsilon": 0.5, "delta": 1e-7}
    none = gdp.Guarantee("replace-one", "exact draw", 1, 1.0, 0.5, 1e-7)
    with pytest.raises(ValueError, match="no zCDP guarantee"):
        charge_guarantee(gdp.Ledger(path), none, purpose="p")
    wrong = gdp.Guarantee("add-remove", "exact draw", 1, 1.0, 0.5, 1e-7, zcdp=0.01)
    with pytest.raises(ValueError, match="adjacency: the ledger is for replace-one"):
        charge_guarantee(gdp.Ledger(path), wrong, purpose="p")


REFUSED = {
    "both": ({"epsilon": 1.0, "zcdp": 1.0}, "give one of epsilon"),
    "neither": ({}, "give one of epsilon"),
    "zero": ({"epsilon": 0.0}, "it is zero"),
    "negative": ({"epsilon": -1.0}, "epsilon must be finite and at least 0"),
    "NaN": ({"zcdp": float("nan")}, "zcdp must be finite"),
    "infinite": ({"epsilon": float("inf")}, "epsilon must be finite"),
    "delta": ({"epsilon": 1.0, "delta": 1.0}, "delta must lie in"),
    "distance in delta": ({"epsilon": 1.0, "total_variation": 1e-8}, "has it in delta"),
    "distance of 1": ({"gdp": 1.0, "total_variation": 1.0}, "total_variation must lie in"),
    "delta with gdp": ({"gdp": 1.0, "delta": 0.1}, "delta: it belongs to a budget in epsilon"),
    "delta with zcdp": ({"zcdp": 1.0, "delta": 0.1}, "delta: it belongs to a budget in epsilon"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_budgets_that_make_no_sense_leave_no_file(path, case):
    budget, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        make(path, **budget)
    assert not path.exists()


def test_charges_that_make_no_sense(path):
    ledger = make(path, epsilon=1.0)
    for cost, message in (
        ({"epsilon": -0.1}, "at least 0"),
        ({"epsilon": float("nan")}, "finite"),
        ({"epsilon": 0.0}, "charge of nothing"),
        ({"zcdp": 0.1}, "budget is in epsilon, delta"),
    ):
        with pytest.raises(ValueError, match=message):
            ledger.charge(purpose="p", **cost)
    assert ledger.charges() == ()


def test_files_that_are_no_ledger(path, tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        gdp.Ledger(path)
    path.write_text("not a database, but long enough to look like one" * 30)
    with pytest.raises(ValueError, match="cannot be used"):
        gdp.Ledger(path)
    with pytest.raises(ValueError, match="never overwritten"):
        make(path, epsilon=1.0)
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(ValueError, match="not a ledger of gibbs_dp"):
        gdp.Ledger(other)
    with pytest.raises(ValueError, match="cannot make"):
        make(tmp_path / "no" / "folder", epsilon=1.0)


# -- one file, many handles --------------------------------------------------------------------

HANDLES = {
    "itself": lambda ledger: ledger,
    "opened again": lambda ledger: gdp.Ledger(ledger.path),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda ledger: pickle.loads(pickle.dumps(ledger)),
    "a symbolic link": lambda ledger: linked(ledger, "symbolic"),
    "another spelling": lambda ledger: gdp.Ledger(ledger.path.parent / "." / ledger.path.name),
}


def linked(ledger, name):
    link = ledger.path.with_name(name)
    if not link.is_symlink():
        link.symlink_to(ledger.path)
    return gdp.Ledger(link)


@pytest.mark.parametrize("where", ["here", "thread", "fork"])
@pytest.mark.parametrize("handle", HANDLES)
def test_every_handle_of_a_file_spends_the_same_budget(path, handle, where):
    ledger = make(path, epsilon=1.0)
    twin = HANDLES[handle](ledger)

    def spend():
        for spender in (twin, twin, ledger):
            spender.charge(purpose="p", epsilon=0.25)

    if where == "here":
        spend()
    elif where == "thread":
        thread = threading.Thread(target=spend)
        thread.start()
        thread.join()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads; the child starts none
            child = os.fork()
        if not child:
            try:
                spend()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    for spender in (ledger, twin, gdp.Ledger(path)):
        assert spender.left() == {"epsilon": 0.25, "delta": 0.0}
        with pytest.raises(BudgetExceededError):
            spender.charge(purpose="p", epsilon=0.5)
    twin.charge(purpose="p", epsilon=0.25)
    assert len(ledger.charges()) == 4


def test_a_ledger_is_its_file_wherever_a_process_goes(tmp_path, monkeypatch):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ledger = make(Path("l"), epsilon=1.0)
    kept = pickle.dumps(ledger)
    monkeypatch.chdir(tmp_path / "there")
    make(Path("l"), epsilon=1.0)
    for twin in (ledger, pickle.loads(kept), copy.copy(ledger)):
        twin.charge(purpose="p", epsilon=0.25)
    assert gdp.Ledger(tmp_path / "here" / "l").left()["epsilon"] == 0.25
    assert gdp.Ledger("l").left()["epsilon"] == 1.0
    assert str(ledger.path) == "l"  # as it was given


def test_a_second_name_of_the_file_is_refused(path, tmp_path):
    """SQLite's journal has the name that a process opened: another one's charges may be undone."""
    ledger = make(path, epsilon=1.0)
    second = tmp_path / "second"
    second.hardlink_to(path)
    for use in (lambda: gdp.Ledger(second), lambda: gdp.Ledger(path), ledger.left,
                lambda: ledger.charge(purpose="p", epsilon=0.5)):  # fmt: skip
        with pytest.raises(ValueError, match=r"has a second name .*remove one of them"):
            use()
    second.unlink()
    assert ledger.charge(purpose="p", epsilon=1.0) == 1


# -- several processes ------------------------------------------------------------------------


def start():
    return subprocess.Popen(
        [sys.executable, "-I", str(HELPER), module.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def test_two_processes_racing_for_the_last_of_a_budget(tmp_path):
    """200 rounds: both ask for the last half at once, and exactly one gets it."""
    racers = [start(), start()]
    for i in range(200):
        ledger = make(tmp_path / str(i), epsilon=1.0)
        ledger.charge(purpose="first", epsilon=0.5)
        for racer in racers:
            racer.stdin.write(f"{ledger.path} 0.5\n")
        answers = sorted(racer.stdout.readline().split()[0] for racer in racers)
        assert answers == ["ok", "refused"]
        assert ledger.spent() == {"epsilon": 1.0, "delta": 0.0}
    for racer in racers:
        racer.communicate()
        assert racer.returncode == 0


def test_a_process_killed_after_its_charge_has_spent_it(tmp_path):
    """50 times SIGKILL between charge and hand-out, and at random moments of a stream of them."""
    rng = random.Random(0)
    ledger = make(tmp_path / "killed", epsilon=1000.0)
    acknowledged = 0
    for _ in range(50):
        victim = start()
        asked = rng.randint(1, 5)
        for _ in range(asked):
            victim.stdin.write(f"{ledger.path} 1.0\n")
        assert victim.stdout.readline().startswith("ok")  # charged, not handed out
        time.sleep(rng.random() * 0.01)
        victim.kill()
        rest = victim.stdout.read()  # communicate() would lose what readline() has read ahead
        victim.wait()
        victim.stdin.close()
        victim.stdout.close()
        before = acknowledged
        acknowledged += 1 + rest.count("ok")
        recorded = len(ledger.charges())
        # What was acknowledged stands; one more may have been committed before the answer.
        assert acknowledged <= recorded <= min(acknowledged + 1, before + asked)
        acknowledged = recorded
    assert ledger.spent()["epsilon"] == float(acknowledged) >= 50
    assert ledger.charge(purpose="still in use", epsilon=1.0) == acknowledged + 1


def test_an_exception_inside_the_transaction_records_nothing(path, monkeypatch):
    ledger = make(path, epsilon=1.0)
    monkeypatch.setattr(module, "_now", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(purpose="p", epsilon=0.5)
    monkeypatch.undo()
    assert ledger.charges() == ()
    assert ledger.charge(purpose="p", epsilon=1.0) == 1


def test_the_file_is_the_owners_alone(path):
    make(path, epsilon=1.0)
    assert path.stat().st_mode & 0o077 == 0
