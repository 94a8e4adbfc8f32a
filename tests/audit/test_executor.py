"""Audits on an executor: the same numbers, whatever is lost, refused or interrupted."""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)

import flat
import pytest
from problems import QUICK, linear_regression, regression_examples

import gibbs_dp as gdp
from gibbs_dp import _extras
from gibbs_dp.engine.remote import check_executor, client

SETTINGS = {"n": 20, "gammas": [0.1, 3.0], "num_datasets": 512, "block_size": 32}
SETTINGS |= QUICK | {"estimator": "one-sided", "num_ghosts": 16}
SETTINGS |= {"sampler": gdp.Chains()}  # as audits with a store, whatever the dimension
BLOCKS = 32


def audit(posterior=None, **changed):
    return flat.audit(posterior or linear_regression(), regression_examples, **SETTINGS | changed)


@pytest.fixture(scope="module")
def plain():
    """What an audit of one process finds."""
    return audit()


class Unsteady(Executor):
    """Runs tasks in threads; ``spoil(number)`` returns an exception for those that are lost."""

    def __init__(self, spoil=lambda number: None, num_threads=2, begin=lambda number: None):
        self.pool = ThreadPoolExecutor(num_threads)
        self.spoil, self.begin, self.sent, self.begun = spoil, begin, [], []
        self.found = []

    def submit(self, function, *arguments):
        number = len(self.sent)
        self.sent.append(arguments)
        error = self.spoil(number)
        if error is not None:
            future = Future()
            future.set_exception(error)
            return future
        return self.pool.submit(self._run, number, function, arguments)

    def _run(self, number, function, arguments):
        self.begin(len(self.begun))
        self.begun.append(number)
        found = function(*arguments)
        self.found.append(found)
        return found


@pytest.mark.trust
def test_the_report_is_that_of_one_process(plain):
    with ThreadPoolExecutor(2) as executor:
        found = audit(executor=executor)
    assert found.rows == plain.rows
    assert (found.warnings, found.notes) == (plain.warnings, plain.notes)
    assert found.settings == plain.settings


@pytest.mark.trust
@pytest.mark.usefixtures("float64")
def test_it_computes_as_its_caller_does():
    executor = Unsteady()
    audit(executor=executor, gammas=1.0, num_datasets=32)
    blocks = [pickle.loads(content) for answer, content in executor.found if answer == "done"]
    assert {str(block.health.mean_u.dtype) for (block,) in blocks} == {"float64"}


@pytest.mark.trust
def test_what_is_sent_again_changes_nothing(plain):
    """Every second job is lost when it is first sent, and every fourth once more."""

    def lose(number):
        times = [job for *_, job in executor.sent].count(executor.sent[-1][-1])
        rank = jobs.setdefault(executor.sent[-1][-1], len(jobs))
        if times == 1 and rank % 2:
            return BrokenExecutor("lost")
        return CancelledError() if times == 2 and rank % 4 == 1 else None

    jobs, executor = {}, Unsteady(lose)
    assert audit(executor=executor).rows == plain.rows
    assert len(executor.sent) > 1.7 * len(jobs)


def test_a_block_that_is_always_lost_ends_it_in_one_sentence():
    executor = Unsteady(lambda i: MemoryError("killed"))
    with pytest.raises(gdp.ExecutorError) as told:
        audit(executor=executor)
    assert str(told.value) == (
        "executor: the same block was lost 4 times, the last time by MemoryError: killed; nothing "
        "was kept, as no store was given."
    )
    executor = Unsteady(lambda i: ModuleNotFoundError("No module named 'gibbs_dp'"))
    with pytest.raises(gdp.ExecutorError, match=r"cannot import the library .*'gibbs_dp'"):
        audit(executor=executor)


@pytest.mark.trust
def test_a_broken_executor_leaves_the_store_to_go_on_with(plain, tmp_path):
    def stop(number):
        if number == 20:
            executor.pool.shutdown()

    executor = Unsteady(stop)
    with pytest.raises(gdp.ExecutorError) as told:
        audit(executor=executor, store=tmp_path)
    assert "executor: it takes no more tasks (RuntimeError: cannot schedule" in str(told.value)
    assert f"finished blocks are in the store '{tmp_path}', to go on with." in str(told.value)
    executor = Unsteady()
    assert audit(executor=executor, store=tmp_path).rows == plain.rows


@pytest.mark.trust
def test_processes_that_share_a_store_each_use_an_executor(plain, tmp_path):
    first = Unsteady()
    with pytest.raises(gdp.AuditIncomplete, match="16 of 32 blocks are missing"):
        audit(executor=first, store=gdp.Store(tmp_path, num_processes=2, process_id=0))
    second = Unsteady()
    shared = gdp.Store(tmp_path, num_processes=2, process_id=1)
    assert audit(executor=second, store=shared).rows == plain.rows
    assert len(second.sent) == BLOCKS / 2  # pilots are in the store


@pytest.mark.trust
def test_large_settings_go_to_workers_that_ask_for_them(plain, monkeypatch):
    monkeypatch.setattr(client, "MOST_BYTES", 1)

    def forget(number):
        if number % 12 == 0:  # a worker that is new
            with client._lock:
                client._runners.clear()

    forget(0)
    executor = Unsteady(begin=forget)
    assert audit(executor=executor).rows == plain.rows
    copies = [content for _, _, content, _ in executor.sent if content is not None]
    assert 3 <= len(copies) <= len(executor.sent) / 4


class OddError(Exception):
    """Made from other arguments than its message's."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.lock = threading.Lock()  # cannot be pickled


def test_an_exception_of_the_users_is_raised_once_as_it_is():
    def loss(theta, z):
        if threading.current_thread() is not threading.main_thread():
            raise OddError("this", "that")
        return (theta[0] - z[1]) ** 2

    posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real(1)))
    executor = Unsteady(num_threads=1)
    with pytest.raises(OddError) as told:
        audit(posterior, executor=executor)
    assert str(told.value) == "this and that"
    assert "raise OddError" in told.value.__notes__[0]
    assert len(executor.begun) < 4  # the others of the pilots, at most
    with pytest.raises(OddError) as here:
        audit(posterior)
    assert str(here.value) == str(told.value)


def test_ctrl_c_drops_what_has_not_begun_and_leaves_a_report(request):
    # As in a terminal: processes that a shell begins in the background ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupt(number):
        if number == 60:
            limit = time.monotonic() + 20
            while len(executor.sent) < 200 and time.monotonic() < limit:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

    executor = Unsteady(begin=interrupt, num_threads=1)
    with pytest.raises(gdp.AuditInterrupted) as told:
        audit(executor=executor, num_datasets=32 * 500)
    executor.pool.shutdown()  # runs what was not cancelled
    assert len(executor.sent) >= 200
    assert len(executor.begun) < 100
    assert 0 < told.value.report.rows[0]["num_datasets"] < 32 * 500


def test_an_interrupt_that_reaches_a_worker_is_one():
    executor = Unsteady(lambda i: KeyboardInterrupt() if i == 20 else None)
    with pytest.raises(gdp.AuditInterrupted):
        audit(executor=executor)


def test_workers_of_other_versions_are_refused(monkeypatch):
    here = client.versions()
    there, asked = here | {"jax": "0.1", "gibbs_dp": "0.0"}, iter([here])  # the caller asks first
    monkeypatch.setattr(client, "versions", lambda: next(asked, there))
    executor = Unsteady()
    with pytest.raises(
        ValueError, match=r"executor: a worker has gibbs_dp 0.0, jax 0.1 where this"
    ):
        audit(executor=executor)


def test_what_a_worker_cannot_load_is_told(monkeypatch):
    def fail(content):
        raise ModuleNotFoundError("No module named 'mine'")

    client._runners.clear()
    monkeypatch.setattr(client, "unpack_settings", fail)
    with pytest.raises(ValueError, match=r"'mine'.*make your own modules importable there"):
        audit(executor=Unsteady())


def test_what_cannot_be_sent_is_named():
    lock = threading.Lock()
    posterior = gdp.GibbsPosterior(
        lambda theta, z: (theta[0] - z[1]) ** 2 + 0 * lock.locked(),
        gdp.Flat(gdp.supports.real(1)),
    )
    with pytest.raises(ValueError, match=r"executor: the audit's posterior cannot be sent .*lock"):
        audit(posterior, executor=Unsteady())


def test_what_is_no_executor_is_refused(monkeypatch):
    class Client:
        def get_executor(self):
            """As Dask's."""

    with pytest.raises(ValueError, match=r"got Client; give client.get_executor"):
        check_executor(Client())
    with pytest.raises(ValueError, match="got int, which is none"):
        check_executor(2)
    forking = ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork"))
    with pytest.raises(ValueError, match=r"executor: .*waits forever.*get_context\('spawn'\)"):
        check_executor(forking)

    def lacks(name):
        raise ImportError(name)

    monkeypatch.setattr(_extras.importlib, "import_module", lacks)
    with pytest.raises(ValueError, match=r"needs cloudpickle.*gibbs_dp with its extra 'distrib"):
        audit(executor=Unsteady())
