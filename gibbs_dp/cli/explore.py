"""``gibbs-dp explore``: saved reports as one page on which a person moves gamma."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gibbs_dp._options import Option
from gibbs_dp.cli import output
from gibbs_dp.cli.options import DEBUG, QUIET
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import missing_file, parse, split_words

SUMMARY = "Saved audits as one page for a browser: gamma moves, limits are met, reports compared."

OPTIONS = (
    Option("out", "str", "the page, one file (.html)", "explore.html", metavar="FILE"),
    Option("title", "str", "its heading"),
    QUIET,
    DEBUG,
)
GROUPS = {"output": OPTIONS}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    paths, rest = split_words(arguments, OPTIONS)
    usage = "gibbs-dp explore FILE [FILE ...] [--out FILE] [options]"
    parsed = parse("explore", SUMMARY, rest, GROUPS, usage=usage)
    if not paths:
        raise UsageError("explore: no report is named; give audit.nc of an audit's --out.")
    names = _names(paths)
    output.prepare_file(parsed.out, "--out")

    from gibbs_dp.auditing.compare import compare
    from gibbs_dp.auditing.report import load_report

    reports = {name: load_report(path) for name, path in names.items()}
    result = compare(reports) if len(reports) > 1 else reports[next(iter(names))]
    result._explorer(parsed.title, (), names).save(parsed.out)
    output.tell_saved([Path(parsed.out)], is_json=False, quiet=parsed.quiet)


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Name every file: by its stem, or by its path where several have that."""
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(missing_file("explore", path))
    stems = [Path(path).stem for path in paths]
    named = {p if stems.count(s) > 1 else s: p for s, p in zip(stems, paths, strict=True)}
    if len(named) < len(paths):
        raise UsageError("explore: a report is named twice; name each once.")
    return named
