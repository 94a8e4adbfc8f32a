"""Draws of chains on minibatches in folders: gone on with, opened, refused; their memory."""

import errno
import io
import itertools
import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.io import DamagedFileError, load_record, save_record
from gibbs_dp.sampling import minibatch, minibatch_draws, minibatch_steps, minibatch_store
from gibbs_dp.sampling.minibatch_store import LABELS, _header, _Saved

DATA = np.asarray(np.random.default_rng(3).normal(1.0, 1.5, size=(20, 1)), np.float32)
KERNEL = gdp.StochasticLangevin(0.01)


@cache
def plain():
    return gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 2.0))


def run(kernel=KERNEL, posterior=None, data=DATA, gamma=0.5, **settings):
    """Draws, without what they warn of: they are few."""
    posterior = plain() if posterior is None else posterior
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gdp.DrawsWarning)
        return gdp.sample_minibatches(posterior, data, gamma, kernel=kernel, **settings)


@cache
def parts():
    """A posterior of many leaves, whose names have another order than they."""
    return gdp.GibbsPosterior(
        lambda theta, z: jnp.sum((theta["b"][0] + theta["a"] - z) ** 2),
        {"b": [dist.Normal(jnp.zeros(1), 1.0)] * 11, "a": dist.Normal(0.0, 1.0)},
    )


LONG = {"kernel": gdp.StochasticLangevin(0.001, 0.5, preconditioner="rmsprop")}
LONG |= {"num_samples": 6, "thinning": 2, "num_warmup": 6, "batch_size": 5, "num_halved": 4}
SHORT = {"num_samples": 6, "thinning": 2, "num_warmup": 4}


def assert_same(found, wanted):
    for field in ("kept", "halved", "state", "loss"):
        pair = getattr(found, field), getattr(wanted, field)
        jax.tree.map(np.testing.assert_array_equal, *pair)


def assert_loads_as(folder, wanted):
    again = gdp.load_minibatch_draws(folder)
    np.testing.assert_array_equal(again.loss, wanted.loss)
    jax.tree.map(np.testing.assert_array_equal, again.state, wanted.state)
    for name, values in wanted.named.items():
        np.testing.assert_array_equal(again.named[name], values)
        assert again.named[name].dtype == values.dtype


@pytest.mark.parametrize("moment", [1, 2, 5, 9, 12])
def test_an_interrupted_run_goes_on_to_the_same_draws(moment, tmp_path, monkeypatch):
    """Stopped in warmup, at draws and at half the step."""
    posterior, path = parts(), tmp_path / "run"
    whole = run(posterior=posterior, **LONG)
    monkeypatch.setattr(minibatch, "QUICK_SECONDS", 0.0)  # a draw a call
    calls, draws = itertools.count(), minibatch_steps.Arrays.draws

    def stopped(*arguments):
        if next(calls) == moment:
            raise KeyboardInterrupt
        return draws(*arguments)

    with monkeypatch.context() as here:
        here.setattr(minibatch_steps.Arrays, "draws", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(posterior=posterior, store=path, **LONG)
    steps = int(gdp.load_minibatch_draws(path).state.num_steps)
    assert steps == min(2 * moment, 18)  # three calls of warmup, six of draws; others are halved
    assert_same(run(posterior=posterior, store=path, **LONG), whole)
    assert_loads_as(path, whole)
    made = []
    monkeypatch.setattr(minibatch_steps.Arrays, "draws", lambda *_: made.append(1))
    assert_same(run(posterior=posterior, store=path, **LONG), whole)  # it is all there
    assert not made


# One process imports, and a copy of it runs for every moment. That it uses no JAX before, which
# copies would not survive, is why posteriors are made in functions.
VICTIM = """
import os, signal, sys, warnings
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import test_minibatch_store as tests
from gibbs_dp.io import files
from gibbs_dp.sampling import minibatch, minibatch_steps, minibatch_store

def dies(owner, name, calls, is_after=False):
    inner, left = getattr(owner, name), [calls]
    def victim(*arguments):
        left[0] -= 1
        found = inner(*arguments) if left[0] or is_after else None
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(owner, name, victim)

minibatch_store.STORE_SECONDS, minibatch.QUICK_SECONDS = -1.0, 0.0
warnings.simplefilter("ignore")
MOMENTS = [
    (minibatch_steps.Arrays, "draws", 3),         # in warmup
    (minibatch_store.Part, "_publish", 3),        # a row is written and does not count
    (files, "_finish", 3),                        # the record is written and has not its name
    (minibatch_store.Part, "_publish", 2, True),  # the record has its name
    (minibatch_steps.Arrays, "draws", 8),         # at half the step
]
for moment in MOMENTS:
    child = os.fork()
    if not child:
        dies(*moment)
        tests.run(posterior=tests.parts(), store=sys.argv[2], **tests.LONG)
        os._exit(0)
    print(os.WTERMSIG(os.waitpid(child, 0)[1]), tests.progress(sys.argv[2]), flush=True)
"""


def progress(folder):
    """Steps and draws that count, and draws at half the step."""
    found = []
    for part in ("draws", "halved"):
        record = Path(folder) / f"{part}.npz"
        saved = load_record(record, _Saved, LABELS) if record.exists() else None
        found += [0, 0] if saved is None else [int(saved.state.num_steps), saved.num_draws]
    return found


@pytest.mark.of_cpus("no fork has a GPU")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the victims are forks of one process")
def test_a_run_that_is_killed_five_times_ends_with_the_same_bits(tmp_path):
    path = tmp_path / "run"
    root = str(Path(gdp.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": root, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", VICTIM, __file__, str(path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    lines = [line.split(" ", 1) for line in ran.stdout.splitlines()]
    assert [int(line[0]) for line in lines] == [signal.SIGKILL] * 5, ran.stderr
    assert [json.loads(line[1]) for line in lines] == [
        [4, 0, 0, 0],  # two of three calls of warmup
        [8, 1, 0, 0],
        [12, 3, 0, 0],
        [16, 5, 0, 0],
        [18, 6, 34, 2],  # four steps twice, passed over, and twice again
    ]
    whole = run(posterior=parts(), **LONG)
    assert_same(run(posterior=parts(), store=path, **LONG), whole)
    assert_loads_as(path, whole)
    assert sorted(file.name for file in path.iterdir()) == [
        "draws.npy", "draws.npz", "halved.npy", "halved.npz",
    ]  # fmt: skip


def test_rows_are_on_the_disk_before_they_count(tmp_path, monkeypatch):
    path, events, sync, save = tmp_path / "run", [], os.fsync, minibatch_store.io.save_record

    def synced(handle):
        sync(handle)
        events.append(os.fstat(handle).st_ino)

    def saved(file, record, labels):
        assert events[-1:] == [(path / "draws.npy").stat().st_ino]
        content = (path / "draws.npy").read_bytes()
        rows = np.load(io.BytesIO(content), allow_pickle=False)
        assert len(rows) == record.num_draws
        counts.append(record.num_draws)
        save(file, record, labels)

    counts = []
    monkeypatch.setattr(minibatch, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(minibatch_store, "STORE_SECONDS", -1.0)
    monkeypatch.setattr(minibatch_store.os, "fsync", synced)
    monkeypatch.setattr(minibatch_store.io, "save_record", saved)
    run(store=path, **SHORT)
    assert counts == [0, 0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gamma": 0.6}, r"another run \(gamma\)"),
        ({"key": 1}, r"another run \(key or num_chains\)"),
        ({"num_chains": 3}, r"another run \(key or num_chains\)"),
        ({"thinning": 3}, r"another run \(thinning\)"),
        ({"keep": lambda theta: theta.sum()}, r"another run \(keep\)"),
        ({"num_samples": 5}, r"another run \(num_samples\)"),
        ({"init": np.zeros((2, 1), np.float32)}, r"another run \(init\)"),
        ({"data": 1.001 * DATA}, r"another run \(data\)"),
    ],
)
def test_a_store_of_another_run_is_refused(changed, message, tmp_path):
    settings = SHORT | {"store": tmp_path / "run"}
    run(**settings)
    with pytest.raises(ValueError, match=message):
        run(**settings | changed)
    begun = run(**SHORT | {"num_warmup": 3})
    with pytest.raises(ValueError, match="steps before it"):
        run(**settings | {"continue_from": begun, "num_warmup": 4})
    longer = run(**settings | {"num_samples": 8})
    np.testing.assert_array_equal(longer.kept, run(**SHORT | {"num_samples": 8}).kept)


def test_draws_at_half_the_step_are_those_behind_the_last_draw(tmp_path, monkeypatch):
    """A longer run makes others, and those of the shorter one are not taken for its own."""
    path = tmp_path / "run"
    old = run(store=path, num_halved=4, **SHORT)
    before = np.array(old.halved)
    run(store=path, **SHORT | {"num_samples": 8})
    assert gdp.load_minibatch_draws(path).halved is None
    longer = SHORT | {"num_samples": 8, "num_halved": 4}
    seen, inner = [], minibatch_steps.Arrays.draws

    def looked(*arguments):
        seen.append(progress(path))
        return inner(*arguments)

    with monkeypatch.context() as here:
        here.setattr(minibatch_steps.Arrays, "draws", looked)
        found = run(store=path, **longer)
    assert_same(found, run(**longer))
    assert set(map(tuple, seen)) == {(20, 8, 0, 0)}  # what a kill would leave
    assert gdp.load_minibatch_draws(path).halved.shape == (2, 4, 1)
    np.testing.assert_array_equal(old.halved, before)  # whoever has them keeps them


def test_folders_that_are_of_something_else_are_left_alone(tmp_path):
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("mine")
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "none")
    draws = run(**SHORT)
    for path, what in (
        (dangling, "cannot be written"),
        (tmp_path / ("long" * 70), "cannot be written"),
        (file, "cannot be written"),
        (tmp_path / "none" / "run", "cannot be written"),
        (other, r"holds other files \(letter.txt\)"),
    ):
        with pytest.raises(ValueError, match=rf"store: .* {what}"):
            run(store=path, **SHORT)
        with pytest.raises(ValueError, match=rf"path: .* {what}"):
            draws.save(path)
    assert (file.read_text(), (other / "letter.txt").read_text()) == ("mine", "mine")
    with pytest.raises(ValueError, match="diverged"):  # and leaves nothing to go on with
        run(gdp.StochasticLangevin(100.0), store=tmp_path / "run", num_warmup=500)
    assert not list((tmp_path / "run").glob("*.npz"))


def test_one_run_at_a_time_writes_to_a_folder(tmp_path, monkeypatch):
    pytest.importorskip("fcntl")
    path, inner, told = tmp_path / "run", minibatch_steps.Arrays.draws, []

    def again(*arguments):
        monkeypatch.setattr(minibatch_steps.Arrays, "draws", inner)
        with pytest.raises(ValueError, match="store: another run writes to") as error:
            run(store=path, **SHORT)
        told.append(error)
        return inner(*arguments)

    monkeypatch.setattr(minibatch_steps.Arrays, "draws", again)
    assert_same(run(store=path, **SHORT), run(**SHORT))
    assert told


def test_a_full_disk_leaves_what_counts(tmp_path, monkeypatch):
    path, sync, left = tmp_path / "run", os.fsync, [5]

    def full(handle):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        sync(handle)

    settings = {"posterior": parts(), "store": path, **LONG}
    with monkeypatch.context() as here:
        here.setattr(minibatch, "QUICK_SECONDS", 0.0)
        here.setattr(minibatch_store, "STORE_SECONDS", -1.0)
        here.setattr(minibatch_store.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            run(**settings)
    assert progress(path) == [4, 0, 0, 0]
    assert_same(run(**settings), run(posterior=parts(), **LONG))


def test_a_chain_that_diverged_leaves_the_others_to_go_on_from(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    whole = run(store=first, num_chains=2, **SHORT)

    def begun_at(positions):
        path = first / "draws.npz"
        saved = load_record(path, _Saved, LABELS)
        chains = saved.state.chains._replace(position=np.array(positions, np.float32))
        save_record(path, saved._replace(state=saved.state._replace(chains=chains)), LABELS)
        run(continue_from=first, num_samples=4, thinning=2, store=second)

    begun_at([[math.nan], [1.0]])
    again = gdp.load_minibatch_draws(second)
    assert again.loss.shape == (2, 4)
    assert np.isfinite(again.loss[1]).all()
    assert not np.isfinite(again.loss[0]).any()
    assert int(again.state.num_steps) == int(whole.state.num_steps) + 8
    (second / "draws.npz").unlink()
    (second / "draws.npy").unlink()
    with pytest.raises(ValueError, match="all chains diverged"):
        begun_at([[math.nan], [math.inf]])
    assert not (second / "draws.npz").exists()


def test_saving_replaces_draws_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "draws"
    first, second = run(**SHORT), run(**SHORT | {"key": 4, "num_halved": 4})
    first.save(path)
    opened = gdp.load_minibatch_draws(path)
    second.save(path)
    assert_loads_as(path, second)
    np.testing.assert_array_equal(gdp.load_minibatch_draws(path).halved, second.halved)
    np.testing.assert_array_equal(opened.kept, first.kept)  # whoever has them keeps them

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(minibatch_store.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        first.save(path)
    assert_loads_as(path, second)
    assert [file.name for file in tmp_path.iterdir()] == ["draws"]
    monkeypatch.undo()
    rename = type(path).rename

    def interrupted(self, to):  # between the one folder's going and the other's coming
        if self.name == "new":
            raise KeyboardInterrupt
        return rename(self, to)

    monkeypatch.setattr(type(path), "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        first.save(path)
    assert_loads_as(path, second)
    assert [file.name for file in tmp_path.iterdir()] == ["draws"]


def mixed(theta):
    return {"δ": theta * 2, "sign": theta > 0, "count": jnp.int32(3)}


def test_opened_draws_stay_in_their_file_until_they_are_used(tmp_path):
    settings = SHORT | {"num_samples": 60, "keep": mixed}
    memory, stored = run(**settings), run(store=tmp_path / "run", **settings)
    opened = gdp.load_minibatch_draws(tmp_path / "run")
    for draws in (stored, opened):
        assert list(draws.named) == list(memory.named) or draws is opened
        for name, values in memory.named.items():
            assert isinstance(draws.kept[name], np.memmap)
            np.testing.assert_array_equal(draws.named[name], values)
        tree = draws.to_xarray()
        assert tree["posterior"]["δ"].dims == ("chain", "draw", "δ_dim_0")
        assert np.shares_memory(tree["posterior"]["δ"].values, draws.kept["δ"])
        np.testing.assert_array_equal(tree["sample_stats"]["loss"], memory.loss)
        assert tree.attrs["gamma"] == 0.5
    for name, column in memory.to_dataframe().items():
        np.testing.assert_array_equal(opened.to_dataframe().sort_index()[name], column.sort_index())
    # With NumPy alone, and no pickles.
    rows = np.load(tmp_path / "run" / "draws.npy", mmap_mode="r", allow_pickle=False)
    np.testing.assert_array_equal(rows["kept"]["sign"].swapaxes(0, 1), memory.kept["sign"])
    assert len(rows) == 60


def test_draws_go_to_arviz(tmp_path):
    arviz = pytest.importorskip("arviz")
    tree = run(store=tmp_path / "run", **SHORT | {"num_samples": 40}).to_arviz()
    assert float(arviz.ess(tree, method="mean")["theta"].min()) > 1


def test_numbers_that_no_file_holds_are_refused(tmp_path):
    for store in (None, tmp_path / "run"):
        with pytest.raises(ValueError, match="keep: 'kept' is bfloat16, which files do not hold"):
            run(keep=lambda theta: theta.astype(jnp.bfloat16), store=store, **SHORT)
        with pytest.raises(ValueError, match="keep: two kept arrays have one name"):
            run(keep=lambda theta: {"a.b": theta, "a": {"b": theta}}, store=store, **SHORT)


# Folders that someone else made.


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def pickled():
    content = io.BytesIO()
    np.save(content, np.array([Bomb()] * 9, object), allow_pickle=True)
    return content.getvalue()


def recorded(**changes):
    def change(folder):
        path = folder / "draws.npz"
        saved = load_record(path, _Saved, LABELS)
        save_record(path, saved._replace(**changes), LABELS)

    return change


def with_rows(make):
    def change(folder):
        path = folder / "draws.npy"
        path.write_bytes(make(path.read_bytes()))

    return change


def headed(kept, loss=("<f4", (2,))):
    return lambda content: _header(np.dtype([("loss", *loss), ("kept", kept)]), 6) + content


def each(*changes):
    return lambda folder: [change(folder) for change in changes]


def flipped(folder):
    path = folder / "draws.npz"
    content = bytearray(path.read_bytes())
    content[content.index(b"gibbs_dp_kind")] ^= 1
    path.write_bytes(content)


def a_pipe(folder):
    (folder / "draws.npy").unlink()
    os.mkfifo(folder / "draws.npy")


def badly_placed(folder):
    path = folder / "draws.npz"
    saved = load_record(path, _Saved, LABELS)
    chains = saved.state.chains._replace(position=np.full((2, 1), "a", "U1"))
    save_record(path, saved._replace(state=saved.state._replace(chains=chains)), LABELS)


DEEP = b"\x93NUMPY\x02\x00" + (9000).to_bytes(4, "little") + b"(" * 9000
HOSTILE = {
    "bits": flipped,
    "pickle for rows": with_rows(lambda _: pickled()),
    "pickle for record": lambda folder: (folder / "draws.npz").write_bytes(pickle.dumps(Bomb())),
    "cut": with_rows(lambda content: content[:-1]),
    "empty": with_rows(lambda _: b""),
    "no header": with_rows(lambda content: content[8:]),
    "nested": with_rows(lambda _: DEEP),
    "texts": with_rows(headed([("theta", "<U1", (2, 1))])),
    "no chains": with_rows(headed([("theta", "<f4")])),
    "other chains": with_rows(headed([("theta", "<f4", (3, 1))])),
    "another loss": with_rows(headed([("theta", "<f4", (2, 1))], ("<i4", (2,)))),
    "huge": with_rows(headed([("theta", "<f4", (2, 2**27))])),
    "more leaves": with_rows(headed([(name, "<f4", (2, 1)) for name in "ab"])),
    "one name twice": each(
        with_rows(headed([(name, "<f4", (2, 1)) for name in "ab"])), recorded(names='["a", "a"]')
    ),
    # Of which no row counts, so that nothing maps them.
    "objects": each(with_rows(headed([("theta", "|O", (2, 1))])), recorded(num_draws=0)),
    "more rows": recorded(num_draws=7),
    "fewer than none": recorded(num_draws=-1),
    "no settings": recorded(settings="{}"),
    "no names": recorded(names="[1]"),
    "no numbers": badly_placed,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_folders_are_refused_in_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run"
    run(store=path, **SHORT)
    HOSTILE[name](path)
    where = re.escape(repr(str(path)))
    calls = {
        "path": lambda: gdp.load_minibatch_draws(path),
        "store": lambda: run(store=path, **SHORT),
        "continue_from": lambda: run(continue_from=path, num_samples=4),
    }
    for argument, call in calls.items():
        with pytest.raises(DamagedFileError, match=rf"^{argument}: {where} is damaged \(") as told:
            call()
        assert "\n" not in str(told.value)
    assert not Path("exploded").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path):
    path = tmp_path / "run"
    run(store=path, **SHORT)
    a_pipe(path)
    with pytest.raises(ValueError, match=r"path: .* cannot be read \(it has no draws.npz or no"):
        gdp.load_minibatch_draws(path)


# Memory.

PEAKS = """
import resource, sys, warnings
import jax.numpy as jnp, numpy as np, numpyro.distributions as dist, gibbs_dp as gdp
warnings.simplefilter("ignore")
posterior = gdp.GibbsPosterior(lambda theta, z: jnp.sum((theta - z) ** 2) / 2,
                               dist.Normal(jnp.zeros(100_000), 1.0))
for num_samples in (40, 400):
    draws = gdp.sample_minibatches(
        posterior, np.ones(20), kernel=gdp.StochasticLangevin(0.01), num_warmup=0,
        num_samples=num_samples, thinning=1, batch_size=1, store=sys.argv[1], progress=False)
    draws.save(sys.argv[1] + "-copy")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.trust
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are in other units elsewhere")
def test_memory_is_not_of_the_draws(tmp_path):
    """360 more draws of 2 chains and 100,000 numbers are 275 MiB; a third of that is let pass."""
    environment = os.environ | {"PYTHONPATH": str(Path(gdp.__file__).parents[1])}
    command = [sys.executable, "-c", PEAKS, str(tmp_path / "run")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    few, many = map(int, ran.stdout.split())
    assert many - few < 275 * 1024 / 3


def test_tables_are_the_same_a_few_draws_at_a_time(tmp_path, monkeypatch):
    posterior = parts()
    whole = run(posterior=posterior, store=tmp_path / "run", **LONG | {"num_samples": 40})
    frame, warned = whole.to_dataframe(), list(whole.warnings)
    monkeypatch.setattr(minibatch_draws, "NUMBERS_AT_ONCE", 160)
    opened = gdp.load_minibatch_draws(tmp_path / "run")
    assert len(list(opened._blocks(40))) == 7
    again = opened.to_dataframe()
    for name in frame:
        np.testing.assert_array_equal(again.loc[frame.index, name], frame[name])
    assert list(opened.warnings) == warned


def test_what_the_system_refuses_is_said_with_the_folder(tmp_path, monkeypatch):
    def full(self, folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(minibatch_store.Part, "_publish", full)
    said = r"cannot write to '.*run' \(No space left .* free some room"
    with pytest.raises(OSError, match=f"^store: {said}"):
        run(store=tmp_path / "run", **SHORT)
    draws = run(**SHORT)
    with pytest.raises(OSError, match=f"^path: {said}"):
        draws.save(tmp_path / "run")
