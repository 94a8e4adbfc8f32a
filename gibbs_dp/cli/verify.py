"""``gibbs-dp verify``: a table of every implemented theorem, and whether it holds."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gibbs_dp.cli import output
from gibbs_dp.cli.parser import Parser
from gibbs_dp.cli.session import start_session

SUMMARY = "Every implemented theorem and identity: both sides, difference, holds or not."
FAILED = 1


def run(arguments: Sequence[str]) -> int:
    """Run the command.

    Returns
    -------
    int
        0 if everything holds, 1 if anything fails.

    Raises
    ------
    ValueError
        For bad input.
    """
    parser = Parser(prog="gibbs-dp verify", description=SUMMARY)
    parser.add_argument(
        "--exact-only", action="store_true", help="leave out the sampled checks (seconds)"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="one JSON object per check on stdout and nothing else there",
    )
    parser.add_argument("--out", metavar="DIR", help="folder for verify.csv (made if missing)")
    parser.add_argument("--quiet", action="store_true", help="no log on stderr")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parsed = parser.parse_args(list(arguments))
    folder = output.prepare_folder(parsed.out)
    start_session(float64=False)

    from gibbs_dp.experiments.verify import save_csv, verdict, verify
    from gibbs_dp.experiments.verify_check import json_row, table

    checks = verify(sampled=not parsed.exact_only, say=lambda text: output.log(text, parsed.quiet))
    if parsed.json:
        for check in checks:
            output.emit(json.dumps(json_row(check)))
        output.log(verdict(checks), parsed.quiet)
    else:
        output.emit(table(checks))
        output.emit(verdict(checks))
    if folder is not None:
        path = folder / "verify.csv"
        save_csv(checks, path)
        output.tell_saved([path], parsed.json, parsed.quiet)
    return 0 if all(check.holds for check in checks) else FAILED
