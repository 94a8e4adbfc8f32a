"""``gibbs-dp verify``: a table of every implemented theorem, and whether it holds."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gibbs_dp._options import Option
from gibbs_dp.cli import output
from gibbs_dp.cli.options import CHECK_OUTPUT
from gibbs_dp.cli.parser import parse
from gibbs_dp.cli.session import start_session

SUMMARY = "Every implemented theorem and identity: both sides, difference, holds or not."
FAILED = 1

CHECKS = (Option("exact_only", "flag", "leave out the sampled checks (seconds)"),)
GROUPS = {"what to check": CHECKS, "output": CHECK_OUTPUT}


def run(arguments: Sequence[str]) -> int:
    """Run the command; return 0 if everything holds, 1 if anything fails."""
    parsed = parse("verify", SUMMARY, arguments, GROUPS)
    folder = start_session(parsed)

    from gibbs_dp import io
    from gibbs_dp.papers.tables import save_tables
    from gibbs_dp.papers.verify.check import table
    from gibbs_dp.papers.verify.verify import verdict, verify

    checks = verify(sampled=not parsed.exact_only, say=output.logger(parsed.quiet))
    rows = [check._asdict() for check in checks]
    if parsed.json:
        for row in rows:
            output.emit(json.dumps(io.json_row(row)))
        output.log(verdict(checks), parsed.quiet)
    else:
        output.emit(table(checks))
        output.show(verdict(checks))
    if folder is not None:
        output.tell_saved(save_tables({"verify": rows}, folder), parsed.json, parsed.quiet)
    return 0 if all(check.holds for check in checks) else FAILED
