"""What is told of the stages of an audit while it runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from gibbs_dp.engine.pace import Pace
from gibbs_dp.io.bar import has_bar, is_notebook, tqdm

FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
# Seconds between two ticks of the clock of a compilation; in a notebook each is a message.
TICK, NOTEBOOK_TICK = 0.5, 1.0


class Progress:
    """A bar in terminals and notebooks; elsewhere a line on stderr when a stage begins.

    The bar says "compiling" with a clock while a program is compiled, and predicts from steps of
    the stage that ran. All methods may be called from any thread.

    Parameters
    ----------
    enabled
        False: nothing is told.
    now
        The time in seconds.

    Examples
    --------
    >>> with Progress(enabled=False) as progress:
    ...     progress.stage("sampling", 2, "block")
    ...     with progress.compiling():
    ...         pass
    ...     progress.advance(2)
    """

    def __init__(self, enabled: bool, now: Callable[[], float] = time.monotonic) -> None:
        is_bar = enabled and has_bar()
        self._says = enabled and not is_bar and sys.stderr is not None
        self._bar = tqdm(total=0, disable=not is_bar, leave=False, bar_format=FORMAT)
        if is_bar:  # tqdm goes by the system's clock, which may be set back: the bar would stand
            bar: Any = self._bar
            bar._time = now
            bar.start_t = bar.last_print_t = now()
        self._name, self._unit = "", "step"
        self._now = now
        self._pace = Pace(now)
        self._lock = threading.RLock()
        self._num_compiling = 0
        self._stop = threading.Event()  # of the clock

    def __enter__(self) -> Progress:
        """Show the bar."""
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

    def stage(self, name: str, steps: int = 0, unit: str = "step") -> None:
        """Begin a stage, of so many steps as far as is known.

        Parameters
        ----------
        name
            What is done.
        steps
            Steps known now; 0: :meth:`expect` tells them.
        unit
            What one step is, in the singular.
        """
        with self._lock:
            self._name, self._unit = name, unit
            self._pace.restart()
            if self._says:
                plural = "" if steps == 1 else "s"
                with suppress(OSError):  # a log that is full, or that nobody reads any more
                    sys.stderr.write(f"{name} {steps} {unit}{plural}\n" if steps else f"{name}\n")
                    sys.stderr.flush()
            self._bar.set_postfix_str("", refresh=False)
            self._bar.set_description(name, refresh=False)
            self._set_total(steps)
            self._bar.reset(total=steps)

    def expect(self, steps: int) -> None:
        """Announce more steps of this stage."""
        with self._lock:
            self._set_total(int(self._bar.total or 0) + steps)
            self._bar.refresh()

    def advance(self, steps: int) -> None:
        """Count steps that ran, now finished."""
        with self._lock:
            self._pace.count(steps)
            self._bar.set_postfix_str(self._prediction(steps), refresh=False)
            self._bar.update(steps)

    def skip(self, steps: int) -> None:
        """Count steps that need not run: from what they took nothing is predicted."""
        with self._lock:
            self._bar.update(steps)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Say so, with a clock, while the body compiles a program."""
        with self._lock:
            self._num_compiling += 1
            self._pace.pause()
            if self._num_compiling == 1 and not self._bar.disable:
                self._stop = threading.Event()
                given = (self._stop, self._now())
                clock = threading.Thread(target=self._tick, args=given, daemon=True)
                clock.name = "gibbs_dp_clock"
                clock.start()
        try:
            yield
        finally:
            with self._lock:
                self._num_compiling -= 1
                self._pace.resume()
                if self._num_compiling == 0 and not self._bar.disable:
                    self._stop.set()
                    self._bar.set_description(self._name)

    def _tick(self, stop: threading.Event, begin: float) -> None:
        seconds = NOTEBOOK_TICK if is_notebook() else TICK
        while not stop.wait(seconds):
            with self._lock:
                if stop.is_set():
                    return
                seconds_so_far = int(self._now() - begin)
                self._bar.set_description(f"{self._name}, compiling, {seconds_so_far} s")

    def _prediction(self, steps: int) -> str:
        """Seconds left and the rate, with so many steps more than the bar shows."""
        rate = self._pace.rate()
        if rate is None:
            return ""
        left = max(0, (self._bar.total or 0) - self._bar.n - steps) / rate
        pace = f"{rate:.3g} {self._unit}s/s" if rate >= 1 else f"{1 / rate:.3g} s/{self._unit}"
        return f"{self._bar.format_interval(left)} left, {pace}"

    def _set_total(self, total: int) -> None:
        self._bar.total = total
        widget = getattr(self._bar, "container", None)
        if widget is not None:  # it has the length that it was made with
            inner = widget.children[1]
            inner.max, inner.bar_style, inner.layout.width = total, "", None
