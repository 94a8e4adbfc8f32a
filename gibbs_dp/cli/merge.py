"""``gibbs-dp merge``: the report of a sweep that several processes sampled."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gibbs_dp.cli.audit import GROUPS as AUDIT
from gibbs_dp.cli.audit import conduct, show_and_save
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import CHECK_OUTPUT, PROBLEM
from gibbs_dp.cli.own import WITH, files_of, load_own
from gibbs_dp.cli.pages import HTML, prepare_page
from gibbs_dp.cli.parser import parse, split_name
from gibbs_dp.cli.place import recalled
from gibbs_dp.cli.sampler import SAMPLERS, sampler_options
from gibbs_dp.cli.session import start_session

SUMMARY = "Report on a store if all its blocks are there; otherwise say which are missing."
GROUPS = {"options": (PROBLEM, WITH, *CHECK_OUTPUT, HTML)}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    path, rest = split_name(arguments, GROUPS["options"])
    usage = "gibbs-dp merge DIR [options]"
    here = parse("merge", SUMMARY, rest, GROUPS, usage=usage)
    if path is None:
        raise UsageError("merge: no store is named; give the folder of --store.")
    files = files_of(arguments)
    own = load_own(files)
    groups = own.groups(AUDIT, sampler_options(SAMPLERS | own.sampler_places))
    options = (option for options in groups.values() for option in options)
    name, asked, num_processes = recalled(path, options, own.all_problems, files)
    if name == PROBLEM.flag and here.problem != asked.get("problem"):
        # Reading a file must run nothing: the code to import is named by whoever runs this.
        raise UsageError(
            f"--problem: the store is of a problem of your own, {asked.get('problem')!r}; name it "
            "again, because its code is imported."
        )
    parsed = argparse.Namespace(
        **{**asked, **vars(here), "problem": asked.get("problem"), "own": own}
    )
    folder = start_session(parsed)
    prepare_page(parsed)

    from gibbs_dp.auditing import AuditIncomplete, Store

    store = Store(path, num_processes, process_id=None)
    try:
        problem, report = conduct(parsed, name, store, folder)
    except AuditIncomplete as incomplete:
        raise UsageError(str(incomplete)) from None
    show_and_save(report, parsed, folder, problem)
