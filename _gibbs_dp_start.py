"""Where the ``gibbs-dp`` program starts: outside the package, whose imports take seconds.

Until the command is at work, Ctrl-C and SIGTERM have nothing to save and end the process on the
spot: raised in the middle of an import, ``KeyboardInterrupt`` would end in a traceback, in another
error or, within a compiled module that is being loaded, in a crash. From then on both raise it.
"""

from __future__ import annotations

import gc
import os
import signal
from types import FrameType
from typing import Any

INTERRUPTED = 130
TERMINATED = 128 + signal.SIGTERM
# Seconds after which a Ctrl-C that Python ignored is sent again.
AGAIN = 0.01

_was_terminated = False


def main() -> int:
    """Import the command line and run it; return the exit status."""
    # A job that a shell started in the background ignores Ctrl-C, and must go on doing so.
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, _leave)
    obeys = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if obeys:
        signal.signal(signal.SIGTERM, _leave)
    from gibbs_dp.cli import main as program

    def ready() -> None:
        if listens:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _send_again_what_is_ignored()
        if obeys:
            signal.signal(signal.SIGTERM, _terminate)

    status = program.main(ready=ready)
    for number, ours in ((signal.SIGINT, listens), (signal.SIGTERM, obeys)):
        if ours:  # all is said and saved
            signal.signal(number, signal.SIG_DFL)
    gc.freeze()  # Python would look through all of JAX's objects for cycles: half a second
    return TERMINATED if _was_terminated and status == INTERRUPTED else status


def _leave(number: int, _: FrameType | None) -> None:
    word, status = ("interrupted", INTERRUPTED)
    if number == signal.SIGTERM:
        word, status = ("terminated", TERMINATED)
    try:
        os.write(2, f"gibbs-dp: {word}: nothing was saved.\n".encode())
    finally:
        os._exit(status)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does; what follows is not disturbed by a second SIGTERM."""
    global _was_terminated
    _was_terminated = True
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(number, frame)


def _send_again_what_is_ignored() -> None:
    """Send Ctrl-C again where its exception was raised in a callback that ignores all of them.

    JAX runs one whenever garbage is collected. While an audit runs, it notes Ctrl-C itself.
    """
    import sys
    import threading

    told = sys.unraisablehook

    def send() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def hook(ignored: Any) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            told(ignored)
        elif signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            again = threading.Timer(AGAIN, send)
            again.daemon = True
            again.start()

    sys.unraisablehook = hook
