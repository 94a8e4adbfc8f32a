"""Are claims of privacy kept? An attack on every public release, and on copies that break it.

For every claim of ``gibbs_dp.holdout``, ``gibbs_dp.privacy``, ``gibbs_dp.papers.capacity`` and
``gibbs_dp.sklearn`` that comes with a call that draws: two neighbours of the worst kind that the
proof of the claim knows, 20,000 runs of the public call on each, an event chosen on one half, and a
lower bound on epsilon from the other half that holds with 95% (`lower_bounds.py`). It must not
exceed the claim. Broken copies, made by patching the library, are attacked in the same way and must
be caught. Power: the least factor on a grid by which noise may be too small (or gamma too large)
for the same attack to exceed the claim.

    python benchmarks/claims.py
    python benchmarks/claims.py --only Laplace Gaussian
    python benchmarks/claims.py --copies 4000  # fewer runs of broken copies, which see less
    python benchmarks/claims.py --runs 4000 --no-power  # a tenth of the time
"""

from __future__ import annotations

import argparse
import bisect
import functools
import math
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import claims_chains
import claims_correlated
import claims_estimators
import claims_holdout
import claims_mechanisms
import claims_release
import claims_sparse
import machine
from claims_case import Case, Copy

NUM_RUNS = 20_000
GRID = (1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
FILES = (
    claims_mechanisms,
    claims_sparse,
    claims_holdout,
    claims_correlated,
    claims_release,
    claims_chains,
    claims_estimators,
)


def cases() -> Iterator[Case]:
    """All claims."""
    for file in FILES:
        yield from file.cases()


def attack(case: Case, count: int, of_copies: int, has_power: bool) -> dict[str, Any]:
    """Attack a claim and its broken copies; find the smallest violation that is seen."""
    began = time.perf_counter()
    found = case.at_least(count)
    broken = {name: of_broken(case, copy, of_copies) for name, copy in case.broken.items()}
    harmless = {name: case.at_least(of_copies, copy) for name, copy in case.harmless.items()}
    return {
        "claim": case.name,
        "path": case.path,
        "neighbours": case.neighbours,
        "epsilon": case.epsilon,
        "delta": case.delta,
        "by_mu": case.mu is not None,
        "epsilon_at_least": round(found, 4),
        "broken": {name: round(value, 4) for name, value in broken.items()},
        "wrong_but_private": {name: round(value, 4) for name, value in harmless.items()},
        "holds": max([found, *harmless.values()]) <= case.epsilon,
        "broken_are_caught": min(broken.values()) > case.epsilon,
        "smallest_seen": smallest_seen(case, found, next(iter(broken.values())), of_copies)
        if has_power
        else None,
        "num_runs": count,
        "num_runs_of_copies": of_copies,
        "seconds": round(time.perf_counter() - began, 1),
        "date": time.strftime("%Y-%m-%d"),
    }


def of_broken(case: Case, copy: Copy, count: int) -> float:
    """Attack a broken copy, with more runs where few do not show it: they see no large epsilon."""
    found = case.at_least(count, copy)
    for more in (NUM_RUNS, 3 * NUM_RUNS):
        if found <= case.epsilon and more > count:
            found = case.at_least(more, copy)
    return found


def smallest_seen(case: Case, found: float, broken: float, count: int) -> float | None:
    """Find the least factor of the grid at which noise that much too small exceeds the claim.

    Begin where a line through the bounds of the library and of the first broken copy, on
    logarithmic axes, reaches the claim; then try one step down if it is seen, and go up until it
    is if not.
    """
    if case.weaker is None:
        return None
    low, high = (math.log(max(value, 0.02 * case.epsilon)) for value in (found, broken))
    share = (math.log(case.epsilon) - low) / max(high - low, 1e-6)
    guess = math.exp(min(max(share, 0.0), 1.0) * math.log(4.0))
    place = min(bisect.bisect_left(GRID, guess), len(GRID) - 1)

    def is_seen(factor: float) -> bool:
        assert case.weaker is not None
        return case.at_least(count, functools.partial(case.weaker, factor)) > case.epsilon

    if is_seen(GRID[place]):
        return GRID[place - 1] if place > 0 and is_seen(GRID[place - 1]) else GRID[place]
    return next((factor for factor in GRID[place + 1 :] if is_seen(factor)), None)


def main() -> None:
    """Attack all claims, or those that are named; print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 runs")
    parser.add_argument("--runs", type=int, default=NUM_RUNS, help="on each neighbour")
    parser.add_argument("--copies", type=int, help="runs of broken copies (default: as many)")
    parser.add_argument("--no-power", action="store_true", help="leave out the smallest violation")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="claims whose name begins so")
    parser.add_argument("--out", help="folder for the results")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of fits that are repeated, as they should be here
    count = 1000 if given.quick else given.runs
    chosen = [c for c in cases() if not given.only or c.name.startswith(tuple(given.only))]
    if not chosen:
        parser.error(f"--only: no claim begins with {given.only}.")
    rows = machine.rows_of_others("claims", "claim", {c.name for c in chosen}, given.out)
    order = [c.name for c in cases()]
    for case in chosen:
        row = attack(case, count, given.copies or count, not given.no_power)
        print(row, flush=True)
        rows = sorted([*rows, row], key=lambda r: order.index(r["claim"]))
        machine.save("claims", rows, {"level": 0.95, "grid": GRID}, given.out)
    names = {case.name for case in chosen}
    own = [row for row in rows if row["claim"] in names]
    wrong = [row["claim"] for row in own if not (row["holds"] and row["broken_are_caught"])]
    if wrong:
        sys.exit(f"exceeded, or a broken copy not caught: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
