"""``gibbs-dp demo``: five commands on made-up data, and sentences that read their numbers."""

import contextlib
import io
import json
import math
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import explored
import pandas as pd
import pytest

import gibbs_dp as gdp
from gibbs_dp.cli import COMMANDS, demo, load
from gibbs_dp.cli.main import main

NAMES = ["audit", "explore", "attack", "release", "ledger"]
RIGHT = 50 + 50 * explored.advantage(10.0)  # a closed form
ROW = {"gamma": 10.0, "attacker": "optimal", "success_rate": RIGHT / 100 + 0.01}


class Replaced:
    """In place of the two commands that take long: notes what is typed, writes closed forms."""

    def __init__(self):
        self.typed = []
        self.row = {**ROW, "success_rate_se": 0.008}

    def load(self, command):
        function, groups = load(command)
        if command not in ("audit", "attack"):
            return function, groups

        def write(words):
            self.typed.append([command, *words])
            folder = words[words.index("--out") + 1]
            if command == "audit":
                explored.make_report((0.1, 10.0, 100.0)).save(f"{folder}/audit.nc")
            else:
                bad = self.row | {"success_rate": 0.5}
                others = [bad | {"attacker": "loss"}, bad | {"gamma": 0.1}]
                pd.DataFrame([*others, self.row]).to_csv(f"{folder}/attack.csv", index=False)

        return write, groups


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def replaced(here, monkeypatch):
    return replace(monkeypatch)


def replace(patch):
    found = Replaced()
    patch.setattr(demo, "load", found.load)
    patch.setattr(demo, "NUM_ROWS", 50)  # a release of few rows is a fast one
    patch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    return found


class Toured(NamedTuple):
    steps: list
    typed: list
    folder: Path


@pytest.fixture(scope="module")
def toured(tmp_path_factory):
    """One tour, as text."""
    folder, out = tmp_path_factory.mktemp("toured"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(folder)
        found = replace(patch)
        assert main(["demo", "--quiet"]) == 0
    return Toured(steps_of(out.getvalue()), found.typed, folder / "demo")


def steps_of(text):
    """The steps of a tour: question, commands, sentence, and lines for one's own data."""
    found = []
    for part in text.split("\n\n"):
        lines = part.splitlines()
        begin = next(i for i, line in enumerate(lines) if line.startswith("In words: "))
        end = next(i for i, line in enumerate(lines) if line.startswith("Your own data: "))
        found.append(
            (
                lines[0],
                [line for line in lines if line.startswith("$ gibbs-dp ")],
                " ".join(lines[begin:end]),
                lines[end:],
            )
        )
    return found


def test_each_step_asks_runs_reads_and_says_what_is_typed_for_other_data(toured):
    for i, (step, (question, commands, words, yours)) in enumerate(
        zip(demo.STEPS, toured.steps, strict=True), 1
    ):
        assert question == f"{i} of 5. {step.asks}"
        assert question.endswith("?")
        assert len(commands) == len(yours) == len(step.commands)
        assert len(words) > 80
    assert toured.steps[0][1][0].endswith("--num-datasets 4096 --out demo")
    assert [words[0] for words in toured.typed] == ["audit", "attack"]
    assert all("--quiet" in words and "4096" in words for words in toured.typed)
    files = {"audit.nc", "attack.csv", "explore.html", "release.json"}
    assert {p.name for p in toured.folder.iterdir()} == files | {"made_up.csv", "made_up.ledger"}


def test_sentences_say_what_the_files_hold(toured):
    audit, explore, attack, release, ledger = (step[2] for step in toured.steps)
    assert f"guesses right {RIGHT:.1f}" in audit
    assert "gamma = 10: one draw gives away 0.200 ± 0.002 nats" in audit  # 0.02 gamma, and 1%
    assert (toured.folder / "explore.html").as_uri() in explore
    ends = [50 + 50 * explored.advantage(gamma) for gamma in (0.1, 100.0)]
    assert f"right guesses from {ends[0]:.2f} to {ends[1]:.2f} in 100" in explore
    apart = 1.0 / math.hypot(0.8, 0.012 * (RIGHT - 50))
    assert f"guessed right {RIGHT + 1:.2f} ± 0.80 times in 100" in attack
    assert f"said {RIGHT:.2f}: {apart:.1f} standard errors apart, which chance explains." in attack
    saved = json.loads((toured.folder / "release.json").read_text())
    assert saved["model"].startswith("ill is 'yes' with probability")
    assert f"at most {math.exp(saved['epsilon']):.3g} (epsilon = 1), but for" in release
    # Of bounded range eta the total variation is at most tanh(eta / 4).
    most = 50 + 50 * math.tanh(saved["exact"]["pure_epsilon"] / 4)
    told = float(re.search(r"right more than ([\d.]+) times", release)[1])
    assert most <= told < most + 0.02
    assert "of epsilon = 2 the draw took 1 and 1 is left, enough for 1 more like it" in ledger


def test_the_ledger_is_charged_with_what_is_promised(toured):
    ledger = gdp.Ledger(toured.folder / "made_up.ledger")
    (charge,) = ledger.charges()
    promised = gdp.privacy.load_guarantee(toured.folder / "release.json")
    assert charge.amounts == {"epsilon": promised.epsilon, "delta": promised.delta}
    assert ledger.left()["epsilon"] == pytest.approx(2.0 - promised.epsilon)


@pytest.mark.parametrize(("away", "says"), [(0.02, "explains"), (-0.04, "does NOT explain")])
def test_a_difference_beyond_chance_is_told(replaced, here, away, says):
    folder = str(here)
    replaced.row["success_rate"] = RIGHT / 100 + away
    for command in ("audit", "attack"):
        replaced.load(command)[0](["--out", folder])
    words, numbers = demo.read_attack(here)
    assert words.endswith(f"standard errors apart, which chance {says}.")
    assert numbers["measured_in_100"] == pytest.approx(RIGHT + 100 * away)


def test_json_is_an_object_a_step(run, replaced):
    ran = run("demo", "--json", "--out", "some folder")
    assert [row["kind"] for row in ran.rows] == NAMES
    audit, _, attack, release, ledger = ran.rows
    assert audit["right_in_100"] == pytest.approx(RIGHT)
    assert attack["measured_in_100"] == pytest.approx(RIGHT + 1)
    assert (release["epsilon"], ledger["more"]) == (pytest.approx(1.0), 1)
    assert ledger["charged"] == {"epsilon": release["epsilon"], "delta": release["delta"]}
    assert ledger["commands"] == ["gibbs-dp ledger show --ledger 'some folder/made_up.ledger'"]


@pytest.mark.trust
def test_lines_for_other_data_are_understood(toured, here, monkeypatch):
    """With the names of a table in place of the capitals, up to where work begins."""
    names = {
        "FILE.csv": str(toured.folder / "made_up.csv"),
        "COLUMN": "ill",
        "ZERO": "no",
        "ONE": "yes",
    }
    names |= {"FEATURE": "age", "LOW": "0", "HIGH": "100"}
    names["results/audit.nc"] = str(toured.folder / "audit.nc")

    class ParsedError(Exception):
        pass

    def stop(*_, **__):
        raise ParsedError

    for line in (line for step in demo.STEPS for line in step.yours):
        program, command, *words = [names.get(word, word) for word in shlex.split(line)]
        assert program == "gibbs-dp"
        assert not [word for word in words if word.isupper()]
        function, _ = load(command)
        if command in ("audit", "attack", "release"):
            monkeypatch.setattr(f"gibbs_dp.cli.{COMMANDS[command].module}.start_session", stop)
            with pytest.raises(ParsedError):
                function(words)
        else:
            function(words)


def test_the_table_is_always_the_same_and_says_something(tmp_path):
    for name in ("a.csv", "b.csv"):
        demo.make_table(tmp_path / name)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    table = pd.read_csv(tmp_path / "a.csv")
    assert len(table) == demo.NUM_ROWS
    assert table["age"].between(0, 100).all()  # as the release declares
    assert set(table["smoker"]) == set(table["ill"]) == {"no", "yes"}
    ages = table.groupby("ill")["age"].mean()
    assert ages["yes"] > ages["no"] + 10


def test_what_is_refused_is_refused_before_any_work(run, replaced, here):
    (here / "full").mkdir()
    (here / "full" / "mine.csv").write_text("x\n1\n")
    (here / "file").touch()
    told = run("demo", "--out", "full").error
    assert told.startswith("--out: 'full' already holds files, and the tour overwrites none;")
    assert "give a folder that you may write to" in run("demo", "--out", "file").error
    told = "num_datasets: must be an integer of at least 32, got 31."
    assert run("demo", "--num-datasets", 31).error == told
    assert run("demo", "private-mean").error.startswith("'private-mean' is unexpected;")
    assert replaced.typed == []
    assert not (here / "demo").exists()


def test_a_ctrl_c_is_one_sentence_and_keeps_what_was_made(run, replaced, here, monkeypatch):
    def stop(command):
        if command == "attack":
            raise KeyboardInterrupt
        return replaced.load(command)

    monkeypatch.setattr(demo, "load", stop)
    ran = run("demo")
    assert (ran.status, ran.err) == (130, "gibbs-dp: interrupted: nothing more was saved.\n")
    assert {p.name for p in (here / "demo").iterdir()} == {
        *("made_up.csv", "audit.nc", "explore.html"),
    }


@pytest.mark.trust
def test_the_tour_itself(here, capsys, monkeypatch):
    """All five for real, which compiles an audit and an attack: half a minute."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    assert main(["demo", "--num-datasets", "64", "--json"]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["kind"] for row in rows] == NAMES
    assert "sampling" in err  # progress
    audit, attack = rows[0], rows[2]
    report = gdp.load_report("demo/audit.nc")
    assert list(report["num_datasets"]) == [64] * 4
    (i,) = (report["gamma"] == 10.0).nonzero()[0]
    assert audit["right_in_100"] == pytest.approx(50 + 50 * report["on_average_tv"][i])
    assert report["attack_advantage_limit"][i] >= report["on_average_tv"][i] > 0.05
    table = pd.read_csv("demo/attack.csv").set_index(["gamma", "attacker"])
    best = table.loc[(10.0, "optimal")]
    assert attack["measured_in_100"] == pytest.approx(100 * best["success_rate"])
    assert attack["standard_errors_apart"] < 4.5
    found = {p.name for p in (here / "demo").iterdir()}
    assert {"audit.png", "audit.svg", "attack.png", "attack.svg", "explore.html"} <= found
