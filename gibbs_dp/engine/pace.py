"""How long the rest of a stage will take, from the steps of it that ran."""

from __future__ import annotations

import time
from collections.abc import Callable

# Several workers finish their first blocks at nearly the same time: less than this tells nothing.
LEAST_SECONDS = 1.0


class Pace:
    """Steps per second of one stage, time in which programs are compiled left out.

    The clock begins when the first step is done: what comes before it (compilation, reading of
    files) is not taken for work.

    Parameters
    ----------
    now
        The time in seconds.

    Examples
    --------
    >>> clock = iter([10.0, 14.0]).__next__
    >>> pace = Pace(clock)
    >>> pace.count(1)  # after ten seconds of compilation
    >>> pace.count(8)
    >>> pace.rate()
    2.0
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
