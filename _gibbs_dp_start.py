"""Where the ``gibbs-dp`` program starts: outside the package, whose imports take seconds.

Before the command runs, Ctrl-C has nothing to save and ends the process on the spot: raised in the
middle of an import, ``KeyboardInterrupt`` would end in a traceback or in another error.
"""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130


def main() -> int:
    """Import the command line and run it; return the exit status."""
    # A job that a shell started in the background ignores Ctrl-C, and must go on doing so.
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, _leave)
    from gibbs_dp.cli import main as program

    def ready() -> None:
        if listens:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    status = program.main(ready=ready)
    if listens:  # all is said and saved
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return status


def _leave(*_: object) -> None:
    try:
        os.write(2, b"gibbs-dp: interrupted: nothing was saved.\n")
    finally:
        os._exit(INTERRUPTED)
