"""From a command line to a problem: a name, built in or of a file of one's own, or a table."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gibbs_dp._options import Option
from gibbs_dp.cli.extensions import LOSS, WITH, ExtensionProblem, files_of, load_extensions
from gibbs_dp.cli.options import FLOAT64
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import (
    given,
    is_meant_as_number,
    looks_like_a_path,
    missing_file,
    nearest,
    parse,
    split_name,
)
from gibbs_dp.cli.samplers import SAMPLERS, sampler_options
from gibbs_dp.cli.store import REQUEST
from gibbs_dp.io.files import shown
from gibbs_dp.problems.registry import PROBLEMS, Entry

if TYPE_CHECKING:
    from gibbs_dp.problems.base import Problem


YOUR_OWN = "your own problem and extensions"
A_TABLE = "your own table ('--data FILE --help' shows its other options)"
# Endings of files of draws and of results.
RESULTS = (".nc", ".nc4", ".netcdf", ".h5", ".hdf5", ".zarr")
EXAMPLE = """example:
  # your own table, its column ill predicted from all others
  gibbs-dp {command} --data patients.csv --target ill

"""


def problem_options(problems: Mapping[str, Entry] = PROBLEMS) -> tuple[Option, ...]:
    """Return every option that some problem has, and ``--with``."""
    found = {o.keyword: o for entry in problems.values() for o in entry.options}
    return (WITH, *found.values())


def parse_with_problem(
    command: str, summary: str, arguments: Sequence[str], groups: Mapping[str, Sequence[Option]]
) -> tuple[argparse.Namespace, str]:
    """Parse a command that takes a problem: options, and the problem's name ("table" of a file)."""
    joined = load_extensions(files_of(arguments), is_double=FLOAT64.flag in arguments)
    joined.check_use(command, groups)
    problems = joined.all_problems
    groups = joined.groups(groups, sampler_options(SAMPLERS | joined.sampler_paths))
    own = [option for options in groups.values() for option in options]
    name, rest = split_name(arguments, [*own, *problem_options(problems)])
    flags = {word.partition("=")[0] for word in rest}
    if name is None and "--data" in flags:
        name = "table"
    elif name is not None and name not in problems and looks_like_a_path(name):
        _refuse_file(name, flags)
        name, rest = "table", [*rest, "--data", name]
        flags.add("--data")
    if name is not None and name not in problems:
        raise UsageError(
            f"there is no problem {shown(name, 60)!r}; {_meant(name, command, problems)}"
        )
    has: tuple[Option, ...] = () if name is None else problems[name].options
    if name is not None:
        _refuse_foreign(flags, name, has, {option.flag for option in own}, problems)
    of_problem: dict[str, Sequence[Option]] = {f"options of {name}": has} if has else {}
    if name is None:
        of_problem = {A_TABLE: problems["table"].options[:2]}
    of_problem[YOUR_OWN] = [WITH]
    listing = "\n".join(f"  {key:<22}{entry.summary}" for key, entry in problems.items())
    parsed = parse(
        command,
        summary,
        rest,
        {**of_problem, **groups},
        usage=f"gibbs-dp {command} {name or 'PROBLEM'} [options]",
        epilog=joined.listing()
        + EXAMPLE.format(command=command)
        + f"problems ('gibbs-dp {command} PROBLEM --help' shows their options):\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if name is None:
        raise UsageError(
            f"no problem is named; choose one of {', '.join(problems)}, or give --data FILE or "
            f"{WITH.flag} FILE and a name in it."
        )
    parsed.extensions = joined
    return parsed, name


def _refuse_file(name: str, flags: set[str]) -> None:
    """Raise for a file that holds no table, by its name, with the door that it is for."""
    path = Path(name)
    if path.suffix == ".py":
        raise UsageError(
            f"{name!r} is a file of Python; give {WITH.flag} {name}, and the name of a problem."
        )
    if path.suffix.lower() in RESULTS:
        raise UsageError(
            f"{name!r} is a file of draws or results and no problem: draws with their "
            f"log-likelihoods are audited by 'gibbs-dp audit --idata {name}', and 'gibbs-dp "
            f"{name}' says what may be done with what gibbs-dp saved."
        )
    if (path / REQUEST).is_file():
        raise UsageError(
            f"{name!r} is a folder of --store; 'gibbs-dp merge {name}' makes its report."
        )
    if "--data" in flags:
        raise UsageError(f"--data: it is given twice, as {name!r} too; give one file.")


def _meant(name: str, command: str, problems: Mapping[str, Entry]) -> str:
    if name.lower() == "help":
        return f"'gibbs-dp {command} --help' says what there is."
    if is_meant_as_number(name):
        return "give a number after its option, as --n 100."
    near = nearest(name, problems)
    first = "" if near is None else f"did you mean {near}? There are "
    first = first or "choose one of "
    return f"{first}{', '.join(problems)}; one of your own needs {WITH.flag} FILE."


def make_problem(parsed: argparse.Namespace, name: str) -> Problem:
    """Build the problem that a parsed command line names."""
    from gibbs_dp.problems.base import build_entry

    entry = parsed.extensions.all_problems[name]
    if isinstance(entry, ExtensionProblem) and entry.made is not None:
        return entry.made
    data = getattr(parsed, "data", None)
    if data is not None and not Path(data).exists():
        raise UsageError(missing_file("--data", data))
    options = given(parsed, entry.options)
    if name == "table" and options.get(LOSS) in parsed.extensions.losses:
        options[LOSS] = parsed.extensions.losses[options[LOSS]]
    if name == "table" and data is not None and not options.get("date"):
        from gibbs_dp.problems.table import days_of  # slow to import

        options["date"] = days_of(data, options)
    try:
        return build_entry(entry, name, options)
    except ValueError:
        raise
    except Exception as error:
        if not isinstance(entry, ExtensionProblem):
            raise
        raise UsageError(
            f"{WITH.flag}: the problem {name} failed ({type(error).__name__}: {error}); mend its "
            "function, or give it other options."
        ) from error


def _refuse_foreign(
    flags: set[str],
    name: str,
    has: tuple[Option, ...],
    own_flags: set[str],
    problems: Mapping[str, Entry],
) -> None:
    allowed = {option.flag for option in has} | own_flags | {WITH.flag}
    for option in problem_options(problems):
        if option.flag in flags and option.flag not in allowed:
            listed = ", ".join(o.flag for o in has) or "none of its own"
            raise UsageError(f"{option.flag}: {name} has no such option (it has {listed}).")
