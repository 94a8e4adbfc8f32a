"""Stores: the same numbers however often a sweep is stopped, damaged, extended or shared."""

import errno
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import flat
import numpy as np
import pytest
from problems import QUICK, linear_regression, regression_examples

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.engine import sweep
from gibbs_dp.engine.runner import Runner
from gibbs_dp.engine.store.archive import Archive, DamagedStoreWarning
from gibbs_dp.estimators import Contrast, average, fold_of, halves
from gibbs_dp.model.fingerprint import digest_text
from gibbs_dp.quantities import dataset_comparison as comparison
from gibbs_dp.quantities.dataset_comparison import Information

SETTINGS = {"n": 20, "gammas": [0.1, 3.0], "num_datasets": 256, "block_size": 32}
SETTINGS |= QUICK | {"estimator": "one-sided", "num_ghosts": 16}  # one program for all gammas
SETTINGS |= {"sampler": gdp.HMC()}  # which stores keep to
BLOCKS = 16


def audit(**changed):
    return flat.audit(linear_regression(), regression_examples, **SETTINGS | changed)


@pytest.fixture(scope="module")
def plain():
    """What an audit without a store finds."""
    return audit()


@pytest.fixture
def written(monkeypatch):
    """Counts the blocks that are written; ``stop_at`` interrupts before that one."""
    save = Archive.save_block
    seen = {"blocks": [], "stop_at": None}

    def count(self, gamma, generation, first, *rest):
        if len(seen["blocks"]) == seen["stop_at"]:
            raise KeyboardInterrupt
        seen["blocks"].append((gamma, generation, first))
        return save(self, gamma, generation, first, *rest)

    monkeypatch.setattr(Archive, "save_block", count)
    return seen


def block_files(folder):
    return sorted(folder.glob("*/gamma-*/blocks-*/*.npz"))


@pytest.mark.trust
def test_a_store_changes_no_number_and_a_rerun_runs_nothing(plain, tmp_path, monkeypatch):
    assert audit(store=tmp_path).rows == plain.rows
    assert len(block_files(tmp_path)) == BLOCKS

    def refuse(*_):
        raise AssertionError("a finished store was sampled again")

    for name in ("run_sweep", "explore", "make_report"):
        monkeypatch.setattr(auditing, name, refuse)
    again = audit(store=tmp_path)
    assert (again.rows, again.warnings, again.notes) == (plain.rows, plain.warnings, plain.notes)
    assert again.settings == plain.settings
    assert len(again.per_dataset) == len(plain.per_dataset) == 2
    for ours, theirs in zip(again.per_dataset, plain.per_dataset, strict=True):
        assert ours.keys() == theirs.keys()
        for name, values in theirs.items():
            np.testing.assert_array_equal(ours[name], values)
            assert ours[name].dtype == values.dtype
    # What it is compared with has the same datasets: of equal ones, no difference and no error.
    table = gdp.compare([plain, again]).table
    assert table["paired"].all()
    assert (table[["difference", "se"]] == 0).all(axis=None)
    assert gdp.compare([again, plain]).table["paired"].all()


def test_a_report_that_an_older_version_kept_is_made_again(plain, tmp_path, written):
    """It has no values of single datasets; blocks have, and nothing is sampled again."""
    audit(store=tmp_path)
    (report,) = tmp_path.glob("*/reports/*")
    content = json.loads(report.read_text())
    del content["report"]["per_dataset"]
    content["digest"] = digest_text(json.dumps(content["report"]))
    report.write_text(json.dumps(content))
    del written["blocks"][:]
    again = audit(store=tmp_path)
    assert written["blocks"] == []
    assert gdp.compare([plain, again]).table["paired"].all()
    assert "per_dataset" in json.loads(report.read_text())["report"]


def test_an_interrupted_sweep_goes_on_where_it_was(plain, tmp_path, written):
    for stop in (0, 3, 9):
        written["stop_at"] = stop
        with pytest.raises(gdp.AuditInterrupted):
            audit(store=tmp_path)
    written["stop_at"] = None
    assert audit(store=tmp_path).rows == plain.rows
    assert len(written["blocks"]) == len(set(written["blocks"])) == BLOCKS


def test_extending_reuses_every_block(plain, tmp_path, written):
    audit(store=tmp_path)
    del written["blocks"][:]
    more = audit(store=tmp_path, num_datasets=320)
    assert sorted(written["blocks"]) == [(g, 0, f) for g in (0.1, 3.0) for f in (256, 288)]
    assert more.rows == audit(num_datasets=320).rows

    del written["blocks"][:]
    wider = audit(store=tmp_path, gammas=[0.1, 1.0, 3.0])
    assert {gamma for gamma, _, _ in written["blocks"]} == {1.0}
    assert (wider.rows[0], wider.rows[2]) == plain.rows


def test_rel_error_spends_datasets_only_where_they_are_needed(tmp_path, written):
    loose = audit(store=tmp_path, gammas=[0.1, 3.0, 100.0], rel_error=0.017, max_datasets=8192)
    counts = loose["num_datasets"]
    reached = loose["on_average_kl_se"] / loose["on_average_kl"]
    assert (reached <= 0.017).all()
    assert counts.min() == 256
    assert len(set(counts)) > 1
    # No more than twice what the error that was reached says to be needed, or the minimum.
    assert (counts <= np.maximum(2 * counts * (reached / 0.017) ** 2, 256)).all()
    del written["blocks"][:]
    tight = audit(store=tmp_path, gammas=[0.1, 3.0, 100.0], rel_error=0.0155, max_datasets=8192)
    assert len(written["blocks"]) == (tight["num_datasets"] - counts).sum() / 32 > 0
    assert tight.rows == audit(gammas=[0.1, 3.0, 100.0], rel_error=0.0155, max_datasets=8192).rows


def test_rel_error_is_never_judged_on_fewer_than_256_datasets():
    report = audit(num_datasets=32, rel_error=0.5)
    assert (report["num_datasets"] == 256).all()


def other_examples(key, n):
    x, y = regression_examples(key, n)
    return x, 1.01 * y


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"n": 21}, "n is 20 there and 21 here;"),
        ({"key": 1}, r"key is \[0, 0\] there and \[0, 1\] here"),
        ({"num_samples": 9}, "num_samples is 8 there and 9 here"),
        ({"kernel": gdp.HMC(num_leapfrog=5)}, "kernel is .*=None.* there and .*num_leapfrog=5"),
        ({"block_size": 64}, "block_size is 32 there and 64 here"),
        ({"num_information": 64}, "quantities.mutual_information is False there and True here"),
        ({"population": other_examples}, "population is .*its code, or data that it uses, changed"),
        ({"posterior": linear_regression(2.0)}, "prior is .*changed"),
    ],
)
def test_another_configuration_is_refused_with_the_difference(tmp_path, changed, words):
    problem = {"posterior": linear_regression(), "population": regression_examples}

    def run(**settings):
        return flat.audit(**problem | SETTINGS | settings, store=tmp_path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "run_sweep", lambda *_: (_ for _ in ()).throw(LookupError))
        with pytest.raises(LookupError):
            run()
        with pytest.raises(ValueError, match=rf"holds another configuration: {words}") as error:
            run(**changed)
    assert "\n" not in str(error.value)


def test_the_block_size_of_a_store_is_its_own_by_default(plain, tmp_path):
    audit(store=tmp_path)
    assert audit(store=tmp_path, block_size=None).rows == plain.rows


def flip(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") - 4] ^= 16  # of the last array, before the list of all
    path.write_bytes(content)


DAMAGE = {
    "a flipped bit": flip,
    "a truncated file": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "an empty file": lambda path: path.write_bytes(b""),
    "another block": lambda path: path.write_bytes(path.with_name("000000064.npz").read_bytes()),
}


def test_damaged_blocks_are_computed_again(plain, tmp_path, written):
    audit(store=tmp_path)
    for damage in DAMAGE.values():
        for report in tmp_path.glob("*/reports/*"):
            report.unlink()
        path = block_files(tmp_path)[4]
        damage(path)
        del written["blocks"][:]
        with pytest.warns(DamagedStoreWarning, match="000000128.npz' is damaged") as caught:
            assert audit(store=tmp_path).rows == plain.rows
        assert len(caught) == 1
        assert written["blocks"] == [(0.1, 0, 128)]


def test_damaged_pilots_and_reports_are_made_again(plain, tmp_path):
    audit(store=tmp_path)
    (report,) = tmp_path.glob("*/reports/*")
    report.write_text(report.read_text().replace('"on_average_kl": 0.', '"on_average_kl": 1.'))
    for path in tmp_path.glob("*/gamma-3.0/pilot-0.npz"):
        flip(path)
    with pytest.warns(DamagedStoreWarning) as caught:
        assert audit(store=tmp_path).rows == plain.rows
    assert {str(w.message).split("'")[1].rpartition("/")[2] for w in caught} == {
        report.name,
        "pilot-0.npz",
    }


def test_a_full_disk_loses_nothing(plain, tmp_path, monkeypatch, written):
    sync, calls = os.fsync, []

    def fill(handle):
        calls.append(handle)
        if len(calls) > 8:  # configuration, origin, two pilots, four blocks
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fill)
        with pytest.raises(gdp.StoreError, match=r"No space left on device.*what was finished is"):
            audit(store=tmp_path)
    assert len(block_files(tmp_path)) == 4
    assert not list(tmp_path.rglob("*.part"))
    assert audit(store=tmp_path).rows == plain.rows
    assert len(set(written["blocks"])) == BLOCKS
    assert len(written["blocks"]) == BLOCKS + 1  # the one that failed, twice


def test_a_file_that_a_clock_ahead_took_for_left_behind_is_written_again(tmp_path):
    archive, path, tries = Archive(gdp.Store(tmp_path), {}), tmp_path / "a" / "b", []

    def write():
        tries.append(path)
        if len(tries) == 1:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        path.write_text("whole")

    archive._write(path, write)
    assert (path.read_text(), len(tries)) == ("whole", 2)
    path.parent.rename(tmp_path / "elsewhere")
    with pytest.raises(gdp.StoreError, match=r"cannot write to .*No such file"):
        archive._write(path, write)


@pytest.mark.trust
def test_a_longer_burn_in_starts_new_blocks_that_resume_too(tmp_path, monkeypatch, written):
    drifting = sweep.is_drifting
    answers = iter([True, False])
    monkeypatch.setattr(sweep, "is_drifting", lambda p: next(answers, None) or drifting(p))
    written["stop_at"] = BLOCKS + 3
    with pytest.raises(gdp.AuditInterrupted):
        audit(store=tmp_path)
    written["stop_at"] = None
    found = audit(store=tmp_path)
    assert {(g, generation) for g, generation, _ in written["blocks"]} == {
        (0.1, 0),
        (0.1, 1),
        (3.0, 0),
    }
    assert len(written["blocks"]) == len(set(written["blocks"])) == BLOCKS + BLOCKS // 2
    answers = iter([True, False])
    assert found.rows == audit().rows


@pytest.mark.parametrize("count", [2, 4])
def test_processes_share_a_sweep_and_a_lost_one_is_named(plain, tmp_path, count, written):
    def share(number):
        return audit(store=gdp.Store(tmp_path, count, number))

    for number in range(count - 1):
        with pytest.raises(gdp.AuditIncomplete):
            share(number)
    assert len(written["blocks"]) == len(set(written["blocks"])) == BLOCKS * (count - 1) / count
    lost = f"{BLOCKS // count} of 16 blocks are missing .*, all of process {count - 1} of {count};"
    with pytest.raises(gdp.AuditIncomplete, match=lost) as incomplete:
        audit(store=gdp.Store(tmp_path, count, None))
    assert len(incomplete.value.missing) == BLOCKS // count
    np.testing.assert_equal(share(count - 1).rows, plain.rows)
    assert audit(store=gdp.Store(tmp_path, count, None)).rows == plain.rows


def test_an_interrupt_while_a_block_is_saved_begins_no_other(written, tmp_path, monkeypatch):
    begun, call = [], Runner._run_job
    monkeypatch.setattr(Runner, "_run_job", lambda *job: begun.append(job) or call(*job))
    written["stop_at"] = 1
    with pytest.raises(KeyboardInterrupt) as held:  # with the frames that it came through
        audit(store=tmp_path, num_datasets=4096)
    assert held.traceback
    count = len(begun)
    assert count < 32  # of 256, pilots included
    time.sleep(0.3)
    assert len(begun) == count


@pytest.mark.trust
def test_processes_that_wait_meet_a_relative_error_together(tmp_path):
    asked = {"rel_error": 0.0155, "gammas": [0.1, 100.0], "max_datasets": 8192}
    found = {}

    def share(number):
        found[number] = audit(store=gdp.Store(tmp_path, 2, number, wait=60.0), **asked)

    with ThreadPoolExecutor(2) as threads:
        for shared in [threads.submit(share, number) for number in range(2)]:
            shared.result(120)
    assert found[0].rows == found[1].rows == audit(**asked).rows
    assert found[0]["num_datasets"].max() > 256


@pytest.mark.trust
def test_processes_that_do_not_wait_need_rounds(tmp_path):
    asked = {"rel_error": 0.0155, "gammas": [0.1, 100.0], "max_datasets": 8192}
    rounds = 0
    while rounds < 10:
        rounds += 1
        for number in range(2):
            try:
                report = audit(store=gdp.Store(tmp_path, 2, number), **asked)
            except gdp.AuditIncomplete:
                report = None
        if report is not None:
            break
    assert rounds > 1
    assert report.rows == audit(**asked).rows


@pytest.mark.trust
def test_mutual_information_is_kept_and_shared(tmp_path, monkeypatch):
    made = []

    def estimate(settings, track, kept, good, *_):  # the M x M comparison compiles for long
        made.append(track.gamma)
        numbers = np.asarray(kept.log_normalizer, float)
        upper, lower = halves(numbers, fold_of(len(numbers))), average(0.5 * numbers)
        contrast = Contrast(lower, upper, lower, None)
        return Information(contrast, upper, None, None, 0.0, 0.1, 0.2, None)

    monkeypatch.setattr(comparison, "_information", estimate)
    grid = gdp.Grid(low=-3.0, high=3.0, num_points=64)

    def run(**settings):
        return audit(num_datasets=64, num_information=64, kernel=grid, **settings)

    plain = run()
    del made[:]
    with pytest.raises(gdp.AuditIncomplete):
        run(store=gdp.Store(tmp_path, 2, 0))
    with pytest.raises(gdp.AuditIncomplete, match=r"yet to write the information at gamma=0.1"):
        run(store=gdp.Store(tmp_path, 2, 1))
    assert made == [3.0]
    assert run(store=gdp.Store(tmp_path, 2, 0)).rows == plain.rows
    assert made == [3.0, 0.1]
    for report in tmp_path.glob("*/reports/*"):
        report.unlink()
    assert run(store=tmp_path).rows == plain.rows
    assert made == [3.0, 0.1]
    assert "mutual_information_lower" in plain.columns


def test_bad_stores_are_refused(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(gdp.StoreError, match=r"cannot write to .*folder that you may write to"):
        audit(store=blocked)
    (tmp_path / "configuration.json").write_text("{")
    with pytest.raises(ValueError, match="damaged, so that nothing tells"):
        audit(store=tmp_path)
    with pytest.raises(ValueError, match="wait: must be 0 seconds or more"):
        gdp.Store(tmp_path, wait=-1.0)


def test_nothing_yet_to_put_together(tmp_path):
    with pytest.raises(gdp.AuditIncomplete, match=r"nothing of gamma=0.1 yet"):
        audit(store=gdp.Store(tmp_path, 4, None))
    assert block_files(tmp_path) == []


def test_folders_that_cannot_be_a_store_are_refused_in_a_sentence(tmp_path):
    (tmp_path / "chains").mkdir()
    (tmp_path / "chains" / "draws.npz").write_bytes(b"")
    with pytest.raises(ValueError, match="holds draws of sample_minibatches"):
        audit(store=tmp_path / "chains")
    assert [file.name for file in (tmp_path / "chains").iterdir()] == ["draws.npz"]
    with pytest.raises(ValueError, match="the path is empty"):
        audit(store="")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(gdp.StoreError, match=r"cannot read .*loop.* give a folder"):
        audit(store=tmp_path / "loop")
