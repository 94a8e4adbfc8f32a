"""What is told of an audit, loudly or quietly, and what an interrupt leaves of it."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from problems import gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp import _progress as module
from gibbs_dp._progress import Pace, Progress
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.engine.executor import noting_interrupts, raise_lost_interrupt
from gibbs_dp.engine.quantity import Settings

# A process that tqdm takes for the kernel of a notebook.
NOTEBOOK = """
import sys, types, warnings
shell = type("ZMQInteractiveShell", (), {"config": {"IPKernelApp": {}}})()
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
sys.modules["ipywidgets"] = sys.modules["IPython.html.widgets"] = None
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import gibbs_dp
assert not [w for w in told if "tqdm" in w.filename], told[0].message
from gibbs_dp._progress import Progress
with Progress(True) as bar:
    bar.stage("sampling", 3)
    bar.advance(2)
"""

STAGES = """
import sys, time
from gibbs_dp._progress import Progress
with Progress(True) as progress:
    progress.stage("tuning", 16, "gamma")
    with progress.compiling():
        time.sleep(1.3)
    time.sleep(1)
    progress.advance(16)
    progress.stage("sampling", 1, "block")
    progress.advance(1)
    progress.stage("mutual information")
    progress.expect(2)
print("done", file=sys.stderr)
"""

WAITS = """
import time
from gibbs_dp._progress import Progress
try:
    with Progress(True) as progress:
        progress.stage("tuning", 2, "gamma")
        with progress.compiling():
            time.sleep(3)
except KeyboardInterrupt:
    time.sleep(1.2)  # longer than two ticks
"""


class Terminal(io.StringIO):
    """A terminal for whoever asks, that keeps what was written."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Function that makes stderr a terminal, whose clock ticks often."""

    def make():  # in the test itself: pytest sets its own stderr between fixtures and test
        screen = Terminal()
        monkeypatch.setattr(module, "TICK", 0.02)
        monkeypatch.setattr(sys, "stderr", screen)
        return screen

    return make


class Clock:
    """A time that passes when it is told to."""

    now = 0.0

    def __call__(self):
        return self.now


def in_a_terminal(code, until=None):
    """Run code with a pseudo-terminal as stderr; Ctrl-C when ``until`` is there; what it wrote."""
    pty, termios = (pytest.importorskip(name) for name in ("pty", "termios"))
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    command = [sys.executable, "-c", code]
    told = b""
    with subprocess.Popen(command, stderr=theirs) as process:
        os.close(theirs)
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # nobody has it open any more
                break
            if not part:
                break
            told += part
            if until is not None and until in told:
                until = None
                process.send_signal(signal.SIGINT)
    os.close(ours)
    return process.returncode, told.decode()


def test_a_terminal_gets_a_bar_with_a_clock_while_it_compiles():
    status, told = in_a_terminal(STAGES)
    assert status == 0
    for text in ("tuning, compiling, 0 s: ", "tuning, compiling, 1 s: ", "tuning: 100%", "16/16"):
        assert text in told
    assert "compiling, 2 s" not in told
    assert told.endswith("done\r\n")
    assert "\n" not in told.removesuffix("\r\n")


def test_a_pipe_gets_one_plain_line_a_stage():
    done = subprocess.run([sys.executable, "-c", STAGES], capture_output=True, text=True)
    assert done.stderr.splitlines() == [
        "tuning 16 gammas",
        "sampling 1 block",
        "mutual information",
        "done",
    ]


def test_ctrl_c_stops_the_clock_and_nothing_is_drawn_after():
    status, told = in_a_terminal(WAITS, until=b"compiling, 0 s")
    assert status == 0
    drawn = [part for part in told.split("\r") if part.strip()]
    assert drawn[-1].startswith("tuning:"), drawn  # drawn when compilation ended, then wiped
    assert told.endswith("\r")


def test_a_notebook_without_widgets_gets_a_bar_of_text_and_no_remark():
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "sampling:" in done.stderr
    assert "IProgress" not in done.stderr


def test_nothing_is_told_when_it_is_turned_off(terminal):
    screen = terminal()
    with Progress(False) as progress:
        progress.stage("sampling", 2, "block")
        with progress.compiling():
            time.sleep(0.1)
        progress.advance(1)
        progress.skip(1)
    assert screen.getvalue() == ""


@pytest.fixture
def pipe(monkeypatch):
    """Function that makes stderr a log that is told after 0.1, 0.2, 0.4, ... seconds."""

    def make():
        log = io.StringIO()
        monkeypatch.setattr(module, "TICK", 0.01)
        monkeypatch.setattr(module, "FIRST_SIGN", 0.1)
        monkeypatch.setattr(sys, "stderr", log)
        return log

    return make


def test_a_log_is_told_that_long_stages_go_on_and_less_and_less_often(pipe):
    log = pipe()
    with Progress(True) as progress:
        progress.stage("tuning", 2, "gamma")
        progress.advance(1)
        with progress.compiling():
            time.sleep(0.6)
        progress.stage("mutual information")
    told = log.getvalue().splitlines()
    assert told[0] == "tuning 2 gammas"
    assert told[-1] == "mutual information"
    assert 2 <= len(told) - 2 <= 3  # at 0.1, 0.2 and 0.4 seconds
    assert all(re.fullmatch(r"tuning, 1 of 2 gammas, \d s", line) for line in told[1:-1])
    assert not [t for t in threading.enumerate() if t.name == "gibbs_dp_clock" and t.is_alive()]


def test_short_work_is_done_in_silence(pipe, terminal):
    log = pipe()
    with Progress(True, after=5.0) as progress:
        progress.stage("sampling with HMC()")
        time.sleep(0.3)
    assert log.getvalue() == ""
    screen = terminal()
    with Progress(True, after=5.0) as progress:
        progress.stage("sampling with HMC()")
        progress.advance(1)
        time.sleep(0.1)
    assert screen.getvalue() == ""


def test_long_work_is_told_of_after_a_while(pipe, terminal):
    log = pipe()
    with Progress(True, after=0.2) as progress:
        progress.stage("sampling with HMC()")
        time.sleep(0.5)
    assert set(log.getvalue().splitlines()) <= {f"sampling with HMC(), {s} s" for s in (0, 1)}
    assert log.getvalue()
    screen = terminal()
    with Progress(True, after=0.2) as progress:
        progress.stage("sampling with HMC()")
        time.sleep(0.5)
    assert "sampling with HMC(), 0 s" in screen.getvalue()
    assert screen.getvalue().endswith("\r")


def test_what_is_left_is_predicted_from_steps_of_the_stage_that_ran():
    clock = Clock()
    pace = Pace(clock)
    for now, steps in ((30.0, 1), (30.5, 2)):  # compiled for 30 seconds
        clock.now = now
        pace.count(steps)
    assert pace.rate() is None  # too soon
    clock.now = 34.0
    pace.count(6)
    assert pace.rate() == 8 / 4
    pace.pause()
    pace.pause()  # two devices compile
    clock.now = 40.0
    pace.resume()
    pace.count(5)  # of a third device
    clock.now = 50.0
    pace.resume()
    clock.now = 52.0
    pace.count(4)
    assert pace.rate() == 12 / 6
    pace.restart()
    assert pace.rate() is None
    for now, steps in ((100.0, 1), (102.0, 1)):
        clock.now = now
        pace.count(steps)
    assert pace.rate() == 0.5


def test_a_stage_that_begins_in_a_compilation_does_not_take_its_end_for_work():
    clock = Clock()
    pace = Pace(clock)
    pace.count(1)
    pace.pause()
    clock.now = 5.0
    pace.restart()
    pace.count(1)
    clock.now = 10.0
    pace.resume()
    pace.count(1)
    clock.now = 12.0
    pace.count(1)
    assert pace.rate() == 0.5


def test_the_bar_says_what_is_left(terminal):
    screen = terminal()
    clock = Clock()
    with Progress(True, clock) as progress:
        progress.stage("tuning", 2, "gamma")
        for clock.now in (1.0, 2.0):
            progress.advance(1)
        progress.stage("sampling", 100, "block")
        clock.now = 50.0
        progress.skip(40)  # from a store
        with progress.compiling():
            clock.now = 90.0
        progress.advance(1)
        clock.now = 94.0
        progress.advance(9)
        progress._bar.refresh()
        assert "00:22 left, 2.25 blocks/s]" in screen.getvalue()
        clock.now = 190.0
        progress.advance(1)
        progress._bar.refresh()
        assert "08:10 left, 10 s/block]" in screen.getvalue()
    last = [part for part in screen.getvalue().split("\r") if part.strip()][-1]
    assert "51/100" in last


def test_a_clock_that_is_set_back_does_not_stop_the_bar(terminal, monkeypatch):
    screen = terminal()
    system, clock = Clock(), Clock()
    monkeypatch.setattr("tqdm.std.time", system)
    with Progress(True, clock) as progress:
        progress.stage("sampling", 100, "block")
        for clock.now in (1.0, 2.0, 3.0):
            system.now -= 3600.0
            progress.advance(1)
            assert f"{clock.now:.0f}/100 [00:0{clock.now:.0f}" in screen.getvalue()


@pytest.mark.trust
def test_an_audit_says_that_it_compiles(terminal):
    screen = terminal()
    posterior = gdp.GibbsPosterior(  # a program that no other test has compiled
        lambda theta, z: 0.51 * ((theta - z) ** 2).sum(), gdp.Flat(gdp.supports.real(1))
    )
    gdp.audit(
        posterior,
        gaussian_examples(1),
        5,
        [1.0],
        num_datasets=4,
        learn=[gdp.OnAverageKL(), gdp.MutualInformation(0)],  # else more is compiled beside
    )
    told = screen.getvalue()
    assert re.search(r"tuning, compiling, \d+ s:", told)
    assert "sampling:" in told
    assert "sampling, compiling" not in told
    assert told.endswith("\r")
    assert not [t for t in threading.enumerate() if t.name == "gibbs_dp_clock"]


@pytest.mark.trust
def test_an_audit_into_a_pipe_says_its_stages(capsys):
    gdp.audit(gaussian_mean(1), gaussian_examples(1), 20, [0.5, 1.0], num_datasets=64)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "tuning 2 gammas"
    assert re.fullmatch(r"sampling \d+ blocks", told[1])
    assert told[2:] == ["mutual information"]


@pytest.fixture
def widget(monkeypatch):
    """Makes bars that are widgets, which nothing displays."""
    pytest.importorskip("ipywidgets")
    notebook = pytest.importorskip("tqdm.notebook")
    monkeypatch.setattr(notebook, "display", lambda *_: None)
    monkeypatch.setattr(module, "tqdm", notebook.tqdm)
    monkeypatch.setattr(module, "has_bar", lambda: True)
    monkeypatch.setattr(module, "TICK", 0.02)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets")
def test_a_widget_grows_with_the_work_and_goes_when_it_is_done(widget):
    with Progress(True) as bar:
        text, inner, _ = bar._bar.container.children
        for steps in (0, 2):
            bar.stage("sampling", steps)
            bar.expect(8)
            assert inner.max == steps + 8
            assert inner.layout.width is None
            with bar.compiling():
                time.sleep(0.2)
                assert text.value.startswith("sampling,\u2007compiling,\u20070\u2007s:")
            bar.advance(6)
            bar._bar.refresh()
            assert inner.value == 6
    assert bar._bar.container.layout.visibility == "hidden"


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets")
def test_a_widget_of_work_that_failed_stays_and_is_red(widget):
    bar = Progress(True)
    bar.stage("sampling", 5)
    bar.advance(1)
    with pytest.raises(ZeroDivisionError), bar:
        raise ZeroDivisionError
    assert bar._bar.container.children[1].bar_style == "danger"


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
        auditing._run([object.__new__(Settings)], False, None, None)


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
