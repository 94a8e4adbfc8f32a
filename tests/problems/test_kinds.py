"""What a column holds: one table in many types is one problem, or is refused with the remedy."""

import datetime
import fractions
import re
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gibbs_dp.io.text_tables import PLAIN, NumberFormat
from gibbs_dp.problems.table import table

RNG = np.random.default_rng(11)
N = 60
# Quarters are exact in every type; each value comes back, so that levels would be possible.
PRICES = RNG.permutation(np.resize(np.array([1250.0, 9.25, 999.5, -3.0, 20.75, 0.0, 12000.0]), N))
AGES = RNG.integers(20, 60, N)
OTHER, Y = RNG.normal(size=N), RNG.normal(size=N)
FLAGS = RNG.random(N) < 0.5


def frame(values, name="a"):
    return pd.DataFrame({name: values, "b": OTHER, "y": Y})


def design(data, **options):
    return np.asarray(table(data, "y", "squared", **options).population.data[0])


def in_files(data, folder, kinds=("parquet", "csv")):
    """The frame, and files of it."""
    yield data
    if "parquet" in kinds:
        data.to_parquet(folder / "t.parquet")
        yield folder / "t.parquet"
    if "csv" in kinds:
        data.to_csv(folder / "t.csv", index=False)
        yield folder / "t.csv"


def objects(values):
    found = np.empty(len(values), object)
    found[:] = values
    return found


DECIMALS = [Decimal(repr(p)) for p in PRICES.tolist()]
TEXTS = [repr(p) for p in PRICES.tolist()]
# (values, files that hold the same)
NUMBERS = {
    "Decimal": (DECIMALS, ("parquet", "csv")),
    "decimal of Arrow": (
        pd.array(pa.array(DECIMALS, pa.decimal128(12, 2)), pd.ArrowDtype(pa.decimal128(12, 2))),
        ("parquet", "csv"),
    ),
    "objects": (objects(PRICES.tolist()), ("parquet", "csv")),
    "NumPy's objects": (objects(list(PRICES)), ("parquet", "csv")),
    "whole and not": (objects([int(p) if p % 1 == 0 else p for p in PRICES]), ("csv",)),
    "fractions": (objects([fractions.Fraction(p) for p in PRICES]), ()),
    "decimals and floats": (objects([DECIMALS[0], *PRICES[1:].tolist()]), ("csv",)),
    "texts": (TEXTS, ("parquet", "csv")),
    "texts of Arrow": (pd.array(TEXTS, dtype="string[pyarrow]"), ("parquet", "csv")),
    "texts of Python": (pd.array(TEXTS, dtype="string[python]"), ("parquet", "csv")),
    "numbers and texts": (objects([*PRICES[:30].tolist(), *TEXTS[30:]]), ("csv",)),
    "blanks around": ([f" {t}\t" for t in TEXTS], ("parquet", "csv")),
    "exponents": ([f"{p:.6e}" for p in PRICES], ("parquet", "csv")),
    "a minus sign": ([t.replace("-", "\u2212") for t in TEXTS], ("parquet", "csv")),
    "Float64": (pd.array(PRICES, dtype="Float64"), ("parquet", "csv")),
    "double of Arrow": (pd.array(PRICES, dtype="double[pyarrow]"), ("parquet", "csv")),
    "sparse": (pd.arrays.SparseArray(PRICES), ("csv",)),
    "durations": (pd.to_timedelta(PRICES, unit="s"), ("parquet",)),
    "Python's durations": (
        objects([datetime.timedelta(seconds=p) for p in PRICES.tolist()]),
        ("parquet",),
    ),
    "durations of Arrow": (
        pd.array(pd.to_timedelta(PRICES, unit="s"), dtype="duration[ms][pyarrow]"),
        ("parquet",),
    ),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_what_is_meant_as_a_number_is_one(tmp_path, case):
    """Decimals, durations and texts were a 0/1 column for every value."""
    values, files = NUMBERS[case]
    wanted = design(frame(PRICES))
    assert wanted.shape == (N, 3)
    for data in in_files(frame(values), tmp_path, files):
        np.testing.assert_allclose(design(data), wanted, rtol=1e-5, atol=1e-6)


def test_a_target_of_decimals_or_texts_is_one_of_numbers():
    wanted = np.asarray(table(frame(Y), "a", "squared", ["b"]).population.data[1])
    for values in ([Decimal(repr(y)) for y in Y.tolist()], [repr(y) for y in Y.tolist()]):
        got = table(frame(values), "a", "squared", ["b"])
        np.testing.assert_allclose(np.asarray(got.population.data[1]), wanted, rtol=1e-5)
    weights = [Decimal(k) for k in range(N)]
    got = table(frame(weights), "y", "squared", weights="a").population.weights
    plain = table(frame(np.arange(N)), "y", "squared", weights="a").population.weights
    np.testing.assert_allclose(got[0], plain[0], rtol=1e-6)


@pytest.mark.parametrize("kind", ["bool", "boolean", "object", "bool[pyarrow]"])
def test_flags_are_flags(tmp_path, kind):
    wanted = design(frame(FLAGS))
    for data in in_files(frame(pd.Series(FLAGS).astype(kind)), tmp_path):
        np.testing.assert_allclose(design(data), wanted, rtol=1e-6)
    holes = pd.Series(objects([None, *FLAGS[1:].tolist()]))
    plain = design(frame(FLAGS)[1:])
    for data in in_files(frame(holes), tmp_path):
        np.testing.assert_allclose(design(data, missing="drop"), plain, rtol=1e-6)


def grouped(mark, point=".", digits=2):
    spelled = [f"{p:,.{digits}f}" for p in PRICES]
    return [t.replace(",", "#").replace(".", point).replace("#", mark) for t in spelled]


# How numbers are spelled, and the options that read them.
SPELLED = {
    "dollars": ([f"${p:.2f}".replace("$-", "-$") for p in PRICES], {"units": ["$"]}),
    "sign inside": ([f"${p:.2f}" for p in PRICES], {"units": ["$"]}),
    "euros behind": ([f"{p:.2f} \u20ac" for p in PRICES], {"units": ["\u20ac"]}),
    "codes": ([f"EUR {p:.2f}" for p in PRICES], {"units": ["EUR"]}),
    "codes behind": ([f"{p:.2f} CHF" for p in PRICES], {"units": ["CHF"]}),
    "percent": ([f"{p:.2f}%" for p in PRICES], {"units": ["%"]}),
    "percent apart": ([f"{p:.2f} %" for p in PRICES], {"units": ["%"]}),
    "underscores": (grouped("_"), {"thousands": "_"}),
    "commas": (grouped(","), {"thousands": ","}),
    "apostrophes": (grouped("'"), {"thousands": "'"}),
    "spaces": (grouped(" "), {"thousands": "space"}),
    "spaces that do not break": (grouped("\u00a0"), {"thousands": "space"}),
    "European": (grouped(".", ","), {"thousands": ".", "decimal": ","}),
    "French": (grouped("\u202f", ","), {"thousands": "space", "decimal": ","}),
    "decimal commas": ([t.replace(".", ",") for t in TEXTS], {"decimal": ","}),
    "all of it": ([f"{t} \u20ac" for t in grouped(".", ",")], {
        "thousands": ".", "decimal": ",", "units": ["\u20ac"],
    }),
}  # fmt: skip
FLAG = {"thousands": "--thousands ", "decimal": "--decimal ", "units": "--units "}


@pytest.mark.parametrize("case", SPELLED)
def test_other_spellings_are_refused_with_the_options_that_read_them(tmp_path, case):
    """Some had a note that advised to drop the dear rows; all became a 0/1 column a value."""
    values, options = SPELLED[case]
    wanted = design(frame(PRICES))
    for data in in_files(frame(values), tmp_path):
        with pytest.raises(
            ValueError, match="column 'a' holds texts most of which are num"
        ) as told:
            design(data)
        message = str(told.value)
        assert "\n" not in message
        assert "--categorical" in message
        assert all(FLAG[name] in message for name in options), message
        assert "--na-values" not in message
    files = in_files(frame(values), tmp_path, () if "decimal" in options else ("parquet", "csv"))
    for data in files:
        np.testing.assert_allclose(design(data, **options), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(
        ValueError, match="target: column 'a' holds text or categories, but the squared loss"
    ) as e:
        table(frame(values), "a", "squared", ["b"])
    assert all(FLAG[name] in str(e.value) for name in options)


REFUSED = {
    "one odd age": (["?", *map(str, AGES[1:])], r"'a' .* \('\?', .*if '\?' means a missing value"),
    "few odd ages": (["?", "-", *map(str, AGES[2:] % 5)], "if '-' means a missing value"),
    "odd dollars": (["n/a.", *(f"${a}" for a in AGES[1:])], r"--units '\$'\); if 'n/a.' means"),
    "parentheses": ([f"({a:,})" for a in AGES * 100], "--thousands ,.*; write negative numbers"),
    "hexadecimal": (list(map(hex, AGES % 7)), "'a' .*; write hexadecimal numbers as decimal ones"),
    "infinite": (["inf", *map(str, AGES[1:] % 7)], "if 'inf' means a missing value"),
    "infinite number": (objects([np.inf, *AGES[1:].tolist()]), "'a' holds infinite values"),
    "times": ([datetime.time(int(a) % 24) for a in AGES], "'a' holds times of day; make them num"),
    "spelled times": ([f"{a % 24:02}:30" for a in AGES], r"'a' holds times \(.*\); make them num"),
    "spelled durations": ([f"0 days 00:{a}:00" for a in AGES], "'a' holds times"),
    "ISO durations": ([f"PT{a}M" for a in AGES], "'a' holds times"),
    "lists": (objects([[int(a)] for a in AGES]), "'a' holds a list in a cell; make a column of"),
    "arrays": (objects([np.ones(2) * a for a in AGES]), "'a' holds a ndarray in a cell"),
    "tuples": (objects([(int(a), 1) for a in AGES]), "'a' holds a tuple in a cell"),
    "records": (objects([{"u": int(a)} for a in AGES]), "'a' holds a dict in a cell"),
    "sets": (objects([{int(a)} for a in AGES]), "'a' holds a set in a cell"),
    "bytes": ([str(a).encode() for a in AGES], "'a' holds bytes; decode them to text"),
    "complex": (AGES + 1j, "'a' holds complex numbers; split them"),
    "complex objects": (objects((AGES + 1j).tolist()), "'a' holds complex numbers; split them"),
    "periods": (pd.period_range("2020-01", periods=N, freq="M"), "'a' holds periods; make them"),
    "dates": (pd.date_range("2020-01-01", periods=N), "'a' holds dates"),
    "zones": (pd.date_range("2020-01-01", periods=N, tz="Asia/Tokyo"), "'a' holds dates"),
    "Python's dates": ([datetime.date(2020, 1, 1 + int(a) % 28) for a in AGES], "'a' holds dates"),
    "many categories": (pd.Categorical(AGES), r"'a' has \d+ categories that are numbers; list it"),
    "categories of texts": (pd.Categorical(list(map(str, AGES))), "'a' has .* that are numbers"),
    "categories of halves": (pd.Categorical(AGES % 3 / 2), "'a' has 3 categories that are numbers"),
    "different units": ([f"{a}{'%' if a % 2 else ''}" for a in AGES], "--units %"),
    "kilograms": ([f"{a} kg" for a in AGES], "--units kg"),
    "identifiers": ([f"id{k}" for k in range(N)], "'a' has 60 different values in 60 rows"),
    "identifiers of Python": ([uuid.UUID(int=k) for k in range(N)], "'a' has 60 different values"),
    "rarely twice": ([f"v{k % 40}" for k in range(N)], "'a' has 40 different .* 3 rows on average"),
    "long codes": ([f"{k:05}" for k in range(N)], "if they are numbers, list it in numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_number_and_no_level_is_refused_by_its_name(case):
    values, message = REFUSED[case]
    with pytest.raises(ValueError, match=message) as told:
        design(frame(values, "a"))
    assert "column 'a'" in str(told.value)
    assert "\n" not in str(told.value)


NESTED = {
    "list": pa.array([[int(a)] for a in AGES]),
    "struct": pa.array([{"u": int(a)} for a in AGES]),
    "map": pa.array([[("u", int(a))] for a in AGES], pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([bytes([a]) for a in AGES]),
    "time": pa.array([datetime.time(int(a) % 24) for a in AGES]),
    "date": pa.array([datetime.date(2020, 1, 1 + int(a) % 28) for a in AGES]),
    "timestamp": pa.array([datetime.datetime(2020, 1, 1 + int(a) % 28, 3) for a in AGES]),
    "dictionary of dollars": pa.array([f"${a}" for a in AGES]).dictionary_encode(),
    "dictionary with a question": pa.array(["?", *map(str, AGES[1:])]).dictionary_encode(),
}


@pytest.mark.parametrize("case", NESTED)
def test_columns_of_parquet_that_are_no_numbers_are_refused(tmp_path, case):
    pq.write_table(pa.table({"a": NESTED[case], "b": OTHER, "y": Y}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="column 'a' h"):
        design(tmp_path / "t.parquet")


@pytest.mark.parametrize("size", [1, 7])
def test_a_dictionary_in_a_file_is_no_declaration_of_levels(tmp_path, size):
    values = PRICES if size == 7 else PRICES + AGES
    table_ = pa.table({"a": pa.array(values).dictionary_encode(), "b": OTHER, "y": Y})
    pq.write_table(table_, tmp_path / "t.parquet")
    np.testing.assert_allclose(design(tmp_path / "t.parquet"), design(frame(values)), rtol=1e-6)


def test_units_of_a_column_are_one(tmp_path):
    """10% is not 10; and nothing is nothing in all units."""
    mixed = [f"{a}{'%' if a % 2 else ''}" for a in AGES]
    with pytest.raises(ValueError, match=r"units: column 'a' has .* different units \(none, '%'\)"):
        design(frame(mixed), units=["%"])
    zeros = ["0", *(f"{a}%" for a in AGES[1:])]
    wanted = design(frame([0.0, *AGES[1:]]))
    np.testing.assert_allclose(design(frame(zeros), units=["%", "$"]), wanted, rtol=1e-5)


# -- levels -------------------------------------------------------------------------------------


def test_levels_stay_levels(tmp_path):
    """By their type, their names, or zeros in front of their numbers, in every file alike."""
    wanted = design(frame([f"level {a % 4}" for a in AGES]))
    assert wanted.shape == (N, 5)
    kinds = (
        pd.Categorical(AGES % 4),
        pd.Categorical([str(a % 4) for a in AGES]),
        pd.Categorical(pd.cut(AGES % 4, [-1, 0, 1, 2, 3])),
        [f"Q{a % 4}" for a in AGES],
        [f"{a % 4} doors" for a in AGES],
        [f"0{a % 4}" for a in AGES],
        [" blank"[a % 4 % 2 :] + str(a % 4) for a in AGES],
        objects([f"s{a % 4}" if a % 4 else 7 for a in AGES]),
    )
    for kind in kinds:
        assert design(frame(kind)).shape == (N, 5)
    np.testing.assert_array_equal(design(frame(kinds[0])), wanted)
    for data in in_files(frame([f"0{a % 4}" for a in AGES]), tmp_path):
        np.testing.assert_array_equal(design(data), wanted)
        assert "zeros in front" in table(data, "y", "squared").notes[0]
    many = [f"0{a}" for a in AGES]
    plain = design(frame(AGES))
    for data in in_files(frame(many), tmp_path):
        np.testing.assert_allclose(design(data, numbers=["a"]), plain, rtol=1e-6)
    for values in (AGES % 4, AGES % 4 + 1j, pd.Categorical(AGES % 4 / 2)):
        if not np.iscomplexobj(values):
            assert design(frame(values), categorical=["a"]).shape == (N, 5)


def test_zeros_in_front_are_found_anywhere_in_a_file(tmp_path, monkeypatch):
    """As numbers, 00123 and 123 were one level, and codes a slope."""
    monkeypatch.setattr("gibbs_dp.problems.source.CHUNK_ROWS", 16)
    codes = [*np.resize(["10", "20"], 150), *np.resize(["010", "20"], 30)]
    data = pd.DataFrame({"a": codes, "b": RNG.normal(size=180), "y": RNG.normal(size=180)})
    data.to_csv(tmp_path / "t.csv", index=False)
    wanted = design(data)
    assert wanted.shape == (180, 4)
    np.testing.assert_allclose(design(tmp_path / "t.csv"), wanted, rtol=1e-5)


def test_zeros_in_front_of_some_fractions_are_no_codes(tmp_path):
    spelled = [f"{a:05.1f}" if a % 2 else f"{a:03}" for a in AGES]
    for data in in_files(frame(spelled), tmp_path):
        np.testing.assert_allclose(design(data), design(frame(AGES)), rtol=1e-5, atol=1e-6)


def test_declared_numbers_must_be_numbers():
    for options, message in (
        ({"numbers": ["c"]}, "numbers: 'c' is not among the used columns"),
        ({"numbers": ["a"], "categorical": ["a"]}, "numbers: 'a' is also in categorical"),
        ({"numbers": "a"}, r"numbers: give a list of texts, such as \['a'\]"),
        ({"units": "$"}, r"units: give a list of texts, such as \['\$'\]"),
        ({"units": ["m2"]}, "units: 'm2' is no unit; give texts without digits"),
        ({"thousands": ";"}, "thousands: ';' cannot stand between groups of digits"),
        ({"thousands": "."}, "thousands: '.' cannot .* and not the decimal mark"),
        ({"numbers": ["a"]}, r"numbers: column 'a' holds texts that are none \('u0'.*\)"),
    ):
        with pytest.raises(ValueError, match=message):
            design(frame([f"u{a % 3}" for a in AGES]), **options)


def test_category_of_many_numbers_is_read_as_declared():
    np.testing.assert_allclose(
        design(frame(pd.Categorical(AGES)), numbers=["a"]), design(frame(AGES)), rtol=1e-6
    )


# -- row names, other frames, missing values ----------------------------------------------------


@pytest.mark.parametrize("name", [None, "person"])
def test_row_names_that_pandas_wrote_are_no_features(tmp_path, name):
    data = frame(PRICES)
    data.index = pd.Index(RNG.permutation(N), name=name)
    wanted = design(data)
    data.to_parquet(tmp_path / "t.parquet")
    held = "__index_level_0__" if name is None else name
    got = table(tmp_path / "t.parquet", "y", "squared")
    np.testing.assert_allclose(np.asarray(got.population.data[0]), wanted)
    assert f"row names that pandas wrote are no features: {held}" in got.notes[0]
    named = design(tmp_path / "t.parquet", features=["a", "b", held])
    np.testing.assert_allclose(named, design(data.assign(i=data.index)), rtol=1e-6)
    if name is None:
        data.to_csv(tmp_path / "t.csv")
        np.testing.assert_allclose(design(tmp_path / "t.csv"), wanted, rtol=1e-6)
        np.testing.assert_allclose(design(pd.read_csv(tmp_path / "t.csv")), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b'{"index_columns": 3}',
        b'{"index_columns": [{}, 3, []]}',
    ],
)
def test_what_a_file_says_of_row_names_may_be_anything(tmp_path, said):
    held = pa.Table.from_pandas(frame(PRICES)).replace_schema_metadata({b"pandas": said})
    pq.write_table(held, tmp_path / "t.parquet")
    np.testing.assert_array_equal(design(tmp_path / "t.parquet"), design(frame(PRICES)))


def test_numbers_of_rows_are_told():
    notes = table(frame(np.arange(N)), "y", "squared").notes
    assert any(note.startswith("feature 'a' numbers the rows; leave it out") for note in notes)
    notes = table(frame(np.arange(N)[::-1] % 7), "y", "squared").notes
    assert not any("numbers the rows" in note for note in notes)


def test_frames_of_other_libraries_are_read():
    class Foreign:
        def to_pandas(self):
            return frame(PRICES)

    for other in (Foreign(), pa.Table.from_pandas(frame(PRICES))):
        np.testing.assert_array_equal(design(other), design(frame(PRICES)))


@pytest.mark.parametrize(
    "values", [["", "a", "b"], [None, "a", "b"], [pd.NA, "a", "b"], [" ", 1, 2]]
)
def test_empty_texts_are_missing(tmp_path, values):
    data = frame(objects(np.resize(objects(values), N).tolist()))
    with pytest.raises(ValueError, match=r"missing values in a \(20\)"):
        design(data)


def test_missing_values_by_text_or_number_in_every_type():
    for values in (
        objects([-9.0, *PRICES[1:].tolist()]),
        [Decimal(-9), *DECIMALS[1:]],
        ["-9 ", *TEXTS[1:]],
        [-9.0, *PRICES[1:]],
    ):
        with pytest.raises(ValueError, match=r"missing values in a \(1\)"):
            design(frame(values), na_values=["-9", "?"])


def test_labels_of_groups_are_kept_to_the_last_digit(tmp_path):
    """As floating-point numbers, people with long numbers were one person."""
    people = [10**18 + k // 3 for k in range(N)]
    for labels in (people, objects([None, *people[1:]]), [str(10**20 + p) for p in people]):
        for data in in_files(frame(labels, "who"), tmp_path):
            options = {"group": "who", "split": True, "missing": "drop"}
            groups = table(data, "y", "squared", **options).population.groups
            assert len(np.unique(groups)) == N // 3


# -- spelled numbers ----------------------------------------------------------------------------

MARKS = st.sampled_from([(".", None), (".", ","), (".", "_"), (",", "."), (",", "'"), (",", " ")])


@given(st.floats(-1e12, 1e12), MARKS, st.sampled_from(["", "$", "EUR", "%"]), st.booleans())
def test_a_spelled_number_is_that_number(value, marks, unit, is_before):
    decimal, thousands = marks
    text = f"{value:,.3f}".replace(",", "#").replace(".", decimal).replace("#", thousands or "")
    text = f"{unit} {text}" if is_before else f"{text}{unit}"
    found = NumberFormat(decimal, thousands, ("$", "EUR", "%")).plain(text)
    assert found == (f"{value:.3f}", unit)


@given(st.text("0123456789.,_-+eE $%\u2212\u0663x()'", max_size=12))
def test_plain_numbers_are_those_of_a_grammar(text):
    """Neither Python's underscores, digits of other scripts, nor anything that is not a number."""
    grammar = r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
    plain = text.strip().replace("\u2212", "-", 1)
    is_number = re.fullmatch(grammar, plain) is not None and text.strip().count("\u2212") <= 1
    if is_number and "\u2212" in text and not text.strip().startswith("\u2212"):
        return  # an exponent's sign is a hyphen
    found = PLAIN.number(text)
    assert (found is not None) == is_number
    assert found is None or found == float(plain)
