import numpy as np
import pandas as pd
import pytest

from gibbs_dp.problems.columns import MAX_LEVELS, encode

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
