"""``gibbs-dp ledger``: make a privacy budget, and see what has been spent."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gibbs_dp._options import Option, options_of
from gibbs_dp.cli import output
from gibbs_dp.cli.options import ADJACENCY, DEBUG, JSON, QUIET, require_adjacency
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import given, parse, split_words
from gibbs_dp.io.files import shown
from gibbs_dp.privacy.ledger import Ledger

SUMMARY = "The privacy budget of one dataset: create FILE, or show what has been spent."
ACTIONS = ("show", "create")

FILE = Option("ledger", "str", "the ledger (a SQLite file)", metavar="FILE")
BUDGET = (
    ADJACENCY,
    *options_of(
        "gibbs_dp:Ledger.create",
        epsilon="budget in (epsilon, delta)-DP",
        delta="its delta",
        zcdp="instead: budget in rho of zero-concentrated DP",
        gdp="instead: budget in mu of Gaussian DP",
        total_variation="with zcdp or gdp: also pay for draws that are near exact ones",
    ),
)
OUTPUT = (JSON, QUIET, DEBUG)
GROUPS = {"which ledger": (FILE,), "budget (create)": BUDGET, "output": OUTPUT}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    words, rest = split_words(arguments, [FILE, *BUDGET, *OUTPUT])
    action = words[0] if words else None
    usage = "gibbs-dp ledger show|create --ledger FILE [options]"
    parsed = parse("ledger", SUMMARY, rest, GROUPS, usage=usage)
    if action not in ACTIONS:
        got = "" if action is None else f", not {action!r}"
        raise UsageError(f"ledger: give an action, {' or '.join(ACTIONS)}{got}.")
    if len(words) > 1:
        raise UsageError(f"ledger: did you mean {action} --ledger {shown(words[1], 200)}?")
    if parsed.ledger is None:
        raise UsageError("--ledger: name the file.")
    if action == "create":
        require_adjacency(parsed)
        ledger = Ledger.create(parsed.ledger, **given(parsed, BUDGET))
    else:
        for option in BUDGET:
            if option.keyword in given(parsed, BUDGET):
                raise UsageError(f"{option.flag}: it belongs to 'ledger create'; leave it out.")
        ledger = Ledger(parsed.ledger)
    _show(ledger, parsed.json)


def _show(ledger: Ledger, is_json: bool) -> None:
    budget, spent, left = ledger.budget(), ledger.spent(), ledger.left()
    charges = ledger.charges()
    if is_json:
        head = {"adjacency": ledger.adjacency, "budget": budget, "spent": spent, "left": left}
        output.emit(json.dumps({"kind": "ledger", **head}))
        for c in charges:
            row = {"number": c.number, "time": c.time, "purpose": c.purpose, **c.amounts}
            output.emit(json.dumps({"kind": "charge", **row}))
        return
    output.emit(f"{ledger.path}, {ledger.adjacency} neighbours")
    width = max(8, *map(len, budget))
    for name in budget:
        output.emit(
            f"{name:<{width}} budget {budget[name]:<10.6g} spent {spent[name]:<10.6g} left "
            f"{left[name]:.6g}"
        )
    for c in charges:
        amounts = "  ".join(f"{name} {value:.6g}" for name, value in c.amounts.items())
        output.emit(f"{c.number:>4}  {c.time}  {amounts}  {c.purpose}")
