"""Private CSV files for `gibbs_dp.privacy.read_table`: no record is refused, or changes another."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np

from fuzzing.harm import harmed
from fuzzing.tables import CELLS
from fuzzing.verdict import Case, Failure

NAMES = ("id", "age", "city", "day", "ill")
# More bytes than one record may have.
LONG = 2_000_000


def prepare(_: Path, is_small: bool) -> int:
    """Choose how long a long line is."""
    return 20_000 if is_small else LONG


def make(rng: Random, long: int) -> Case:
    """Write records of odd cells, harmed, below a header that is often whole."""
    encoding = rng.choice(("utf-8", "utf-8", "latin-1", "cp1252"))
    options = {} if encoding == "utf-8" else {"encoding": encoding}
    sep = rng.choice((",", ",", ";", "\t", "|"))
    if rng.randrange(6) == 0:
        options["na_values"] = ["?", "-9"]
    records = []
    for k in range(rng.choice((1, 2, 6))):
        cells = [str(k), str(rng.randrange(100)), rng.choice(("Ulm", "Köln")), "2020-07-02", "ja"]
        for _ in range(rng.choice((0, 1, 2))):
            cells[rng.randrange(5)] = rng.choice(CELLS)
        record = sep.join(cells).encode(encoding, "replace").replace(b"\n", b" ")
        if rng.randrange(4) == 0:
            record = harmed(rng, record, most=3).replace(b"\n", b"")
        if rng.randrange(30) == 0:
            record = record + b"9" * long
        records.append(record)
    header = sep.join(NAMES).encode()
    if rng.randrange(5) == 0:
        header = harmed(rng, header, most=2).replace(b"\n", b"")
    end = rng.choice((b"\n", b"\n", b"\r\n"))
    content = (header, records, end)
    return Case(content, rng.choice(("t.csv", "t.tsv", "t.txt", "t")), options)


def judge(case: Case, folder: Path) -> bool:
    """Read the file, and each record alone: the rows must be the same, and in the domain."""
    from gibbs_dp.privacy import Date, Levels, Positive, Range, Schema, read_table

    schema = Schema(
        {
            "age": Range(0.0, 100.0),
            "city": Levels(["Ulm", "Köln", "Bonn"]),
            "day": Date("2020-01-01", "2021-01-01"),
        },
        "ill",
        Positive("ja"),
    )
    header, records, end = case.content
    path = folder / case.name

    def rows(some: list[bytes]) -> np.ndarray:
        path.write_bytes(end.join([header, *some, b""]))
        return np.column_stack(read_table(path, schema, **case.options))

    together = rows(records)
    if together.shape != (len(records), len(schema.names) + 1):
        raise Failure(f"{len(records)} records became {len(together)} rows")
    if not ((together >= 0) & (together <= 1)).all():
        raise Failure("a row lies outside of the declared domain")
    for k, record in enumerate(records):
        if not np.array_equal(rows([record])[0], together[k]):
            raise Failure(f"record {k} is read in another way beside others")
    return True
