"""Room in XLA's CPU thread pool for several programs at once.

With jaxlib 0.10 and 0.11.0 a LAPACK call on a large batch holds a thread of XLA's pool while it
waits for the others. With as many such calls at once as the pool has threads, all of them wait
forever. The library's own calls are small enough never to wait (``linalg.py`` beside this file);
those in a user's loss or prior are not. The pool has one thread a core unless ``PJRT_NPROC`` says
otherwise when JAX's CPU backend starts, so it is set here, before that, to more threads than
programs run at once. A program that makes several large calls at once by itself can still take
them all.
"""

from __future__ import annotations

import os
import sys

THREADS_PER_CORE = 2


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def widen_pool() -> int:
    """Ask for more pool threads than programs will ever run at once; return how many there are."""
    given = os.environ.get("PJRT_NPROC") or os.environ.get("NPROC") or ""
    if given.isdigit() and int(given) > 0:
        return int(given)
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and getattr(bridge, "_backends", True):
        return num_cores()  # JAX has started (or does not tell): too late
    os.environ["PJRT_NPROC"] = str(THREADS_PER_CORE * num_cores())
    return THREADS_PER_CORE * num_cores()


POOL_SIZE = widen_pool()
