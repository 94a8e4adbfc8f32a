"""``gibbs-dp audit --store`` and ``merge``: killed, shared among processes, put together."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import gibbs_dp as gdp
from gibbs_dp.engine.store.configuration import FORMAT

ASKED = ("linear-regression", "--n", 20, "--gammas", 0.1, 3, "--num-datasets", 384)
ASKED = ("audit", *ASKED, "--num-information", 0, "--block-size", 16)
NUM_BLOCKS = 48
WHOLE = []


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """This process and those that it starts share compiled programs."""
    cache, name = str(tmp_path_factory.mktemp("cache")), "jax_compilation_cache_dir"
    before = jax.config.jax_compilation_cache_dir
    jax.config.update(name, cache)
    compilation_cache.reset_cache()
    root = str(Path(gdp.__file__).parents[1])
    yield os.environ | {
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_ENABLE_COMPILATION_CACHE": "1",
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]),
    }
    jax.config.update(name, before)
    compilation_cache.reset_cache()


def start(environment, store, *words):
    command = [sys.executable, "-m", "gibbs_dp.cli.main", *ASKED, "--store", store, "--quiet"]
    return subprocess.Popen([*map(str, [*command, *words])], env=environment)


def blocks(store):
    return len(list(Path(store).glob("*/gamma-*/blocks-*/*.npz")))


def kill_at(process, store, count):
    """SIGKILL once there are so many blocks."""
    limit = time.monotonic() + 120
    while blocks(store) < count and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.fixture
def whole(run, environment):
    """The report of an audit that nothing disturbed, as its JSON lines; made once."""
    if not WHOLE:
        ran = run(*ASKED, "--json")
        assert ran.status == 0, ran.err
        WHOLE.append(ran.out)
    return WHOLE[0]


@pytest.mark.trust
def test_killed_at_any_moment_it_ends_with_the_same_numbers(run, whole, environment, tmp_path):
    rng = np.random.default_rng(5)
    for count in sorted(rng.integers(1, NUM_BLOCKS - 8, 3)):
        kill_at(start(environment, tmp_path), tmp_path, count)
    assert 0 < blocks(tmp_path) < NUM_BLOCKS
    resumed = run(*ASKED, "--json", "--store", tmp_path)
    assert (resumed.status, resumed.out) == (0, whole)
    assert run("merge", tmp_path, "--json").out == whole


@pytest.mark.trust
def test_a_finished_store_is_read_where_nothing_may_be_written(run, whole, tmp_path, monkeypatch):
    assert run(*ASKED, "--store", tmp_path).status == 0

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gibbs_dp.io.atomic_write", refuse)
    assert run(*ASKED, "--json", "--store", tmp_path).out == whole


@pytest.mark.trust
def test_processes_share_a_store_by_flags_or_slurm_and_merge_reports(
    run, whole, tmp_path, monkeypatch
):
    store = tmp_path / "store"
    first = run(*ASKED, "--store", store, "--num-processes", 2, "--process-id", 0, "--json")
    assert (first.status, first.out) == (0, "")
    early = run("merge", store)
    assert early.status == 2
    assert "24 of 48 blocks are missing (" in early.error
    assert "all of process 1 of 2" in early.error
    with monkeypatch.context() as patch:
        patch.setenv("SLURM_NTASKS", "2")
        patch.setenv("SLURM_PROCID", "1")
        assert run(*ASKED, "--store", store, "--json").out == ""
    assert blocks(store) == NUM_BLOCKS
    merged = run("merge", "--json", store, "--out", tmp_path / "out")
    assert (merged.status, merged.out) == (0, whole)
    report = gdp.load_report(tmp_path / "out" / "audit.nc")
    assert [json.loads(line) for line in report.to_json_rows()] == merged.rows


def test_a_store_of_other_settings_is_refused_in_one_line(run, tmp_path):
    words = ("audit", "gaussian-mean", "--store", tmp_path, "--num-datasets", 32)
    (tmp_path / "configuration.json").write_text(json.dumps({"format": FORMAT, "n": 77}))
    ran = run(*words, "--n", 50)
    assert ran.status == 2
    assert "holds another configuration: n is 77 there and 50 here" in ran.error


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--num-processes", 2, "--process-id", 0), "give --store DIR"),
        (("--store", "s", "--num-processes", 2), "--process-id: --num-processes is given without"),
        (("--store", "s", "--process-id", 2), "--num-processes: --process-id is given without"),
        (("--store", "s", "--num-processes", 2, "--process-id", 2), "2 is not one of 2 processes"),
        (
            ("--store", "s", "--num-processes", 2, "--process-id", 0, "--out", "o"),
            "run 'gibbs-dp merge s --out o' at the end",
        ),
    ],
)
def test_process_numbers_are_checked(run, tmp_path, monkeypatch, words, error):
    monkeypatch.chdir(tmp_path)
    ran = run("audit", "gaussian-mean", *words)
    assert ran.status == 2
    assert error in ran.error
    assert not list(tmp_path.iterdir())


def test_merge_refuses_what_is_no_store_and_imports_only_what_is_named(run, tmp_path):
    assert "is no store of 'gibbs-dp audit --store'" in run("merge", tmp_path).error
    assert "no store is named" in run("merge").error
    asked = {"problem": "--problem", "options": {"problem": "os:abort"}, "num_processes": 1}
    (tmp_path / "request.json").write_text(json.dumps(asked))
    assert "'os:abort'; name it again" in run("merge", tmp_path).error
    (tmp_path / "request.json").write_text("{}")
    assert "damaged request.json" in run("merge", tmp_path).error
