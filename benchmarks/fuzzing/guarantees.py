"""Guarantees, schemas and requests: JSON from files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.harm import harmed
from fuzzing.verdict import Case, Failure, not_a_sentence

# Values of JSON that are seldom what a program expects.
ODD = (
    *(None, True, [], {}, "", "x", "\x1b[31m", "NaN", "1e5", "0.5", -1, 0, 2.5, 1e308, -0.0),
    *(math.inf, -math.inf, math.nan, 10**40, 10**400, [1.0], {"a": 1}, "9" * 6000, "x" * 100_000),
    *("add-remove", [["a"]], ["\x1b]0;t\x07"], {"__class__": "os.system"}, 5e-324, 2**63, "\ud800"),
)
DEEP = ("[" * 100_000, '{"a":' * 100_000, "[" * 5000 + "]" * 5000)


def prepare(_: Path, is_small: bool) -> dict[str, Any]:
    """Make a guarantee and a schema."""
    import gibbs_dp as gdp
    from gibbs_dp.privacy import Date, Levels, Number, Positive, Range, Schema

    found = gdp.Guarantee(
        *("replace-one", "exact draw", 2, 1.5),
        epsilon=1.0,
        delta=1e-6,
        pure_epsilon=2.0,
        zcdp=0.5,
        assumptions=("a", "b"),
    )
    schema = Schema(
        {
            "age": Range(0.0, 90.0),
            "town": Levels(["u", "v", "w"]),
            "when": Date("2020-01-01", "2021-01-01"),
            "dose": Number(-1.0, 2.0),
        },
        "ill",
        Positive("yes"),
    )
    return {"guarantee": found.to_dict(), "schema": schema.to_dict()}


def make(rng: Random, base: dict[str, Any]) -> Case:
    """Put odd values in odd places, or harm the text."""
    kind = rng.choice(tuple(base))
    found = json.loads(json.dumps(base[kind]))
    for _ in range(rng.choice((0, 1, 1, 2))):
        replaced(rng, found)
    text = json.dumps(found, ensure_ascii=rng.randrange(2) == 1)
    content = text.encode("utf-8", "surrogatepass")
    if rng.randrange(4) == 0:
        content = harmed(rng, content)
    elif rng.randrange(12) == 0:
        content = content[:-1] + b',"deep":' + rng.choice(DEEP).encode() + content[-1:]
    elif rng.randrange(12) == 0:
        content = content[:-1] + b"," + content[1:]  # every name twice
    return Case(content, "g.json", kind)


def replaced(rng: Random, found: Any) -> None:
    """Replace, remove or add one value somewhere in what JSON may hold."""
    while isinstance(found, (dict, list)) and found:
        keys = list(found) if isinstance(found, dict) else list(range(len(found)))
        key = keys[rng.randrange(len(keys))]
        if isinstance(found[key], (dict, list)) and found[key] and rng.randrange(3):
            found = found[key]
            continue
        if rng.randrange(6) == 0:
            del found[key]
        else:
            found[key] = rng.choice(ODD)
        return


def judge(case: Case, folder: Path) -> bool:
    """Read a guarantee, and say what it allows; or a schema, and write it again."""
    from gibbs_dp.privacy import Schema, largest_advantage, load_guarantee

    path = folder / case.name
    path.write_bytes(case.content)
    if case.options == "schema":
        from gibbs_dp.io import parse_json

        schema = Schema.from_dict(parse_json(case.content.decode(), dict))
        if Schema.from_dict(schema.to_dict()).to_dict() != schema.to_dict():
            raise Failure("a schema is another one after it was written")
        return True
    found = load_guarantee(path)
    if not all(x >= 0 for x in (found.gamma, found.epsilon, found.delta)) or found.num_draws < 1:
        raise Failure(f"a guarantee of nothing is accepted: {found}")
    saved = json.loads(case.content)
    if isinstance(saved.get("num_draws"), float) and saved["num_draws"] != found.num_draws:
        raise Failure(f"{saved['num_draws']} draws became {found.num_draws}")
    if not 0 <= largest_advantage(found) <= 1:
        raise Failure(f"it allows an advantage of {largest_advantage(found)}")
    for line in str(found.summary()).splitlines():
        if wrong := not_a_sentence(line):
            raise Failure(f"its summary {wrong}")
    return True
