"""A command's store: its options, SLURM's variables, and what a sweep was asked for."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gibbs_dp.cli import output
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import CHECK_OUTPUT
from gibbs_dp.io import parse_json
from gibbs_dp.problems.registry import Option

if TYPE_CHECKING:
    from gibbs_dp.auditing import Store

STORE = (
    Option("store", "str", "folder that keeps finished blocks: rerun to continue", metavar="DIR"),
    Option("num_processes", "int", "processes that share the store (default: SLURM's, or 1)"),
    Option("process_id", "int", "which of them this is, from 0 (default: SLURM's, or 0)"),
    Option("wait", "float", "seconds to wait for other processes' next block (default 0)", 0.0),
)
REQUEST = "request.json"
# Options that say how a command talks, and who works: no part of what was asked for.
_NOT_ASKED = {o.keyword for o in (*STORE, *CHECK_OUTPUT)}


def make_store(parsed: argparse.Namespace, environment: Mapping[str, str]) -> Store | None:
    """Build the store that a command line and SLURM's variables describe; None without one.

    Raises
    ------
    ValueError
        If process numbers make no sense, or there is no store to share.
    """
    from gibbs_dp.auditing import Store

    count, number = parsed.num_processes, parsed.process_id
    if parsed.store is None:
        if count is not None or number is not None or parsed.wait:
            raise UsageError("--store: processes share work through a folder; give --store DIR.")
        return None
    if (count is None) != (number is None):
        given, lacking = ("num-processes", "process-id")[:: 1 if number is None else -1]
        raise UsageError(f"--{lacking}: --{given} is given without it; give both.")
    if count is None and {"SLURM_NTASKS", "SLURM_PROCID"} <= environment.keys():
        count, number = int(environment["SLURM_NTASKS"]), int(environment["SLURM_PROCID"])
        if count > 1:
            output.log(f"process {number} of {count}, by SLURM's variables", parsed.quiet)
    if count is None:
        return Store(parsed.store, wait=parsed.wait)
    return Store(parsed.store, count, number, parsed.wait)


def remember(
    parsed: argparse.Namespace, name: str, store: Store, *, is_first: bool = False
) -> None:
    """Write into the store what was asked for, so that ``merge`` can ask for it again.

    With ``is_first`` an earlier request stays: the store may yet refuse this one.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    from gibbs_dp import io

    options = {k: v for k, v in vars(parsed).items() if k not in _NOT_ASKED}
    if options.get("data") is not None:
        options["data"] = str(Path(options["data"]).resolve())
    asked = {"problem": name, "options": options, "num_processes": store.num_processes}
    path = Path(store.path) / REQUEST
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with io.atomic_write(path, is_first_kept=is_first) as temporary:
            temporary.write_text(json.dumps(asked, indent=1) + "\n")
    except OSError as error:
        raise UsageError(
            f"--store: cannot write to {os.fspath(store.path)!r} ({error.strerror}); give a "
            "folder that you may write to."
        ) from error


def recalled(path: str) -> tuple[str, dict[str, Any], int]:
    """Return the problem, the options and the number of processes of a store's last request.

    Raises
    ------
    UsageError
        If there is none that can be read.
    """
    try:
        asked = parse_json((Path(path) / REQUEST).read_text(), dict)
        return str(asked["problem"]), dict(asked["options"]), int(asked["num_processes"])
    except FileNotFoundError:
        raise UsageError(
            f"merge: {path!r} is no store of 'gibbs-dp audit --store'; a store made in Python is "
            "put together by the same gibbs_dp.audit call."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"merge: {path!r} has a damaged {REQUEST} ({error}); run the audit command again."
        ) from error


@contextmanager
def damage_told(quiet: bool) -> Iterator[None]:
    """Show warnings of damaged files as lines of the log."""
    import warnings

    from gibbs_dp.engine.store.archive import DamagedStoreWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", DamagedStoreWarning)
        plain = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, DamagedStoreWarning):
                output.log(f"gibbs-dp: warning: {message}", quiet)
            else:
                plain(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
