"""Benchmarks are too slow to run here: each runs bare, has a quick setting and saves itself."""

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
HELPERS = {"machine", "peers_problems"}
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
