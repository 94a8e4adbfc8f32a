"""Ctrl-C that is never lost.

Python runs the handler of a signal wherever the main thread happens to be. Within a callback of
JAX's garbage collection the exception that it raises is printed and ignored; so it is also noted,
and raised again where blocks come in, and after the last.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_was_pressed = threading.Event()


def _handle(number: int, frame: FrameType | None) -> None:
    _was_pressed.set()
    signal.default_int_handler(number, frame)


@contextmanager
def noted() -> Iterator[None]:
    """Note Ctrl-C while the body runs, in the main thread and unless others handle it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _was_pressed.clear()
    signal.signal(signal.SIGINT, _handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _was_pressed.clear()


def check() -> None:
    """Raise a KeyboardInterrupt that was lost."""
    if threading.current_thread() is threading.main_thread() and _was_pressed.is_set():
        _was_pressed.clear()
        raise KeyboardInterrupt
