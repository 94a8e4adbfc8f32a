"""Benchmarks are too slow to run here: each runs bare, has a quick setting and saves itself."""

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
HELPERS = {"machine", "peers_problems", "gpu_audits", "gpu_phases"}
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)


def calls(name, method):
    """First arguments of all calls of a method in a script, where they are written out."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    return {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_a_quick_setting_and_writes_its_own_json(name):
    assert {"--quick", "--out"} <= calls(name, "add_argument")
    assert calls(name, "save") == {name}
    assert f"| `{name}.py` |" in (FOLDER / "README.md").read_text()


def test_the_store_script_asks_everything_when_run_bare(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    store = importlib.import_module("store")
    answers = {
        name: lambda quick, name=name: [{"question": name, "quick": quick}]
        for name in store.QUESTIONS
    }
    monkeypatch.setattr(store, "QUESTIONS", answers)
    for words, quick in ((), False), (("merge", "--quick"), True):
        monkeypatch.setattr(sys, "argv", ["store.py", *words, "--out", str(tmp_path)])
        store.main()
        rows = json.loads((tmp_path / "store.json").read_text())["rows"]
        assert {row["question"] for row in rows} == set(answers)
        assert rows[-1]["quick"] is quick
    monkeypatch.setattr(sys, "argv", ["store.py", "nothing", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        store.main()


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """Runs the script in this process; its rows, and those that were there after every phase."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the script sets it
    script, machine = importlib.import_module("gpu"), importlib.import_module("machine")
    save, seen = machine.save, []

    def keep(*given):
        path = save(*given)
        seen.append(json.loads(path.read_text())["rows"])
        return path

    monkeypatch.setattr(machine, "save", keep)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["gpu.py", *words, "--out", str(tmp_path)])
        with pytest.raises(SystemExit) as end:
            script.main()
        return int(end.value.code), seen

    run.script = script
    return run


def test_the_gpu_script_measures_the_ceilings_anywhere(gpu, capsys):
    status, seen = gpu("--quick", "--phases", "ceilings")
    assert status == 0
    assert seen[-1][0]["phase"] == "ceilings"
    assert all(seen[-1][0][name] > 0 for name in ("float32_tflops", "copy_tb_per_s"))
    assert "10^6 posteriors, s" in capsys.readouterr().out


def test_a_phase_of_the_gpu_script_that_fails_says_so_and_the_next_one_runs(gpu, monkeypatch):
    def ceilings(asked):
        raise MemoryError("too little of it")

    def scaling(asked):
        return [{"times two cores": 7.0}, {"times two cores": 9.0}]

    phases = {ceilings: 0.5, scaling: 0.5}
    monkeypatch.setattr(gpu.script.gpu_phases, "PHASES", phases)
    status, seen = gpu("--seconds", "1e9")
    assert status == 1
    assert [len(rows) for rows in seen] == [2, 5, 5]  # written after every phase
    assert "too little of it" in seen[0][0]["failed"]
    (goal,) = [g for g in gpu.script.against_goals(seen[-1]) if g["figure"] == "times two cores"]
    assert goal["measured"] == 9.0
    status, seen = gpu("--seconds", "0")
    assert [row["failed"] for row in seen[-1]] == ["no time left"] * 2
