"""What a report says in a hundred columns, against its rows; the verdict, against its rule."""

import explored
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.auditing.summary import CAUTIONS
from gibbs_dp.results.table import in_paper

CAUTION = {c.name: c for cautions in CAUTIONS.values() for c in cautions}
CHECKED = {"gamma": 1.0, "trust": "checked: two routes.", "failed_datasets": 0, "num_datasets": 90}


def verdicts(*warnings, **more):
    rows = ({**CHECKED, **more}, {**CHECKED, "gamma": 10.0})
    return gdp.Report(rows, {}, warnings).verdicts


def test_a_row_is_in_the_summary_with_its_errors():
    kl, best = 0.02 * 0.3, explored.advantage(0.3)
    head, _, row, *_ = str(explored.make_report()).splitlines()
    assert head.split("  ")[0].startswith("gamma on-average KL")
    told = row.split()
    assert told[:2] == ["0.3", in_paper(kl, 0.01 * kl)]
    ends = [float(x.strip("[,]")) for x in told[2:4]]
    np.testing.assert_allclose(ends, [0.982 * kl, 1.021 * kl], rtol=0.01)
    odds = float(told[4].partition("(")[0])
    assert odds == pytest.approx(50 + 50 * best, abs=0.6 * 50 * 0.012 * best)
    assert told[5:] == [in_paper(explored.risk(0.3), 0.0014), "1.2", "ok"]


def test_it_fits_a_terminal_however_large_and_small_the_numbers_are():
    wide = gdp.Column("wide", "Mine.", title="w" * 60)
    narrow = gdp.Column("narrow", "Mine.", title="mine")
    names = ("on_average_kl", "on_average_tv", "generalization_error", "population_risk")
    rows = [
        {"gamma": 1.2345e-5 * 10.0**i, "trust": "checked.", "wide": 1.0, "narrow": 2.0}
        | dict.fromkeys(names, 1.23456 * 10.0 ** (i - 6))
        | {f"{name}_se": 1.16e-3 * 10.0 ** (i - 6) for name in names}
        | {"on_average_kl_low": 1.2333 * 10.0 ** (i - 6), "on_average_kl_high": 1.2399e-6 * 10.0**i}
        | {"dp_epsilon": 1.2345e-5 * 10.0**i}
        for i in range(12)
    ]
    words = ("a sentence of many words, " * 9).strip()
    report = gdp.Report(tuple(rows), {}, (words,), (words,), own_columns=(wide, narrow))
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 100
    assert "w" * 60 not in lines[0]
    few = gdp.Report(({"gamma": 1.0, "wide": 1.0, "narrow": 2.0},), {}, own_columns=(wide, narrow))
    assert str(few).splitlines()[0].split() == ["gamma", "w" * 60, "mine", "verdict"]


def test_all_columns_are_under_their_names_and_only_once():
    report = explored.make_report()
    lines = str(report.table(all=True)).splitlines()
    found = {line.split()[0]: line for line in lines}
    assert lines[0].split() == ["gamma", *(f"{g:g}" for g in explored.GAMMAS)]
    named = {n for n in report.columns if not n.endswith("_se")} - {"trust"}
    assert found.keys() == named | {"verdict"}
    assert "other columns: report.table(all=True)" in str(report)
    assert "report.table" not in report.summary(all=True)
    assert "WARNING  gamma=3: " in report.summary(all=True)


def test_notebooks_see_the_tables():
    table = explored.make_report().table()
    assert repr(table) == str(table) == str(explored.make_report()).partition("\nWARNING")[0]
    assert table._repr_html_().count("<tr") == 5


@pytest.mark.parametrize(
    ("warnings", "expected"),
    [
        ((), ("ok", "ok")),
        (("gamma=1: a. [skewed-datasets]",), ("look", "ok")),
        (("gamma=1: a. [skewed-datasets]", "gamma=1: b. [virial]"), ("do not use", "ok")),
        (("gamma=10: a. [heavy-tails]",), ("ok", "do not use")),
        (("stopped. [interrupted]",), ("look", "look")),
        (("a list. [sensitive-rows]",), ("ok", "ok")),
        (("gamma=1: of a later version. [unheard-of]",), ("look", "ok")),
        (("gamma=1: without a name.",), ("look", "ok")),
    ],
)
def test_the_verdict_is_that_of_the_worst_warning(warnings, expected):
    assert verdicts(*warnings) == expected


def test_a_tenth_of_failures_makes_a_row_useless_and_an_unchecked_one_is_unknown():
    failed = "gamma=1: some failed. [failed-datasets]"
    assert verdicts(failed, failed_datasets=9)[0] == "look"
    assert verdicts(failed, failed_datasets=10)[0] == "do not use"
    assert gdp.Report(({"gamma": 1.0},), {}).verdicts == ("unknown",)
    assert gdp.Report(({"gamma": 1.0},), {}, ("a. [virial]",)).verdicts == ("do not use",)


def test_what_says_that_the_draws_are_wrong_forbids_use():
    refused = {name for name, caution in CAUTION.items() if caution.verdict == "do not use"}
    assert {"starts-disagree", "routes-disagree", "virial", "heavy-tails"} <= refused
    assert not {"rel-error-missed", "skewed-datasets", "outside-domain"} & refused
