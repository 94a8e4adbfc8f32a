"""The commands, and what ``gibbs-dp`` says of them without one."""

from __future__ import annotations

# Command -> (module with a function `run(arguments)`, one line for the help).
COMMANDS = {
    "audit": ("audit", "privacy and generalization of a posterior over gamma"),
    "attack": ("attack", "attacks that are run, or what a guarantee allows them"),
    "merge": ("merge", "the report of an audit that several processes sampled"),
    "sample": ("sample", "draws from one posterior, with diagnostics"),
    "calibrate": ("calibrate", "the gamma of a privacy target, worst case or on average"),
    "release": ("release", "private draws from a table, charged to a ledger"),
    "ledger": ("ledger", "make a privacy budget, and see what has been spent"),
    "figure2": ("figure2", "Figure 2 of Wang, Lei & Fienberg (2016), from sampled posteriors"),
    "verify": ("verify", "every implemented theorem: both sides, and whether it holds"),
    "notions": ("notions", "notions of privacy over gamma, and what implies what"),
    "double-descent": ("double_descent", "risk and privacy over the number of random features"),
    "holdout": ("holdout", "adaptive questions to one holdout, and what they cost"),
    "capacity": ("capacity", "what linear, kernel and neural adversaries can tell"),
    "completion": ("completion", "what a shell needs to complete all of this with TAB"),
}

# Run as printed: nothing but the package is needed.
EXAMPLES = (
    (
        "privacy and generalization over gamma, with a picture",
        "audit linear-regression --out results",
    ),
    ("draws from one posterior", "sample gaussian-mean --dim 2 --gamma 1"),
    (
        "how small gamma must be for a worst-case guarantee",
        "calibrate private-mean --pure-epsilon 1 --adjacency replace-one",
    ),
)


def overview() -> str:
    """Three examples, then the commands, a line each."""
    examples = "\n".join(f"  # {what}\n  gibbs-dp {words}" for what, words in EXAMPLES)
    listing = "\n".join(f"  {name:<16}{summary}" for name, (_, summary) in COMMANDS.items())
    return (
        "usage: gibbs-dp COMMAND [options]\n\n"
        "Privacy and generalization of Gibbs posteriors.\n\n"
        f"examples:\n{examples}\n"
        "  # your own table\n"
        "  gibbs-dp audit --data FILE.csv --target COLUMN\n\n"
        f"commands:\n{listing}\n\n"
        "'gibbs-dp COMMAND --help' shows a command's options; 'gibbs-dp --version' the version."
    )
