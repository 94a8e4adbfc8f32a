"""``gibbs-dp release``: private draws from the posterior of a table, charged to a ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gibbs_dp.cli import output
from gibbs_dp.cli.errors import UsageError
from gibbs_dp.cli.options import DEBUG, JSON, OUT
from gibbs_dp.cli.parser import Parser, add_options
from gibbs_dp.cli.session import start_session
from gibbs_dp.cli.targets import ADJACENCY, TARGETS, require_adjacency, targets
from gibbs_dp.problems.registry import Option

SUMMARY = (
    "Private draws from the Gibbs posterior of a CSV table of numbers: rows are clipped to the "
    "declared bounds, the ledger is charged, then the draws are made with a secret key."
)

TABLE = (
    Option("data", "str", "CSV file of numbers, used as they are (private)", metavar="FILE"),
    Option("target", "str", "column to predict", metavar="COLUMN"),
    Option("features", "str", "columns to predict from", is_list=True, metavar="COLUMN"),
    Option(
        "loss", "str", "loss (default logistic)", "logistic", ("logistic", "squared", "absolute")
    ),
)
DECLARED = (
    ADJACENCY,
    Option("n", "int", "public upper bound on the number of rows (add-remove only)"),
    Option("x_bound", "float", "largest norm of a feature vector, with its 1 for the intercept"),
    Option("y_range", "float", "smallest and largest label", is_list=True, metavar="Y"),
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
        "declared without looking at it": DECLARED,
        "target": TARGETS,
        "release": RELEASE,
        "output": LAST,
    }
    for title, options in groups.items():
        add_options(parser, options, title)
    parsed = parser.parse_args(list(arguments))
    for keyword in ("data", "target", "features", "ledger", "x_bound"):
        if getattr(parsed, keyword) is None:
            raise UsageError(f"--{keyword.replace('_', '-')}: it is missing; see --help.")
    require_adjacency(parsed)
    start_session(parsed.float64)
    folder = output.prepare_folder(parsed.out)

    from gibbs_dp.model import Domain
    from gibbs_dp.privacy import Ledger, release, release_chain, release_proven

    posterior = _posterior(parsed)
    given: dict[str, Any] = {
        "domain": Domain(parsed.x_bound, _y_range(parsed)),
        "adjacency": parsed.adjacency,
        "ledger": Ledger(parsed.ledger),
        "accept": parsed.accept or (),
        "num_draws": parsed.num_draws,
        "n": parsed.n,
        "purpose": parsed.purpose,
        **targets(parsed),
    }
    data = _read(parsed.data, parsed.features, parsed.target)
    if parsed.chain or parsed.proven:
        flag = "--chain" if parsed.chain else "--proven"
        if parsed.chain and parsed.proven:
            raise UsageError("--proven: choose it or --chain, not both.")
        if set(targets(parsed)) != {"epsilon", "delta"} or parsed.total_variation is not None:
            raise UsageError(f"{flag}: its target is --epsilon with --delta, and nothing else.")
        found = (release_chain if parsed.chain else release_proven)(posterior, data, **given)
    else:
        found = release(posterior, data, total_variation=parsed.total_variation, **given)
    names = ["intercept", *parsed.features]
    rows = [dict(zip(names, map(float, theta), strict=True)) for theta in found.theta]
    promise = {"kind": "guarantee", "charge": found.charge, **found.guarantee.to_dict()}
    if parsed.json:
        for row in rows:
            output.emit(json.dumps({"kind": "draw", **row}))
        output.emit(json.dumps(promise))
    else:
        for row in rows:
            output.emit("  ".join(f"{name} {value:.6g}" for name, value in row.items()))
        output.emit(found.guarantee.summary())
    if folder is not None:
        from gibbs_dp import io

        path = folder / "release.json"
        with io.atomic_write(path) as temporary:
            temporary.write_text(json.dumps({"draws": rows, **promise}, indent=2) + "\n")
        output.tell_saved([path], parsed.json, parsed.quiet)


def _y_range(parsed: Any) -> tuple[float, float]:
    if parsed.y_range is None:
        if parsed.loss != "logistic":
            raise UsageError(f"--y-range: the {parsed.loss} loss needs declared labels.")
        return 0.0, 1.0
    if len(parsed.y_range) != 2:
        raise UsageError("--y-range: give two numbers, the smallest and the largest label.")
    return float(parsed.y_range[0]), float(parsed.y_range[1])


def _posterior(parsed: Any) -> Any:
    from gibbs_dp.model import Flat, GibbsPosterior, losses, supports
    from gibbs_dp.problems.base import normal_prior

    if (parsed.theta_ball is None) == (parsed.prior_scale is None):
        raise UsageError("--theta-ball: give it, or --prior-scale, one of the two.")
    dim = 1 + len(parsed.features)
    if parsed.theta_ball is not None:
        return GibbsPosterior(
            getattr(losses, parsed.loss), Flat(supports.l2_ball(dim, parsed.theta_ball))
        )
    return GibbsPosterior(getattr(losses, parsed.loss), normal_prior(dim, parsed.prior_scale))


def _read(path: str, features: Sequence[str], target: str) -> tuple[np.ndarray, np.ndarray]:
    """Read columns of numbers with an intercept; nothing is standardized, as that would leak.

    What is no number becomes NaN, which clipping turns into 0: a complaint would quote the data.
    """
    import pandas as pd

    from gibbs_dp.problems.source import read_csv

    try:
        frame = read_csv(path)
    except ValueError:
        if not Path(path).exists():
            raise
        raise UsageError("--data: the file cannot be read as a CSV table.") from None
    for name in (*features, target):
        if name not in frame.columns:
            raise UsageError(f"--features, --target: the table has no column {name!r}.")
    columns = [pd.to_numeric(frame[c], errors="coerce").to_numpy(float) for c in features]
    x = np.stack([np.ones(len(frame)), *columns], axis=1)
    return x, pd.to_numeric(frame[target], errors="coerce").to_numpy(float)
