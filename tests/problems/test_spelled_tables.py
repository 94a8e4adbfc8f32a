"""One table written down in many ways is one problem; what is not declared is refused."""

import datetime
from inspect import unwrap

import numpy as np
import pandas as pd
import pytest

from gibbs_dp.io.text_tables import DateFormat, byte_encoding, separator, text_encoding
from gibbs_dp.problems.table import table

RNG = np.random.default_rng(5)
N = 60
DAYS = [datetime.date(2019, 12, 1) + datetime.timedelta(int(k)) for k in RNG.permutation(400)[:N]]
SIZES = 20 + RNG.permutation(6000)[:N] / 100  # all different
TOWNS = RNG.choice(["Köln", "Ulm", "Düren"], N)
ILL = np.where(RNG.random(N) < 0.5, "ja", "nein")
NAMES = ["größe", "the day, of it", "stadt", "krank"]
TARGET, DAY = NAMES[3], NAMES[1]
ISO = {"date": {DAY: "2020-01-01"}}


def text(spell_day="%Y-%m-%d", sep=",", decimal=".", quote='"', missing=()):
    """The table as a file has it."""
    lines = [sep.join(f"{quote}{name}{quote}" for name in NAMES)]
    for i, row in enumerate(zip(SIZES, DAYS, TOWNS, ILL, strict=True)):
        size, day, town, ill = row
        cells = [f"{size:.2f}".replace(".", decimal), day.strftime(spell_day), town, ill]
        if i < len(missing):
            cells[0] = missing[i]
        lines.append(sep.join(cells))
    return "\n".join(lines) + "\n"


def frame(**changed):
    columns = dict(zip(NAMES, (SIZES, DAYS, TOWNS, ILL), strict=True))
    return pd.DataFrame({**columns, **changed})


@pytest.fixture
def written(tmp_path):
    def write(content, name="t.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(content.encode(encoding))
        return path

    return write


def arrays(problem):
    return [np.asarray(leaf) for leaf in problem.population.data]


WAYS = {
    "semicolons, commas, latin-1": (
        (text("%d.%m.%Y", ";", ","), "t.csv", "latin-1"),
        {"decimal": ",", "encoding": "latin-1", "date_format": "DD.MM.YYYY"},
    ),
    "the same, said at length": (
        (text("%d.%m.%Y", ";", ","), "t.csv", "cp1252"),
        {"sep": ";", "decimal": ",", "encoding": "cp1252", "date_format": "DD.MM.YYYY"},
    ),
    "tabs by name": ((text(sep="\t"), "t.tsv"), {}),
    "tabs by word": ((text(sep="\t"), "t.csv"), {"sep": "tab"}),
    "bars and a mark of order": ((text(sep="|"), "t.csv", "utf-8-sig"), {"sep": "|"}),
    "quotes and months first": ((text("%m/%d/%Y"), "t.csv"), {"date_format": "MM/DD/YYYY"}),
    "two bytes a letter": ((text("%Y%m%d"), "t.csv", "utf-16"), {"encoding": "utf-16"}),
    "with times": ((text("%Y-%m-%dT23:59:59Z"), "t.csv"), {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_table_is_the_same_however_it_is_written(written, way):
    file, options = WAYS[way]
    if "%Y%m%d" in way or "two bytes" in way:
        options = {**options, "date_format": "YYYYMMDD"}
    got = table(written(*file), TARGET, **ISO, **options)
    for mine, other in zip(arrays(got), arrays(table(frame(), TARGET, **ISO)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
    assert got.notes[0] == f"column {DAY!r} is days since 2020-01-01."


def test_days_are_counted_from_the_declared_day_whatever_holds_them():
    """Counts are used as they are; so what the column is has to be right, not only its spread."""
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 3, 1), datetime.date(2021, 1, 1)]
    rows = {"x": [1.0, 2.0, 4.0], "when": days}
    kinds = (
        pd.DataFrame(rows),
        pd.DataFrame({**rows, "when": [f"{day}" for day in days]}),
        pd.DataFrame({**rows, "when": pd.to_datetime(pd.Series(days)) + pd.Timedelta("23h")}),
        pd.DataFrame(
            {**rows, "when": pd.to_datetime(pd.Series(days)).dt.tz_localize("Asia/Tokyo")}
        ),
    )
    for kind in kinds:
        got = table(kind, "when", "poisson", date=[["when", "2020-01-01"]], prior_scale=1.0)
        assert arrays(got)[1].tolist() == [0.0, 60.0, 366.0]


def test_a_parquet_file_has_dates_too(tmp_path):
    path = tmp_path / "t.parquet"
    frame().to_parquet(path)
    got = arrays(table(path, TARGET, **ISO))
    np.testing.assert_allclose(got[0], arrays(table(frame(), TARGET, **ISO))[0], rtol=1e-6)


def test_texts_that_mean_missing_are_missing(written, tmp_path):
    path = written(text(missing=("?", "-", "NA", "", "-9")))
    got = table(path, TARGET, na_values=["?", "-", "-9"], missing="drop", **ISO)
    assert got.notes[1].startswith("dropped 5 rows (8.3%) with missing values")
    odd = frame(größe=[-9.0, *SIZES[1:]], stadt=["?", *TOWNS[1:]])
    with pytest.raises(ValueError, match=r"missing values in größe \(1\), stadt \(1\); leave"):
        table(odd, TARGET, na_values=["?", "-9"], **ISO)
    odd.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"missing values in größe \(1\), stadt \(1\); leave"):
        table(tmp_path / "t.parquet", TARGET, na_values=["?", "-9"], **ISO)
    with pytest.raises(ValueError, match=r"missing values in the day, of it \(1\); leave"):
        table(frame(**{DAY: ["?", *DAYS[1:]]}), TARGET, na_values=["?"], **ISO)


def test_numbers_with_a_few_values_that_are_none_are_refused(written):
    """They were a 0/1 column a value, with a note."""
    few = frame(größe=["?", *(RNG.integers(0, 9, N - 1).astype(str))])
    with pytest.raises(ValueError, match=r"'größe' holds texts most .* if '\?' means a miss"):
        table(few, TARGET, **ISO)
    assert table(few, TARGET, categorical=["größe"], **ISO).population.data[0].shape[1] == 13
    with pytest.raises(ValueError, match=r"'größe' holds texts most .* if '\?' means a miss"):
        table(written(text(missing=("?",)).replace(DAY, "x")), TARGET, features=["größe"])


REFUSED = {
    "dates": ({}, "features: column 'the day, of it' holds dates \\(2019-12-.*--date 'the day, of"),
    "other spelling": (
        {**ISO, "date_format": "DD/MM/YYYY"},
        "date: '2.*' in column 'the day, of it' is no date spelled DD/MM/YYYY; give the spelling",
    ),
    "no day": ({"date": {DAY: "someday"}}, "date: 'the day, of it': 'someday' is no day; give one"),
    "no column": ({"date": {"when": "2020-01-01"}}, "date: there is no column 'when'"),
    "a number": ({"date": {"größe": "2020-01-01"}}, "in column 'größe' is no date spelled YYYY-MM"),
    "twice": ({"date": [[DAY, "2020-01-01"]] * 2}, "date: 'the day, of it' is named twice"),
    "categorical": ({**ISO, "categorical": [DAY]}, "is named also as categorical"),
    "half": ({"date": [[DAY]]}, "date: give columns with a day each, got \\['the day, of it'\\]"),
    "format": ({**ISO, "date_format": "D/M/Y"}, "date_format: 'D/M/Y' must have YYYY, MM and DD"),
    "for nothing": ({"date_format": "DD/MM/YYYY"}, "date_format: it is of the columns that date"),
    "encoding": ({"encoding": "klingon"}, "encoding: there is no encoding of text 'klingon'"),
    "no text": ({"encoding": "zlib"}, "encoding: there is no encoding of text 'zlib'"),
    "other text": ({"encoding": "utf-16"}, "cannot be read as a CSV table"),
    "long": ({"sep": "::"}, "sep: '::' cannot separate cells; give one character such as"),
    "point": ({"sep": "."}, "sep: '.' cannot separate cells"),
    "both": ({"sep": ",", "decimal": ","}, "sep: ',' is the decimal mark; give another"),
    "decimal": ({"decimal": "x"}, "decimal: give '.' or ',', got 'x'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(written, case):
    options, message = REFUSED[case]
    with pytest.raises(ValueError, match=message) as told:
        table(written(text()), TARGET, **options)
    assert "\n" not in str(told.value)


def test_what_is_not_declared_of_a_file_is_told_with_its_remedy(written):
    with pytest.raises(ValueError, match=r"in this encoding \(utf-8\); give the file's own with"):
        table(written(text(), encoding="latin-1"), TARGET)
    for sep, word in (("\t", "tab"), (";", "';'"), ("|", r"'\|'")):
        with pytest.raises(ValueError, match=rf"is one column, .*\(--sep {word}\)\.$"):
            table(written(text("%Y%m%d", sep=sep).replace(DAY, "day")), TARGET)
    commas = text("%Y%m%d", ";", ",")
    mark = r"'größe' holds texts .*; if its decimal mark is a comma, give decimal=',' \(--d"
    with pytest.raises(ValueError, match=mark):
        table(written(commas), TARGET, features=["größe"], sep=";")
    with pytest.raises(ValueError, match=mark):
        table(frame(größe=[f"0,{i % 7}" for i in range(N)]), TARGET, **ISO)
    with pytest.raises(ValueError, match="target: column 'the day, of it' holds dates"):
        table(written(text()), DAY, "squared")


@pytest.mark.parametrize("name", ["sep", "encoding"])
def test_what_only_text_has_is_refused_for_other_tables(tmp_path, name):
    option = {"sep": {"sep": ";"}, "encoding": {"encoding": "cp1252"}}
    frame().to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=f"{name}: it is of CSV files, and a data frame has none"):
        table(frame(), TARGET, **option[name])
    with pytest.raises(ValueError, match=f"{name}: it is of CSV files, and a Parquet file has"):
        table(tmp_path / "t.parquet", TARGET, **option[name])


def test_dates_are_read_as_spelled_and_nothing_else_is_one():
    iso, us, packed = DateFormat(), DateFormat("MM/DD/YYYY"), DateFormat("YYYYMMDD")
    day = datetime.date(2024, 2, 29).toordinal()
    assert (iso.day("2024-02-29"), us.day("2/29/2024"), packed.day("20240229")) == (day,) * 3
    assert iso.day("2024-02-29 10:11:12.5+02:00") == day
    for none in (
        "2023-02-29",
        "2024-2-29x",
        "24-02-29",
        "",
        "2024-02-29 99",
        "٢٠٢٤-٠٢-٢٩",
        "0000-01-01",
    ):
        assert iso.day(none) is None
    assert packed.day("2024229") is None
    for odd in ("YYYY-MM", "YYYY-MM-DD-DD", "YYYY MMM DD", "%Y-%m-%d", 'YYYY"MM"DD'):
        with pytest.raises(ValueError, match="must have YYYY, MM and DD, once each"):
            DateFormat(odd)


def test_separators_and_encodings_are_what_a_line_can_be_cut_by():
    assert (separator("\\t"), separator("TAB"), separator("^")) == ("\t", "\t", "^")
    for odd in ("", '"', "é", "a", "1", " ", "\n", "\x00", "-"):
        with pytest.raises(ValueError, match="sep: "):
            separator(odd)
    for name in ("ascii", "latin-1", "cp1252", "koi8-r", "mac-roman", "utf-8", "UTF8", "utf-8-sig"):
        assert byte_encoding(name)
    for name in (
        "utf-16",
        "utf-7",
        "gbk",
        "shift_jis",
        "big5",
        "cp037",
        "iso2022_jp",
        "hz",
        "rot13",
    ):
        with pytest.raises(ValueError, match="encoding: "):
            byte_encoding(name)
    for name in ("", "\x00", "unicode_escape", "punycode", "base64", "../utf-8"):
        with pytest.raises(ValueError, match="encoding: there is no encoding of text"):
            text_encoding(name)


def test_missing_values_are_a_list_of_texts():
    with pytest.raises(ValueError, match=r"na_values: give a list of texts, such as \['-9'\]"):
        table(pd.DataFrame({"a": np.arange(4.0), "y": [0, 1, 0, 1]}), target="y", na_values="-9")


def test_a_target_of_dates_is_no_class_and_one_of_durations_a_number():
    days = pd.Series(pd.date_range("2020-03-01", periods=60))
    frame = pd.DataFrame({"a": np.arange(60.0), "y": days})
    for dates in (days, days.dt.tz_localize("UTC"), days.dt.date):
        with pytest.raises(ValueError, match=r"'y' holds dates; .* date={'y': '2020-03-01'}"):
            table(frame.assign(y=dates), "y")
    for y, kwargs in ((days, {"date": {"y": "2020-03-01"}}), (days - days[0], {})):
        problem = table(frame.assign(y=y), "y", **kwargs)
        assert problem.notes[0].startswith("the loss is squared")


def test_columns_may_be_named_by_numbers():
    frame = pd.DataFrame({0: RNG.normal(size=N), 1: RNG.normal(size=N), 2: RNG.random(N)})
    untyped = unwrap(table)
    plain, named = untyped(frame, 1, features=[0], weights=2), table(frame, "1", weights="2")
    for one, other in zip(plain.population.data, named.population.data, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="target: there is no column '7'"):
        untyped(frame, 7)
