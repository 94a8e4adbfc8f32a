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
from gibbs_dp.cli import store
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


def test_merge_refuses_what_is_no_store(run, tmp_path):
    assert "is no store of 'gibbs-dp audit --store'" in run("merge", tmp_path).error
    assert "no store is named" in run("merge").error
    (tmp_path / "request.json").write_text("{}")
    assert "damaged request.json" in run("merge", tmp_path).error


# A store's request is a file: it may ask for no more than a command line could.


REQUEST = {"n": 5, "dim": 2, "gammas": [1.0], "seed": 0, "num_datasets": 4}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dask": "tcp://127.0.0.1:9"}, "'dask' is no option that was asked for"),
        ({"out": "/"}, "'out' is no option"),
        ({"kernel": "../../x"}, "'kernel' is no option"),
        ({"gammas": "1"}, "'gammas' is no option"),
        ({"n": 2.5}, "'n' is no option"),
        ({"seed": 10**30}, "'seed' is no option"),
        ({"\x1b[2J": 1}, r"'\\x1b[2J' is no option"),
    ],
)
def test_what_no_command_line_would_ask_for_is_refused(run, tmp_path, change, message):
    request = {"problem": "gaussian-mean", "options": REQUEST | change, "num_processes": 1}
    (tmp_path / "request.json").write_text(json.dumps(request))
    ran = run("merge", tmp_path)
    assert ran.status == 2
    assert message.replace(r"\\", "\\") in ran.error


@pytest.mark.parametrize("name", ["", "os:system", 2.5, None, "\x1b[2J"])
def test_a_problem_that_is_none_is_refused(run, tmp_path, name):
    request = {"problem": name, "options": REQUEST, "num_processes": 1}
    (tmp_path / "request.json").write_text(json.dumps(request))
    ran = run("merge", tmp_path)
    assert ran.status == 2
    assert "has a damaged request.json" in ran.error


def test_numbers_that_no_machine_counts_to_are_refused(run):
    large = "1" + "0" * 30
    for words in (("--num-datasets", large), ("--seed", large), ("--n", "3000000000")):
        ran = run("audit", "gaussian-mean", *words)
        assert ran.status == 2
        assert "not a whole number" in ran.error or "must be at most 2147483647" in ran.error


# ``gibbs-dp audit --dask``: the same rows from a cluster, and one line where there is none.


@pytest.fixture
def distributed():
    return pytest.importorskip("distributed")


ON_WORKERS = ("audit", "gaussian-mean", "--n", 20, "--gammas", 1, "--num-datasets", 64)
ON_WORKERS = (*ON_WORKERS, "--num-information", 0, "--block-size", 16, "--json")
# Workers are threads of this process: they start at once.
HERE = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}


@pytest.fixture
def on_threads(run):
    ran = run(*ON_WORKERS)
    assert ran.status == 0, ran.err
    return ran.out


@pytest.mark.trust
def test_an_address_and_a_file_name_a_cluster(run, on_threads, tmp_path, distributed):
    with distributed.LocalCluster(**HERE, protocol="tcp") as here:
        by_address = run(*ON_WORKERS, "--dask", here.scheduler_address)
        file = tmp_path / "scheduler.json"
        file.write_text(json.dumps({"address": here.scheduler_address}))
        by_file = run(*ON_WORKERS, "--dask", file, "--store", tmp_path / "store")
    assert (by_address.status, by_address.out, by_address.err) == (0, on_threads, "")
    assert (by_file.status, by_file.out) == (0, on_threads)
    assert run("merge", tmp_path / "store", "--json").out == on_threads


@pytest.mark.trust
def test_local_starts_one_and_shares_compiled_programs(run, on_threads, monkeypatch, distributed):
    asked = {}

    def start(env, n_workers, **settings):
        asked.update(env=env, n_workers=n_workers)
        return distributed_cluster(**settings | HERE)

    distributed_cluster = distributed.LocalCluster
    monkeypatch.setattr(distributed, "LocalCluster", start)
    ran = run(*ON_WORKERS, "--dask", "local:3")
    assert (ran.status, ran.out) == (0, on_threads)
    assert asked["n_workers"] == 3
    assert "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" in asked["env"]


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("tcp://127.0.0.1:9", "no scheduler answers at 'tcp://127.0.0.1:9' within 0.5 s"),
        ("nothing://here", "no scheduler answers at 'nothing://here'"),
        ("here.json", "there is no file 'here.json'; start 'dask scheduler --scheduler-file"),
        ("myhost", "'myhost' is no address; give tcp://HOST:PORT"),
        ("local:0", "'local:0' names no number of processes; give local or local:4."),
    ],
)
def test_an_address_that_is_none_is_refused(run, address, error, monkeypatch, distributed):
    monkeypatch.setattr(store, "CONNECT_SECONDS", 0.5)
    ran = run("audit", "gaussian-mean", "--dask", address)
    assert ran.status == 2
    assert f"--dask: {error}" in ran.error
