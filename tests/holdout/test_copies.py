"""What was paid for once answers once: copies, forks, pickles, threads, interrupts, re-entry."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import traceback
import warnings

import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp import holdout
from gibbs_dp.holdout import sparse_vector, thresholdout
from gibbs_dp.privacy import noise

ROWS = np.arange(100)
COPIES = 4


def low(rows):
    """1/2 on the training rows below, 1 on the holdout: corrected whenever a round is open."""
    return rows < 50


def even(rows):
    return rows % 2


def by_dict(thing):
    """Make one around the other's attributes, as some serializers do."""
    twin = object.__new__(type(thing))
    twin.__dict__.update(copy.deepcopy(vars(thing)))
    return twin


def sharing(thing):
    twin = object.__new__(type(thing))
    twin.__dict__.update(vars(thing))
    return twin


def by_cloudpickle(thing):
    cloudpickle = pytest.importorskip("cloudpickle")
    return pickle.loads(cloudpickle.dumps(thing))


def by_clone(thing):
    return pytest.importorskip("sklearn.base").clone(thing, safe=False)


WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "in a container": lambda thing: copy.deepcopy({"a": [thing]})["a"][0],
    "a copy's copy": lambda thing: copy.deepcopy(copy.copy(thing)),
    "pickle 2": lambda thing: pickle.loads(pickle.dumps(thing, 2)),
    "pickle 5": lambda thing: pickle.loads(pickle.dumps(thing, 5)),
    "cloudpickle": by_cloudpickle,
    "sklearn.clone": by_clone,
    "attributes copied": by_dict,
    "attributes shared": sharing,
}


def opened(path=None, budget=100):
    """A holdout whose round is open and has answered once."""
    ledger = path and gdp.Ledger.create(path, adjacency="replace-one", epsilon=1e6)
    gate = gdp.Thresholdout(
        ROWS, ROWS[:50], threshold=0.1, sigma=1e-3, budget=budget, ledger=ledger
    )
    assert gate.query(even) == 0.5
    return gate


def corrected(gate):
    """How many corrected answers one more query got."""
    try:
        return int(gate.query_batch(lambda rows: low(rows)[:, None]).from_holdout.sum())
    except holdout.HoldoutSpentError:
        return 0


def in_fork(act):
    """What a function returns, as a number, in a forked process."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads; the child starts none
        child = os.fork()
    if not child:
        try:
            os.write(write, str(act()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        said = told.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_a_holdout_charges_its_own_round(tmp_path, way):
    gate = opened(tmp_path / "l")
    copies = [WAYS[way](gate) for _ in range(COPIES)]
    answers = sum(corrected(twin) for twin in (*copies, gate))
    assert answers == COPIES + 1
    assert len(gdp.Ledger(tmp_path / "l").charges()) == answers
    assert gate.rounds_started == answers


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_without_a_ledger_answers_nothing(way):
    gate = opened(budget=1)
    copies = [WAYS[way](gate) for _ in range(COPIES)]
    assert sum(corrected(twin) for twin in (*copies, gate)) == 1
    if way != "attributes shared":
        with pytest.raises(holdout.HoldoutSpentError, match="this is a copy of 'holdout'"):
            copies[0].query(even)
        assert (copies[0].budget_left, copies[0].rounds_started) == (0, 1)


@pytest.mark.parametrize("way", WAYS)
def test_a_copied_run_has_no_positive_answers(way):
    run = holdout.sparse_pure(500.0, 2, sensitivity=1.0, adjacency="replace-one").start(100.0)
    assert run.is_above(1000.0)
    given = 0
    for twin in (*(WAYS[way](run) for _ in range(COPIES)), run):
        for _ in range(3):
            try:
                given += twin.is_above(1000.0)
            except holdout.SparseHaltedError:
                break
    assert given == 1
    assert run.num_left == 0


def test_forks_pay_for_themselves(tmp_path):
    gate, bare = opened(tmp_path / "l"), opened()
    run = holdout.sparse_pure(500.0, 2, sensitivity=1.0, adjacency="replace-one").start(100.0)

    def act():
        said = [corrected(gate), corrected(bare), run.num_left]
        with pytest.raises(ValueError, match="copy"):
            run.is_above(1000.0)
        return said

    # Locks that are held while a process is forked are held for ever in the child.
    with gate._held.lock, bare._held.lock, run._held.lock:
        said = [in_fork(act) for _ in range(3)]
    assert said == ["[1, 0, 0]"] * 3
    assert corrected(gate) == 1
    assert len(gdp.Ledger(tmp_path / "l").charges()) == 4


def test_another_process_that_unpickles_has_nothing(tmp_path):
    gate = opened(tmp_path / "l")
    run = holdout.sparse_pure(500.0, 2, sensitivity=1.0, adjacency="replace-one").start(100.0)
    (tmp_path / "all").write_bytes(pickle.dumps((gate, opened(), run)))
    program = """
import pickle, sys
gate, bare, run = pickle.load(open(sys.argv[1], "rb"))
said = gate.query_batch(lambda rows: (rows < 50)[:, None])
print(*said.from_holdout, bare.budget_left, run.num_left)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "all")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["True", "0", "0"], done.stderr
    assert len(gdp.Ledger(tmp_path / "l").charges()) == 2


@pytest.mark.parametrize("has_ledger", [True, False])
def test_threads_on_one_object_get_what_was_paid(tmp_path, has_ledger):
    gate = opened(tmp_path / "l" if has_ledger else None, budget=5)
    run = holdout.sparse_pure(5e4, 3, sensitivity=1.0, adjacency="replace-one").start(100.0)
    start, answers, positives = threading.Barrier(8), [], []

    def race():
        start.wait()
        for _ in range(3):
            answers.append(corrected(gate))
            try:
                positives.append(run.is_above(1000.0))
            except holdout.SparseHaltedError:
                positives.append(False)

    racers = [threading.Thread(target=race) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert (sum(answers), sum(positives)) == (5, 3)
    assert gate.rounds_started == 5


class Meddler:
    """Noise that calls something at its ``at``-th use."""

    def __init__(self, at, act):
        self.left, self.act = at, act

    def __call__(self, value, scale):
        found = noise.add_laplace(value, scale)
        self.left -= 1
        if self.left == 0:
            self.act()
        return found


@pytest.mark.parametrize("at", range(1, 6))
def test_an_interrupt_at_any_moment_gives_nothing_free(tmp_path, monkeypatch, at):
    """As a signal that comes back to the object, or one that raises."""
    gate, answers = opened(tmp_path / "l"), []
    monkeypatch.setattr(
        thresholdout, "add_laplace", Meddler(at, lambda: answers.append(corrected(gate)))
    )
    answers += [corrected(gate) for _ in range(3)]
    assert len(answers) == 4
    assert sum(answers) == 4 == gate.rounds_started

    def stop():
        raise KeyboardInterrupt

    monkeypatch.setattr(thresholdout, "add_laplace", Meddler(at, stop))
    stopped = []
    for _ in range(4):
        try:
            answers.append(corrected(gate))
        except KeyboardInterrupt as error:
            stopped.append(error)
    assert len(stopped) == 1
    assert stopped[0].__context__ is None
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(stopped[0].__traceback__)]
    assert not {"_answer", "_one"} & set(frames)  # their locals hold the holdout's means
    assert sum(answers) == 7 <= gate.rounds_started <= 8


@pytest.mark.parametrize("at", [1, 2])
def test_a_fork_in_the_middle_of_an_answer(tmp_path, monkeypatch, at):
    """After the query's or the answer's noise: the child has the parent's stack, and no answer."""
    gate = opened(tmp_path / "l")
    read, write = os.pipe()
    children = []

    def fork():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            children.append(os.fork())

    monkeypatch.setattr(thresholdout, "add_laplace", Meddler(at, fork))
    found = None
    try:
        found = corrected(gate)
    finally:
        if children == [0]:
            os.write(write, str(found).encode())
            os._exit(0)
    os.waitpid(children[0], 0)
    assert (os.read(read, 10), found) == (b"0", 1)


def test_a_query_that_asks_the_mechanism_pays_for_what_it_asks(tmp_path):
    gate = opened(tmp_path / "l")
    inner = []

    def phi(rows):
        if len(rows) == 50:
            inner.append(corrected(gate))
        return low(rows)

    assert gate.query(phi) > 0.9
    assert inner == [1]
    assert gate.rounds_started == 2


def test_an_interrupted_run_gives_no_more_positives(monkeypatch):
    run = holdout.sparse_pure(500.0, 2, sensitivity=1.0, adjacency="replace-one").start(100.0)
    inner = []
    monkeypatch.setattr(
        sparse_vector, "add_laplace", Meddler(1, lambda: inner.append(run.is_above(1000.0)))
    )
    assert run.is_above(1000.0)
    assert (inner, run.num_left) == ([True], 0)


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (opened, "sigma", 1e-9),
        (opened, "budget", 1000),
        (opened, "threshold", 0.0),
        (opened, "name", "other"),
        (lambda: holdout.sparse_pure(1.0, 1, sensitivity=1.0, adjacency="replace-one").start(0.0),
         "num_left", 100),
        (lambda: holdout.sparse_pure(1.0, 1, sensitivity=1.0, adjacency="replace-one").start(0.0),
         "mechanism", None),
    ],
)  # fmt: skip
def test_settings_of_what_runs_are_fixed(make, name, value):
    thing = make()
    with pytest.raises(AttributeError, match=f"{name}: the settings of a running"):
        setattr(thing, name, value)


SOURCES = {
    "laplace_release": lambda: noise.laplace_release(np.zeros(3), 1.0).tolist(),
    "gaussian_release": lambda: noise.gaussian_release(np.zeros(3), 1.0).tolist(),
    "argmax_release": lambda: [noise.argmax_release(np.zeros(1000), 1.0) for _ in range(4)],
    "exponential_release": lambda: [
        noise.exponential_release(np.zeros(1000), 1.0) for _ in range(4)
    ],
    "random": lambda: noise.SECRET.random(3).tolist(),
    "standard_normal": lambda: noise.SECRET.standard_normal(3).tolist(),
}


@pytest.mark.trust(but=["laplace_release", "exponential_release", "random"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_forked_process_has_noise_of_its_own(source):
    """Four numbers of a thousand agree by chance once in 1e12."""
    SOURCES[source]()  # whatever it keeps is filled
    said = [in_fork(SOURCES[source]) for _ in range(2)]
    assert len({*said, str(SOURCES[source]())}) == 3


def test_copies_of_a_source_do_not_repeat_it():
    for twin in (copy.deepcopy(noise.SECRET), pickle.loads(pickle.dumps(noise.SECRET))):
        assert twin.random(3).tolist() != noise.SECRET.random(3).tolist()
    assert len({np.asarray(noise.secret_key()._base_array).tobytes() for _ in range(3)}) == 3
