"""Where the ``gibbs-dp`` program starts: outside the package, whose imports take seconds.

Until the command runs, Ctrl-C has nothing to save. It then ends the process on the spot, for a
``KeyboardInterrupt`` in the middle of an import ends in a traceback, or in whatever error the
package that is being imported makes of it.
"""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130


def main() -> int:
    """Import the command line and run it; return the exit status."""
    # A job that a shell started in the background ignores Ctrl-C, and shall go on doing so.
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, _leave)
    from gibbs_dp.cli import main as program

    def ready() -> None:
        if listens:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    status = program.main(ready=ready)
    if listens:  # all is said and saved: only the interpreter is left to be interrupted
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return status


def _leave(*_: object) -> None:
    try:
        os.write(2, b"gibbs-dp: interrupted: nothing was saved.\n")
    finally:
        os._exit(INTERRUPTED)
