"""Blocks of an audit, where they run and are stored: ``--dask``, ``--store``, SLURM's variables."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gibbs_dp._options import Option, options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.extensions import WITH
from gibbs_dp.cli.options import ALL, CHECK_OUTPUT
from gibbs_dp.cli.output import HTML, UsageError
from gibbs_dp.cli.parser import LIMIT, given
from gibbs_dp.problems.registry import Entry

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from gibbs_dp.engine.store import Store

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
    """Connect to the cluster that a command line names, or start one; None without ``--dask``."""
    address: str | None = getattr(parsed, "dask", None)
    if address is None:
        yield None
        return
    from gibbs_dp._extras import require

    distributed = require("distributed")
    for module in parsed.extensions.modules:  # workers do not have the files
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


# A command's store: its options, SLURM's variables, and what a sweep was asked for.


STORE = (
    Option("store", "str", "folder that keeps finished blocks; rerun to continue", metavar="DIR"),
    *options_of(
        "gibbs_dp:Store",
        num_processes="processes that share the store (default: SLURM's, or 1)",
        process_id="which of them this is, from 0 (default: SLURM's, or 0)",
        wait="seconds to wait for other processes' next block",
    ),
)
REQUEST = "request.json"
# Options about output and about who does the work are no part of what was asked for.
_NOT_ASKED = {"extensions", *(o.keyword for o in (*STORE, DASK, *CHECK_OUTPUT, ALL, HTML))}


def make_store(parsed: argparse.Namespace, environment: Mapping[str, str]) -> Store | None:
    """Build the store that a command line and SLURM's variables describe."""
    from gibbs_dp.engine.store import Store

    settings = given(parsed, STORE[1:])
    if parsed.store is None:
        if settings:
            raise UsageError("--store: processes share work through a folder; give --store DIR.")
        return None
    if (parsed.num_processes is None) != (parsed.process_id is None):
        one, lacking = ("num-processes", "process-id")[:: 1 if parsed.process_id is None else -1]
        raise UsageError(f"--{lacking}: --{one} is given without it; give both.")
    if parsed.num_processes is None and {"SLURM_NTASKS", "SLURM_PROCID"} <= environment.keys():
        count, number = int(environment["SLURM_NTASKS"]), int(environment["SLURM_PROCID"])
        settings |= {"num_processes": count, "process_id": number}
        if count > 1:
            output.log(f"process {number} of {count}, by SLURM's variables", parsed.quiet)
    return Store(parsed.store, **settings)


def remember(
    parsed: argparse.Namespace, name: str, store: Store, *, is_first: bool = False
) -> None:
    """Write into the store what was asked for, so that ``merge`` can ask for it again."""
    from gibbs_dp import io

    options = {k: v for k, v in vars(parsed).items() if k not in _NOT_ASKED}
    if options.get("data") is not None:
        options["data"] = str(Path(options["data"]).resolve())
    if options.get(WITH.keyword) is not None:
        options[WITH.keyword] = [str(Path(file).resolve()) for file in options[WITH.keyword]]
    asked = {"problem": name, "options": options, "num_processes": store.num_processes}
    path, text = Path(store.path) / REQUEST, json.dumps(asked, indent=1) + "\n"
    try:
        # A finished store is read where nothing may be written.
        if path.exists() and (is_first or path.read_bytes() == text.encode()):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with io.atomic_write(path, is_first_kept=is_first) as temporary:
            temporary.write_text(text)
    except OSError as error:
        raise UsageError(
            f"--store: cannot write to {os.fspath(store.path)!r} ({error.strerror}); give a "
            "folder that you may write to."
        ) from error


def recalled(
    path: str, own: Iterable[Option], problems: Mapping[str, Entry], files: Sequence[str] = ()
) -> tuple[str, dict[str, Any], int]:
    """Read the problem, options and number of processes of a store's last request.

    The file may say no more than the options ``own`` do: nothing of where the work is done or
    where results go. Reading it runs nothing: whoever merges names the audit's own files again.
    """
    from gibbs_dp.io import parse_json, reason
    from gibbs_dp.io.files import shown

    try:
        asked = parse_json((Path(path) / REQUEST).read_text(), dict)
        name, options, count = asked["problem"], asked["options"], asked["num_processes"]
        if not isinstance(options, dict) or type(count) is not int:
            raise TypeError("it is no request")
        if (options.get(WITH.keyword) or []) != [str(Path(file).resolve()) for file in files]:
            raise UsageError(
                f"{WITH.flag}: the store is of an audit with {shown(str(options[WITH.keyword]))}; "
                "name the same files here, as they are run."
                if options.get(WITH.keyword)
                else f"{WITH.flag}: the store is of an audit without files of one's own; leave it "
                "out."
            )
        if name not in problems:
            raise ValueError("it names no problem")
        asking = (*own, WITH, *problems[name].options)
        known = {o.keyword: o for o in asking if o.keyword not in _NOT_ASKED}
        for key, value in options.items():
            if key not in known or not (value is None or _fits(value, known[key])):
                raise ValueError(f"{key!r} is no option that was asked for")
        defaults = {k: o.is_off if o.kind == "flag" else o.default for k, o in known.items()}
        return name, defaults | options, count
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"merge: {path!r} is no store of 'gibbs-dp audit --store'; to merge a store made in "
            "Python, call gibbs_dp.audit again as before."
        ) from None
    except UsageError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"merge: {path!r} has a damaged {REQUEST} ({reason(error)}); run the audit command "
            "again."
        ) from error


def _fits(value: Any, option: Option) -> bool:
    """Return whether a command line would give a value of JSON."""
    if option.is_repeatable:
        one = replace(option, is_repeatable=False)
        return isinstance(value, list) and all(_fits(item, one) for item in value)
    if option.is_list or isinstance(option.metavar, tuple):
        one = replace(option, is_list=False, metavar=None)
        return isinstance(value, list) and all(_fits(item, one) for item in value)
    if option.kind == "flag":
        return isinstance(value, bool)
    if isinstance(value, str):
        return value in option.choices if option.choices else option.kind == "str"
    kinds = {"int": (int,), "float": (int, float), "str": ()}[option.kind]
    return isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < LIMIT


@contextmanager
def log_damage(quiet: bool) -> Iterator[None]:
    """Show warnings of damaged files, and of memory that ran out, as lines of the log."""
    import warnings

    from gibbs_dp.engine.runner import SmallerBlocksWarning
    from gibbs_dp.engine.store.archive import DamagedStoreWarning

    told = (DamagedStoreWarning, SmallerBlocksWarning)
    with warnings.catch_warnings():
        for kind in told:
            warnings.simplefilter("always", kind)
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, told):
                output.log(f"gibbs-dp: warning: {message}", quiet)
            else:
                plain(message, category, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        yield
