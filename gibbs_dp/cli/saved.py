"""Verbs on what was saved: ``show``, ``plot``, ``compare``, ``export`` and ``explore``.

``gibbs-dp FILE`` says which of them a file is for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gibbs_dp._options import Option
from gibbs_dp.cli import output
from gibbs_dp.cli.options import ALL, DEBUG, JSON, QUIET
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import missing_file, parse, split_words
from gibbs_dp.io.files import shown

if TYPE_CHECKING:
    from gibbs_dp.auditing.report import Report

FORMATS_OF = (".svg", ".png", ".pdf")
PANELS = ("privacy", "risk", "information", "generalization", "all")
TITLE = Option("title", "str", "its heading")
LOG = (QUIET, DEBUG)
SHOW = {"output": (ALL, JSON, *LOG)}
PLOT = {
    "picture": (
        Option("panels", "str", "what to draw", choices=PANELS, shown="privacy risk", is_list=True),
        Option("scale", "str", "of the numbers", choices=("linear", "log"), shown="by panel"),
        TITLE,
        Option(
            "format", "str", "of the picture", choices=("svg", "png", "pdf"), shown="svg and png"
        ),
        Option("out", "str", "its folder (made if missing), or file", ".", metavar="PATH"),
    ),
    "output": LOG,
}
COMPARE = {"output": (JSON, *LOG)}
EXPORT = {
    "format": (
        Option(
            "to", "str", "csv and json have every column", choices=("csv", "json", "latex", "xlsx")
        ),
        Option("out", "str", "the file; by default on stdout (of xlsx: FILE.xlsx)", metavar="FILE"),
    ),
    "output": LOG,
}
TO = {".csv": "csv", ".json": "json", ".jsonl": "json", ".tex": "latex", ".xlsx": "xlsx"}
EXPLORE = {
    "output": (
        Option("out", "str", "the page, one file (.html)", "explore.html", metavar="FILE"),
        TITLE,
        *LOG,
    )
}
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
# Verbs for a kind of file, and what is said of the kind.
VERBS = {
    "report": ("an audit", ("show", "plot", "explore", "export", "compare")),
    "report of one dataset": ("an audit of one posterior", ("show", "plot", "export")),
    "draws": ("draws of a posterior", ("show", "export")),
    "guarantee": ("a private release or its guarantee", ("show", "predict")),
}


def run_show(arguments: Sequence[str]) -> None:
    """Print what a saved file holds."""
    parsed, (path,) = _parse("show", SHOW, arguments, "What a saved result says.", most=1)
    kind = kind_of_file(path)
    found = _load(path, kind)
    if kind == "guarantee":
        if parsed.json:
            output.emit(json.dumps(found.to_dict()))
        else:
            _show_draws(path)
            output.show(found.summary())
    elif not parsed.json:
        is_report = kind == "report"
        output.show(output.report_in_words(found, parsed.all) if is_report else found.summary())
    else:
        for line in _json_lines(found, kind):
            output.emit(line)


def run_plot(arguments: Sequence[str]) -> None:
    """Draw a saved result."""
    parsed, (path,) = _parse("plot", PLOT, arguments, "A saved result as a picture.", most=1)
    kind = kind_of_file(path)
    if "plot" not in VERBS[kind][1]:
        raise UsageError(f"plot: {path!r} is {VERBS[kind][0]}, of which there is no picture.")
    if parsed.panels is not None and kind != "report":
        raise UsageError(f"--panels: {path!r} is {VERBS[kind][0]}, which has one picture.")
    out, formats = Path(parsed.out), None if parsed.format is None else (parsed.format,)
    stem = out / Path(path).stem
    if out.suffix.lower() in FORMATS_OF:  # one picture by its name
        stem, named = out.with_suffix(""), out.suffix.lower()[1:]
        if formats not in (None, (named,)):
            raise UsageError(f"--format: {parsed.out!r} is no name of {parsed.format}; leave one.")
        formats = (named,)
    output.prepare_folder(str(stem.parent))

    from gibbs_dp.results import plotting

    panels = {}
    if parsed.panels:
        panels["panels"] = "all" if "all" in parsed.panels else parsed.panels
    title = None if parsed.title is None else plotting.literal(parsed.title)
    figure = _load(path, kind).plot(title, **panels)
    if parsed.scale is not None:
        for axes in figure.axes:
            axes.set_yscale(parsed.scale)
    saved = plotting.save(figure, stem, formats or plotting.FORMATS)
    output.tell_saved(saved, is_json=False, quiet=parsed.quiet)


def run_compare(arguments: Sequence[str]) -> None:
    """Print differences between saved audits, each against the first."""
    summary = "Saved audits against the first: differences with standard errors."
    parsed, paths = _parse("compare", COMPARE, arguments, summary, least=2)

    from gibbs_dp import io
    from gibbs_dp.auditing.compare import compare

    found = compare(_reports("compare", paths))
    if parsed.json:
        for row in found.table.to_dict("records"):
            output.emit(json.dumps(io.json_row({str(k): v for k, v in row.items()})))
        return
    output.show(found.summary())


def run_export(arguments: Sequence[str]) -> None:
    """Write a saved result for another program."""
    summary = "A saved result for a paper, a spreadsheet or a program."
    parsed, (path,) = _parse("export", EXPORT, arguments, summary, most=1)
    kind = kind_of_file(path)
    named = None if parsed.out is None else TO.get(Path(parsed.out).suffix.lower())
    parsed.to = parsed.to or named
    if parsed.to is None:
        raise UsageError("--to: say for what: csv, json, latex or xlsx.")
    if "export" not in VERBS[kind][1] or (parsed.to in ("latex", "xlsx") and kind != "report"):
        raise UsageError(f"--to: {path!r} is {VERBS[kind][0]}, which there is no {parsed.to} of.")
    if parsed.out is not None:
        if Path(parsed.out).is_dir():
            raise UsageError(f"--out: {parsed.out!r} is a folder; name a file in it.")
        output.refuse_input(parsed.out, "--out", [path])
        if named not in (None, parsed.to) or Path(parsed.out).suffix.lower() == ".nc":
            raise UsageError(f"--out: {parsed.out!r} is no name of {parsed.to}; give another.")
    found = _load(path, kind)
    if parsed.to == "xlsx":
        target = Path(parsed.out or f"{Path(path).stem}.xlsx")
        target.parent.mkdir(parents=True, exist_ok=True)
        found.to_excel(target)
        output.tell_saved([target], is_json=False, quiet=parsed.quiet)
        return
    if parsed.to == "latex":
        text = found.to_latex()
    else:
        text = "\n".join((_csv if parsed.to == "csv" else _json_lines)(found, kind))
    if parsed.out is None:
        output.emit(text)
        return
    with output.writing(parsed.out, "--out") as temporary:
        temporary.write_text(text + "\n", "utf-8")
    output.tell_saved([Path(parsed.out)], is_json=False, quiet=parsed.quiet)


def run_explore(arguments: Sequence[str]) -> None:
    """Make a page of saved audits on which a person moves gamma."""
    summary = (
        "Saved audits as one page for a browser: gamma moves, limits are met, reports compared."
    )
    parsed, paths = _parse("explore", EXPLORE, arguments, summary)
    output.prepare_file(parsed.out, "--out")

    from gibbs_dp.auditing.compare import compare

    reports = _reports("explore", paths)
    result = compare(reports) if len(reports) > 1 else reports[next(iter(reports))]
    files = dict(zip(reports, paths, strict=True))
    result._explorer(parsed.title, (), files).save(parsed.out)
    output.tell_saved([Path(parsed.out)], is_json=False, quiet=parsed.quiet)


def next_steps(path: str) -> str:
    """Say what a file is, and which commands are for it."""
    suffix = Path(path).suffix.lower()
    if suffix in TABLES:
        return (
            f"{path} is a table:\n"
            f"  gibbs-dp audit {path} --target COLUMN  what a model of it gives away\n"
            "  gibbs-dp release --help  a private model of it, for others"
        )
    if suffix == ".py":
        return f"{path} is Python: gibbs-dp audit PROBLEM --with {path}"
    kind = kind_of_file(path)
    from gibbs_dp.cli import COMMANDS

    what, verbs = VERBS[kind]
    needs = {"compare": f"{path} OTHER", "export": f"{path} --to csv", "predict": f"{path} TABLE"}
    lines = [(f"gibbs-dp {verb} {needs.get(verb, path)}", COMMANDS[verb].summary) for verb in verbs]
    width = max(len(words) for words, _ in lines)
    return "\n".join([f"{path} is {what}:", *(f"  {w:<{width}}  {s}" for w, s in lines)])


# Files, which may come from anyone.


def kind_of_file(path: str) -> str:
    """Return what a file of this library holds, a key of :data:`VERBS`."""
    if Path(path).suffix.lower() == ".json":
        return "guarantee"

    from gibbs_dp.io.netcdf import read_hdf5

    kind = str(read_hdf5(path).attributes.get("gibbs_dp_kind"))
    if kind not in VERBS:
        raise UsageError(
            f"{shown(path, 200)!r} holds nothing that gibbs-dp saved; draws of PyMC and Stan are "
            f"audited by 'gibbs-dp audit --idata {path}'."
        )
    return kind


def _load(path: str, kind: str) -> Any:
    """Load a result of a kind; what is no such result is refused by its file's name."""
    if kind == "report":
        from gibbs_dp.auditing.load_report import load_report

        return load_report(path)
    if kind == "report of one dataset":
        from gibbs_dp.one_dataset.report import load_one_dataset_report

        return load_one_dataset_report(path)
    if kind == "draws":
        from gibbs_dp.sampling.draws import load_draws

        return load_draws(path)
    from gibbs_dp.privacy.guarantee import load_guarantee

    return load_guarantee(path)


def _show_draws(path: str) -> None:
    """Print the draws of a release, and how they predict."""
    from gibbs_dp import io

    text = Path(path).read_text("utf-8")
    held = io.parse_json(text, dict) if text.count("\n{") == 0 else {}
    for row in held.get("draws", []):
        output.emit("  ".join(f"{name} {float(value):.6g}" for name, value in row.items()))
    if "model" in held:
        output.emit(f"{held['model']}.")


def _csv(found: Any, kind: str) -> list[str]:
    return [found.to_dataframe().to_csv(index=kind == "report").rstrip("\n")]


def _json_lines(found: Any, kind: str) -> list[str]:
    if kind == "report":
        return list(found.to_json_rows())
    if kind == "report of one dataset":
        return [found.to_json()]
    from gibbs_dp import io

    rows = found.to_dataframe().reset_index().to_dict("records")
    return [json.dumps(io.json_row({str(k): v for k, v in row.items()})) for row in rows]


def _reports(command: str, paths: Sequence[str]) -> dict[str, Report]:
    """Load reports by name: a file's stem, or its path where several have that."""
    from gibbs_dp.auditing.load_report import load_report

    stems = [Path(path).stem for path in paths]
    named = {p if stems.count(s) > 1 else s: p for s, p in zip(stems, paths, strict=True)}
    if len(named) < len(paths):
        raise UsageError(f"{command}: a report is named twice; name each once.")
    return {name: load_report(path) for name, path in named.items()}


def _parse(
    command: str,
    groups: Mapping[str, Sequence[Option]],
    arguments: Sequence[str],
    summary: str,
    least: int = 1,
    most: int | None = None,
) -> tuple[argparse.Namespace, list[str]]:
    """Parse a command on files, so many of them."""
    paths, rest = split_words(arguments, [o for options in groups.values() for o in options])
    files = {1: "FILE"}.get(most or 0, " ".join(["FILE"] * least) + " [FILE ...]")
    parsed = parse(command, summary, rest, groups, usage=f"gibbs-dp {command} {files} [options]")
    if not paths:
        raise UsageError(f"{command}: no report is named; give audit.nc of an audit's --out.")
    if len(paths) < least:
        raise UsageError(f"{command}: one report is named; give at least {least}.")
    if most is not None and len(paths) > most:
        raise UsageError(f"{command}: give one file, not {len(paths)}.")
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(missing_file(command, path))
        if Path(path).suffix.lower() in TABLES:
            raise UsageError(
                f"{command}: {path!r} is a table, and no saved result; 'gibbs-dp audit {path} "
                "--target COLUMN --out results' makes one."
            )
    return parsed, paths
