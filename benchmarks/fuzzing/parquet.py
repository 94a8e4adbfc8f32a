"""Parquet files for `gibbs_dp.problems.table`: of all types, with metadata that lie, and harmed."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import pickle
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzzing.harm import harmed
from fuzzing.verdict import Case, Failure

COUNT = 24
CODECS = ("none", "snappy", "gzip", "zstd", "brotli", "lz4")
NUMBERS = (0.0, -0.0, 1e308, -1e300, 5e-324, float("inf"), float("nan"), 2.0**63, 1e-200, 0.1)
NAMES = ("a", "y", "", "a\x1b[2J", "b" * 400, "ü", "__index_level_0__", "a.b", "b\x00")


class Run:
    """A pickle of this runs a program, if somebody loads it."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """Say how."""
        import os

        return os.system, ("true",)


def prepare(_: Path, is_small: bool) -> int:
    """Choose how many columns are many."""
    return 200 if is_small else 4000


def make(rng: Random, many: int) -> Case:
    """Write a table, and harm it in some way."""
    inner = Random(rng.randrange(2**32))
    a, y = ([inner.gauss(0, 1) for _ in range(COUNT)] for _ in range(2))
    columns: list[tuple[str, Any]] = [("a", pa.array(a)), ("y", pa.array(y))]
    kind = rng.choice(tuple(_COLUMNS))
    is_plain = rng.randrange(4) == 0
    if not is_plain:
        columns.insert(rng.randrange(3), ("b", _COLUMNS[kind](inner)))
    if rng.randrange(8) == 0:
        place = rng.randrange(len(columns))
        columns[place] = (rng.choice(NAMES), columns[place][1])
    if rng.randrange(20) == 0:
        columns += [(f"w{k}", columns[0][1]) for k in range(many)]
    if rng.randrange(15) == 0:
        a[rng.randrange(COUNT)] = rng.choice(NUMBERS)
        columns[0] = (columns[0][0], pa.array(a))
    table = pa.table([column for _, column in columns], names=[name for name, _ in columns])
    if rng.randrange(6) == 0:
        table = table.replace_schema_metadata(_metadata(rng))
    if rng.randrange(20) == 0:
        table = table[:0]
    has_sums = rng.randrange(2) == 1
    held = io.BytesIO()
    pq.write_table(
        table,
        held,
        compression=rng.choice(CODECS),
        use_dictionary=rng.randrange(2) == 1,
        write_page_checksum=has_sums,
        row_group_size=rng.choice((COUNT, 5)),
        data_page_version=rng.choice(("1.0", "2.0")),
    )
    content = held.getvalue()
    is_harmed = rng.randrange(2) == 1
    if is_harmed:
        content = harmed(rng, content)
    name = "t.parquet" if rng.randrange(10) else rng.choice(("t.pq", "t.PARQUET", "t.csv"))
    missing = {"missing": "drop"} if rng.randrange(4) == 0 else {}
    is_known = is_plain and (not is_harmed or has_sums)
    return Case(content, name, missing, table if is_known else None)


def judge(case: Case, folder: Path) -> bool:
    """Compare a table that is known with what the library reads, if it does."""
    from gibbs_dp.problems.table import table

    path = folder / case.name
    path.write_bytes(case.content)
    found = table(path, "y", loss="squared", **case.options)
    numbers = [np.asarray(part) for part in found.population.data]
    if not all(np.isfinite(part).all() for part in numbers):
        raise Failure("it was accepted with numbers that are none")
    if case.expected is not None:
        plain = table(case.expected.to_pandas(), "y", loss="squared", **case.options)
        for mine, other in zip(numbers, plain.population.data, strict=True):
            if mine.shape != other.shape or not np.allclose(mine, other, rtol=1e-5, atol=1e-6):
                raise Failure("it was accepted with other numbers than were saved")
    return True


def _metadata(rng: Random) -> dict[bytes, bytes]:
    match rng.randrange(5):
        case 0:
            index = [{"kind": "range", "name": None, "start": 0, "stop": 10**12, "step": 1}]
            found: Any = {"index_columns": index, "columns": [], "column_indexes": []}
        case 1:
            found = {"index_columns": ["a"], "columns": [], "column_indexes": []}
        case 2:
            column = {"name": "a", "field_name": "a", "pandas_type": "object", "numpy_type": "O"}
            found = {"index_columns": [], "columns": [column | {"metadata": None}]}
        case 3:
            return {b"pandas": b"[" * 50_000}
        case _:
            return {b"pandas": pickle.dumps(Run()), b"ARROW:schema": b"AAAA" * 10}
    return {b"pandas": json.dumps(found).encode()}


def _extension(_: Random) -> Any:
    """Name a type whose description is a pickle, which old versions of Arrow loaded."""
    field = {b"ARROW:extension:name": b"arrow.py_extension_type"}
    field[b"ARROW:extension:metadata"] = pickle.dumps(Run())
    kind = pa.field("b", pa.int64(), metadata=field)
    return pa.table([pa.array(range(COUNT))], schema=pa.schema([kind])).column(0)


def _values(values: Any, kind: Any = None) -> Any:
    return lambda inner: pa.array([values(inner, k) for k in range(COUNT)], kind)


_COLUMNS = {
    "whole": _values(lambda r, k: r.choice((0, 1, 2**31, -(2**62))), pa.int64()),
    "unsigned": _values(lambda r, k: 2**64 - 1 - k, pa.uint64()),
    "flags": _values(lambda r, k: r.choice((True, False, None))),
    "texts": _values(lambda r, k: r.choice(("u", "v", None, "\x1b[31m"))),
    "long texts": _values(lambda r, k: "x" * 2000 + str(k)),
    "nulls": _values(lambda r, k: None, pa.null()),
    "decimals": _values(lambda r, k: decimal.Decimal(k) / 8, pa.decimal128(38, 20)),
    "large decimals": _values(lambda r, k: decimal.Decimal(10**60 + k), pa.decimal256(70, 2)),
    "dates": _values(lambda r, k: datetime.date(2020, 1, 1 + k)),
    "old dates": _values(lambda r, k: k - 10**8 * (k % 2), pa.date32()),
    "times": _values(lambda r, k: datetime.time(k, 0)),
    "zones": _values(lambda r, k: k * 10**9, pa.timestamp("ns", "Europe/Berlin")),
    "far": _values(lambda r, k: k * 10**14, pa.timestamp("s")),
    "no zone": _values(lambda r, k: k, pa.timestamp("us", "Mars/Olympus")),
    "spans": _values(lambda r, k: k, pa.duration("ms")),
    "lists": _values(lambda r, k: [1.0] * (k % 3)),
    "deep": _values(lambda r, k: [[[[{"x": [k]}]]]]),
    "records": _values(lambda r, k: {"p": k, "q": None}),
    "maps": _values(lambda r, k: [(str(k), k)], pa.map_(pa.string(), pa.int64())),
    "bytes": _values(lambda r, k: bytes([k, 255, 0])),
    "halves": _values(lambda r, k: np.float16(k), pa.float16()),
    "words": lambda r: _values(lambda r, k: r.choice(("u", "v")))(r).dictionary_encode(),
    "numbered": lambda r: pa.array([k % 3 for k in range(COUNT)]).dictionary_encode(),
    "large": _values(lambda r, k: r.choice(NUMBERS)),
    "extension": _extension,
}
