"""Are default draws right? NumPyro models against the reference posteriors of posteriordb.

    python benchmarks/posteriordb.py --database path/to/posteriordb

A checkout of https://github.com/stan-dev/posteriordb gives data and 10,000 reference draws of each
posterior; the models are ours (`posteriordb_models.py`). Every posterior goes through
`GibbsPosterior.from_numpyro` and `gibbs_dp.sample` with default settings. A mean may be off by 3
Monte Carlo errors (ours and the reference's together), a standard deviation by 5%. Of many means
some are off by more by chance: a posterior that has any is drawn once more, with key 1 after
key 0, and is WRONG where the same number is off both times and no warning was given. Draws that
come with a warning are "flagged" whatever they are. All posteriors share
these keys, so that the errors of similar ones are not independent.
"""

from __future__ import annotations

import argparse
import json
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import machine
import numpy as np
from posteriordb_cases import CASES, REGRESSIONS
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.sampling.diagnostics import coordinates, describe

ERRORS, SHARE = 3.0, 0.05
KEYS = (0, 1)  # the second look's is said beforehand
BEYOND = 2 * stats.norm.sf(ERRORS)
QUICK = ("kidiq-kidscore_momhs", "mesquite-logmesquite_logvolume", "kilpisjarvi_mod-kilpisjarvi")


class Database:
    """A checkout of posteriordb.

    Parameters
    ----------
    folder
        Its root.

    Raises
    ------
    FileNotFoundError
        If it is none.
    """

    def __init__(self, folder: str) -> None:
        root = Path(folder)
        self.root = root / "posterior_database" if root.name != "posterior_database" else root
        if not (self.root / "data" / "data").is_dir():
            raise FileNotFoundError(f"--database: there is no posteriordb in {folder}.")

    def columns(self, name: str) -> dict:
        """Return the data of a posterior, by column."""
        found = _unpack(self.root / "data" / "data" / f"{name.split('-')[0]}.json.zip")
        return {k: np.asarray(v) if isinstance(v, list) else v for k, v in found.items()}

    def draws(self, name: str) -> dict[str, np.ndarray]:
        """Return reference draws, ``[chain, draw]`` by parameter."""
        folder = self.root / "reference_posteriors" / "draws" / "draws"
        chains = _unpack(folder / f"{name}.json.zip")
        return {k: np.array([chain[k] for chain in chains], np.float64) for k in chains[0]}


def _unpack(path: Path):
    try:
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read(archive.namelist()[0]))
    except (FileNotFoundError, zipfile.BadZipFile):
        raise FileNotFoundError(f"--database: {path} is missing or no archive.") from None


class Look(NamedTuple):
    """Draws of a posterior against the reference.

    Attributes
    ----------
    z
        By number: difference of the means, in Monte Carlo errors.
    share
        By number: standard deviation over the reference's, minus one.
    ess
        Effective draws of the number that has fewest.
    seconds
        From the model to the draws, compilation included.
    warnings
        What the draws are warned of.
    """

    z: dict[str, float]
    share: dict[str, float]
    ess: float
    seconds: float
    warnings: tuple[str, ...]

    @property
    def off(self) -> set[tuple[str, str]]:
        """What lies beyond the limits."""
        means = {("mean", k) for k, z in self.z.items() if not abs(z) <= ERRORS}
        return means | {("sd", k) for k, x in self.share.items() if not abs(x) <= SHARE}


def look(name: str, columns: dict, reference: dict[str, np.ndarray], key: int) -> Look:
    """Draw from a posterior and compare."""
    case = CASES[name]
    begin = time.perf_counter()
    args = case.arguments(columns)
    posterior = gdp.GibbsPosterior.from_numpyro(case.model, args=args, **case.settings)
    draws = gdp.sample(posterior, posterior.data, key=key)
    seconds = time.perf_counter() - begin
    found = case.read(draws.named, *args)
    ours = {_theirs(k): numbers for k, numbers in described(found).items()}
    if set(ours) != set(reference):
        raise RuntimeError(f"{name}: the model has {sorted(ours)}, the reference another choice.")
    z, share = {}, {}
    for k, mine in ours.items():
        truth = {name: float(value) for name, value in describe(reference[k]).items()}
        error = np.hypot(mine["sd"] / mine["ess"] ** 0.5, truth["sd"] / truth["ess"] ** 0.5)
        z[k] = float((mine["mean"] - truth["mean"]) / error)
        share[k] = mine["sd"] / truth["sd"] - 1
    ess = min(mine["ess"] for mine in ours.values())
    return Look(z, share, ess, seconds, tuple(str(w) for w in draws.warnings))


def described(tree: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Describe every number of a tree, ``[chain, draw, ...]``."""
    found = {}
    for name, leaf in tree.items():
        numbers = describe(np.reshape(leaf, (*leaf.shape[:2], -1)))
        for i, label in enumerate(coordinates({name: leaf}, 2)):
            found[label] = {k: float(values[i]) for k, values in numbers.items()}
    return found


def _theirs(name: str) -> str:
    """Name of a number in the database, which counts from one."""
    stem, bracket, rest = name.partition("[")
    return f"{stem}[{int(rest[:-1]) + 1}]" if bracket else stem


def row(name: str, columns: dict, reference: dict[str, np.ndarray]) -> dict:
    """Look once, and once more where anything is off."""
    try:
        looks = [look(name, columns, reference, KEYS[0])]
        if looks[0].off:
            looks.append(look(name, columns, reference, KEYS[1]))
    except ValueError as error:
        return {"posterior": name, "verdict": "refused", "why": str(error)}
    again = set.intersection(*(each.off for each in looks))
    warned = [w for each in looks for w in each.warnings]
    first = looks[0]
    return {
        "posterior": name,
        "kind": "regression" if name in REGRESSIONS else "other",
        "numbers": len(first.z),
        "worst mean": max(map(abs, first.z.values())),
        "worst sd": max(map(abs, first.share.values())),
        "off": _told(first.off),
        "off again": _told(looks[1].off) if len(looks) > 1 else "",
        "least ess": first.ess,
        "seconds": first.seconds,
        "verdict": "flagged" if warned else "WRONG" if again else "right",
        "why": "; ".join(dict.fromkeys(warned)) or _told(again),
        "means": first.z,
        "sds": first.share,
    }


def _told(off: set[tuple[str, str]]) -> str:
    return ", ".join(f"{what} of {name}" for what, name in sorted(off))


def _looks(found: dict) -> list[str]:
    each = ("at the first look", "off"), ("at the second", "off again")
    return [f"{when} off: {found[column]}" for when, column in each if found.get(column)]


def chance(rows: list[dict]) -> str:
    """Means off at the first look, against what chance gives; without draws that were flagged."""
    trusted = [each["means"] for each in rows if each["verdict"] in ("right", "WRONG")]
    z = np.array([abs(z) for means in trusted for z in means.values()])
    off = int((z > ERRORS).sum())
    expected = len(z) * BEYOND
    at_least = stats.binom.sf(off - 1, len(z), BEYOND)
    return (
        f"{off} of {len(z)} means (flagged posteriors left out) beyond {ERRORS:g} errors at the "
        f"first look, {expected:.1f} expected by chance (so many or more with probability "
        f"{at_least:.2g}); root mean square of the errors {np.sqrt((z**2).mean()):.2f}"
    )


def main() -> None:
    """Compare all posteriors."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--database", help="folder of a checkout of posteriordb")
    parser.add_argument(
        "--only", nargs="+", choices=CASES, metavar="NAME", help="measure some anew"
    )
    parser.add_argument("--quick", action="store_true", help="three posteriors")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    names = parsed.only or (QUICK if parsed.quick else list(CASES))
    try:
        if parsed.database is None:
            raise FileNotFoundError("--database: name the folder of a checkout of posteriordb.")
        database = Database(parsed.database)
        tables = {name: (database.columns(name), database.draws(name)) for name in names}
    except FileNotFoundError as error:
        parser.exit(2, f"posteriordb: {error}\n")
    others = machine.rows_of_others("posteriordb", "posterior", names, parsed.out)
    rows = others if parsed.only else []
    for name in names:
        rows.append(row(name, *tables[name]))
        told = [rows[-1]["verdict"], rows[-1]["why"], *_looks(rows[-1])]
        print(f"{name}:", "; ".join(filter(None, told)), flush=True)
    hidden = "means", "sds", "why", "off", "off again"
    machine.show([{k: v for k, v in each.items() if k not in hidden} for each in rows])
    print(chance(rows))
    settings = {"keys": KEYS, "errors": ERRORS, "share": SHARE, "chance": chance(rows)}
    path = machine.save("posteriordb", rows, settings, parsed.out)
    print("saved", path)


if __name__ == "__main__":
    main()
