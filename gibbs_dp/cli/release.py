"""``gibbs-dp release``: private draws from the posterior of a table, charged to a ledger."""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gibbs_dp._extras import require
from gibbs_dp._options import Option, options_of
from gibbs_dp._source import losses_of
from gibbs_dp.cli import output
from gibbs_dp.cli.extensions import LOSS, WITH, Extensions, check_flags, files_of, load_extensions
from gibbs_dp.cli.options import (
    ADJACENCY,
    CHECK_OUTPUT,
    FLOAT64,
    SPELLINGS,
    TARGETS,
    require_adjacency,
)
from gibbs_dp.cli.options import RELEASE as OF_LEDGER
from gibbs_dp.cli.output import HTML, Stopped, UsageError, prepare_page, write_page
from gibbs_dp.cli.parser import given, is_number, number_remedy, parse
from gibbs_dp.cli.samplers import make_method, method_options, release_methods
from gibbs_dp.cli.session import start_session
from gibbs_dp.io.text_tables import ISO
from gibbs_dp.privacy.columns import Column, Date, Levels, Number, Positive, Range
from gibbs_dp.privacy.schema import Schema

# Options that declare the columns of a private table, and the schema that they make.

FEATURES = (
    Option(
        "range",
        "str",
        "feature whose numbers from LOW to HIGH are mapped to 0 to 1; may be repeated",
        is_repeatable=True,
        metavar=("COLUMN", "LOW", "HIGH"),
    ),
    Option(
        "levels",
        "str",
        "text feature: an indicator (0 or 1) of each level but the first; may be repeated",
        is_list=True,
        is_repeatable=True,
        metavar=("COLUMN", "LEVEL"),
    ),
    Option(
        "date",
        "str",
        "feature whose days from FIRST to LAST are mapped to 0 to 1; may be repeated",
        is_repeatable=True,
        metavar=("COLUMN", "FIRST", "LAST"),
    ),
    Option(
        "date_format",
        "str",
        "how the table spells dates, as DD/MM/YYYY",
        shown=ISO,
        metavar="FORMAT",
    ),
    Option(
        "numbers",
        "str",
        "features whose numbers are used as they are, with --x-bound",
        is_list=True,
        metavar="COLUMN",
    ),
    Option(
        "x_bound",
        "float",
        "largest norm of a feature vector, the intercept's 1 included: longer ones are shortened",
        shown="what --range, --levels and --date allow, the root of 1 + their number",
    ),
)
LABELS = (
    Option(
        "label",
        "str",
        "logistic loss: the label that is 0 and the one that is 1",
        metavar=("ZERO", "ONE"),
    ),
    Option("positive", "str", "instead: the label that is 1; any other is 0", metavar="ONE"),
    Option("y_range", "float", "other losses: smallest and largest label", metavar=("LOW", "HIGH")),
)


def schema_of(parsed: argparse.Namespace) -> Schema:
    """Build the schema of a command line, which declares every column by name."""
    columns = _feature_columns(parsed)
    names = list(dict.fromkeys(columns if parsed.features is None else parsed.features))
    undeclared = [name for name in names if name not in columns]
    if undeclared or not names:
        first = undeclared[0] if undeclared else "COLUMN"
        what = f"not declared: {', '.join(map(repr, undeclared))}" if names else "there are none"
        raise UsageError(
            f"--features: {what}; nothing about a column is learnt from the table, so give --range "
            f"{first} LOW HIGH, or --levels {first} FIRST SECOND, or --date {first} FIRST LAST, or "
            f"--numbers {first} with --x-bound."
        )
    for name in columns:
        if name == parsed.target:
            raise UsageError(
                f"--target: {name!r} is declared as a feature; declare it with --label, "
                "--positive or --y-range."
            )
        if name not in names:
            raise UsageError(f"--features: {name!r} is declared and not in the list; add it.")
    if parsed.numbers and parsed.x_bound is None:
        raise UsageError(
            f"--x-bound: {parsed.numbers[0]!r} is used as it is, so declare the largest norm of a "
            "feature vector, or give --range instead of --numbers."
        )
    features = {name: columns[name] for name in names}
    return Schema(features, parsed.target, _label(parsed), parsed.x_bound)


def _feature_columns(parsed: argparse.Namespace) -> dict[str, Column]:
    """Collect the declared features: ranges, levels, dates, numbers, each in the order given."""
    found: dict[str, Column] = {}

    def add(flag: str, name: str, column: Column) -> None:
        if name in found:
            raise UsageError(f"{flag}: {name!r} is declared twice; once is enough.")
        found[name] = column

    for name, low, high in parsed.range or ():
        try:
            ends = float(low), float(high)
        except ValueError:
            wrong = low if not is_number(low) else high
            raise UsageError(
                f"--range: {name!r} needs two numbers, got {low} {high}"
                f"{number_remedy(wrong, 'float')}."
            ) from None
        add("--range", name, _declared(f"--range {name}", Range, *ends))
    for name, *levels in parsed.levels or ():
        add("--levels", name, _declared(f"--levels {name}", Levels, levels))
    if parsed.date_format is not None and not parsed.date:
        raise UsageError("--date-format: it is of the columns that --date declares; leave it out.")
    for name, *days in parsed.date or ():
        spelled = [] if parsed.date_format is None else [parsed.date_format]
        add("--date", name, _declared(f"--date {name}", Date, *days, *spelled))
    for name in parsed.numbers or ():
        add("--numbers", name, Number())
    return found


def _label(parsed: argparse.Namespace) -> Column:
    flags = ("--label", "--positive", "--y-range")
    values = (parsed.label, parsed.positive, parsed.y_range)
    given = [flag for flag, value in zip(flags, values, strict=True) if value is not None]
    if parsed.loss == "logistic":
        if given == ["--label"]:
            return _declared("--label", Levels, parsed.label)
        if given == ["--positive"]:
            return _declared("--positive", Positive, parsed.positive)
        raise UsageError(
            "--label: the logistic loss needs its two labels declared; give --label ZERO ONE "
            "(--label no yes, --label 0 1), or --positive ONE, one of them and no --y-range."
        )
    if given != ["--y-range"]:
        raise UsageError(
            f"--y-range: the {parsed.loss} loss needs the smallest and the largest label declared, "
            "and neither --label nor --positive."
        )
    return _declared("--y-range", Number, *parsed.y_range)


def _declared(where: str, kind: Callable[..., Column], *values: Any) -> Column:
    """Make a column; an error names the option."""
    try:
        return kind(*values)
    except ValueError as error:
        raise UsageError(f"{where}: {str(error).partition(': ')[2]}") from None


SUMMARY = (
    "Private draws from the Gibbs posterior of a CSV table: each line is read by itself, as you "
    "declare the columns, the ledger is charged, then the draws are made with a secret key. "
    "Nothing is learnt from the table beforehand. A record that cannot be read as declared "
    "becomes zeros."
)

SPELLING = options_of("gibbs_dp.privacy:read_table", **SPELLINGS)
TABLE = (
    Option(
        "data",
        "str",
        "CSV file (private except for its header and number of lines)",
        metavar="FILE",
    ),
    *SPELLING,
    Option("target", "str", "column to predict", metavar="COLUMN"),
    Option(
        "features",
        "str",
        "columns to predict from, in this order (default: all that are declared)",
        is_list=True,
        metavar="COLUMN",
    ),
    Option(
        "loss",
        "str",
        "what to minimize (logistic, where the rule picks the prior: what suits two classes)",
        "logistic",
        ("logistic", *losses_of("numbers")),
    ),
)
OF_RELEASE = N, NUM_DRAWS, ACCEPT = options_of(
    "gibbs_dp:release",
    n="public upper bound on the number of rows (add-remove only)",
    num_draws="draws to release",
    accept={"help": "idealizations accepted, by name", "metavar": "NAME"},
)


PURPOSE = Option("purpose", "str", "for the ledger's record", "gibbs-dp release")
PUBLIC = (
    ADJACENCY,
    N,
    Option(
        "theta_ball",
        "float",
        "flat prior on a ball of this radius",
        shown="mechanism and prior by a rule, from rows, columns, bounds and the target alone",
    ),
    Option("prior_scale", "float", "instead: Gaussian prior of this standard deviation"),
    NUM_DRAWS,
)
LEDGER = (
    Option("ledger", "str", "budget to charge (see gibbs-dp ledger create)", metavar="FILE"),
    ACCEPT,
)
GROUPS = {
    "private table": TABLE,
    "what its columns are, declared without looking at it": (*FEATURES, *LABELS),
    "posterior": PUBLIC,
    "target": TARGETS,
    OF_LEDGER: (*LEDGER, *method_options(release_methods()), PURPOSE, FLOAT64, WITH),
    "output": (*CHECK_OUTPUT, HTML),
}


SAVED = "release.json"
MISSING = {
    "data": "name the CSV file to release a model of",
    "target": "name the column to predict",
    "ledger": "name the budget to charge; 'gibbs-dp ledger create --ledger FILE --adjacency "
    "replace-one --epsilon 1' makes one",
}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    own = load_extensions(files_of(arguments), is_double=FLOAT64.flag in arguments)
    own.check_use("release", GROUPS)
    parsed = parse(
        "release",
        textwrap.fill(SUMMARY, 79),
        arguments,
        _groups(own),
        epilog=own.listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parsed.extensions = own
    for keyword, told in MISSING.items():
        if getattr(parsed, keyword) is None:
            raise UsageError(f"--{keyword}: {told}.")
    require_adjacency(parsed)
    schema = schema_of(parsed)
    folder = start_session(parsed, keeps_programs=False)
    prepare_page(parsed)
    if folder is not None and (folder / SAVED).exists():
        raise UsageError(
            f"--out: {str(folder / SAVED)!r} is there already, and what was paid for is not "
            "written over; name another folder, or move it."
        )

    try:
        _release(parsed, schema, folder)
    except KeyboardInterrupt:
        shown = f"gibbs-dp ledger show --ledger {parsed.ledger}"
        raise Stopped(f"what was charged stays charged; see '{shown}'.") from None


def _groups(own: Extensions) -> dict[str, Sequence[Option]]:
    """Options with those of what joined."""
    if not own.modules:
        return dict(GROUPS)
    method = method_options(release_methods() | own.method_paths)
    numbers = [name for name, loss in own.losses.items() if loss.labels == "numbers"]
    table = [replace(o, choices=(*o.choices, *numbers)) if o.keyword == LOSS else o for o in TABLE]
    found = {**GROUPS, "private table": table}
    found[OF_LEDGER] = (*LEDGER, *method, PURPOSE, FLOAT64, WITH)
    check_flags(option for options in found.values() for option in options)
    return found


def _release(parsed: argparse.Namespace, schema: Schema, folder: Path | None) -> None:
    from gibbs_dp.privacy.ledger import Ledger
    from gibbs_dp.privacy.released_model import ReleasedModel
    from gibbs_dp.privacy.releases.release import release

    target = given(parsed, TARGETS)
    by_rule = _is_by_rule(parsed, target)
    if by_rule:
        require("sklearn")
    posterior: Any = None if by_rule else _posterior(parsed, len(schema.names))
    settings = {
        "domain": schema.domain,
        "ledger": Ledger(parsed.ledger),
        **given(parsed, (ADJACENCY, *OF_RELEASE, PURPOSE)),
        **target,
    }
    data = _read(parsed, schema)
    told, how, has_log_odds = "", None, parsed.loss == "logistic"
    if by_rule:
        from gibbs_dp.sklearn.tables import release_by_rule

        found, told, how, has_log_odds = release_by_rule(
            data,
            schema=schema,
            ledger=settings["ledger"],
            epsilon=float(target.get("pure_epsilon") or target["epsilon"]),
            delta=target.get("delta", 0.0),
            loss=parsed.extensions.losses.get(parsed.loss, parsed.loss),
            **given(parsed, (ADJACENCY, N, NUM_DRAWS, ACCEPT, PURPOSE)),
        )
    else:
        found = release(posterior, data, method=make_method(parsed), **settings)
    told = _model(parsed, schema, told, has_log_odds)
    facts = ReleasedModel(schema, np.asarray(found.theta, np.float64), how, has_log_odds).to_dict()
    rows = facts.pop("draws")
    if parsed.method in parsed.extensions.methods:
        del facts["prediction"]  # only their author knows what the draws are
    model = {"model": told, "rules": schema.rules(), **facts}
    if how is not None:
        model["then"] = how.rule
    promise = {"kind": "guarantee", "charge": found.charge, **found.guarantee.to_dict()}
    path = None if folder is None else folder / SAVED
    failed: OSError | None = None
    if path is not None:  # what was charged for is not lost where either stdout or a disk is full
        try:
            output.save_json({"draws": rows, **model, **promise}, path)
        except OSError as error:
            failed = error
    if parsed.json:
        for row in rows:
            output.emit(json.dumps({"kind": "draw", **row}))
        output.emit(json.dumps({"kind": "model", **model}))
        output.emit(json.dumps(promise))
    else:
        for row in rows:
            output.emit("  ".join(f"{name} {value:.6g}" for name, value in row.items()))
        output.emit(f"{told}:")
        width = max(map(len, schema.rules()))
        for name, rule in schema.rules().items():
            output.emit(f"  {name:<{width}}  {rule}")
        if how is not None:
            output.emit(f"  then {how.rule}")
        output.show(found.guarantee.summary())
    if path is not None and failed is None:
        output.tell_saved([path], parsed.json, parsed.quiet)
    # The rule shortens features in its own way, which its words say.
    shown = replace(schema, x_bound=None) if by_rule and math.isfinite(schema.norm) else schema
    try:
        write_page(parsed, found, None, _about(parsed, told), schema=shown)
    finally:
        if failed is not None:
            raise failed


def _about(parsed: Any, model: str) -> list[str]:
    """Say what was declared, all of it public, and how a draw is used."""
    if parsed.theta_ball is None and parsed.prior_scale is None:
        return [f"{model}."]
    prior = (
        f"Gaussian with standard deviation {parsed.prior_scale:g} of every weight"
        if parsed.theta_ball is None
        else f"flat on a ball of radius {parsed.theta_ball:g}"
    )
    return [f"{model}.", f"{parsed.loss.capitalize()} loss; prior: {prior}."]


def _is_by_rule(parsed: Any, target: dict[str, Any]) -> bool:
    """Return whether no prior was given, and the rule can pick one."""
    if not (parsed.theta_ball is None and parsed.prior_scale is None):
        return False
    if not target:
        raise UsageError(
            "--pure-epsilon: say how private the draws are to be; give it, or --epsilon with "
            "--delta."
        )
    if set(target) == {"epsilon"}:
        raise UsageError("--delta: give it with --epsilon, or --pure-epsilon instead of both.")
    has_target = set(target) in ({"pure_epsilon"}, {"epsilon", "delta"})
    methods = method_options(release_methods() | parsed.extensions.method_paths)
    if given(parsed, methods) or not has_target:
        raise UsageError(
            "--theta-ball: give it or --prior-scale; without them a rule picks the prior, for "
            "--pure-epsilon, or --epsilon with --delta, and no --method or setting of one."
        )
    return True


def _model(parsed: Any, schema: Schema, rule: str, has_log_odds: bool) -> str:
    """Say in words how a draw predicts."""
    if parsed.method in parsed.extensions.methods:
        return f"the draws of {parsed.method}"
    label, bound = schema.label, schema.domain.x_bound
    if isinstance(label, Levels | Positive):
        one = label.level if isinstance(label, Positive) else label.levels[1]
        told = f"{parsed.target} is {one!r} with probability 1 / (1 + exp(-s))"
        if not has_log_odds:
            from gibbs_dp.privacy.released_model import NO_LOG_ODDS

            told = f"{parsed.target} is taken for {one!r} where s > 0; scores s are {NO_LOG_ODDS}"
    else:
        told = f"the {_predicted(parsed)} of {parsed.target} is s"
    total = "s is the sum of each number of a draw times its feature"
    if rule:
        return f"{told}; {total} ({rule})"
    if bound < schema.norm:
        total += f", divided by (norm of the features) / {bound:.12g} where that is above 1"
    return f"{told}; {total}"


def _predicted(parsed: Any) -> str:
    """Say what the loss predicts."""
    from gibbs_dp.model.losses.regression import Absolute, Pinball

    loss = _loss(parsed)
    if parsed.loss in parsed.extensions.losses:
        return f"prediction (by the {loss.name} loss)"
    if isinstance(loss, Pinball) and loss.quantile != 0.5:
        return f"{loss.quantile:g} quantile"
    return "median" if isinstance(loss, (Absolute, Pinball)) else "mean"


def _posterior(parsed: Any, dim: int) -> Any:
    from gibbs_dp.model import Flat, GibbsPosterior, supports
    from gibbs_dp.problems.base import normal_prior

    if (parsed.theta_ball is None) == (parsed.prior_scale is None):
        raise UsageError("--theta-ball: give either it or --prior-scale.")
    prior: Any = (
        normal_prior(dim, parsed.prior_scale)
        if parsed.theta_ball is None
        else Flat(supports.l2_ball(dim, parsed.theta_ball))
    )
    return GibbsPosterior(_loss(parsed), prior)


def _loss(parsed: Any) -> Any:
    from gibbs_dp.model.losses import as_loss

    return parsed.extensions.losses.get(parsed.loss) or as_loss(
        parsed.loss, "two classes", "numbers"
    )


def _read(parsed: Any, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Read the table; one without records gives one of zeros if their number is private."""
    from gibbs_dp.privacy import read_table

    x, y = read_table(parsed.data, schema, **given(parsed, SPELLING))
    if len(y) == 0 and parsed.adjacency == "replace-one":
        raise UsageError("--data: the table has a header and no records.")
    if len(y) == 0:
        return np.zeros((1, len(schema.names))), np.clip(np.zeros(1), *schema.domain.y_range)
    return x, y
