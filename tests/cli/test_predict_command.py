"""`gibbs-dp predict` says what the estimators say, of tables however they are written."""

import json
import math
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gibbs_dp as gdp
from gibbs_dp.cli.main import main
from gibbs_dp.privacy import Date, Levels, Number, Positive, Range, Schema
from gibbs_dp.privacy.released_model import ReleasedModel, Shortening
from gibbs_dp.sklearn import tables

SCHEMA = Schema(
    {
        "age": Range(20.0, 80.0),
        "city": Levels(["Oslo", "None", "Köln"]),
        "since": Date("2020-01-01", "2021-01-01", "DD.MM.YYYY"),
        "dose": Number(-5.0, 5.0),
    },
    "ill",
    Levels(["no", "yes"]),
    x_bound=2.0,
)
NEW = pd.DataFrame(
    {
        "id": ["a", "b", "c"],
        "dose": [1250.5, -2.0, 0.25],
        "city": ["Köln", "None", "Oslo"],
        "since": pd.to_datetime(["2020-07-02", "1999-12-31", "2020-12-31"]),
        "age": [50, 19, 65],
    }
)
GERMAN = "id;dose;city;since;age\na;1.250,5 mg;Köln;2.7.2020;50\nb;-2;None;31.12.1999;19\n"
GERMAN += "c;0,25;Oslo;31.12.2020;65,0\n"
# As `read_table` makes of them: the intercept, age, the two cities, the day, the dose.
ROWS = np.array(
    [
        [1, 0.5, 0, 1, 0.5, 5.0],
        [1, 0.0, 1, 0, 0.0, -2.0],
        [1, 0.75, 0, 0, 365 / 366, 0.25],
    ]
)
DRAWS = np.array([[0.3, -1.0, 2.0, 0.5, -0.25, 0.75], [-0.5, 1.0, 0.1, 0.2, 0.3, -0.2]])


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text(GERMAN, encoding="latin-1")
    NEW.to_parquet("new.parquet")
    Path("release.json").write_text(json.dumps(ReleasedModel(SCHEMA, DRAWS).to_dict()))
    return tmp_path


WRITTEN = ("--decimal", ",", "--encoding", "latin-1", "--thousands", ".", "--units", "mg")


def test_a_table_is_encoded_as_the_release_did_however_it_is_written(run, here):
    bound = SCHEMA.domain.x_bound
    long = np.linalg.norm(ROWS, axis=1, keepdims=True)
    assert list((long > bound)[:, 0]) == [True, True, False]
    scores = DRAWS @ (ROWS * np.minimum(1.0, bound / long)).T
    chance = (1 / (1 + np.exp(-scores))).mean(axis=0)
    other = NEW.assign(since=["07/02/2020", "12/31/1999 23:59", "12/31/2020"])
    other.to_csv("us.csv", index=False)
    american = ("us.csv", "--date-format", "MM/DD/YYYY")
    for words in (("new.csv", *WRITTEN), ("new.parquet",), american):
        rows = run("predict", "release.json", *words, "--json").rows
        assert [row["row"] for row in rows] == [1, 2, 3]
        np.testing.assert_allclose([row["probability"] for row in rows], chance, rtol=1e-5)
        assert [row["prediction"] for row in rows] == list(np.where(chance > 0.5, "yes", "no"))
    found = gdp.privacy.load_released_model("release.json")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        frame = found.predict(NEW)
    assert [str(one.message).partition(", which")[0] for one in told] == [
        "1 of 3 values of 'age' lie beyond 20 to 80",
        "1 of 3 values of 'since' lie beyond 2020-01-01 to 2021-01-01",
        "1 of 3 values of 'dose' lie beyond -5 to 5",
    ]
    np.testing.assert_allclose(frame["probability"], chance, rtol=1e-5)


def test_texts_and_numbers_of_a_frame_are_read_alike(here):
    """Texts as declared, and typed numbers and levels as they are, whatever the decimal mark."""
    model = gdp.privacy.load_released_model("release.json")
    schema = Schema({"a": Number(), "b": Levels(["1.5", "2"])}, "y", Number(), x_bound=99.0)
    own = ReleasedModel(schema, np.array([[0.0, 1.0, 10.0]]))
    frame = pd.DataFrame({"a": [0.25, -3.0, 1e-7], "b": [2.0, 1.5, 2.0]})
    assert list(own.predict(frame)["prediction"]) == [10.25, -3.0, 10.0 + 1e-7]
    assert own.predict(frame, decimal=",").equals(own.predict(frame))
    texts = frame.assign(a=["0,25 mg", "-3", "1e-7 mg"])
    assert own.predict(texts, decimal=",", units=["mg"]).equals(own.predict(frame))
    with pytest.raises(ValueError, match="sep: it is of CSV files, and a data frame has none"):
        model.predict(NEW, sep=";")


def test_what_is_saved_is_what_is_printed(run, here):
    out = run("predict", "release.json", "new.parquet").out
    assert out.startswith("row,prediction,probability\n1,")
    assert run("predict", "release.json", "new.parquet", "--out", "a/p.csv").out == (
        "saved a/p.csv\n"
    )
    assert (here / "a" / "p.csv").read_text() == out
    run("predict", "release.json", "new.parquet", "--out", "p.parquet")
    assert pd.read_parquet("p.parquet").to_csv(index=False) == out
    assert "gibbs-dp predict release.json TABLE" in run("release.json").out


def test_a_table_is_not_written_over(run, here):
    before = (here / "new.parquet").read_bytes()
    for out in ("new.parquet", "./new.parquet"):
        ran = run("predict", "release.json", "new.parquet", "--out", out)
        assert (ran.status, ran.error) == (2, f"--out: {out!r} is what is read; name another file.")
    ran = run("predict", "release.json", "new.parquet", "--out", "/dev/null/p.csv")
    assert ran.status == 2
    assert ran.error.startswith("--out: cannot write '/dev/null/p.csv'")
    assert (here / "new.parquet").read_bytes() == before


@pytest.mark.filterwarnings("ignore:.*lie beyond")
def test_a_frame_keeps_its_index(here):
    model = gdp.privacy.load_released_model("release.json")
    frame = NEW.set_axis(["c", "a", "b"])
    found = model.predict(frame)
    assert list(found.index) == ["c", "a", "b"]
    assert list(model.predict(NEW).index) == [0, 1, 2]
    assert list(found["probability"]) == list(model.predict(NEW)["probability"])


@pytest.fixture
def estimators(monkeypatch):
    """The estimators that a release by the rule fits."""
    fitted = []

    def kept(kind, *words, **settings):
        fitted.append(kind(*words, **settings))
        return fitted[-1]

    for name in ("GibbsClassifier", "GibbsRegressor"):
        monkeypatch.setattr(tables, name, partial(kept, getattr(tables, name)))
    return fitted


CASES = {
    "classes": ("--range", "age", 20, 80, "--levels", "city", "Oslo", "None", "Köln"),
    "of a norm": ("--numbers", "age", "dose", "--x-bound", 40),
    "numbers": ("--range", "age", 20, 80, "--range", "dose", -5, 5),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_the_estimators(run, here, estimators, case, capsys):
    rng = np.random.default_rng(0)
    private = pd.DataFrame(
        {
            "age": rng.uniform(10, 90, 60),
            "dose": rng.normal(size=60),
            "city": rng.choice(["Oslo", "None", "Köln"], 60),
        }
    )
    is_class = case != "numbers"
    private["y"] = private["age"] > 50 if is_class else private["age"] / 10
    private.to_csv("private.csv", index=False)
    Path("release.json").unlink(missing_ok=True)
    gdp.Ledger.create("b.ledger", adjacency="replace-one", epsilon=1.0)
    label = ("--label", "False", "True") if is_class else ("--y-range", 0, 10, "--loss", "huber")
    ran = run(
        *("release", "--data", "private.csv", "--target", "y", *CASES[case], *label),
        *("--adjacency", "replace-one", "--pure-epsilon", 1, "--ledger", "b.ledger"),
        *("--num-draws", 2, "--accept", "exact-draw", "float-arithmetic", "--out", "."),
    )
    assert ran.status == 0, ran.err
    # What the numbers need after the rules of their columns stands behind these.
    moved = "shortened to a norm" if case == "of a norm" else "moved towards the middle to it"
    assert ran.out.index("  then features") > ran.out.index("  age ")
    assert moved in ran.out.partition("  then features")[2].partition("\n")[0]
    assert moved in json.loads((here / "release.json").read_text())["then"]
    (model,) = estimators
    saved = gdp.privacy.load_released_model("release.json")
    schema = Schema(saved.schema.features, x_bound=saved.schema.x_bound)
    x = gdp.privacy.read_table("private.csv", schema)[:, 1:]
    rows = run("predict", "release.json", "private.csv", "--json").rows
    model.n_features_in_ = x.shape[1]
    if is_class:
        # Of Huber's loss, or a noisy sum: no logistic posterior, and no probability.
        assert not saved.has_log_odds
        found = [row["score"] for row in rows]
        np.testing.assert_allclose(found, model.predict_proba(x)[:, 1], rtol=1e-9)
        assert "is taken for 'True' where s > 0; scores s are no log-odds" in ran.out
        assert main(["predict", "release.json", "private.csv"]) == 0
        assert "score from 0 to 1 (no probability): that y is 'True'" in capsys.readouterr().err
        assert [row["prediction"] == "True" for row in rows] == list(model.predict(x) == 1)
    else:
        found = [row["prediction"] for row in rows]
        np.testing.assert_allclose(found, model.predict(x), rtol=1e-9, atol=1e-9)


def test_the_class_of_any_other_label_is_named(here):
    model = ReleasedModel(Schema({"a": Number()}, "y", Positive("yes"), 9.0), np.array([[0.0, 1]]))
    assert list(model.predict(pd.DataFrame({"a": [-1, 1]}))["prediction"]) == ["not yes", "yes"]


def test_numbers_of_a_rules_model_stay_in_the_labels_range():
    """As the estimator's do; those of a posterior of one's own are what they are."""
    schema = Schema({"a": Range(0.0, 1.0)}, "y", Number(-1.0, 4.0))
    draws, frame = np.array([[0.0, 9.0]]), pd.DataFrame({"a": [-0.0, 0.25, 1.0]})
    sides = (np.array([value]) for value in (0.0, 1.0, 0.5, 0.2))
    ruled = ReleasedModel(schema, draws, Shortening(*sides, norm=9.0))
    np.testing.assert_allclose(ruled.predict(frame)["prediction"], [0.0, 2.25, 4.0], atol=1e-12)
    own = ReleasedModel(schema, draws)
    np.testing.assert_allclose(own.predict(frame)["prediction"], [0.0, 2.25, 9.0], rtol=2e-6)


REFUSED = {
    "no column": (NEW.drop(columns="dose"), "data: there is no column 'dose'; it has 'id', 'city'"),
    "level": (
        NEW.assign(city="Rome"),
        "data: row 1: 'city' is 'Rome', which is none of the release's levels ('Oslo', 'None', ",
    ),
    "missing": (NEW.assign(age=[1, 2, None]), "data: row 3: 'age' is missing; fill it in, or"),
    "unit": (NEW.assign(dose=["1", "5 mg", "2"]), "row 2: 'dose' is '5 mg', which is no number"),
    "date": (NEW.assign(since="2020-05-01"), "no day spelled DD.MM.YYYY; spell it so, or give the"),
    "scale": (
        pd.concat([NEW.assign(age=600)] * 4),
        "data: all 12 values of 'age' lie beyond 20 to 80, which the release declared; give them",
    ),
    "no rows": (NEW.iloc[:0], "data: the table has no rows; give one with some."),
}


@pytest.mark.filterwarnings("ignore:.*lie beyond")
@pytest.mark.parametrize("case", REFUSED)
def test_what_the_release_did_not_declare_is_refused_by_row_and_column(run, here, case):
    frame, message = REFUSED[case]
    frame.to_parquet("odd.parquet")
    ran = run("predict", "release.json", "odd.parquet", "--out", "p.csv")
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.error
    assert not Path("p.csv").exists()


WORDS = {
    "one file": (("release.json",), "predict: give release.json of 'gibbs-dp release --out', then"),
    "order": (("new.csv", "release.json"), "the model comes first: gibbs-dp predict release.json"),
    "folder": ((".", "new.csv"), "predict: '.' is a folder; did you mean 'release.json'?"),
    "no file": (("release.json", "nww.csv"), "there is no file 'nww.csv'; did you mean 'new.csv'?"),
    "ending": (("release.json", "new.csv", "--out", "p.xlsx"), "--out: let the name of 'p.xlsx'"),
    "no column": (("release.json", "other.csv"), "data: the header has no column 'age'"),
    "cells": (("release.json", "cells.csv"), "data: row 1 has 2 cells where the header has 4"),
    "blank": (("release.json", "blank.csv"), "data: row 1 is a blank line; remove it."),
    "dates": (
        ("release.json", "new.csv", "--date-format", "MM.DD"),
        "date_format: 'MM.DD' must have YYYY, MM and DD, once",
    ),
    "no dates": (
        ("plain.json", "new.csv", "--date-format", "DD.MM.YYYY"),
        "date_format: the release declares no column of dates; leave it out.",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_a_command_that_makes_no_sense_is_refused(run, here, case):
    Path("other.csv").write_text("a,b\n1,2\n")
    Path("cells.csv").write_text("age,city,since,dose\n1,2\n")
    Path("blank.csv").write_text("age,city,since,dose\n\n")
    plain = Schema({"age": Range(20.0, 80.0)}, "ill", Levels(["no", "yes"]))
    Path("plain.json").write_text(json.dumps(ReleasedModel(plain, DRAWS[:, :2]).to_dict()))
    words, message = WORDS[case]
    ran = run("predict", *words)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.error


GOOD = ReleasedModel(
    SCHEMA,
    DRAWS,
    Shortening(np.zeros(5), np.ones(5), np.full(5, 0.5), np.full(5, 0.2), 2.0),
).to_dict()


def changed(**entries):
    return GOOD | entries


def shortened(**entries):
    own = GOOD["prediction"]["shortening"] | entries
    return changed(prediction=GOOD["prediction"] | {"shortening": own})


HOSTILE = {
    "old": ({k: v for k, v in GOOD.items() if k != "prediction"}, "it does not say how to predict"),
    "later": (changed(prediction={"format": 3}), "it is of format 3, and this version reads 2"),
    "list": ([], "is no release.json of 'gibbs-dp release' (its JSON is a list where a dict"),
    "null": (changed(prediction=None), "it is not as 'gibbs-dp release' wrote it (TypeError"),
    "no schema": (changed(schema={}), "it is not what Schema.to_dict wrote (KeyError: 'label')"),
    "odd draws": (changed(draws=[{"age": 1.0}]), "not as 'gibbs-dp release' wrote it (KeyError"),
    "nan": (
        changed(draws=[dict.fromkeys(SCHEMA.names, math.nan)]),
        "its 'draws' are no finite numbers",
    ),
    "no draws": (changed(draws=[]), "its 'draws' are no finite numbers"),
    "width": (shortened(width=[0.0] * 5), "its 'shortening' does not fit its columns"),
    "short": (shortened(low=[0.0]), "its 'shortening' does not fit its columns"),
    "huge": (shortened(norm=10**400), "not as 'gibbs-dp release' wrote it (OverflowError"),
    "three classes": (
        changed(schema=GOOD["schema"] | {"label": {"kind": "levels", "levels": ["a", "b", "c"]}}),
        "its label is neither one of two classes nor a number",
    ),
    "no label": (
        changed(schema=GOOD["schema"] | {"label": None, "target": None}),
        "its label is neither one of two classes nor a number",
    ),
    "text": (shortened(center=["__import__('os')"] * 5), "could not convert string to float"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_files_of_others_are_refused_in_a_sentence(run, here, case):
    held, message = HOSTILE[case]
    Path("odd.json").write_text(json.dumps(held))
    ran = run("predict", "odd.json", "new.parquet")
    assert (ran.status, ran.out) == (2, "")
    assert ran.error.startswith("release: ")
    assert message in ran.error
    assert len(ran.error) < 400


def test_a_deep_or_a_large_file_is_refused(run, here):
    Path("odd.json").write_text("[" * 10**6)
    assert "nested too deep" in run("predict", "odd.json", "new.parquet").error
    with Path("odd.json").open("wb") as file:
        file.truncate(1 << 27)  # a hole, which takes no disk
    assert "is too large to be one" in run("predict", "odd.json", "new.parquet").error


def test_names_in_a_file_reach_no_terminal(run, here):
    schema = Schema({"\x1b]0;owned\x07": Number()}, "y", Levels(["\x1b[31mno", "yes"]), 9.0)
    Path("odd.json").write_text(json.dumps(ReleasedModel(schema, np.array([[-1.0, 0]])).to_dict()))
    pd.DataFrame({"\x1b]0;owned\x07": [1.0]}).to_csv("odd.csv", index=False)
    ran = run("predict", "odd.json", "odd.csv")
    assert ran.status == 0, ran.err
    assert "\x1b" not in ran.out + ran.err + run("predict", "odd.json", "new.parquet").err
