"""What is told of long work while it runs: a bar with a clock, or lines in a log."""

from __future__ import annotations

import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from tqdm import TqdmWarning

with warnings.catch_warnings():
    # A notebook without ipywidgets gets the bar of terminals: nothing that needs a warning.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm as tqdm


# The progress bar: a widget in notebooks that have ipywidgets, and text everywhere else.


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


def has_bar() -> bool:
    """Whether a bar can be drawn again and again: not in a pipe, nor in the log of a batch job."""
    return is_notebook() or (sys.stderr is not None and sys.stderr.isatty())


# How long the rest of a stage will take, from the steps of it that ran.

# Several workers finish their first blocks at nearly the same time: less than this tells nothing.
LEAST_SECONDS = 1.0


class Pace:
    """Steps per second of one stage, time in which programs are compiled left out.

    The clock begins when the first step is done: what comes before it (compilation, reading of
    files) is not taken for work.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._num_paused, self._paused_at = 0, 0.0
        self.restart()

    def restart(self) -> None:
        """Forget what was counted: another stage begins."""
        self._begin: float | None = None
        self._lost = 0.0
        self._steps, self._worked = 0, 0.0

    def count(self, steps: int) -> None:
        """Count steps that ran and are done now; none while the clock stands."""
        if self._num_paused:
            return
        if self._begin is None:
            self._begin = self._now()
        else:
            self._steps += steps
            self._worked = self._now() - self._begin - self._lost

    def pause(self) -> None:
        """Stop the clock, until :meth:`resume` was called as often as this."""
        self._num_paused += 1
        if self._num_paused == 1:
            self._paused_at = self._now()

    def resume(self) -> None:
        """Let the clock go on."""
        self._num_paused -= 1
        if self._num_paused == 0 and self._begin is not None:
            self._lost += self._now() - self._paused_at

    def rate(self) -> float | None:
        """Return steps per second, None while too little has run to tell."""
        if self._steps == 0 or self._worked < LEAST_SECONDS:
            return None
        return self._steps / self._worked


LOG = logging.getLogger("gibbs_dp")
FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
ENDLESS = "{desc}"  # of a stage whose steps are not known
# Seconds between two ticks of the clock; in a notebook each is a message.
TICK, NOTEBOOK_TICK = 0.5, 1.0
# Seconds into a stage after which a log is told that it goes on, and again after twice as many.
FIRST_SIGN = 30.0


class Progress:
    """A bar in terminals and notebooks; elsewhere a line on stderr when a stage begins.

    Stages are told to the logger "gibbs_dp", too, whatever is ``enabled``. With ``after``, so many
    seconds pass before anything is shown.

    The bar says "compiling" with a clock while a program is compiled, and predicts from steps of
    the stage that ran; a log is told after 30, 60, 120, ... seconds of a stage that it goes on. All
    methods may be called from any thread.
    """

    def __init__(
        self, enabled: bool, now: Callable[[], float] = time.monotonic, after: float = 0.0
    ) -> None:
        self._is_bar = enabled and has_bar()
        self._says = enabled and not self._is_bar and sys.stderr is not None
        self._now, self._after = now, after
        self._name, self._unit = "", "step"
        self._total = self._done = 0
        self._begin = self._begin_stage = self._begin_compiling = now()
        self._next_sign = FIRST_SIGN
        self._pace = Pace(now)
        self._lock = threading.RLock()
        self._num_compiling = 0
        self._stop = threading.Event()  # of the clock
        self._bar = self._make_bar(is_shown=self._is_bar and not after)
        self._clock = threading.Thread(target=self._tick, name="gibbs_dp_clock", daemon=True)

    def __enter__(self) -> Progress:
        """Start the clock."""
        if self._is_bar or self._says:
            self._clock.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the bar, however the work ended."""
        with self._lock:
            self._stop.set()
            if kind is None:  # a widget that is closed before its end stays, and turns red
                self._bar.total = self._bar.n
            self._bar.close()
        if self._clock.is_alive():
            self._clock.join()

    def stage(self, name: str, steps: int = 0, unit: str = "step") -> None:
        """Begin a stage, of so many steps as far as is known."""
        with self._lock:
            self._name, self._unit, self._done = name, unit, 0
            self._begin_stage, self._next_sign = self._now(), FIRST_SIGN
            self._pace.restart()
            line = f"{name} {self._counted(steps)}" if steps else name
            LOG.info("%s", line)
            if not self._after:
                self._say(line)
            self._bar.set_postfix_str("", refresh=False)
            self._bar.set_description(name, refresh=False)
            self._set_total(steps)
            self._bar.reset(total=steps)

    def expect(self, steps: int) -> None:
        """Announce more steps of this stage."""
        with self._lock:
            self._set_total(self._total + steps)
            self._bar.set_description(self._name)

    def advance(self, steps: int) -> None:
        """Count steps that ran, now finished."""
        with self._lock:
            self._done += steps
            self._pace.count(steps)
            self._bar.set_postfix_str(self._prediction(), refresh=False)
            self._bar.update(steps)

    def skip(self, steps: int) -> None:
        """Count steps that need not run: from what they took nothing is predicted."""
        with self._lock:
            self._done += steps
            self._bar.update(steps)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Say so, with a clock, while the body compiles a program."""
        with self._lock:
            self._num_compiling += 1
            self._pace.pause()
            if self._num_compiling == 1:
                self._begin_compiling = self._now()
        try:
            yield
        finally:
            with self._lock:
                self._num_compiling -= 1
                self._pace.resume()
                if self._num_compiling == 0 and not self._bar.disable:
                    self._bar.set_description(self._name)

    def _make_bar(self, is_shown: bool) -> Any:
        bar: Any = tqdm(
            desc=self._name,
            total=self._total,
            initial=self._done,
            disable=not is_shown,
            leave=False,
            bar_format=FORMAT if self._total else ENDLESS,
        )
        if is_shown:  # tqdm goes by the system's clock, which may be set back: the bar would stand
            bar._time = self._now
            bar.start_t = bar.last_print_t = self._now()
        return bar

    def _tick(self) -> None:
        seconds = NOTEBOOK_TICK if is_notebook() else TICK
        while not self._stop.wait(seconds):
            with self._lock:
                if self._stop.is_set():
                    return
                self._show(self._now())

    def _show(self, now: float) -> None:
        """Let what is shown say how long it has been."""
        if now - self._begin < self._after:
            return
        in_stage = now - self._begin_stage
        if self._says and in_stage >= self._next_sign:
            done = f", {self._done} of {self._counted(self._total)}" if self._total else ""
            self._say(f"{self._name}{done}, {in_stage:.0f} s")
            self._next_sign *= 2.0
        if not self._is_bar:
            return
        if self._bar.disable:
            self._bar = self._make_bar(is_shown=True)
        if self._num_compiling:
            spent = int(now - self._begin_compiling)
            self._bar.set_description(f"{self._name}, compiling, {spent} s")
        elif not self._total:
            self._bar.set_description_str(f"{self._name}, {int(in_stage)} s")

    def _say(self, line: str) -> None:
        if self._says:
            with suppress(OSError):  # a log that is full, or that nobody reads any more
                sys.stderr.write(line + "\n")
                sys.stderr.flush()

    def _counted(self, steps: int) -> str:
        return f"{steps} {self._unit}{'' if steps == 1 else 's'}"

    def _prediction(self) -> str:
        """Seconds left and the rate."""
        rate = self._pace.rate()
        if rate is None:
            return ""
        left = max(0, self._total - self._done) / rate
        pace = f"{rate:.3g} {self._unit}s/s" if rate >= 1 else f"{1 / rate:.3g} s/{self._unit}"
        return f"{self._bar.format_interval(left)} left, {pace}"

    def _set_total(self, total: int) -> None:
        self._total = self._bar.total = total
        self._bar.bar_format = FORMAT if total else ENDLESS
        widget = getattr(self._bar, "container", None)
        if widget is not None:  # it has the length that it was made with
            inner = widget.children[1]
            inner.max, inner.bar_style, inner.layout.width = total, "", None
