"""Hundreds of hostile files and command lines, of the kinds that `benchmarks/fuzz.py` makes."""

import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fuzzing.formats import FORMATS
from fuzzing.verdict import Case, Failure, Format, not_a_sentence, verdict

sys.path.pop(0)

FEW, MANY = 100, 300


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """What cases of each format are made of, once."""
    made = {}

    def prepare(name):
        if name not in made:
            made[name] = FORMATS[name].prepare(tmp_path_factory.mktemp("base"), True)
        return made[name]

    return prepare


def test_shares_are_of_all_cases():
    assert sum(one.share for one in FORMATS.values()) == pytest.approx(1.0)
    for cases in (FEW, MANY):
        assert sum(round(one.share * cases) for one in FORMATS.values()) == cases


@pytest.mark.trust(but=[f"{FEW}-{name}" for name in FORMATS])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("cases", [FEW, MANY])
def test_hostile_input_is_refused_in_a_sentence_or_is_what_was_saved(
    cases, name, prepared, tmp_path_factory, monkeypatch
):
    """Most of the time is reading hundreds of files by pandas and HDF5."""
    base, format_ = prepared(name), FORMATS[name]
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    told = []

    @settings(
        max_examples=round(format_.share * cases),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def judge(rng):
        case = format_.make(rng, base)
        found = verdict(format_, case, tmp_path_factory.mktemp("case"))
        told.append(found)
        assert not found.startswith("failed"), (found, case.name, case.options)

    judge()
    assert {"refused"} <= set(told) <= {"accepted", "refused"}


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_seed_makes_the_same_case(name, prepared):
    base = prepared(name)
    first, again, other = (FORMATS[name].make(Random(seed), base) for seed in ("a", "a", "b"))
    if name == "Parquet":  # its NaN equal nothing
        first, again, other = first.content, again.content, other.content
    assert first == again
    assert first != other


def test_judges_see_what_they_are_for(tmp_path):
    """A judge that finds nothing wrong with anything would pass all of the above."""
    import os
    import pickle
    import warnings

    def shouted(case, folder):
        raise ValueError(case.content)

    def of(judge, content=""):
        return verdict(
            Format(lambda *_: None, lambda *_: None, judge, 1.0), Case(content), tmp_path
        )

    class Run:
        def __reduce__(self):
            return os.system, ("true",)

    assert of(lambda *_: True) == "accepted"
    assert of(lambda *_: False) == of(shouted, "data: it is empty.") == "refused"
    assert of(shouted, "a\x1b[31m").startswith("failed: ValueError would send a terminal '\\x1b'")
    assert of(shouted, "x" * 5000).startswith("failed: ValueError says 5000 characters")
    assert of(shouted, "").startswith("failed: ValueError says nothing")
    assert of(lambda *_: 1 // 0) == "failed: ZeroDivisionError: integer division or modulo by zero"
    assert of(lambda *_: warnings.warn("x", RuntimeWarning, stacklevel=1)) == (
        "failed: RuntimeWarning: x"
    )
    assert of(lambda *_: pickle.loads(pickle.dumps(Run())) == 0).startswith("failed: it set off")
    assert not_a_sentence("größe \u202egnp")

    def fails(case, folder):
        raise Failure("other numbers")

    assert of(fails) == "failed: other numbers"
