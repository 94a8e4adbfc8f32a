"""``gibbs-dp predict``: what a released model says of the rows of another table."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

from gibbs_dp._options import Option, options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.options import DEBUG, JSON, QUIET, SPELLINGS
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import given, missing_file, parse, split_words
from gibbs_dp.io.files import shown

SUMMARY = (
    "What a released model predicts for the rows of another table, a CSV or Parquet file, whose "
    "columns are encoded as for the release. It costs nothing of a privacy budget."
)
USAGE = "gibbs-dp predict MODEL TABLE [options]"
SPELLING = options_of(  # but what means that a value is missing: there is no prediction then
    "gibbs_dp.privacy:ReleasedModel.predict",
    **{name: how for name, how in SPELLINGS.items() if name != "na_values"},
    date_format={"help": "how its dates are spelled, as DD/MM/YYYY", "metavar": "FORMAT"},
)
OUT = Option(
    "out", "str", "the predictions (.csv or .parquet; by default on stdout)", metavar="FILE"
)
GROUPS = {"how the table is written": SPELLING, "output": (OUT, JSON, QUIET, DEBUG)}
ENDINGS = (".csv", ".parquet")


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    words, rest = split_words(arguments, [o for options in GROUPS.values() for o in options])
    parsed = parse("predict", SUMMARY, rest, GROUPS, usage=USAGE)
    model_path, table_path = _files(words)
    target = None if parsed.out is None else Path(parsed.out)
    if target is not None:
        output.refuse_input(parsed.out, "--out", words)
    if target is not None and target.suffix.lower() not in ENDINGS:
        raise UsageError(f"--out: let the name of {parsed.out!r} end in .csv or .parquet.")
    if target is not None and target.is_dir():
        raise UsageError(f"--out: {parsed.out!r} is a folder; name a file in it.")

    from gibbs_dp.privacy import load_released_model

    model = load_released_model(model_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = model.predict(table_path, **given(parsed, SPELLING))
    output.warn((str(one.message) for one in caught), parsed.quiet)
    if model.classes is not None:
        one = shown(model.classes[1], 60)
        told = f"that {shown(str(model.schema.target), 60)} is {one!r}"
        kind = "probability:" if model.has_log_odds else "score from 0 to 1 (no probability):"
        output.log(f"{kind} {told}", parsed.quiet)
    found.index.name = "row"
    if target is not None:
        with output.writing(parsed.out, "--out") as temporary:
            if target.suffix.lower() == ".csv":
                found.to_csv(temporary)
            else:
                from gibbs_dp._extras import require

                require("pyarrow")
                found.reset_index().to_parquet(temporary, index=False)
        output.tell_saved([target], parsed.json, parsed.quiet)
    if parsed.json:
        for row in found.reset_index().to_dict("records"):
            output.emit(json.dumps(row))
    elif target is None:
        output.emit(found.to_csv().rstrip("\n"))


def _files(words: Sequence[str]) -> tuple[str, str]:
    """Return the model's file and the table's."""
    if len(words) != 2:
        got = "nothing" if not words else ", ".join(shown(repr(w), 60) for w in words)
        raise UsageError(
            f"predict: give release.json of 'gibbs-dp release --out', then a table, got {got}."
        )
    model, table = words
    if Path(model).is_dir():
        inner = Path(model) / "release.json"
        hint = f"did you mean {str(inner)!r}?" if inner.is_file() else "name release.json in it."
        raise UsageError(f"predict: {shown(model, 200)!r} is a folder; {hint}")
    for path in words:
        if not Path(path).exists():
            raise UsageError(missing_file("predict", path))
    if Path(table).suffix.lower() == ".json" != Path(model).suffix.lower():
        raise UsageError(f"predict: the model comes first: gibbs-dp predict {table} {model}.")
    return model, table
