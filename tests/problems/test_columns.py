import numpy as np
import pandas as pd
import pytest

from gibbs_dp.model.losses import as_loss
from gibbs_dp.problems import columns, source
from gibbs_dp.problems.registry import LABELS
from gibbs_dp.problems.source import open_table
from gibbs_dp.problems.survey import MAX_LEVELS


def encode(data, target, loss, *arguments, **options):
    return columns.encode(open_table(data), target, as_loss(loss, *LABELS), *arguments, **options)


FRAME = pd.DataFrame(
    {
        "age": [20, 30, 40, 50],
        "smokes": [True, False, True, False],
        "city": ["b", "a", "c", "a"],
        "same": [1, 1, 1, 1],
        "score": [1.0, 2.0, 3.0, 4.0],
        "ill": ["no", "yes", "no", "yes"],
    }
)


def test_numbers_are_standardized_and_text_becomes_indicators():
    encoded = encode(FRAME, "ill", "logistic", ["age", "smokes", "city"])
    assert encoded.x.shape == (4, 4)
    np.testing.assert_allclose(encoded.x[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(encoded.x[:, :2].std(axis=0), 1)
    np.testing.assert_array_equal(encoded.x[:, 2], [1, 0, 0, 0])  # city == b
    np.testing.assert_array_equal(encoded.x[:, 3], [0, 0, 1, 0])  # city == c; a is the base
    np.testing.assert_array_equal(encoded.y, [0, 1, 0, 1])


def test_every_decision_is_told():
    notes = encode(FRAME, "ill", "logistic").notes
    assert notes == (
        "dropped features with a single value: same.",
        "target 'ill': no -> 0, yes -> 1.",
    )
    assert "mean 2.5" in encode(FRAME, "score", "squared").notes[-1]


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_other_targets_are_standardized(loss):
    y = encode(FRAME, "score", loss).y
    assert abs(y.mean()) < 1e-12
    assert y.std() == pytest.approx(1)


@pytest.mark.parametrize("pair", [(1, 2), (-1.0, 1.0), (False, True), ("a", "b")])
def test_the_smaller_of_two_levels_is_zero(pair):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [pair[1], pair[0], pair[1]]})
    np.testing.assert_array_equal(encode(frame, "y", "logistic").y, [1, 0, 1])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME[["ill"]], "no column besides the target"),
        (FRAME[["same", "ill"]], "none of same varies"),
        (FRAME.assign(age=[1, np.inf, 2, 3]), "'age' holds infinite"),
        (FRAME.assign(city=["a", None, "b", "c"]), r"missing values in city \(1\)"),
        (FRAME.assign(ill=["a", "b", "c", "a"]), "3 different values"),
        (FRAME.assign(city=list("abcd")), "'city' has 4 different values in 4 rows"),
    ],
)
def test_what_cannot_be_used_is_refused(frame, message):
    with pytest.raises(ValueError, match=message):
        encode(frame, "ill", "logistic")


def test_identifiers_are_refused():
    names = [f"name {i}" for i in range(MAX_LEVELS + 1)] * 2
    frame = pd.DataFrame({"name": names, "y": [0, 1] * (MAX_LEVELS + 1)})
    with pytest.raises(ValueError, match="at most 100"):
        encode(frame, "y", "logistic")


def test_a_constant_target_is_refused():
    with pytest.raises(ValueError, match="every row of 'same' is 1"):
        encode(FRAME, "same", "squared")


# -- missing values, categories, weights, groups ------------------------------------------------

HOLES = pd.DataFrame(
    {
        "age": [20.0, None, 40.0, 50.0, 60.0],
        "city": ["a", "b", None, "a", "b"],
        "unused": [None, 1.0, None, None, 1.0],
        "ward": [1, 2, 3, 1, 2],
        "share": [1.0, 2.0, 3.0, 0.0, 5.0],
        "ill": [0, 1, 0, 1, 1],
    }
)
USED = {"target": "ill", "loss": "logistic", "features": ["age", "city"]}


def test_missing_values_are_refused_or_their_rows_dropped():
    with pytest.raises(ValueError, match=r"missing values in age \(1\), city \(1\); leave"):
        encode(HOLES, **USED)
    found = encode(HOLES, **USED, missing="drop")
    whole = encode(HOLES.dropna(subset=["age", "city"]), **USED)
    np.testing.assert_array_equal(found.design, whole.design)
    np.testing.assert_array_equal(found.y, [0, 1, 1])
    assert found.notes[0].startswith("dropped 2 rows (40.0%) with missing values")


def test_numbers_may_be_names_of_levels():
    found = encode(HOLES, "ill", "logistic", ["ward"], categorical=["ward"])
    np.testing.assert_array_equal(found.x, [[0, 0], [1, 0], [0, 1], [0, 0], [1, 0]])


def test_weights_and_groups_are_no_features():
    frame = HOLES[["ward", "share", "ill"]].assign(age=[1.0, 2.0, 3.0, 4.0, 6.0])
    found = encode(frame, "ill", "logistic", weights="share", group="ward")
    assert found.x.shape == (5, 1)
    np.testing.assert_array_equal(found.weights, [1, 2, 3, 0, 5])
    np.testing.assert_array_equal(found.groups, [0, 1, 2, 0, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "nope"}, "weights: there is no column 'nope'"),
        ({"group": "nope"}, "group: there is no column 'nope'"),
        ({"weights": "city", "missing": "drop"}, "'city' holds text"),
        ({"weights": "debt", "missing": "drop"}, "'debt' must be at least 0"),
        ({"weights": "first", "missing": "drop"}, "'first' is 0 in all rows but one"),
        ({"categorical": ["share"]}, "'share' is not among the features"),
    ],
)
def test_bad_settings_of_a_table_are_refused(options, message):
    frame = HOLES.assign(debt=-1.0, first=[1.0] + [0.0] * (len(HOLES) - 1))
    with pytest.raises(ValueError, match=message):
        encode(frame, **USED, **options)


def test_levels_of_a_softmax_target_are_numbered():
    frame = pd.DataFrame({"x": range(6), "y": list("abcabc")})
    found = encode(frame, "y", "softmax")
    np.testing.assert_array_equal(found.y, [0, 1, 2, 0, 1, 2])
    assert found.num_classes == 3
    assert found.notes == ("target 'y': a -> 0, b -> 1, c -> 2.",)


def test_counts_are_left_alone_and_must_be_counts():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": [0, 3, 5]})
    np.testing.assert_array_equal(encode(frame, "y", "poisson").y, [0, 3, 5])
    with pytest.raises(ValueError, match="goes down to -1, but the poisson loss needs counts"):
        encode(frame.assign(y=[-1, 2, 3]), "y", "poisson")


# -- files in pieces ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_a_file_read_in_pieces_is_the_whole_table(suffix, tmp_path, monkeypatch):
    """With a column whose pieces look like numbers, text and nothing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": 1e6 + rng.normal(size=23),  # far from 0: naive sums of squares lose everything
            "code": [*"1212121212", *[None] * 4, *"ab12abab1"],
            "flag": rng.random(23) < 0.5,
            "weight": rng.random(23),
            "ill": np.where(rng.random(23) < 0.5, "no", "yes"),
        }
    )
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    monkeypatch.setattr(source, "CHUNK_ROWS", 4)
    options = {"target": "ill", "loss": "logistic", "missing": "drop", "weights": "weight"}
    found, wanted = encode(path, **options), encode(frame, **options)
    assert found.design.shape == (19, 6)  # intercept, age, three codes, flag
    np.testing.assert_allclose(found.design, wanted.design, atol=1e-6)
    np.testing.assert_array_equal(found.y, wanted.y)
    np.testing.assert_array_equal(found.weights, wanted.weights)
    assert found.notes == wanted.notes
    np.testing.assert_allclose(found.x[:, 0].std(), 1)


def test_what_is_no_table_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    for name, message in (("t.parquet", "as a Parquet table"), ("t.csv", "is empty")):
        (tmp_path / name).write_bytes(b"" if name.endswith("csv") else b"not parquet")
        with pytest.raises(ValueError, match=message):
            open_table(tmp_path / name)
    with pytest.raises(ValueError, match="two columns are called 'a'"):
        open_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
