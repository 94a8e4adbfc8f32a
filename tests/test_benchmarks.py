"""Benchmarks are too slow to run here: each runs bare, has a quick setting and saves itself."""

import ast
import importlib
import json
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
HELPERS = {"machine", "peers_problems", "gpu_audits", "gpu_phases", "gpu_compiler"}
HELPERS |= {"posteriordb_cases", "posteriordb_models"}
HELPERS |= {"multimodal_cases", "quadrature", "dp_vs_on_average_plot"}
HELPERS |= {f"hard_targets_{part}" for part in ("models", "modes", "shapes", "truth")}
HELPERS |= {"calibration_models", "report_coverage_truth", "correctness_plot"}
HELPERS |= {"private_accuracy_peers", "private_accuracy_tables", "lower_bounds"}
HELPERS |= {
    f"claims_{part}"
    for part in (
        "case",
        "chains",
        "correlated",
        "estimators",
        "holdout",
        "mechanisms",
        "release",
        "sparse",
    )
}
HELPERS |= {f"any_model_{part}" for part in ("hierarchies", "others", "truth")}
HELPERS |= {f"faults_{part}" for part in ("files", "runs", "shared", "signals")}
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


def test_mutants_are_in_the_code_and_in_every_room(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    script = importlib.import_module("mutants")
    mutants = script.read_list()
    assert script.faults_of(mutants) == []
    counts = Counter(m.room for m in mutants)
    package = FOLDER.parent / "gibbs_dp"
    folders = {p.parent for p in package.glob("*/__init__.py")} - {package / "papers"}
    folders |= {p.parent for p in package.glob("papers/*/__init__.py")}
    rooms = {str(folder.relative_to(package)) for folder in folders}
    assert {room for room in rooms if counts[room] < 3} == set()
    assert len(mutants) >= 150


@pytest.mark.trust
def test_the_worst_case_is_set_against_the_average_in_like_units(monkeypatch, tmp_path):
    """Private mean: Laplace noise, so that everything is a sum over pairs of examples.

    Eight comparisons at 4 standard errors: false alarms below 1 in 1,000; key 0.
    """
    monkeypatch.syspath_prepend(str(FOLDER))
    script = importlib.import_module("dp_vs_on_average")
    words = ["dp_vs_on_average.py", "--quick", "--quiet", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    script.main()
    saved = json.loads((tmp_path / "dp_vs_on_average.json").read_text())
    assert (tmp_path / "dp_vs_on_average.png").stat().st_size > 10_000
    assert saved["settings"]["warnings"] == []
    assert [row["gamma"] for row in saved["rows"]] == [1.0, 100.0]
    x = np.linspace(-2, 2, 2001)
    weight = np.exp(-(x**2) / 2)
    weight = np.outer(weight, weight)
    weight /= weight.sum()
    for row in saved["rows"]:
        apart = row["gamma"] * np.abs(x[:, None] - x) / row["n"]
        most = row["gamma"] * 4 / row["n"]
        # The most that pure DP allows, which is randomized response; Laplace noise stays below.
        assert row["pure_epsilon"] == pytest.approx(most, rel=1e-6)
        assert row["worst_kl"] == pytest.approx(most * math.tanh(most / 2), rel=1e-6)
        assert row["worst_tv"] == pytest.approx(math.tanh(most / 2), rel=1e-6)
        assert row["worst_kl"] > most + math.expm1(-most)
        kl, tv = apart + np.expm1(-apart), -np.expm1(-apart / 2)
        for name, exact in (
            ("on_average_kl", kl),
            ("gibbs_generalization", kl),
            ("on_average_tv", tv),
        ):
            found, error = row[name], row[f"{name}_se"]
            assert found == pytest.approx((weight * exact).sum(), abs=4 * error)
        assert row["on_average_kl_se"] < 0.1 * row["on_average_kl"]
        assert row["on_average_tv"] < row["on_average_tv_pinsker"]
        assert row["ratio_kl"] == pytest.approx(row["worst_kl"] / row["on_average_kl"])
        assert row["ratio_tv"] == pytest.approx(row["worst_tv"] / row["on_average_tv"])
    named = set(saved["rows"][0]) - {"problem", "n", "gamma"}
    assert {name.removesuffix("_se") for name in named} == set(saved["settings"]["units"])


@pytest.fixture
def posteriordb(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("posteriordb")


@pytest.mark.parametrize("words", [(), ("--database", "nowhere")])
def test_posteriordb_without_its_data_says_so_in_one_line(posteriordb, monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "argv", ["posteriordb.py", "--quick", *words])
    with pytest.raises(SystemExit) as end:
        posteriordb.main()
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("posteriordb: --database: ")


VERDICTS = [
    ([({"a": 1.0}, {"a": 0.01}, ())], "right", 0),
    ([({"a": 3.5}, {"a": 0.01}, ()), ({"a": 1.0}, {"a": 0.06}, ())], "right", 1),
    ([({"a": 3.5}, {"a": 0.01}, ()), ({"a": -4.0}, {"a": 0.01}, ())], "WRONG", 1),
    ([({"a": 0.0}, {"a": 0.06}, ()), ({"a": 0.0}, {"a": 0.07}, ())], "WRONG", 0),
    ([({"a": 0.0}, {"a": float("nan")}, ()), ({"a": 0.0}, {"a": 0.07}, ())], "WRONG", 0),
    ([({"a": 9.0}, {"a": 0.01}, ("slow",)), ({"a": 9.0}, {"a": 0.01}, ())], "flagged", None),
]


@pytest.mark.parametrize(("looks", "verdict", "off"), VERDICTS)
def test_posteriordb_judges_by_both_looks(posteriordb, monkeypatch, looks, verdict, off):
    def look(name, columns, reference, key):
        z, share, warnings = looks[posteriordb.KEYS.index(key)]
        return posteriordb.Look(z, share, 1000.0, 1.0, warnings)

    monkeypatch.setattr(posteriordb, "look", look)
    found = posteriordb.row("some", {}, {})
    assert found["verdict"] == verdict
    if off is not None:
        assert posteriordb.chance([found]).startswith(f"{off} of 1 means")


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


@pytest.mark.trust
def test_the_gpu_script_passes_every_phase_on_a_processor(gpu):
    status, seen = gpu("--quick", "--seconds", "3600")
    assert status == 0
    assert not [row for row in seen[-1] if "failed" in row]


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


# One step reads a row of a table, updates a row of another in place, and has an inner loop.
PROGRAM = """\
HloModule jit_chain

FileNames
1 "/somewhere/gibbs_dp/sampling/chains.py"

FunctionNames
1 "evolve.<locals>.one_round"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%row (p0: f32[100,8], p1: s32[]) -> f32[8] {
  %p0 = f32[100,8]{1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %c = s32[] constant(0)
  ROOT %slice = f32[1,8]{1,0} dynamic-slice(%p0, %p1, %c), dynamic_slice_sizes={1,8}
}

%write (p2: f32[100,8], p3: f32[1,8], p4: s32[]) -> f32[100,8] {
  %p2 = f32[100,8]{1,0} parameter(0)
  %p3 = f32[1,8]{1,0} parameter(1)
  %p4 = s32[] parameter(2)
  ROOT %update = f32[100,8]{1,0} dynamic-update-slice(%p2, %p3, %p4, %p4)
}

%inner (q: f32[8]) -> f32[8] {
  %q = f32[8]{0} parameter(0)
  ROOT %k = f32[8]{0} sine(%q)
}

%step (s: (f32[100,8], f32[100,8], s32[])) -> (f32[100,8], f32[100,8], s32[]) {
  %s = (f32[100,8]{1,0}, f32[100,8]{1,0}, s32[]) parameter(0)
  %a = f32[100,8]{1,0} get-tuple-element(%s), index=0
  %b = f32[100,8]{1,0} get-tuple-element(%s), index=1
  %i = s32[] get-tuple-element(%s), index=2
  %x = f32[1,8]{1,0} fusion(%a, %i), kind=kLoop, calls=%row
  %y = f32[8]{0} while(%x), condition=%asked, body=%inner, backend_config={INNER}
  %z = f32[100,8]{1,0} fusion(%b, %y, %i), kind=kLoop, calls=%write
  ROOT %t = (f32[100,8]{1,0}, f32[100,8]{1,0}, s32[]) tuple(%a, %z, %i)
}

ENTRY %main (u: f32[100,8]) -> f32[100,8] {
  %u = f32[100,8]{1,0} parameter(0)
  %v = (f32[100,8]{1,0}, f32[100,8]{1,0}, s32[]) tuple(%u, %u, %u)
  %w = (f32[100,8]{1,0}, f32[100,8]{1,0}, s32[]) while(%v), body=%step, \
metadata={op_name="jit(chain)/while" stack_frame_id=1}
  ROOT %o = f32[100,8]{1,0} get-tuple-element(%w), index=1
}
"""


@pytest.mark.parametrize(("inner", "waits"), [('"known_trip_count":{"n":"3"}', 1), ("", 5)])
def test_what_the_gpu_compiler_made_is_read(monkeypatch, inner, waits):
    monkeypatch.syspath_prepend(str(FOLDER))
    compiler = importlib.import_module("gpu_compiler")
    found = compiler.Compiled(PROGRAM.replace("INNER", inner))
    outer, within = found.loops()
    assert (outer.source, outer.trips, outer.depth) == ("sampling/chains.py:one_round", None, 0)
    assert (within.trips, within.depth) == (3 if inner else None, 1)
    # Two fusions and three sines; a row read and written twice, with indices of four bytes.
    kernels, asked, traffic = found.per_round(outer, 3)
    assert (kernels, asked) == (5, waits)
    assert traffic == (32 + 4 + 32) + 3 * (32 + 32) + (32 + 4 + 32)
    assert found.kernels(found.entry) == []


def test_loops_of_a_compiled_program_are_found(monkeypatch):
    import jax

    monkeypatch.syspath_prepend(str(FOLDER))
    compiler = importlib.import_module("gpu_compiler")

    def run(x, count):
        x = jax.lax.fori_loop(0, 7, lambda _, v: v @ v, x)
        return jax.lax.fori_loop(0, count, lambda _, v: v @ v, x)

    text = jax.jit(run).lower(jax.numpy.ones((4, 4)), 3).compile().as_text()
    assert [loop.trips for loop in compiler.Compiled(text).loops()] == [7, None]


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("claims*.py")))
def test_broken_copies_break_what_is_there(name, monkeypatch):
    """What a module of claims patches is looked up when it is imported."""
    monkeypatch.syspath_prepend(str(FOLDER))
    importlib.import_module(name)
