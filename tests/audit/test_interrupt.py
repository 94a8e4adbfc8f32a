"""A Ctrl-C that comes where Python ignores it is raised later."""

import os
import signal

import pytest

from gibbs_dp.auditing import audit as auditing
from gibbs_dp.engine.executor import noting_interrupts, raise_lost_interrupt
from gibbs_dp.engine.quantity import Settings


@pytest.fixture(autouse=True)
def default_handler():
    """As in a terminal: processes that a shell begins in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Finalized:
    """Interrupted while it is collected, as callbacks of JAX are: exceptions are ignored."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_was_ignored_is_raised_at_the_next_block():
    with noting_interrupts():
        raise_lost_interrupt()
        Finalized()
        with pytest.raises(KeyboardInterrupt):
            raise_lost_interrupt()
        raise_lost_interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("where", ["run_sweep", "explore"])
def test_one_that_was_ignored_in_the_last_block_or_after_leaves_a_report(where, monkeypatch):
    for name in ("run_sweep", "explore", "make_report", "partial_report"):
        monkeypatch.setattr(auditing, name, lambda *_: None)
    monkeypatch.setattr(auditing, where, lambda *_: Finalized() and None)
    with pytest.raises(auditing.AuditInterrupted):
        auditing._run(object.__new__(Settings), False, None, None)


def test_one_that_is_raised_at_once_is_raised_once():
    with noting_interrupts(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    raise_lost_interrupt()


def test_a_handler_of_the_users_stays():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noting_interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
