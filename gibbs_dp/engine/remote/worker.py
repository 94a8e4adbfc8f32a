"""What a worker does: one block of datasets, from bytes to arrays."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from typing import Any, Literal

import jax
import numpy as np

from gibbs_dp._jaxlib.devices import devices
from gibbs_dp._jaxlib.memory_maps import make_room
from gibbs_dp._jaxlib.precision import Mode
from gibbs_dp.engine.executor import in_room
from gibbs_dp.engine.remote.parcel import (
    applied,
    dumps,
    pack_error,
    unpack_job,
    unpack_settings,
    versions,
)
from gibbs_dp.engine.runner import Runner

Answer = Literal["done", "failed", "wanted", "unreadable", "versions"]

# Audits that a process keeps its programs and tables for.
MAX_RUNNERS = 4

_runners: OrderedDict[str, tuple[Runner, Mode]] = OrderedDict()
_lock = threading.Lock()
_turns = itertools.count()


def run_block(
    wanted_versions: dict[str, str], name: str, content: bytes | None, job: bytes
) -> tuple[Answer, Any]:
    """Run one job.

    Parameters
    ----------
    wanted_versions
        Of the process that asks.
    name, content
        Settings of the audit; without content they are those of an earlier task.
    job
        What to run with them.

    Returns
    -------
    tuple
        What happened, and what it is about: "done" with the pickled arrays; "failed" with the
        pickled exception of the user's code; "wanted" if this process lacks the settings;
        "unreadable" with the reason if they cannot be loaded here; "versions" with this process's
        if they differ.
    """
    own = versions()
    if own != wanted_versions:
        return "versions", own
    try:
        held = _runner(name, content)
    except Exception as error:  # unpickling runs anybody's code
        return "unreadable", f"{type(error).__name__}: {error}"
    if held is None:
        return "wanted", None
    runner, mode = held
    try:
        with applied(mode):
            found = in_room(lambda: _arrays(runner, unpack_job(job, mode)))
        return "done", dumps(found)
    except Exception as error:
        return "failed", pack_error(error)


def _arrays(runner: Runner, job: Any) -> Any:
    targets = devices()
    device = targets[next(_turns) % len(targets)]
    return jax.tree.map(np.asarray, runner.work(job, device))


def _runner(name: str, content: bytes | None) -> tuple[Runner, Mode] | None:
    with _lock:  # two threads that meet a new audit must share what they compile for it
        if name not in _runners:
            if content is None:
                return None
            make_room()
            settings, mode = unpack_settings(content)
            _runners[name] = Runner(settings), mode
        _runners.move_to_end(name)
        while len(_runners) > MAX_RUNNERS:
            _runners.popitem(last=False)
        return _runners[name]
