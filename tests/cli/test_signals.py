"""Ctrl-C and SIGTERM wherever they come, and outputs that nobody reads or that are full."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

import _gibbs_dp_start as start
from gibbs_dp._progress import Progress
from gibbs_dp.cli import main, output
from gibbs_dp.cli import release as command


@pytest.fixture(autouse=True)
def handlers(monkeypatch):
    """As in a terminal; what is set is set back."""
    before = [(n, signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM)]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    monkeypatch.setattr(start, "_was_terminated", False)
    yield
    for number, handler in before:
        signal.signal(number, handler)


class Finalized:
    """Interrupted while it is collected, as callbacks of JAX are: exceptions are ignored."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_ctrl_c_that_python_ignores_is_sent_again(capsys):
    start._send_again_what_is_ignored()
    Finalized()
    with pytest.raises(KeyboardInterrupt):
        time.sleep(5)
    assert capsys.readouterr().err == ""


def test_sigterm_does_what_ctrl_c_does_and_the_status_tells(monkeypatch):
    def work(ready):
        ready()
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGTERM)  # a second one does not disturb what is saved
            time.sleep(0.01)
            return 130
        return 0

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(main, "main", work)
    assert start.main() == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_error_that_came_of_ctrl_c_is_ctrl_c(run, monkeypatch):
    def load(_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    monkeypatch.setattr("gibbs_dp.cli.ledger.run", load)
    ran = run("ledger")
    assert (ran.status, ran.err) == (130, "gibbs-dp: interrupted: nothing more was saved.\n")


def test_an_interrupted_release_says_where_its_charge_is(run, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_release", stop)
    words = ("--data", "t.csv", "--target", "ill", "--label", "no", "yes", "--ledger", "l")
    ran = run("release", *words, "--adjacency", "replace-one", "--range", "age", 0, 9)
    assert ran.status == 130
    assert "what was charged stays charged; see 'gibbs-dp ledger show --ledger l'" in ran.err


@pytest.fixture(params=["closed", "full"])
def broken(request):
    """A stream that cannot be written."""
    if request.param == "full" and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    ours, theirs = os.pipe()
    os.close(ours)
    stream = os.fdopen(theirs, "w")
    if request.param == "full":
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, theirs)
        os.close(full)
    stream.name_of_case = request.param
    yield stream
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, theirs)
    os.close(nowhere)
    stream.close()


def test_a_log_that_cannot_be_written_stops_nothing(broken, monkeypatch):
    monkeypatch.setattr(sys, "stderr", broken)
    output.log("a remark")
    with Progress(True) as progress:
        progress.stage("sampling", 2, "block")
        progress.advance(2)


def test_a_reader_who_left_stops_nothing_and_a_full_file_is_named(broken, monkeypatch):
    monkeypatch.setattr(sys, "stdout", broken)
    if broken.name_of_case == "closed":
        output.emit("a result")
        output.show("another")
    else:
        with pytest.raises(OSError, match="No space left on device: 'stdout'"):
            output.emit("a result")
    assert output.marked("a result", broken) == "a result"
