"""What is told of an audit: the stages while it runs, and what it may be warned of."""

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

from gibbs_dp._cautions import REFUSE, Caution

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
# Seconds between two ticks of the clock of a compilation; in a notebook each is a message.
TICK, NOTEBOOK_TICK = 0.5, 1.0


class Progress:
    """A bar in terminals and notebooks; elsewhere a line on stderr when a stage begins.

    Stages are told to the logger "gibbs_dp", too, whatever is ``enabled``.

    The bar says "compiling" with a clock while a program is compiled, and predicts from steps of
    the stage that ran. All methods may be called from any thread.
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
        """Begin a stage, of so many steps as far as is known."""
        with self._lock:
            self._name, self._unit = name, unit
            self._pace.restart()
            plural = "" if steps == 1 else "s"
            line = f"{name} {steps} {unit}{plural}" if steps else name
            LOG.info("%s", line)
            if self._says:
                with suppress(OSError):  # a log that is full, or that nobody reads any more
                    sys.stderr.write(line + "\n")
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


# What a sweep warns of.


DRIFTING = Caution(
    "drifting-chains",
    "the chains still drift (first against second half: {z:.0f} standard errors, {size:.2f} "
    "posterior standard deviations); raise num_warmup.",
    "Averaged over all datasets, which makes this test very sensitive, the first half of the draws "
    "differs from the second: the chains had not arrived when sampling began, and the numbers are "
    "biased towards where they started.",
    "Raise num_warmup, twofold at a time. If it stays, the posterior has directions that mix very "
    "slowly: rescale the parameters, or use another kernel.",
    verdict=REFUSE,
)
LOW_ACCEPTANCE = Caution(
    "low-acceptance",
    "only {accept:.0%} of proposals were accepted; lower the step size.",
    "Most proposals were refused, so that few draws differ from the ones before them.",
    "Give the kernel a smaller step_size. Jumps in the loss, as in 0/1 losses, make gradients "
    "useless; smooth it, or use gdp.Grid for one to three parameters.",
)
OUT_OF_MEMORY = Caution(
    "out-of-memory",
    "memory did not hold {size} datasets at once; {smaller} are taken from here on.",
    "A program needed more memory than the device has, or than other programs left of it. The "
    "numbers are not affected: the same datasets are sampled in smaller parts.",
    "Nothing, unless it is slow: a smaller block_size, fewer num_ghosts or num_samples need less.",
)
DAMAGED_STORE = Caution(
    "damaged-store",
    "store: {path} is damaged ({reason}); what it held is computed again.",
    "A file of the store is not what was written: a copy that was cut short, a disk error, another "
    "program. The numbers are not affected.",
    "Nothing; the block is sampled again. Where it happens often, check the disk.",
)


class SmallerBlocksWarning(UserWarning):
    """Memory ran out, and fewer datasets are worked on at once."""


class DamagedStoreWarning(UserWarning):
    """A file of a store was damaged; what it held is computed again."""
