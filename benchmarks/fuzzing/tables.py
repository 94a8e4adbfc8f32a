"""CSV files for `gibbs_dp.problems.table`: spelled in odd ways, and harmed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzzing import plain_csv
from fuzzing.harm import harmed
from fuzzing.verdict import Case, Failure, not_a_sentence

CELLS = (
    *("", "nan", "NaN", "inf", "-inf", "1e999", "-1e308", "1e300", "5e-324", "1e-310", "-0.0"),
    *("0x10", "1_000", "1,000", "1.000,5", "1,5", "1e", "e5", "+-1", "--", "1 2", "٣", "１", "½"),
    *("9" * 19, "9" * 25, "9" * 400, "1" + "0" * 30, "0" * 50 + "1", "1." + "0" * 300, "1e-400"),
    *("True", "FALSE", "2020-01-31", "31/12/1999 23:59", "24:00", "1970-01-01T00:00:00Z"),
    *("=1+1", '=HYPERLINK("http://x")', "@SUM(A1)", "-2+3|cmd", "<script>alert(1)</script>"),
    *("\x1b[2J\x1b]0;owned\x07", "\x00", "a\x00b", "\x07", "\u202egnp", "\ufeff", "\u2028", "\x85"),
    *("'; DROP TABLE x", "${HOME}", "`id`", "%s%n", "{0.__class__}", "../../etc/passwd", "#"),
    *('"', '""', '"a', 'a"b', '"1"2', "a\nb", "a\r", "\r", "NULL", "#N/A", "?", "-9", "N/A"),
    *("x" * 5000, "é", "\xff", "🙂", " 1 ", "\t1", "1\t", "\\N", "\\", "None", "5%", "$5", "1/2"),
)
NAMES = (
    *("age", "age", "y", "", " y", "Y", "y.1", "Unnamed: 0", "index", "0", "\x1b[31mred", "a\x00b"),
    *("a,b", 'a"b', "a\nb", "<b>x</b>", "größe", "🙂", "__class__", "nan", "x" * 3000, "\ufeffage"),
)


# Columns of wide tables, and lengths of long cells: for tests, and for the nightly program.
SMALL, LARGE = ((50, 300), (10_000, 300_000)), ((50, 500, 1500), (10_000, 3_000_000))
Sizes = tuple[tuple[int, ...], tuple[int, ...]]


def prepare(_: Path, is_small: bool) -> Sizes:
    """Choose how large large is."""
    return SMALL if is_small else LARGE


def make(rng: Random, sizes: Sizes) -> Case:
    """Write a table in some spelling, and harm it in some way."""
    inner = Random(rng.randrange(2**32))  # values of no importance
    sep, decimal = rng.choice(
        ((",", "."), (",", "."), (";", "."), (";", ","), ("\t", "."), ("|", "."))
    )
    options: dict[str, Any] = {}
    if (sep, decimal) != (",", "."):
        options = {"sep": sep, "decimal": decimal}
    if rng.randrange(8) == 0:
        options["missing"] = "drop"
    if rng.randrange(8) == 0:
        options["na_values"] = ["?", "-9"]
    if rng.randrange(10) == 0:
        options["categorical"] = ["c"]
    encoding = rng.choice(("utf-8",) * 6 + ("utf-8-sig", "latin-1", "utf-16", "cp1252"))
    if encoding != "utf-8-sig" and encoding != "utf-8" and rng.randrange(3):
        options["encoding"] = encoding
    table = _table(inner, decimal)
    change = rng.randrange(len(_CHANGES) + 2)
    if change < len(_CHANGES):
        _CHANGES[change](rng, table)
    else:
        (_wide if change == len(_CHANGES) else _long)(rng, table, sizes)
    end = rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    lines = [sep.join(_quoted(cell, sep, rng.randrange(12) > 0) for cell in row) for row in table]
    text = end.join(lines) + rng.choice((end, ""))
    content = text.encode(encoding, "replace")
    name = "t.tsv" if sep == "\t" and rng.randrange(2) else "t.csv"
    if rng.randrange(4) == 0:
        content = harmed(rng, content)
    elif rng.randrange(25) == 0:
        content, name = _packed(rng, content)
    return Case(content, name, options)


def judge(case: Case, folder: Path) -> bool:
    """Compare what the library makes of a file with what it makes of a frame read plainly."""
    from gibbs_dp.problems.table import table

    path = folder / case.name
    path.write_bytes(case.content)
    found = table(path, "y", loss="squared", **case.options)
    if case.name.endswith((".gz", ".bz2", ".zip", ".xz")):
        return True
    try:
        frame = plain_csv.read(case.content, case.name, case.options)
        other = {k: v for k, v in case.options.items() if k in ("missing", "categorical")}
        expected = table(frame, "y", loss="squared", **other)
    except (ValueError, OSError) as error:
        raise Failure(f"it was accepted, and read plainly: {error}") from None
    for mine, plain in zip(found.population.data, expected.population.data, strict=True):
        same = np.shape(mine) == np.shape(plain) and np.allclose(mine, plain, rtol=1e-4, atol=1e-5)
        if not same or not np.isfinite(np.asarray(mine)).all():
            raise Failure(f"it was accepted with other numbers, {_shown(mine, plain)}")
    for note in found.notes:
        if wrong := not_a_sentence(note):
            raise Failure(f"a note {wrong}")
    return True


def _shown(mine: Any, plain: Any) -> str:
    return f"{np.asarray(mine)[:3].tolist()} for {np.asarray(plain)[:3].tolist()}"[:300]


def _table(inner: Random, decimal: str) -> list[list[str]]:
    count = inner.choice((12, 25, 140))
    rows = [["a", "b", "c", "y"]]
    for k in range(count):
        a, y = f"{inner.uniform(-9, 9):.3f}", f"{inner.gauss(0, 2):.4f}"
        rows.append(
            [
                a.replace(".", decimal),
                inner.choice(("u", "v", "w")),
                str(k % 3),
                y.replace(".", decimal),
            ]
        )
    return rows


def _quoted(cell: str, sep: str, is_right: bool) -> str:
    if is_right and any(mark in cell for mark in (sep, '"', "\n", "\r")):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _packed(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Pack it as its name says, or not; a small bomb among them."""
    if rng.randrange(2):
        content += b"0,u,1,0\n" * rng.choice((10, 20_000))
    kind = rng.choice(("gz", "bz2", "zip", "xz"))
    if rng.randrange(3) == 0:
        return content, f"t.csv.{kind}"
    if kind == "gz":
        return gzip.compress(content), "t.csv.gz"
    if kind == "bz2":
        return bz2.compress(content), "t.csv.bz2"
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(rng.choice((1, 1, 2))):
            archive.writestr(rng.choice(("t.csv", "../t.csv", "/t")) + str(number), content)
    return held.getvalue(), "t.csv.zip"


Table = list[list[str]]


def _nothing(rng: Random, table: Table) -> None:
    """Leave it."""


def _cells(rng: Random, table: Table) -> None:
    for _ in range(rng.choice((1, 1, 2, 5))):
        row = rng.randrange(1, len(table))
        table[row][rng.randrange(4)] = rng.choice(CELLS)


def _column(rng: Random, table: Table) -> None:
    place = rng.randrange(4)
    few = [rng.choice(CELLS) for _ in range(rng.choice((1, 2, 3)))]
    for k, row in enumerate(table[1:]):
        row[place] = few[k % len(few)]


def _scaled(rng: Random, table: Table) -> None:
    place, power = rng.choice((0, 3)), rng.choice((-320, -300, -160, 150, 160, 300, 304))
    for row in table[1:]:
        row[place] = f"{row[place]}e{power}"


def _whole(rng: Random, table: Table) -> None:
    """Whole numbers, larger than a machine's."""
    place, add = rng.choice((0, 2, 3)), rng.choice((2**53, 2**62, 2**63, 2**64, 10**20, 10**40))
    for k, row in enumerate(table[1:]):
        row[place] = str(add + k % rng.choice((2, 3, 50)))


def _name(rng: Random, table: Table) -> None:
    table[0][rng.randrange(4)] = rng.choice(NAMES)


def _ragged(rng: Random, table: Table) -> None:
    row = table[rng.randrange(len(table))]
    if rng.randrange(2):
        row.extend(["7"] * rng.choice((1, 1, 2, 50)))
    else:
        del row[rng.randrange(4) :]


def _all_longer(rng: Random, table: Table) -> None:
    """Names of rows without a header, as R writes them, or a separator at the end of lines."""
    at = rng.choice((0, len(table[0])))
    for k, row in enumerate(table[rng.choice((1, 1, len(table) // 2)) :]):
        row.insert(at, rng.choice(("", str(k), "9")))


def _wide(rng: Random, table: Table, sizes: Sizes) -> None:
    count = rng.choice(sizes[0])
    for k, row in enumerate(table):
        row[:0] = [f"w{j}" if k == 0 else str((j + k) % 5) for j in range(count)]
    del table[13:]


def _long(rng: Random, table: Table, sizes: Sizes) -> None:
    table[rng.randrange(len(table))][rng.randrange(4)] = "9" * rng.choice(sizes[1])


def _lines(rng: Random, table: Table) -> None:
    match rng.randrange(5):
        case 0:
            table.insert(rng.randrange(len(table)), rng.choice(([""], [" "], ["#"], ['"'])))
        case 1:
            table.append(list(table[0]))
        case 2:
            del table[rng.choice((0, 1)) :]
        case 3:
            table.insert(0, ["sep=,"])
        case _:
            table[1:] = table[1:] * 40


def _dates(rng: Random, table: Table) -> None:
    spell = rng.choice(
        ("2020-01-{:02d}", "{:02d}/02/2020", "{0:02d}.{0:02d}.99", "2020-02-{:02d} 9:00")
    )
    for k, row in enumerate(table[1:]):
        row[0] = spell.format(1 + k % 30)


def _json(rng: Random, table: Table) -> None:
    for row in table[1:]:
        row[1] = json.dumps({"__reduce__": ["os.system", row[1]]})


_CHANGES: tuple[Callable[[Random, Table], None], ...] = (
    *(_nothing, _cells, _cells, _cells, _column, _column, _scaled, _whole, _name, _name, _ragged),
    *(_ragged, _all_longer, _lines, _lines, _dates, _json),
)
