"""Private tables: one record's bytes decide one row, and nothing else."""

import csv
import io
import math
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gibbs_dp.model import Domain
from gibbs_dp.privacy import Levels, Number, Positive, Range, Schema, columns, read_table

SCHEMA = Schema(
    {"age": Range(0.0, 100.0), "dose": Number(), "smoker": Levels(["no", "yes"])},
    "ill",
    Levels(["False", "True"]),
    x_bound=5.0,
)
HEADER = b"id,age,dose,smoker,ill\n"
ZEROS = [0.0, 0.0, 0.0, 0.0, 0.0]

# One record is bytes without a line break: readable ones, pieces that break readers, anything.
PIECES = st.sampled_from(
    [
        *(b",", b";", b'"', b'""', b" ", b"\t", b"\r", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\0"),
        *(b"\xe2\x80\xa8", b"\xff\xfe", b"\xef\xbb\xbf", b"\xd9\xa1", b"#", b"\\", b"'", b"12"),
        *(
            b"True",
            b"yes",
            b"nan",
            b"-inf",
            b"1e999",
            b"0x10",
            b"1_0",
            b'"1,0"',
            b".5",
            b"1,2,3,4,5",
        ),
    ]
)
READABLE = st.builds(
    lambda i, age, dose, smoker, ill: f"{i},{age},{dose!r},{smoker},{ill}".encode(),
    st.integers(0, 99),
    st.integers(-10, 120),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["no", "yes"]),
    st.booleans(),
)
RECORD = st.one_of(
    READABLE,
    st.lists(PIECES, max_size=12).map(b"".join),
    st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")),
)


def read(path, records, end=b"\n", header=HEADER, schema=SCHEMA):
    """Rows as the sampler gets them: read, then clipped to the domain."""
    path.write_bytes(header + end.join([*records, b""]))
    table = read_table(path, schema)
    x, y = schema.domain.clip(table)
    return np.column_stack([x, y])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("table") / "t.csv"


@settings(max_examples=150, deadline=None)
@given(
    st.lists(RECORD, min_size=1, max_size=8), RECORD, st.integers(0, 7), st.sampled_from(["", "\r"])
)
@example([b"1,2,3,no,True"] * 3, b"1,2,3,no,maybe", 1, "")
@example([b"1,2,3,no,True"] * 3, b"1,2,3,no,True,", 0, "")
@example([b"1,2,3,no,True"] * 3, b'"1,2,3,no,True', 1, "\r")
@example([b"1,2,3,no,True"] * 3, b"", 2, "")
@example([b"1,2,3,no,True"] * 3, b"1,2,3,no,Tru\xe9", 1, "")
def test_neighbouring_files_are_neighbouring_datasets(file, records, other, place, carriage):
    """Whatever bytes a record holds, the other rows are the same to the bit, and as many.

    Its own row is the one that it has in a file by itself.
    """
    place %= len(records)
    end = carriage.encode() + b"\n"
    rows = read(file, records, end)
    changed = read(file, [*records[:place], other, *records[place + 1 :]], end)
    assert rows.shape == changed.shape == (len(records), 5)
    rest = np.arange(len(records)) != place
    assert np.array_equal(rows[rest], changed[rest])
    assert np.array_equal(changed[place], read(file, [other])[0])
    assert (np.linalg.norm(changed[:, :4], axis=1) <= 5.0).all()
    assert np.isin(changed[:, 4], (0.0, 1.0)).all()


GOOD = b"7,50,2,yes,True"
ATTACKS = {
    "odd label": b"7,50,2,yes,maybe",
    "odd number": b"7,fifty,2,yes,True",
    "odd level": b"7,50,2,Yes,True",
    "extra comma": GOOD + b",",
    "too few cells": b"7,50,2",
    "stray quote": b'7,"50,2,yes,True',
    "text after a quote": b'7,"50"0,2,yes,True',
    "blank": b"",
    "spaces": b"   ",
    "latin-1": b"7,50,2,y\xe9s,True",
    "NUL": b"7,5\x000,2,yes,True",
    "not a number": b"7,nan,2,yes,True",
    "infinite": b"7,50,1e999,yes,True",
    "empty cell": b"7,,2,yes,True",
    "Arabic digits": "7,٥٠,2,yes,True".encode(),
    "huge": GOOD + b" " * columns.MAX_LINE,
    "many cells": b"," * columns.MAX_LINE,
}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_record_that_cannot_be_read_is_zeros_and_the_others_stay(file, attack, place):
    records = [GOOD] * 3
    records[place] = ATTACKS[attack]
    rows = read(file, records)
    good = [1.0, 0.5, 2.0, 1.0, 1.0]
    assert rows.tolist() == [ZEROS if i == place else good for i in range(3)]


HARMLESS = {
    "quoted": b'"7","50","2","yes","True"',
    "spaces": b' 7, "50" ,\t2 , yes,True ',
    "other columns": b'"Doe, ""Jo"" \xe9\x00\r\x0b",+50.,2e0,yes,True',
    "lone carriage return": b"\r7\r,50,2,yes,True",
    "Unicode line breaks": "\u20287\x85,50,2,yes,True".encode(),
}


@pytest.mark.parametrize("record", HARMLESS.values(), ids=HARMLESS)
def test_what_is_read_as_declared(file, record):
    assert read(file, [GOOD, record]).tolist() == [[1.0, 0.5, 2.0, 1.0, 1.0]] * 2


@pytest.mark.parametrize(
    ("body", "count"),
    [
        *((b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\n\n", 2), (b"a\nb", 2), (b"\r", 1)),
        *((b"a\r\n\r\nb\r\n", 3), (b'"a\nb"\n', 2), (b"a\rb\x0b\x0c\x1c\x85\xe2\x80\xa8\n", 1)),
    ],
)
def test_n_is_the_number_of_lines_after_the_header(file, body, count):
    file.write_bytes(HEADER + body)
    assert len(read_table(file, SCHEMA)[1]) == count


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r")), min_size=1),
    st.sampled_from(",;\t|"),
)
def test_cells_are_those_that_a_csv_writer_wrote(texts, separator):
    written = io.StringIO()
    csv.writer(written, delimiter=separator, lineterminator="", quoting=csv.QUOTE_ALL).writerow(
        texts
    )
    found = columns.split_cells(written.getvalue().encode(), separator.encode())
    assert found == [text.encode() for text in texts]
    plain = [text.replace(separator, "").lstrip(' "') for text in texts]
    assert columns.split_cells(separator.join(plain).encode(), separator.encode()) == [
        text.encode() for text in plain
    ]


NUMBER = re.compile(r"[ \t]*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ \t]*")


@settings(max_examples=500)
@given(st.one_of(st.text("0123456789+-.eE_ \tx,", max_size=9), st.floats().map(repr), st.text()))
@example("1" * 101)
@example("9" * 100)
@example("٣")
@example("1e400")
@example("1e-400")
def test_numbers_are_those_of_the_documented_grammar(text):
    """Against a regular expression and decimal arithmetic."""
    found = NUMBER.fullmatch(text) if len(text) <= 100 else None
    wanted = None if found is None else float(Decimal(found.group(1)))
    if wanted is not None and math.isinf(wanted):
        wanted = None
    assert columns.to_number(text.encode()) == wanted
    if not {".", ","} & set(text):
        assert columns.to_number(text.encode(), b",") == wanted
    else:
        swapped = text.translate(str.maketrans(".,", ",."))
        assert columns.to_number(swapped.encode(), b",") == wanted


def test_every_row_is_within_the_domain_that_follows_and_one_is_on_its_border(file):
    schema = Schema(
        {
            "a": Range(-1.0, 1.0),
            "b": Levels(["x", "y", "z"]),
            "c": Positive("1"),
            "d": Number(-3.0, 2.0),
        },
        "e",
        Number(-1.0, 4.0),
    )
    records = [
        f"{a},{b},{c},{d},9" for a in (-2, 1) for b in "xyz" for c in (0, 1) for d in (-4, 9)
    ]
    file.write_text("a,b,c,d,e\n" + "\n".join(records))
    x, y = read_table(file, schema)
    norms = np.linalg.norm(x, axis=1)
    assert schema.domain.x_bound == pytest.approx(norms.max(), rel=1e-15)
    assert schema.domain.x_bound == math.sqrt(1 + 1 + 1 + 1 + 9)
    assert schema.names == ("intercept", "a", "b=y", "b=z", "c=1", "d")
    assert schema.domain.y_range == (-1.0, 4.0)
    assert set(y) == {4.0}
    again = Schema.from_dict(schema.to_dict())
    assert np.array_equal(read_table(file, again)[0], x)
    assert again.domain == schema.domain


def test_clipping_shortens_each_row_by_itself_and_says_nothing():
    """Tiny, huge and infinite rows, whose norms leave the doubles; warnings are errors here."""
    tiny, huge = [5e-324] * 6, [-1.7e308] * 6
    rows = np.array([tiny, huge, [np.nan, np.inf, -np.inf, 3, 4, 0], [0] * 6, [1e-310] * 6])
    for bound in (0.0, 1.0, 1e300, np.inf):
        clipped = Domain(x_bound=bound).clip(rows)
        alone = [Domain(x_bound=bound).clip(row[None])[0] for row in rows]
        assert np.array_equal(clipped, alone)
        if bound == 1.0:
            assert clipped == pytest.approx(
                np.array([tiny, [-(6**-0.5)] * 6, [0, 0, 0, 0.6, 0.8, 0], [0] * 6, [1e-310] * 6]),
                rel=2e-6,
            )


def test_other_separators_a_byte_order_mark_and_decimal_commas(file, tmp_path):
    schema = Schema({"größe": Range(0.0, 2.0)}, "krank", Levels(["nein", "ja"]))
    text = 'name;größe;krank\r\n"Müller, A.";1,5;ja\r\nX;1.5;nein\r\n'
    file.write_text(text, encoding="utf-8-sig", newline="")
    x, y = read_table(file, schema, decimal=",")
    assert x.tolist() == [[1.0, 0.75], [0.0, 0.0]]
    assert y.tolist() == [1.0, 0.0]
    tabs = tmp_path / "t.tsv"
    tabs.write_text("größe,m\tgröße\tkrank\n1,2\t1\tja\n")
    assert read_table(tabs, schema)[0].tolist() == [[1.0, 0.5]]


def test_levels_that_are_numbers_and_missing_ones(file):
    schema = Schema({"g": Levels(["", "1", "02"]), "v": Positive("1")}, intercept=False)
    file.write_text("g,v\n1.0,1\n2,1.0\n,0\n3,1\n02,\n 1e0 , x \n")
    x = read_table(file, schema)
    assert x.tolist() == [[1, 0, 1], [0, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]


REFUSALS = {
    "no column": (b"id,age,dose,smoker\n", "has no column 'ill'; the first line must hold"),
    "twice": (b"age,dose,smoker,ill,age\n", "two columns are called 'age'; rename one"),
    "UTF-16": ("age,dose,smoker,ill\n".encode("utf-16"), "it is in UTF-16"),
    "latin-1": (b"age,dose,smoker,ill,Gr\xf6\xdfe\n", "the header is not UTF-8 text"),
    "gzip": (b"\x1f\x8b\x08\x00", "the header is not UTF-8 text"),
    "old line ends": (b"age,dose,smoker,ill\r1,2,no,True\r", "has a carriage return inside"),
    "empty": (b"", "the header has no column 'age'"),
    "broken header": (b'age,dose,smoker,ill,"comment\n', "the header has no column 'age'"),
    "huge header": (b"age,dose,smoker,ill" + b"," * columns.MAX_LINE, "has no column 'age'"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_header_is_refused_by_one_sentence_that_quotes_nothing_of_the_file(file, case):
    header, message = REFUSALS[case]
    said = []
    for record in (b"secret,1", b'"'):
        file.write_bytes(header + record + b"\n")
        with pytest.raises(ValueError, match=re.escape(message)) as refusal:
            read_table(file, SCHEMA)
        said.append(str(refusal.value))
    assert said[0] == said[1]
    assert "secret" not in said[0]


def test_files_that_are_no_plain_text_are_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"^data: there is no file '.*none.csv'\.$"):
        read_table(tmp_path / "none.csv", SCHEMA)
    with pytest.raises(ValueError, match=r"is a folder; name a CSV file in it\.$"):
        read_table(tmp_path, SCHEMA)
    for name in ("t.parquet", "t.csv.gz", "t.XLSX"):
        (tmp_path / name).write_bytes(HEADER)
        with pytest.raises(ValueError, match=r"CSV or TSV, read line by line, and no \.\w+ file"):
            read_table(tmp_path / name, SCHEMA)
    (tmp_path / "t.csv").write_bytes(HEADER)
    with pytest.raises(ValueError, match=r"^decimal: give '.' or ',', got ';'\.$"):
        read_table(tmp_path / "t.csv", SCHEMA, decimal=";")


# -- declarations ---------------------------------------------------------------------------------

DECLARED = Schema({"age": Range(0.0, 100.0)}, "ill", Levels(["no", "yes"]))

SENSELESS = {
    "one level": (lambda: Levels(["no"]), r"give a list of two or more"),
    "a word": (lambda: Levels("no"), r"give a list of two or more, got 'no'"),
    "same": (lambda: Levels(["a", " a"]), r"'a' and 'a' are the same"),
    "same number": (lambda: Levels(["1", "1.0"]), r"'1' and '1.0' are the same"),
    "empty": (lambda: Positive(" "), r"Positive\(level\): it is empty"),
    "range": (lambda: Range(1.0, 1.0), r"Range\(low\): .* got 1 and 1"),
    "endless": (lambda: Range(0.0, math.inf), r"Range\(low\): .* both finite"),
    "number": (lambda: Number(2.0, math.nan), r"Number\(low\): .* got 2 and nan"),
    "free": (lambda: Schema({"a": Number()}), r"^x_bound: 'a' is a number without bounds"),
    "none": (lambda: Schema({}), r"^features: there are none"),
    "label": (lambda: Schema({"a": Positive("1")}, "b"), r"^label: give it together"),
    "target": (
        lambda: Schema({"a": Positive("1")}, "a", Positive("1")),
        r"^features: 'a' is the target",
    ),
    "names": (
        lambda: Schema({"a": Positive("1"), "a=1": Range(0.0, 1.0)}),
        r"^features: two would be called 'a=1'",
    ),
    "intercept": (
        lambda: Schema({"intercept": Range(0.0, 1.0)}),
        r"^features: two would be called 'intercept'",
    ),
    "bound": (
        lambda: Schema({"a": Positive("1")}, x_bound=-1.0),
        r"^x_bound: must be positive and finite, got -1\.",
    ),
    "saved": (lambda: Schema.from_dict({"features": {}}), r"^saved: it is not what"),
    "kind": (
        lambda: Schema.from_dict(DECLARED.to_dict() | {"label": {"kind": "odd"}}),
        r"^saved: there is no column of kind 'odd'",
    ),
}


@pytest.mark.parametrize("case", SENSELESS)
def test_declarations_that_make_no_sense(case):
    make, message = SENSELESS[case]
    with pytest.raises(ValueError, match=message):
        make()
