"""``gibbs-dp release``: what must be declared, how tables are read, and how a draw is applied."""

from pathlib import Path

import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.privacy.calibrate import Target, calibrate_gamma

REPLACE = ("--adjacency", "replace-one")
WORDS = (
    *("release", "--data", "t.csv", "--target", "ill", *REPLACE, "--ledger", "l"),
    *("--pure-epsilon", 1, "--theta-ball", 2, "--accept", "exact-draw", "float-arithmetic"),
)
AGE = ("--range", "age", 0, 100)
SMOKER = ("--levels", "smoker", "no", "yes")
LABEL = ("--label", "no", "yes")
TABLE = b"age,smoker,dose,ill\n" + b"50,yes,1,no\n20,no,2,yes\n" * 20


class SeenError(RuntimeError):
    """Stops a release where the sampler would start."""


@pytest.fixture
def seen(run, tmp_path, monkeypatch):
    """Data and domain that a command line and a table would hand to the sampler."""
    monkeypatch.chdir(tmp_path)
    run("ledger", "create", "--ledger", "l", *REPLACE, "--epsilon", 5)
    found = []

    def spy(posterior, data, **given):
        found.append((posterior.dim, given["domain"], *given["domain"].clip(data)))
        raise SeenError

    monkeypatch.setattr("gibbs_dp.privacy.releases.release.release", spy)

    def go(table, *words):
        Path("t.csv").write_bytes(table)
        ran = run(*(w for w in WORDS if w not in REPLACE or REPLACE[0] not in words), *words)
        return found.pop() if found else ran

    return go


def test_text_labels_and_levels_are_read_as_declared(seen):
    dim, domain, x, y = seen(TABLE, *AGE, *SMOKER, *LABEL)
    assert dim == 3
    assert (domain.x_bound, domain.y_range) == (3**0.5, (0.0, 1.0))
    assert x[:2] == pytest.approx(np.array([[1.0, 0.5, 1.0], [1.0, 0.2, 0.0]]), rel=1e-5)
    assert y[:2].tolist() == [0.0, 1.0]
    assert seen(TABLE, *AGE, "--positive", "no")[3][:2].tolist() == [1.0, 0.0]
    assert seen(TABLE, *AGE, "--label", "yes", "no")[3][:2].tolist() == [1.0, 0.0]
    squared = ("--loss", "squared", "--y-range", 0, 1, "--features", "age", *AGE)
    assert not seen(TABLE, *squared)[3].any()  # no numbers: zeros, and so declared


def test_bounds_and_order_of_features(seen):
    as_they_are = ("--numbers", "dose", "--x-bound", 2, *LABEL)
    _, domain, x, _ = seen(TABLE, *as_they_are)
    assert domain.x_bound == 2.0
    assert x[:2] == pytest.approx(np.array([[1.0, 1.0], [2 / 5**0.5, 4 / 5**0.5]]), rel=1e-5)
    dim, domain, x, _ = seen(TABLE, "--features", "dose", "age", *AGE, *as_they_are)
    assert (dim, domain.x_bound) == (3, 2.0)
    assert seen(TABLE, *AGE, *LABEL, "--x-bound", 1.2)[1].x_bound == 1.2
    assert seen(TABLE, *AGE, *LABEL, "--x-bound", 9)[1].x_bound == 2**0.5
    wide = TABLE.replace(b"50", b'"-5,0e5"').replace(b",", b";").replace(b"5;0e5", b"5,0e5")
    _, _, x, _ = seen(wide, "--range", "age", "-1e6", "1e6", *LABEL, "--decimal", ",")
    assert x[0] == pytest.approx([1.0, 0.25])


def test_an_odd_record_moves_no_other(seen):
    """The attacks of which each flipped, shifted or hid other rows, or was refused for free."""
    words = (*AGE, *SMOKER, "--label", "False", "True")
    line = b"50,yes,1,%s"
    rows = [line % [b"True", b"False"][i % 2] for i in range(40)]
    header = b"age,smoker,dose,ill\n"
    _, _, x, y = seen(header + b"\n".join(rows), *words)
    assert x.all()
    assert y.tolist() == [1.0, 0.0] * 20
    for odd in (
        b"50,yes,1,0.7",
        rows[0] + b",",
        b'"50,yes,1,True',
        b"",
        b"\xff,yes,1,True",
        b"1,2",
    ):
        _, _, changed, labels = seen(header + b"\n".join([odd, *rows[1:]]), *words)
        assert np.array_equal(changed[1:], x[1:])
        assert labels.tolist() == [0.0, 0.0, *[1.0, 0.0] * 19]
        assert not changed[0].any()


def test_an_empty_table_is_told_only_where_its_size_is_public(seen, run):
    assert "a header and no records" in seen(b"age,ill\n", *AGE, *LABEL).error
    _, _, x, y = seen(b"age,ill\n", *AGE, *LABEL, "--adjacency", "add-remove", "--n", 5)
    assert (x.tolist(), y.tolist()) == ([[0.0, 0.0]], [0.0])


DAYS = "größe;tag;stadt;ill\n50,5;1/7/2020;Köln;no\n?;1/7/2020;Köln;yes\n" + (
    "20;31/12/2025;Ulm;yes\n" * 20
)
SPELLED = (
    *("--range", "größe", 0, 101, "--date", "tag", "2020-01-01", "2022-01-01"),
    *("--date-format", "DD/MM/YYYY", "--levels", "stadt", "Ulm", "Köln", *LABEL, "--decimal", ","),
)


def test_dates_encodings_separators_and_missing_values(seen):
    rest = ("--encoding", "latin-1", "--na-values", "?", "-9")
    dim, domain, x, y = seen(DAYS.encode("latin-1"), *SPELLED, *rest)
    assert (dim, domain.x_bound) == (4, 2.0)
    assert x[:3] == pytest.approx(
        np.array([[1.0, 0.5, 1.0, 182 / 731], [0.0] * 4, [1.0, 20 / 101, 0.0, 1.0]]), rel=1e-5
    )
    assert y[:3].tolist() == [0.0, 0.0, 1.0]
    caret = DAYS.replace(";", "^").encode("cp1252")
    _, _, again, _ = seen(caret, *SPELLED, "--sep", "^", "--encoding", "cp1252")
    assert np.array_equal(again, x)
    assert "not UTF-8 text; give the file's own encoding" in seen(caret, *SPELLED).error
    assert "'u16' is not read line by line" in seen(caret, *SPELLED, "--encoding", "u16").error


CASES = {
    "date in words": (
        ("--date", "age", "May", "June", *LABEL),
        "--date age: 'May' is no day; give one as YYYY-MM-DD.",
    ),
    "date twice": ((*AGE, "--date", "age", "2020-01-01", "2021-01-01"), "'age' is declared twice"),
    "format of nothing": (
        (*AGE, *LABEL, "--date-format", "DD/MM/YYYY"),
        "--date-format: it is of the columns that --date declares; leave it out.",
    ),
    "odd separator": ((*AGE, *LABEL, "--sep", ";;"), "sep: ';;' cannot separate cells; give one"),
    "level and missing": ((*AGE, *LABEL, "--na-values", "no"), "'no' is a declared level of 'ill'"),
    "no label": (AGE, "--label: the logistic loss needs its two labels declared; give --label"),
    "numeric label": ((*AGE, "--y-range", 0, 1), "--label: the logistic loss needs"),
    "both labels": ((*AGE, *LABEL, "--positive", "yes"), "one of them and no --y-range"),
    "same labels": ((*AGE, "--label", "a", "a"), "--label: 'a' and 'a' are the same"),
    "empty label": ((*AGE, "--positive", ""), "--positive: it is empty"),
    "no range of labels": ((*AGE, "--loss", "squared"), "--y-range: the squared loss needs the"),
    "labels of numbers": (
        (*AGE, "--loss", "absolute", *LABEL),
        "--y-range: the absolute loss needs the smallest and the largest label declared, and nei",
    ),
    "odd range of labels": ((*AGE, "--loss", "squared", "--y-range", 1, 0), "--y-range: give the"),
    "nothing declared": (LABEL, "--features: there are none; nothing about a column is learnt"),
    "undeclared": (
        (*AGE, *LABEL, "--features", "age", "dose", "smoker", "--x-bound", 1),
        "--features: not declared: 'dose', 'smoker'; nothing about a column is learnt from the "
        "table, so give --range dose LOW HIGH, or --levels dose FIRST SECOND, or --date dose FIRST "
        "LAST, or --numbers dose with --x-bound.",
    ),
    "no bound": (("--numbers", "dose", *LABEL), "--x-bound: 'dose' is used as it is, so declare"),
    "bad bound": ((*AGE, *LABEL, "--x-bound", -1), "x_bound: must be positive and finite, got -1"),
    "declared in vain": (
        (*AGE, *SMOKER, *LABEL, "--features", "age"),
        "--features: 'smoker' is declared and not in the list; add it",
    ),
    "twice": ((*AGE, *AGE, *LABEL), "--range: 'age' is declared twice; once is enough"),
    "two ways": ((*AGE, "--numbers", "age", *LABEL), "--numbers: 'age' is declared twice"),
    "target": ((*AGE, "--range", "ill", 0, 1, *LABEL), "--target: 'ill' is declared as a feature"),
    "words": (("--range", "age", 0, "x", *LABEL), "--range: 'age' needs two numbers, got 0 x"),
    "reversed": (("--range", "age", 9, 1, *LABEL), "--range age: give the smallest value, then"),
    "short": (("--range", "age", 9, *LABEL), "--range: give it as --range COLUMN LOW HIGH."),
    "one of two": ((*AGE, "--label", "no"), "--label: give it as --label ZERO ONE."),
    "one level": (("--levels", "smoker", "no", *LABEL), "--levels smoker: give a list of two or"),
    "no column": (("--range", "agee", 0, 1, *LABEL), "data: the header has no column 'agee'"),
    "decimal": ((*AGE, *LABEL, "--decimal", "x"), "decimal: give '.' or ',', got 'x'"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_column_without_a_declaration_is_refused_by_name(seen, case):
    words, message = CASES[case]
    ran = seen(TABLE, *words)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.error


def test_a_release_is_not_written_over(run, tmp_path, monkeypatch):
    """The second one was charged, too, and the first was lost."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_bytes(TABLE)
    run("ledger", "create", "--ledger", "l", "--adjacency", "replace-one", "--epsilon", 9)
    words = (*AGE, *LABEL, "--adjacency", "replace-one", "--pure-epsilon", 1, "--ledger", "l")
    words = (*WORDS[:1], "--data", "t.csv", "--target", "ill", *words, "--out", "r")
    words = (*words, "--accept", "exact-draw", "float-arithmetic")
    assert run(*words).status == 0
    first = Path("r/release.json").read_bytes()
    again = run(*words)
    assert again.status == 2
    assert "'r/release.json' is there already, and what was paid for is not written" in again.err
    assert Path("r/release.json").read_bytes() == first
    assert gdp.Ledger("l").spent()["epsilon"] == 1


def test_how_to_apply_a_draw_is_told(seen, run, monkeypatch):
    """Words for people, and a schema for `read_table`."""

    def fake(posterior, data, **given):
        found = calibrate_gamma(
            posterior,
            Target(pure_epsilon=1.0),
            n=len(data[1]),
            adjacency="replace-one",
            domain=given["domain"],
        )
        return gdp.privacy.Release(np.ones((1, posterior.dim)), found.guarantee, 1)

    monkeypatch.setattr("gibbs_dp.privacy.releases.release.release", fake)
    Path("t.csv").write_bytes(TABLE)
    text = run(*WORDS, *AGE, *SMOKER, *LABEL, "--x-bound", 1.5).out
    assert text.startswith("intercept 1  age 1  smoker=yes 1\n")
    assert (
        "ill is 'yes' with probability 1 / (1 + exp(-s)); s is the sum of each number of a draw "
        "times its feature, divided by (norm of the features) / 1.5 where that is above 1:\n"
        "  intercept   1\n"
        "  age         age / 100, moved into [0, 1]\n"
        "  smoker=yes  1 where smoker is 'yes', else 0\n"
    ) in text
    words = (*AGE, "--loss", "absolute", "--y-range", 0, 9, "--json")
    draw, model, promise = run(*WORDS, *words).rows
    assert (draw["kind"], model["kind"], promise["kind"]) == ("draw", "model", "guarantee")
    assert model["model"].startswith("the median of ill is s; s is the sum")
    assert model["rules"] == {"intercept": "1", "age": "age / 100, moved into [0, 1]"}
    schema = gdp.privacy.Schema.from_dict(model["schema"])
    assert schema.domain == gdp.Domain(x_bound=2**0.5, y_range=(0.0, 9.0))
