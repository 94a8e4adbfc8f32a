"""``gibbs-dp capacity``: privacy against restricted adversaries, in tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gibbs_dp._options import options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.options import FLOAT64, OUTPUT
from gibbs_dp.cli.parser import given, parse
from gibbs_dp.cli.session import start_session

SUMMARY = (
    "Privacy against restricted adversaries: Laplace and normal noise, bounds, Gibbs posteriors."
)

COUNTS = options_of(
    "gibbs_dp.papers.capacity.figures:run_capacity",
    num_datasets="pairs of datasets per gamma",
    gammas={"help": "of both posteriors (default: each its own)", "metavar": "G"},
)
GROUPS = {"what to sample": (*COUNTS, FLOAT64), "output": OUTPUT}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parsed = parse("capacity", SUMMARY, arguments, GROUPS)
    folder = start_session(parsed)

    from gibbs_dp.papers.capacity import figures as program
    from gibbs_dp.papers.tables import save_tables, table

    found = program.run_capacity(
        key=parsed.seed, say=output.logger(parsed.quiet), **given(parsed, COUNTS)
    )
    if parsed.json:
        output.emit_parts(found.parts())
    else:
        output.emit(_summary(found, table))
    output.warn(found.warnings, parsed.quiet)
    if folder is not None:
        from gibbs_dp.papers.capacity import plot as plots

        paths = save_tables(
            {f"capacity_{kind}": rows for kind, rows in found.parts().items()}, folder
        )
        pictures = {
            "capacity_figure1": plots.plot_curves(found),
            "capacity_figure1_gaussian": plots.plot_gaussian_curves(found),
            "capacity_posterior": plots.plot_posteriors(found),
            "capacity_selection": plots.plot_selection(found),
            "capacity_analyst": plots.plot_analysts(found),
        }
        paths += output.save_figures(pictures, folder)
        output.tell_saved(paths, parsed.json, parsed.quiet)


def _summary(found: Any, table: Any) -> str:
    shown, gaussian = (
        [row for row in rows if row["alpha"] in (2.0, 3.0, 10.0, 40.0)]
        for rows in (found.curves, found.gaussian)
    )
    names = ("panel", "gamma", "adversary", "capacity_kl", "capacity_kl_se")
    more = ("capacity_kl_exact", "on_average_kl", "on_average_kl_se", "share", "share_se")
    posterior = [
        {name: row[name] for name in (*names, *more) if name in row} for row in found.posterior
    ]
    edges: dict[tuple[str, float], float] = {}
    for row in found.regimes:
        failed = row["privacy"] if row["verdict"] == "fails" else 0.0
        key = (row["row"], row["alpha"])
        edges[key] = max(edges.get(key, 0.0), failed)
    fails = [
        {"row": name, "alpha": alpha, "fails_up_to_privacy": edge}
        for (name, alpha), edge in edges.items()
    ]
    sections = {
        "Renyi parameters of the Laplace mechanism, eps = 1, nats": shown,
        "Renyi parameters of the Gaussian mechanism, sigma = 1, nats": gaussian,
        "Printed bounds are below the exact value up to this eps or 1/sigma (0: nowhere)": fails,
        "Matrix mechanism, linear adversaries, Renyi, add/remove": found.matrix,
        "A selected query: its gap and bounds of it": found.selection,
        "Analysts: the gap of the last of hundreds of queries, and Theorem 6": found.analyst,
        "Gibbs posteriors: on-average KL that trained critics see (lower bounds), nats": posterior,
    }
    return "\n\n".join(f"{title}\n{table(rows)}" for title, rows in sections.items())
