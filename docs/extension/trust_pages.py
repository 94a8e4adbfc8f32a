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


def calibration():
    """Coverage by model and sampler; bold where ranks are not uniform."""
    rows = rows_of("calibration")
    samplers = list(dict.fromkeys(row["sampler"] for row in rows))
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        cells = [model]
        for sampler in samplers:
            row = next(r for r in rows if (r["model"], r["sampler"]) == (model, sampler))
            text = f"{row['coverage']:.3f}" if "coverage" in row else "refused"
            text = f"**{text}**" if row["verdict"] == "off" else text
            cells.append(text + ("\u00a0w" if row["warnings"] else ""))
        lines.append(cells)
    return table(["model", *samplers], lines)


def coverage():
    """Least and largest coverage of every column; what is low, by name."""
    rows = [row for row in rows_of("report_coverage") if "coverage" in row]
    summary = {row["what"]: row for row in rows_of("correctness")}
    lines = []
    for column in dict.fromkeys(row["column"] for row in rows):
        own = [row for row in rows if row["column"] == column]
        covers = [row["coverage"] for row in own]
        biases = [abs(row["relative_bias"]) for row in own if row["side"] == "both"]
        low = summary[f"interval of {column}"]["named"]
        lines.append(
            [
                f"`{column}`",
                own[0]["side"],
                f"{min(covers):.3f} to {max(covers):.3f}",
                f"{max(biases):.1%}" if biases else "",
                escaped(low) or "none",
            ]
        )
    return table(["column", "ends", "coverage", "largest bias", "low in"], lines)


def bias():
    """Relative bias of on-average KL, by estimator, draws and KL."""
    rows = [row for row in rows_of("estimator_bias") if row["column"] == "on_average_kl"]
    kls = list(dict.fromkeys(row["kl"] for row in rows))
    lines = []
    for key in dict.fromkeys((row["estimator"], row["draws"]) for row in rows):
        cells = [key[0], key[1]]
        for kl in kls:
            row = next(r for r in rows if (r["estimator"], r["draws"], r["kl"]) == (*key, kl))
            text = f"{row['relative_bias']:+.1%} ± {row['relative_bias_se']:.1%}"
            text = f"**{text}**" if row["seen"] else text
            cells.append(text + ("\u00a0w" if row["flagged"] or row["warnings"] else ""))
        lines.append(cells)
    return table(["estimator", "chains x draws", *(f"KL {kl:g}" for kl in kls)], lines)


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
    "calibration": calibration,
    "coverage": coverage,
    "bias": bias,
    "fuzz": fuzz,
    "claims": claims,
}


def write(app):
    for name, make in MAKERS.items():
        write_page(app, f"trust_{name}.txt", make() + "\n")


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
