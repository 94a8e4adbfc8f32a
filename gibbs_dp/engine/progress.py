"""One progress bar for the stages of an audit."""

from __future__ import annotations

from types import TracebackType

from gibbs_dp.io.bar import tqdm


class Progress:
    """A tqdm bar that grows as work becomes known; silent when disabled.

    Parameters
    ----------
    enabled
        Show the bar (on stderr).
    steps
        Steps known at the start.
    """

    def __init__(self, enabled: bool, steps: int) -> None:
        self._bar = tqdm(total=steps, disable=not enabled, unit="block", leave=False)

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
        if kind is None:  # a widget that is closed before its end stays, and turns red
            self._bar.total = self._bar.n
        self._bar.close()

    def stage(self, name: str) -> None:
        """Say what is being done."""
        self._bar.set_description(name)

    def expect(self, steps: int) -> None:
        """Announce more steps."""
        total = (self._bar.total or 0) + steps
        self._bar.total = total
        widget = getattr(self._bar, "container", None)
        if widget is not None:  # it has the length that it was made with
            inner = widget.children[1]
            inner.max, inner.bar_style, inner.layout.width = total, "", None
        self._bar.refresh()

    def advance(self, steps: int) -> None:
        """Count finished steps."""
        self._bar.update(steps)
