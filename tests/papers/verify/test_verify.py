"""`gibbs-dp verify`: everything holds, everything is covered, and what is broken is caught."""

import csv
import functools
import importlib
import inspect
import json
import math

import pytest

from gibbs_dp.auditing.report import Report
from gibbs_dp.cli.main import main
from gibbs_dp.exact import FiniteProblem
from gibbs_dp.information import bounds
from gibbs_dp.io import json_row
from gibbs_dp.papers.channels import conditional_on_average_kl
from gibbs_dp.papers.on_average_kl import verify, verify_closed_forms, verify_sampled
from gibbs_dp.papers.on_average_kl.verify import channel_checks, fixture_checks
from gibbs_dp.papers.verify.check import (
    SHARE_TOLERANCE,
    Check,
    counterexample,
    equality,
    exact_check,
    inequality,
    reaches,
    rounded,
    sampled_equality,
    table,
)
from gibbs_dp.papers.verify.verify import verdict


def failures(checks):
    return {check.name for check in checks if not check.holds}


@pytest.fixture
def called(monkeypatch):
    """Names of the functions of `information.bounds` that were called."""
    names = set()

    def watch(name, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            names.add(name)
            return function(*args, **kwargs)

        monkeypatch.setattr(bounds, name, wrapper)

    for name, function in inspect.getmembers(bounds, inspect.isfunction):
        watch(name, function)
    return names


def test_a_perturbed_chain_rule_is_caught(monkeypatch):
    right = conditional_on_average_kl
    monkeypatch.setattr(verify, "conditional_on_average_kl", lambda *a: 1.001 * right(*a))
    found = failures(channel_checks())
    assert found == {"composition lemma, theta ~ A(Z) (chain rule)"}


def test_a_perturbed_generalization_error_is_caught(monkeypatch):
    right = FiniteProblem.generalization_error
    monkeypatch.setattr(
        FiniteProblem, "generalization_error", lambda self, gamma, n: 1.0001 * right(self, gamma, n)
    )
    found = failures(fixture_checks())
    assert "Theorem 4: eps_KL = gamma gen" in found
    assert "reference value of generalization_error" in found


def test_a_perturbed_closed_form_is_caught(monkeypatch):
    from gibbs_dp.papers.on_average_kl import verify_closed_forms as module

    right = module.gaussian_mean
    monkeypatch.setattr(module, "gaussian_mean", lambda gamma, *rest: right(1.001 * gamma, *rest))
    found = {record.name for record in module.gaussian_records() if not record.holds}
    assert "Gaussian mean, flat prior: eps_KL = gamma v d / n" in found


def test_a_perturbed_gaussian_field_is_caught(monkeypatch):
    from gibbs_dp.papers.bayesian_dp import verify as module

    inverse = module.np.linalg.inv
    monkeypatch.setattr(module.np.linalg, "inv", lambda a: 1.01 * inverse(a) + 0.01)
    assert "privacy is poorest for who knows least, rows that attract" in failures(
        module.field_checks()
    )


def test_z_scores():
    assert sampled_equality("", "", "", 1.0, 1.39, left_se=0.1).holds
    assert not sampled_equality("", "", "", 1.0, 1.41, left_se=0.1).holds
    assert not sampled_equality("", "", "", math.nan, 1.0, left_se=0.1).holds
    assert not sampled_equality("", "", "", 1.0, 1.0, left_se=0.0).holds
    added = sampled_equality("", "", "", 1.0, 0.0, left_se=0.3, right_se=0.4)
    apart = sampled_equality("", "", "", 1.0, 0.0, left_se=0.3, right_se=0.4, independent=True)
    assert (added.standard_error, apart.standard_error) == pytest.approx((0.7, 0.5))


@pytest.mark.parametrize(
    ("record", "notices"),
    [
        (equality("", "", 7.7e-5, 7.7e-5, 1e-3), 1e-3),
        (equality("", "", 1.0, 1.001, 0.01), 0.011),
        (inequality("", "", 0.4, 1.0), 0.6),
        (inequality("", "", -1.0, 1.0), 2.0),
        (inequality("", "", -1.0, 0.0), math.nan),
        (inequality("", "", 1.0, math.inf), math.nan),
        (counterexample("", "", 3.0, 2.0), 0.5),
        (rounded("", "", 0.5, 0.5, 0.004), 0.008),
        (reaches("", "", 1.0, 2.0, 0.501), 0.007),
        (sampled_equality("", "", "", 2.0, 2.0, left_se=0.1), 0.2),
    ],
)
def test_what_is_a_little_more_wrong_than_is_noticed_fails(record, notices):
    assert record.holds
    assert record.notices == pytest.approx(notices, rel=1e-2, nan_ok=True)
    if not notices < 1:
        return
    left, right, room = record.left, record.right, record.tolerance
    state = {
        "=": lambda off: equality("", "", left, off, room),
        "<=": lambda off: inequality("", "", left, off, room),
        "not <=": lambda off: counterexample("", "", left, off, room),
    }[record.relation]
    if record.tolerance == SHARE_TOLERANCE:
        state = lambda off: reaches("", "", left, off, 0.501)  # noqa: E731
    elif isinstance(record, Check):
        state = lambda off: sampled_equality("", "", "", left, off, left_se=0.1)  # noqa: E731
    elif record.tolerance == 0.004:
        state = lambda off: rounded("", "", left, off, room)  # noqa: E731
    ways = {"=": (-1, 1), "<=": (-1,), "not <=": (1,)}[record.relation]
    assert not any(state(right * (1 + 1.02 * way * record.notices)).holds for way in ways)


@pytest.mark.parametrize(
    ("left", "right"),
    [(1.0, 1.0), (0.0, 0.0), (-2.0, -2.0), (math.inf, math.inf), (1.0, 1.0 + 1e-12)],
)
def test_where_a_statement_holds_there_is_no_counterexample(left, right):
    """``left <= right`` is true, so that nothing shows it to be false."""
    assert left <= right
    assert not counterexample("", "", left, right).holds
    # What rounding may have lifted above the right side shows nothing either.
    assert not counterexample("", "", left + 1e-13, right).holds


def test_rows_of_json_and_of_the_table():
    infinite = exact_check(counterexample("a <= b", "book", math.inf, 1.0), "case")
    row = json.loads(json.dumps(json_row(infinite._asdict()), allow_nan=False))
    assert row["left"] == "inf"
    assert "z" not in row
    good = exact_check(equality("c = d", "book", 1.0, 1.0), "one")
    bad = exact_check(equality("c = d", "book", 1.0, 2.0), "two")
    lines = table([good, bad, infinite]).splitlines()
    assert lines[1].split()[:2] == ["NO", "2"]
    assert "FALSE: a <= b" in lines[2]
    said = verdict([good, bad]).splitlines()
    assert said[1].startswith("Of 1 statements 1 notice a right side that is 1% wrong,")
    assert said[2] == "FAILS: c = d [two]"


def fake_reports(shift=0.0):
    """Reports with the exact numbers, some of them off by so many standard errors."""
    kl = [a.on_average_kl for a in map(proper, verify_sampled.GAMMAS)]
    flat = [verify_sampled.gaussian_mean(g, 15, 2, 1.0).on_average_kl for g in (0.2, 1.0)]
    private = [
        verify_sampled.private_mean_on_average_kl(g, 100) for g in verify_sampled.PRIVATE_GAMMAS
    ]
    truths = [kl, [4 * x for x in kl], kl, flat, private]
    shifts = [shift, 0.0, 0.0, 0.0, 0.0]
    names = verify_sampled.audits()
    return {
        name: Report(tuple(row(g, x, s) for g, x in zip(gammas, truth, strict=True)), {})
        for name, truth, s, gammas in zip(
            names, truths, shifts, [(0.2, 1.0)] * 4 + [(1.0, 10.0, 100.0)], strict=True
        )
    }


def proper(gamma):
    return verify_sampled.gaussian_mean(gamma, 15, 2, 1.0, verify_sampled.PRIOR_SCALE**2)


def row(gamma, kl, shift):
    se = 0.01 * kl
    return {
        "gamma": gamma,
        "on_average_kl": kl + shift * se,
        "on_average_kl_se": se,
        "on_average_kl_ghost": kl,
        "on_average_kl_ghost_se": 0.1 * se,
        "generalization_error": kl / gamma,
        "generalization_error_se": se,
    }


def test_sampled_comparisons_read_every_report():
    assert not failures(verify_sampled.compare(fake_reports()))
    found = failures(verify_sampled.compare(fake_reports(shift=6.0)))
    assert "audit against closed form: eps_KL" in found
    assert "Theorem 4, two estimators: eps_KL = gamma gen" in found
    assert "a structured loss that is a sum is the sum" in found


@pytest.mark.trust
def test_a_real_audit_agrees(monkeypatch):
    monkeypatch.setattr(verify_sampled, "NUM_DATASETS", 256)
    reports = fake_reports()
    name, job = next(iter(verify_sampled.audits().items()))
    said = []
    report = verify_sampled.run_audits(said.append, {name: job})[name]
    assert said == [f"sampled: {name}"]
    reports[name] = report
    checks = [c for c in verify_sampled.compare(reports) if c.case.startswith(name)]
    assert len(checks) == 6
    assert not failures(checks)


def dependent_reports(factor=1.0):
    """Reports with the exact numbers of dependent examples, times a factor."""
    chain = [verify_closed_forms.chain_truth(g) for g in verify_closed_forms.CHAIN_GAMMAS]
    process = [
        verify_closed_forms.process_truth(g).on_average_kl
        for g in verify_closed_forms.PROCESS_GAMMAS
    ]
    gammas = [verify_closed_forms.CHAIN_GAMMAS, verify_closed_forms.PROCESS_GAMMAS]
    return {
        name: Report(tuple(row(g, factor * x, 0.0) for g, x in zip(grid, truth, strict=True)), {})
        for name, grid, truth in zip(
            verify_closed_forms.dependent_audits(), gammas, [chain, process], strict=True
        )
    }


@pytest.mark.trust
def test_dependent_comparisons_read_every_report():
    checks = verify_closed_forms.compare_dependent(dependent_reports())
    assert len(checks) == 8
    assert not failures(checks)
    wrong = verify_closed_forms.compare_dependent(dependent_reports(1.1))
    assert len([c for c in wrong if not c.holds]) == 8


@pytest.mark.trust
def test_a_chain_of_another_law_is_caught(monkeypatch):
    reports = {"Markov chain": verify_closed_forms.dependent_audits()["Markov chain"]()}
    assert not failures(verify_closed_forms.compare_dependent(reports))
    monkeypatch.setattr(verify_closed_forms, "FLIP", 0.3)
    wrong = verify_closed_forms.compare_dependent(reports)
    assert not any(check.holds for check in wrong)


@pytest.mark.trust
def test_everything_exact_holds_and_every_bound_is_checked(called, capsys, tmp_path):
    """Two thousand checks by enumeration and quadrature: some 20 seconds."""
    assert main(["verify", "--exact-only", "--json", "--out", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert all(row["holds"] for row in rows)
    assert {"name", "source", "case", "left", "right", "difference"} <= set(rows[0])
    assert "checks hold (" in printed.err
    assert "one that is 50%.\nsaved" in printed.err  # no failure follows
    least = {}
    for row in rows:  # a factor above 0 could make every bound too small to hold
        if row["relation"] == "<=" and "notices" in row and row["right"] > 0:
            least[row["name"]] = min(row["notices"], least.get(row["name"], math.inf))
    assert max(least.values()) < 1
    every = {name for name, _ in inspect.getmembers(bounds, inspect.isfunction)}
    assert every == called
    with (tmp_path / "new" / "verify.csv").open() as file:
        saved = list(csv.DictReader(file))
    assert len(saved) == len(rows)
    assert float(saved[0]["left"]) == rows[0]["left"]


@pytest.mark.trust
def test_command_exits_1_when_something_fails(capsys, monkeypatch):
    """As slow as all checks are, as two of them fail among all others."""
    for name, factor in (("total_variation_from_range", 0.999), ("total_variation_from_kl", 0.99)):
        right = getattr(bounds, name)
        monkeypatch.setattr(bounds, name, lambda x, f=factor, right=right: f * right(x))
    assert main(["verify", "--exact-only", "--quiet"]) == 1
    out = capsys.readouterr().out
    assert "FAILS: total_variation_from_range: attained" in out
    assert "FAILS: total_variation_from_kl: attained" in out
    assert "gibbs_mutual_information: reached to 0.25" in out


@pytest.mark.parametrize(("rights", "status"), [([1.0, 1.0], 0), ([1.0, 2.0], 1)])
def test_one_failure_is_enough_to_exit_1(rights, status, monkeypatch):
    checks = [exact_check(equality("c = d", "book", 1.0, right), "one") for right in rights]
    module = importlib.import_module("gibbs_dp.papers.verify.verify")
    monkeypatch.setattr(module, "verify", lambda **_: checks)
    assert main(["verify", "--exact-only", "--quiet"]) == status


def test_command_refuses_what_it_does_not_know(capsys):
    assert main(["verify", "--fast"]) == 2
    assert capsys.readouterr().err.startswith("gibbs-dp: error: ")
