"""Declared columns: what makes no sense is refused by one sentence."""

import math

import pytest

from gibbs_dp.privacy import Levels, Number, Positive, Range, Schema

SCHEMA = Schema({"age": Range(0.0, 100.0)}, "ill", Levels(["no", "yes"]))

BAD = {
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
        lambda: Schema.from_dict(SCHEMA.to_dict() | {"label": {"kind": "odd"}}),
        r"^saved: there is no column of kind 'odd'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_declarations_that_make_no_sense(case):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make()
