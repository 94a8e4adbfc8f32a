"""``gibbs-dp attack``: on a problem, on a guarantee, on both, and in one run."""

import json
import math

import pandas as pd
import pytest
from html_pages import seen

import gibbs_dp as gdp
from gibbs_dp.cli.attack import allowed_by
from gibbs_dp.cli.main import main
from gibbs_dp.papers.attack import attack as module
from gibbs_dp.papers.attack.result import AttackResult
from gibbs_dp.privacy.guarantee import Guarantee, load_guarantee

FEW = ("--num-trials", 600, "--num-chains", 3, "--num-samples", 4, "--num-warmup", 16)
PROBLEM = ("attack", "linear-regression", "--theta-bound", 2, "--n", 20, *FEW)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def guarantee(here):
    g = gdp.Guarantee("add-remove", "exact draw", 1, 1.0, 0.5, 1e-6, zcdp=0.01)
    (here / "release.json").write_text(json.dumps({"draws": [], "charge": 1, **g.to_dict()}))
    return "release.json"


@pytest.mark.trust
def test_a_problem_prints_a_table_and_saves_it_with_a_picture_and_a_page(run, here):
    ran = run(*PROBLEM, "--gammas", 0.1, 3, "--out", "found", "--html", "found/attack.html")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].split()[:3] == ["gamma", "attacker", "advantage"]
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["0.1", name] for name in ("optimal", "loss", "lira")
    ]
    table = pd.read_csv("found/attack.csv")
    assert len(table) == 6
    # 32 gamma is the worst case; 4.5 standard errors (one-sided 3e-6) for every attacker.
    assert table["dp_epsilon"].tolist() == pytest.approx([3.2] * 3 + [96.0] * 3)
    assert (table["advantage"] < table["on_average_tv"] + 4.5 * table["advantage_se"]).all()
    assert {p.name for p in (here / "found").iterdir()} == {
        *("attack.csv", "attack.svg", "attack.png", "attack.html"),
    }
    page = seen((here / "found" / "attack.html").read_text(encoding="utf-8"))
    assert page.headings[0] == "Attacks on linear-regression"
    assert page.verdict.startswith("At gamma = 3 the best attacker that was run (")
    assert page.tags.count("svg") >= 1


def test_a_guarantee_beside_a_problem_is_what_is_compared_with(run, guarantee, monkeypatch):
    """The command's part of it: the attack is replaced by one that notes what it is asked."""
    asked = {}

    def noted(posterior, population, **settings):
        asked.update(settings)
        return AttackResult((), {}, ())

    monkeypatch.setattr(module, "attack", noted)
    words = ("--guarantee", guarantee, "--attackers", "optimal", "--worst-pair", "--json")
    assert run(*PROBLEM, *words).status == 0
    assert asked["guarantee"] == load_guarantee(guarantee)
    told = {name: asked[name] for name in ("gammas", "pair", "attackers", "n", "num_trials")}
    assert told == {
        "gammas": (1.0,),
        "pair": "worst",
        "attackers": ["optimal"],
        "n": 20,
        "num_trials": 600,
    }


@pytest.mark.trust
def test_a_guarantee_alone_says_what_it_allows_and_that_nothing_was_run(run, here, guarantee):
    text = run("attack", "--guarantee", guarantee).out
    assert text.startswith("(0.5, 1e-06)-DP, add-remove neighbours, 1 draw at gamma = 1\n")
    assert "IDEALIZED" in text
    assert "note  no attack was run: the file holds a guarantee, not the posterior" in text
    (found,) = run("attack", "--guarantee", guarantee, "--json", "--out", "a").rows
    assert found == json.loads((here / "a" / "attack.json").read_text())
    assert found["attacks_run"] == 0
    assert found["largest_success_rate"] == pytest.approx(0.5 + found["largest_advantage"] / 2)
    assert 0.01 < found["largest_tpr"]["0.01"] < 0.01 * math.exp(0.5) + 1e-6 + 1e-12
    assert run("attack", "--guarantee", guarantee, "--html", "g.html").status == 0
    page = seen((here / "g.html").read_text(encoding="utf-8"))
    assert page.headings[0] == "What a guarantee allows an attacker"


def test_what_is_refused(run, here, guarantee):
    assert run("attack").error.startswith("no problem is named; choose one of")
    assert "cannot read 'none.json'" in run("attack", "--guarantee", "none.json").error
    (here / "other.json").write_text("[]")
    assert "holds none; give release.json" in run("attack", "--guarantee", "other.json").error
    words = (*PROBLEM, "--guarantee", guarantee, "--gammas", 2)
    assert run(*words).error.startswith("gammas: the guarantee is of gamma=1;")
    assert "there is no option --gama here; did you mean" in run("attack", "--gama", 1).error


def test_help_names_both_forms(capsys):
    assert main(["attack", "--help"]) == 0
    text = capsys.readouterr().out
    assert "--guarantee FILE" in text
    assert "--num-trials" in text


PLAIN = ("attack", "random-features", "--num-features", 60)
ONE_RUN = (*PLAIN, "--n", 40, "--canaries", 40)


@pytest.mark.trust
def test_coins_of_one_run_are_guessed(run, here):
    ran = run(*ONE_RUN, "--gammas", 1e-6, 30, "--delta", 1e-5, "--out", "found")
    lines = ran.out.splitlines()
    assert lines[0] == "40 coins of one run, each for one of two examples; n = 40"
    assert lines[1].split() == ["gamma", "right", "guesses", "epsilon", ">=", "mu", ">="]
    table = pd.read_csv("found/one_run.csv")
    assert list(table["gamma"]) == [1e-6, 30]
    assert (table["num_right"] <= table["num_guesses"]).all()
    assert table["epsilon"].iloc[1] > 0  # 30 nats an example: most coins are told
    assert set(table["canaries"]) == {40}
    assert "0: nothing was shown, which does not say that nothing is told" in lines


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--n", 20), "--canaries: they are among the n = 20 examples; give 1 to 20."),
        (("--num-trials", 9), "--num-trials: it goes without --canaries; leave it out."),
        (("--html", "x.html"), "--html: it goes without --canaries; leave it out."),
    ],
)
def test_what_an_audit_in_one_run_refuses(run, words, sentence):
    assert sentence in run(*PLAIN, "--canaries", 40, *words).err


def test_options_of_one_run_need_canaries(run):
    ran = run("attack", "linear-regression", "--delta", 1e-5)
    assert ran.status == 2
    assert "--delta: it goes with --canaries; leave it out." in ran.err


def test_the_largest_success_rate_is_that_of_randomized_response():
    """One bit that is told truly with probability ``e^eps / (1 + e^eps)``: guess what is told."""
    guarantee = Guarantee("replace-one", "chain", 1, 1.0, 1.2, 0.0, pure_epsilon=1.2)
    found = allowed_by(guarantee)["largest_success_rate"]
    assert found == pytest.approx(1 / (1 + math.exp(-1.2)))
