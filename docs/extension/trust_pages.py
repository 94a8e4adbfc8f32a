"""Tables of measured trust, from the results that benchmarks saved."""

import json
from pathlib import Path

from pages import escaped, write_page

FULL_RUNS = 20_000
RESULTS = Path(__file__).parent.parent.parent / "benchmarks" / "results"


def rows_of(name):
    """Rows of a benchmark."""
    return json.loads((RESULTS / f"{name}.json").read_text())["rows"]


def table(head, rows):
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fuzz():
    """What became of files and command lines."""
    head = ["format", "cases", "accepted", "refused", "failures", "slowest, s", "most memory, MB"]
    lines = [
        [
            row["format"],
            *(f"{row[k]:,}" for k in ("cases", "accepted", "refused", "failures")),
            f"{row['slowest_seconds']:.1f}",
            f"{row['largest_megabytes']:.0f}",
        ]
        for row in rows_of("fuzz")
    ]
    return table(head, lines)


def claims():
    """What was claimed, what attacks reached, and broken copies."""
    head = ["claim", "epsilon claimed", "epsilon is at least", "broken copies", "seen from"]
    lines = []
    for row in rows_of("claims"):
        broken = [f"{name}: {value:.2f}" for name, value in row["broken"].items()]
        broken += [f"({name}: {v:.2f})" for name, v in row["wrong_but_private"].items()]
        seen, least = row["smallest_seen"], row["epsilon_at_least"]
        ratio = f"({row['epsilon'] / least:.1f})" if least > 0 else ""
        of_copies = row.get("num_runs_of_copies", row["num_runs"])
        marks = " \\*" * row["by_mu"] + " †" * (row["num_runs"] < FULL_RUNS)
        marks += " ‡" * (of_copies < row["num_runs"])
        lines.append(
            [
                escaped(row["claim"]) + marks,
                f"{row['epsilon']:.2f}" + (f", delta {row['delta']:g}" if row["delta"] else ""),
                f"{least:.2f}",
                "; ".join(broken),
                ratio if seen is None else f"{seen:g}",
            ]
        )
    return table(head, lines)


MAKERS = {
    "fuzz": fuzz,
    "claims": claims,
}


def write(app):
    for name, make in MAKERS.items():
        write_page(app, f"trust_{name}.txt", make() + "\n")


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
