"""`gibbs-dp notions`: the order, the arrows and the missing ones; what is broken is caught."""

import csv
import itertools
import json
import math

import numpy as np
import pytest

from gibbs_dp.cli.main import main
from gibbs_dp.exact import FiniteChannel
from gibbs_dp.information import bounds
from gibbs_dp.papers import channels
from gibbs_dp.papers.notions import implications, notions
from gibbs_dp.papers.notions.measures import (
    NOTIONS,
    curves,
    order_records,
    smallest_crossing,
    values_at,
)
from gibbs_dp.papers.notions.notions import compare_notions, implication_rows
from gibbs_dp.papers.on_average_kl.verify import fixture
from gibbs_dp.papers.verify.cases import response


@pytest.fixture(scope="module")
def found():
    return compare_notions(gammas=[0.05, 10.0])


@pytest.mark.trust
def test_everything_holds_and_every_pair_is_decided(found):
    assert found.failures == []
    assert len(found.verdicts) == len(NOTIONS) ** 2
    assert "open" not in found.verdicts.values()
    assert {r.relation for r in found.properties} == {"<=", "not <="}


@pytest.mark.trust
def test_pairs_that_the_theory_names(found):
    yes = [("dp", name) for name in NOTIONS if name != "dp"]
    yes += [("zcdp", "on_average"), ("personalized", "random"), ("on_average", "generalization")]
    no = [("on_average", "dp"), ("random", "dp"), ("tv", "kl"), ("mutual", "on_average")]
    assert {found.verdicts[pair] for pair in yes} == {"arrow", "implied"}
    assert {found.verdicts[pair] for pair in no} == {"counterexample", "refuted"}


def test_measures_agree_with_the_problem_by_types():
    problem = fixture()
    q = problem.quantities(1.0, 4, 0.05)
    table = channels.summed_loss(problem.loss_matrix, 4)
    channel = channels.gibbs(table, 4, 1.0, problem.data_probs, problem.prior_probs)
    value = {name: notion.measure(channel) for name, notion in NOTIONS.items()}
    assert value["dp"] == pytest.approx(q["dp_epsilon"], rel=1e-12)
    assert value["kl"] == pytest.approx(q["kl_privacy"], rel=1e-12)
    assert value["tv"] == pytest.approx(q["tv_privacy"], rel=1e-12)
    assert value["on_average"] == pytest.approx(q["on_average_kl"], rel=1e-10)
    assert value["mutual"] == pytest.approx(q["mutual_information"] / 4, rel=1e-10)
    assert value["max"] == pytest.approx(q["max_information_bits"] * math.log(2) / 4, rel=1e-12)
    assert value["zcdp"] == pytest.approx(problem.zcdp(1.0, 4, adjacency="replace-one"), rel=1e-6)
    assert value["generalization"] >= q["generalization_error"]


@pytest.mark.parametrize("gamma", [0.3, 4.0])
def test_curves_of_the_worst_pair_are_those_of_all_pairs(gamma):
    problem, n = fixture(), 3
    datasets = list(itertools.product(range(3), repeat=n))
    weight = [
        problem.prior_probs * np.exp(-gamma * problem.loss_matrix[:, list(z)].sum(axis=1))
        for z in datasets
    ]
    laws = {z: w / w.sum() for z, w in zip(datasets, weight, strict=True)}
    pairs = [
        (laws[a], laws[b])
        for a, b in itertools.permutations(datasets, 2)
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    ]
    found = values_at(problem, gamma, n)
    worst = {
        "dp_epsilon": max(np.log(p / q).max() for p, q in pairs),
        "kl_privacy": max(p @ np.log(p / q) for p, q in pairs),
        "renyi_2": max(np.log(p @ (p / q)) for p, q in pairs),
        "renyi_8": max(np.log(p @ (p / q) ** 7) / 7 for p, q in pairs),
        "twice_squared_tv": max(2 * np.maximum(p - q, 0).sum() ** 2 for p, q in pairs),
    }
    assert {name: found[name] for name in worst} == pytest.approx(worst, rel=1e-10)


def test_measures_by_hand():
    # The worst loss in [0, 1] of a bit reported truthfully with probability 3/4.
    bit = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], 1)
    losses = [[[a, b], [c, d]] for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1)]
    best = max(bit.generalization_error(loss) for loss in losses)
    assert NOTIONS["generalization"].measure(bit) == pytest.approx(best)
    c = NOTIONS["approx"].measure(bit)
    assert bit.privacy_curve([c])[0] == pytest.approx(c)
    assert NOTIONS["personalized"].measure(bit) == pytest.approx(0.5 * math.log(3))
    assert smallest_crossing(lambda c: 0.0) == 0.0


def test_a_perturbed_arrow_is_caught(monkeypatch):
    monkeypatch.setattr(implications, "NUM_CHANNELS", 12)
    right = bounds.max_information_bits
    monkeypatch.setattr(bounds, "max_information_bits", lambda n, eps: 0.5 * right(n, eps))
    failed = [(r.start, r.end) for r in implications.check_arrows() if not r.holds]
    assert failed == [("dp", "max")]


def test_a_search_may_fail():
    # Randomized response is pure DP, so no member separates DP from anything.
    missing = implications.Missing("zcdp", "dp", "small noise")
    families = {
        "small noise": (lambda eps: FiniteChannel(response(eps), [0.5, 0.5], 1), (0.1,), "")
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(implications, "FAMILIES", families)
        assert not implications.find_counterexample(missing).holds


def test_a_wrong_order_is_caught():
    gammas = [0.5, 2.0]
    values = curves(fixture(), gammas, 3)
    values["kl_privacy"] = np.zeros(2) + 1e-9
    failed = {r.name for r in order_records(values, gammas) if not r.holds}
    assert failed == {"on_average_kl <= kl_privacy", "twice_squared_tv <= kl_privacy"}


def test_logic_sees_contradictions_and_gaps():
    with pytest.raises(ValueError, match="both implied and refuted"):
        notions.decide("abc", [("a", "b"), ("b", "c")], [("a", "c")])
    assert notions.decide("ab", [], [])["a", "b"] == "open"


@pytest.mark.trust
def test_failures_are_named(found):
    bad = found.order[0]._replace(holds=False)
    gap = {**found.verdicts, ("tv", "dp"): "open"}
    broken = type(found)(**{**vars(found), "order": [bad], "verdicts": gap})
    assert broken.failures == [f"{bad.name} [{bad.source}]", "tv => dp is open"]


@pytest.mark.trust
def test_rows_hold_the_numbers(found):
    rows = {(row["from"], row["to"]): row for row in implication_rows(found)}
    assert rows["dp", "zcdp"]["to_value"] <= rows["dp", "zcdp"]["bound"]
    assert rows["tv", "on_average"]["to_value"] == math.inf
    assert "statement" not in rows["dp", "tv"]


@pytest.mark.trust
def test_command(capsys, tmp_path, monkeypatch, found):
    from gibbs_dp.papers.notions import notions

    monkeypatch.setattr(notions, "compare_notions", lambda **_: found)
    assert main(["notions", "--json", "--quiet", "--out", str(tmp_path)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["kind"] for row in rows} == {"notion", "implication", "property", "curve"}
    assert sum(row["kind"] == "implication" for row in rows) == 132
    for name in ("notions", "implications", "verdicts"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    main_eight = (tmp_path / "notions.svg").read_text()
    assert "zCDP rho" in main_eight
    assert "Rényi DP, order 8" not in main_eight
    with (tmp_path / "notions.csv").open() as file:
        assert [row["notion"] for row in csv.DictReader(file)] == list(NOTIONS)
    broken = type(found)(**{**vars(found), "order": [found.order[0]._replace(holds=False)]})
    monkeypatch.setattr(notions, "compare_notions", lambda **_: broken)
    assert main(["notions", "--quiet"]) == 1
    printed = capsys.readouterr()
    assert "pure DP (eps)" in printed.out
    assert printed.err.startswith("FAILS: ")


@pytest.mark.parametrize("bad", [["--gammas", "0"], ["--gammas", "2", "1"], ["--n", "0"]])
def test_command_refuses_nonsense(capsys, bad):
    assert main(["notions", "--quiet", *bad]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
