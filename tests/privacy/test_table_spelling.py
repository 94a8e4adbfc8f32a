"""Private tables in other encodings, with other separators, dates and texts for missing values."""

import datetime

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gibbs_dp.privacy import Date, Levels, Number, Positive, Range, Schema, read_table

CITIES = Levels(["Ulm", "Köln", "Düren"])
SCHEMA = Schema(
    {"größe": Range(0.0, 100.0), "aufnahme": Date("2020-01-01", "2021-01-01"), "stadt": CITIES},
    "krank",
    Positive("ja"),
)
NAMES = ["id", "größe", "aufnahme", "stadt", "krank"]
ENCODINGS = ("utf-8", "latin-1", "cp1252", "cp437", "mac-roman")
SPELLINGS = (
    *({}, {"sep": "^"}, {"sep": ";", "decimal": ","}, {"na_values": ["?", "-9"]}),
    {"thousands": "_", "units": ["$", "%"], "decimal": ",", "sep": ";"},
)

PIECES = st.sampled_from(
    [
        *(b",", b";", b"^", b'"', b'""', b" ", b"\t", b"\r", b"\x85", b"\0", b"\x81", b"\xff\xfe"),
        *(b"\xc3\xb6", b"\xf6", b"?", b"-9", b"2020-02-30", b"2020-07-02", b"01/02/2020", b"ja"),
        *(b"$", b"1_000"),
        *("2020-٠١-01".encode(), b"9999-12-31", b"0000-00-00", b"2020-07-02T10:00", b"\x1b$B"),
    ]
)
RECORD = st.one_of(
    st.builds(
        lambda size, day, city, ill: f"1,{size},{day},{city},{ill}".encode("latin-1"),
        st.integers(-20, 120),
        st.dates(datetime.date(2019, 6, 1), datetime.date(2021, 6, 1)),
        st.sampled_from(["Ulm", "Köln", "Düren", "?", "-9"]),
        st.sampled_from(["ja", "nein"]),
    ),
    st.lists(PIECES, max_size=12).map(b"".join),
    st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")),
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("table") / "t.csv"


def read(path, records, encoding="utf-8", **options):
    sep = options.get("sep", ",").encode()
    header = sep.join(name.encode(encoding) for name in NAMES)
    path.write_bytes(b"\n".join([header, *records, b""]))
    return np.column_stack(read_table(path, SCHEMA, encoding=encoding, **options))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(RECORD, min_size=1, max_size=6),
    RECORD,
    st.integers(0, 5),
    st.sampled_from(ENCODINGS),
    st.sampled_from(SPELLINGS),
)
@example([b"1,2,2020-01-01,Ulm,ja"] * 3, b"1,2,2020-02-30,Ulm,ja", 1, "utf-8", {})
@example([b"1,2,2020-01-01,Ulm,ja"] * 3, b"1,2,?,\xf6,ja", 0, "cp1252", SPELLINGS[3])
def test_neighbouring_files_are_neighbouring_datasets(
    file, records, other, place, encoding, options
):
    place %= len(records)
    rows = read(file, records, encoding, **options)
    changed = read(file, [*records[:place], other, *records[place + 1 :]], encoding, **options)
    assert rows.shape == changed.shape == (len(records), 6)
    rest = np.arange(len(records)) != place
    assert np.array_equal(rows[rest], changed[rest])
    assert np.array_equal(changed[place], read(file, [other], encoding, **options)[0])
    assert (np.linalg.norm(changed[:, :5], axis=1) <= SCHEMA.domain.x_bound * (1 + 1e-12)).all()
    assert ((changed >= 0) & (changed <= 1)).all()


GOOD = [[1.0, 0.5, 0.5, 1.0, 0.0, 1.0], [1.0, 0.25, 0.0, 0.0, 1.0, 0.0]]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_declared_texts_are_found_in_the_tables_own_encoding(file, encoding):
    records = ["1,50,2020-07-02,Köln,ja", '2,25,2019-03-04 23:59,"Düren",nein']
    rows = read(file, [record.encode(encoding) for record in records], encoding)
    assert rows.tolist() == GOOD
    other = "latin-1" if encoding == "utf-8" else "utf-8"
    odd = read(file, [records[0].encode(other), records[1].encode(encoding)], encoding)
    assert odd.tolist() == [[0.0] * 6, GOOD[1]]  # "Ã¶" is no level
    caret = [record.encode(encoding).replace(b",", b"^") for record in records]
    assert read(file, caret, encoding, sep="^").tolist() == GOOD


def test_dates_are_mapped_by_declared_days_and_calendars():
    day = Date("01.01.2020", "31.12.2020", "DD.MM.YYYY")
    assert (day.first, day.last) == ("2020-01-01", "2020-12-31")
    for cell, value in {
        b"1.1.2020": 0.0,
        b" 31.12.2020 ": 1.0,
        b"31.12.1999": 0.0,
        b"1.1.2999": 1.0,
        b"2.7.2020": 183 / 365,
        b"30.02.2020": None,
        b"2020-07-02": None,
        b"": None,
        b"2.7.20": None,
        "٢.7.2020".encode(): None,
        b"\xff": None,
    }.items():
        assert day.label(cell) == value
        assert day.features(cell) == (None if value is None else (value,))
    assert day.label_rule("x") == "days from 2020-01-01 to x, / 365, moved into [0, 1]"
    schema = Schema({"x": day, "n": Number(0.0, 2.0)}, "y", Date("2020-01-01", "2020-01-11"))
    assert schema.norm == pytest.approx(6**0.5)
    assert schema.domain.y_range == (0.0, 1.0)
    assert Schema.from_dict(schema.to_dict()) == Schema(
        schema.features, "y", schema.label, schema.norm
    )


def test_texts_for_missing_values_make_a_record_zeros_and_no_other(file):
    records = [b"1,50,2020-07-02,K\xf6ln,ja", b"2,25,2019-03-04,D\xfcren,nein"]
    odd = [b"3,-9.0,2020-07-02,Ulm,ja", b"4,50,2020-07-02,Ulm, ? ", b"?,50,2020-07-02,Ulm,ja"]
    absent = {"encoding": "latin-1", "na_values": ["?", "-9"]}
    rows = read(file, [*records, *odd], **absent).tolist()
    assert rows == [*GOOD, [0.0] * 6, [0.0] * 6, [1.0, 0.5, 0.5, 0.0, 0.0, 1.0]]
    plain = read(file, [*records, *odd], "latin-1").tolist()
    assert plain[2:4] == [[1.0, 0.0, 0.5, 0.0, 0.0, 1.0], [1.0, 0.5, 0.5, 0.0, 0.0, 0.0]]


REFUSED = {
    "a level": ({"na_values": ["Köln"]}, "na_values: 'Köln' is a declared level of 'stadt'"),
    "the label": ({"na_values": ["ja"]}, "na_values: 'ja' is a declared level of 'krank'"),
    "one text": ({"na_values": "?"}, "na_values: give a list of texts, got '[?]'"),
    "two bytes": (
        {"encoding": "utf-16"},
        "encoding: 'utf-16' is not read line by line; give utf-8",
    ),
    "Chinese": ({"encoding": "gbk"}, "encoding: 'gbk' is not read line by line"),
    "no encoding": ({"encoding": "klingon"}, "encoding: there is no encoding of text 'klingon'"),
    "wrong one": ({"encoding": "ascii"}, "data: the header is not ASCII text; give the file's own"),
    "long": ({"sep": "::"}, "sep: '::' cannot separate cells"),
    "mark": ({"sep": ",", "decimal": ","}, "sep: ',' is the decimal mark"),
    "other": ({"sep": ";"}, "has no column 'größe'; .* columns, separated by ';'[.]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_and_headers_are_refused_and_records_never(file, case):
    options, message = REFUSED[case]
    file.write_bytes(",".join(NAMES).encode() + b"\nsecret\n")
    with pytest.raises(ValueError, match=message) as told:
        read_table(file, SCHEMA, **options)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2020-01-01", "2020-01-01"), "Date\\(first\\): give the first day, then a later one"),
        (("yesterday", "2020-01-01"), "Date\\(first\\): 'yesterday' is no day; give one as YYYY"),
        (("2020-01-01", "2020-02-30"), "Date\\(last\\): '2020-02-30' is no day"),
        (("2020-01-01", "x" * 10**6), "Date\\(last\\): 'x{59}... is no day"),
        (("2020-01-01", "2021-01-01", "DD"), "date_format: 'DD' must have YYYY, MM and DD"),
    ],
)
def test_days_that_make_no_sense(arguments, message):
    with pytest.raises(ValueError, match=message):
        Date(*arguments)


NUMBERS = Schema(
    {"price": Number(-5000.0, 5000.0), "tier": Levels(["$5", "$9"])}, "share", Range(0.0, 100.0)
)
CELLS = {
    b"$1,250.50": 1250.5,
    b"-$1,250": -1250.0,
    b"$-3": -3.0,
    b"1250": 1250.0,
    b" EUR 7 ": 7.0,
    b"7 \xe2\x82\xac": 7.0,
    b"$12,50": None,
    b"1_250": None,
    b"$1,250 $": None,
    b"($3)": None,
    b"$": None,
    b"": None,
    b"$nan": None,
    b"$1e999": None,
    b"\xff$3": None,
    b"-9": None,
}


@pytest.mark.parametrize("cell", CELLS)
def test_marks_and_units_of_numbers_are_read_where_they_are_declared(file, cell):
    """And levels keep theirs; a record that cannot be read is zeros, whatever the others are."""
    options = {"thousands": ",", "units": ["$", "EUR", "\u20ac", "%"], "na_values": ["-9"]}
    file.write_bytes(b'price,tier,share\n"' + cell + b'",$9,10%\n2,$5,5\n')
    x, y = read_table(file, NUMBERS, **options)
    assert x[1].tolist() == [1.0, 2.0, 0.0]
    assert y[1] == 0.05
    wanted = CELLS[cell]
    assert x[0].tolist() == ([0.0] * 3 if wanted is None else [1.0, wanted, 1.0])
    assert y[0] == (0.0 if wanted is None else 0.1)
    plain, _ = read_table(file, NUMBERS)
    assert not plain[0].any()


def test_declared_marks_must_make_sense(file):
    file.write_bytes(b"price,tier,share\n1,$5,5\n")
    for options, message in (
        ({"thousands": "."}, "thousands: '.' cannot stand between groups of digits"),
        ({"thousands": ";"}, "thousands: ';' cannot stand between groups of digits"),
        ({"units": "$"}, r"units: give a list of texts, got '\$'"),
        ({"units": ["5"]}, "units: '5' is no unit"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(file, NUMBERS, **options)
