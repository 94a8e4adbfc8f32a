"""``gibbs-dp release``: private draws from the posterior of a table, charged to a ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from gibbs_dp.cli import output
from gibbs_dp.cli.declared import FEATURES, LABELS, schema_of
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import DEBUG, JSON, OUT
from gibbs_dp.cli.parser import Parser, add_options
from gibbs_dp.cli.session import start_session
from gibbs_dp.cli.targets import ADJACENCY, TARGETS, require_adjacency, targets
from gibbs_dp.privacy.columns import Levels, Positive
from gibbs_dp.privacy.schema import Schema
from gibbs_dp.problems.registry import Option

SUMMARY = (
    "Private draws from the Gibbs posterior of a CSV table: each line is read by itself, as you "
    "declare the columns, the ledger is charged, then the draws are made with a secret key. "
    "Nothing is learnt from the table beforehand. A record that cannot be read as declared "
    "counts as zeros."
)

TABLE = (
    Option(
        "data",
        "str",
        "CSV file (private, but for its header and number of lines); cells are separated by "
        "comma, semicolon, tab or |, as the header is",
        metavar="FILE",
    ),
    Option(
        "decimal", "str", "decimal mark of its numbers, . or , (default .)", ".", metavar="MARK"
    ),
    Option("target", "str", "column to predict", metavar="COLUMN"),
    Option(
        "features",
        "str",
        "columns to predict from, in this order (default: all that are declared)",
        is_list=True,
        metavar="COLUMN",
    ),
    Option(
        "loss", "str", "loss (default logistic)", "logistic", ("logistic", "squared", "absolute")
    ),
)
DECLARED = (*FEATURES, *LABELS)
PUBLIC = (
    ADJACENCY,
    Option("n", "int", "public upper bound on the number of rows (add-remove only)"),
    Option("theta_ball", "float", "flat prior on a ball of this radius"),
    Option("prior_scale", "float", "instead: Gaussian prior of this standard deviation"),
    Option("num_draws", "int", "draws to release (default 1)", 1),
)
RELEASE = (
    Option("ledger", "str", "budget to charge (see gibbs-dp ledger create)", metavar="FILE"),
    Option("accept", "str", "idealizations accepted, by name", is_list=True, metavar="NAME"),
    Option("total_variation", "float", "distance from the posterior that you vouch for"),
    Option("chain", "flag", "release one private ULA run instead (--epsilon and --delta)"),
    Option("proven", "flag", "rejection draws instead, proven close (--epsilon and --delta)"),
    Option("purpose", "str", "for the ledger's record", "gibbs-dp release"),
    Option("float64", "flag", "compute in double precision"),
)
LAST = (JSON, OUT, Option("quiet", "flag", "no log on stderr"), DEBUG)


def run(arguments: Sequence[str]) -> None:
    """Run the command.

    Raises
    ------
    ValueError
        For bad input.
    """
    parser = Parser(prog="gibbs-dp release", description=SUMMARY)
    groups = {
        "private table": TABLE,
        "what its columns are, declared without looking at it": DECLARED,
        "posterior": PUBLIC,
        "target": TARGETS,
        "release": RELEASE,
        "output": LAST,
    }
    for title, options in groups.items():
        add_options(parser, options, title)
    parsed = parser.parse_args(list(arguments))
    for keyword in ("data", "target", "ledger"):
        if getattr(parsed, keyword) is None:
            raise UsageError(f"--{keyword.replace('_', '-')}: it is missing; see --help.")
    require_adjacency(parsed)
    schema = schema_of(parsed)
    start_session(parsed.float64)
    folder = output.prepare_folder(parsed.out)

    from gibbs_dp.privacy import Ledger, release, release_chain, release_proven

    posterior = _posterior(parsed, len(schema.names))
    given: dict[str, Any] = {
        "domain": schema.domain,
        "adjacency": parsed.adjacency,
        "ledger": Ledger(parsed.ledger),
        "accept": parsed.accept or (),
        "num_draws": parsed.num_draws,
        "n": parsed.n,
        "purpose": parsed.purpose,
        **targets(parsed),
    }
    data = _read(parsed, schema)
    if parsed.chain or parsed.proven:
        flag = "--chain" if parsed.chain else "--proven"
        if parsed.chain and parsed.proven:
            raise UsageError("--proven: choose it or --chain, not both.")
        if set(targets(parsed)) != {"epsilon", "delta"} or parsed.total_variation is not None:
            raise UsageError(f"{flag}: its target is --epsilon with --delta, and nothing else.")
        found = (release_chain if parsed.chain else release_proven)(posterior, data, **given)
    else:
        found = release(posterior, data, total_variation=parsed.total_variation, **given)
    rows = [dict(zip(schema.names, map(float, theta), strict=True)) for theta in found.theta]
    model = {"model": _model(parsed, schema), "rules": schema.rules(), "schema": schema.to_dict()}
    promise = {"kind": "guarantee", "charge": found.charge, **found.guarantee.to_dict()}
    if parsed.json:
        for row in rows:
            output.emit(json.dumps({"kind": "draw", **row}))
        output.emit(json.dumps({"kind": "model", **model}))
        output.emit(json.dumps(promise))
    else:
        for row in rows:
            output.emit("  ".join(f"{name} {value:.6g}" for name, value in row.items()))
        _tell(model)
        output.emit(found.guarantee.summary())
    if folder is not None:
        from gibbs_dp import io

        path = folder / "release.json"
        with io.atomic_write(path) as temporary:
            temporary.write_text(json.dumps({"draws": rows, **model, **promise}, indent=2) + "\n")
        output.tell_saved([path], parsed.json, parsed.quiet)


def _model(parsed: Any, schema: Schema) -> str:
    """Say in words what a draw tells about a record."""
    label, bound = schema.label, schema.domain.x_bound
    if isinstance(label, Levels | Positive):
        one = label.level if isinstance(label, Positive) else label.levels[1]
        told = f"{parsed.target} is {one!r} with probability 1 / (1 + exp(-s))"
    else:
        told = f"the {'median' if parsed.loss == 'absolute' else 'mean'} of {parsed.target} is s"
    total = "s is the sum of each number of a draw times its feature"
    if bound < schema.norm:
        total += f", divided by (norm of the features) / {bound:.12g} where that is above 1"
    return f"{told}; {total}"


def _tell(model: dict[str, Any]) -> None:
    """Print how a draw is applied to a record."""
    output.emit(f"{model['model']}:")
    width = max(map(len, model["rules"]))
    for name, rule in model["rules"].items():
        output.emit(f"  {name:<{width}}  {rule}")


def _posterior(parsed: Any, dim: int) -> Any:
    from gibbs_dp.model import Flat, GibbsPosterior, losses, supports
    from gibbs_dp.problems.base import normal_prior

    if (parsed.theta_ball is None) == (parsed.prior_scale is None):
        raise UsageError("--theta-ball: give it, or --prior-scale, one of the two.")
    if parsed.theta_ball is not None:
        return GibbsPosterior(
            getattr(losses, parsed.loss), Flat(supports.l2_ball(dim, parsed.theta_ball))
        )
    return GibbsPosterior(getattr(losses, parsed.loss), normal_prior(dim, parsed.prior_scale))


def _read(parsed: Any, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Read the table; without a record it is one of zeros, if the number of records is private."""
    from gibbs_dp.privacy import read_table

    x, y = read_table(parsed.data, schema, decimal=parsed.decimal)
    if len(y) == 0 and parsed.adjacency == "replace-one":
        raise UsageError("--data: the table has a header and no records.")
    if len(y) == 0:
        return np.zeros((1, len(schema.names))), np.clip(np.zeros(1), *schema.domain.y_range)
    return x, y
