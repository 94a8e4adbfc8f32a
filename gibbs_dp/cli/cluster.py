"""``--dask``: where the blocks of an audit run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gibbs_dp._options import Option
from gibbs_dp.cli import output
from gibbs_dp.cli.errors import UsageError

if TYPE_CHECKING:
    from concurrent.futures import Executor

DASK = Option(
    "dask",
    "str",
    "run on Dask's workers: a scheduler's tcp://HOST:PORT, its file ending in .json, or 'local'"
    " or 'local:P' for P processes here",
    metavar="ADDRESS",
)
LOCAL = "local"
CONNECT_SECONDS = 10
# JAX's settings of the cache of compiled programs, which processes on this machine share.
CACHE = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@contextmanager
def executor_of(parsed: argparse.Namespace) -> Iterator[Executor | None]:
    """Connect to the cluster that a command line names, or start one; None without ``--dask``.

    Raises
    ------
    UsageError
        If the address makes no sense, or nothing answers there.
    ValueError
        If Dask is not installed.
    """
    address: str | None = getattr(parsed, "dask", None)
    if address is None:
        yield None
        return
    from gibbs_dp._extras import require

    distributed = require("distributed")
    for module in parsed.own.modules:  # workers do not have the files
        require("cloudpickle").register_pickle_by_value(module)
    with ExitStack() as stack:
        if address.partition(":")[0] == LOCAL:
            client = stack.enter_context(_started(distributed, address))
        else:
            client = stack.enter_context(_connected(distributed, address))
        link = f"; dashboard: {client.dashboard_link}" if client.dashboard_link else ""
        where = f"Dask at {client.scheduler.address}: workers now: {len(client.nthreads())}"
        output.log(f"{where}{link}", parsed.quiet)
        yield client.get_executor()


@contextmanager
def _started(distributed: Any, address: str) -> Iterator[Any]:
    """Start processes on this machine, one a core unless told otherwise."""
    import jax

    from gibbs_dp._jaxlib.threads import num_cores

    count = address.removeprefix(LOCAL).removeprefix(":")
    if not (address == LOCAL or (count.isdigit() and int(count) > 0)):
        raise UsageError(
            f"--dask: {address!r} names no number of processes; give local or local:4."
        )
    shared: Any = {name: getattr(jax.config, name) for name in CACHE}
    cluster = distributed.LocalCluster(
        n_workers=int(count or num_cores()),
        threads_per_worker=1,
        dashboard_address=":0",
        env={name.upper(): str(value) for name, value in shared.items() if value is not None},
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@contextmanager
def _connected(distributed: Any, address: str) -> Iterator[Any]:
    if address.endswith(".json"):
        if not Path(address).is_file():
            raise UsageError(
                f"--dask: there is no file {address!r}; start 'dask scheduler --scheduler-file "
                f"{address}' first."
            )
        given = {"scheduler_file": address}
    elif "://" in address:
        given = {"address": address}
    else:
        raise UsageError(
            f"--dask: {address!r} is no address; give tcp://HOST:PORT, a scheduler file ending in "
            ".json, or local."
        )
    try:
        client = distributed.Client(**given, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:  # a time-out is an OSError
        raise UsageError(
            f"--dask: no scheduler answers at {address!r} within {CONNECT_SECONDS} s; see that "
            "'dask scheduler' runs there, and that this machine reaches it."
        ) from error
    with client:
        yield client
