"""``gibbs-dp audit --dask``: the same rows from a cluster, and one line where there is none."""

import json

import pytest

from gibbs_dp.cli import store

distributed = pytest.importorskip("distributed")

ASKED = ("audit", "gaussian-mean", "--n", 20, "--gammas", 1, "--num-datasets", 64)
ASKED = (*ASKED, "--num-information", 0, "--block-size", 16, "--json")
# Workers are threads of this process: they start at once.
HERE = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}


@pytest.fixture
def plain(run):
    ran = run(*ASKED)
    assert ran.status == 0, ran.err
    return ran.out


@pytest.mark.trust
def test_an_address_and_a_file_name_a_cluster(run, plain, tmp_path):
    with distributed.LocalCluster(**HERE, protocol="tcp") as here:
        by_address = run(*ASKED, "--dask", here.scheduler_address)
        file = tmp_path / "scheduler.json"
        file.write_text(json.dumps({"address": here.scheduler_address}))
        by_file = run(*ASKED, "--dask", file, "--store", tmp_path / "store")
    assert (by_address.status, by_address.out, by_address.err) == (0, plain, "")
    assert (by_file.status, by_file.out) == (0, plain)
    assert run("merge", tmp_path / "store", "--json").out == plain


@pytest.mark.trust
def test_local_starts_one_and_shares_compiled_programs(run, plain, monkeypatch):
    asked = {}

    def start(env, n_workers, **settings):
        asked.update(env=env, n_workers=n_workers)
        return distributed_cluster(**settings | HERE)

    distributed_cluster = distributed.LocalCluster
    monkeypatch.setattr(distributed, "LocalCluster", start)
    ran = run(*ASKED, "--dask", "local:3")
    assert (ran.status, ran.out) == (0, plain)
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
def test_an_address_that_is_none_is_refused(run, address, error, monkeypatch):
    monkeypatch.setattr(store, "CONNECT_SECONDS", 0.5)
    ran = run("audit", "gaussian-mean", "--dask", address)
    assert ran.status == 2
    assert f"--dask: {error}" in ran.error
