"""No room: an error that names the file, nothing torn, nothing left behind, nothing in the way."""

import json
import math
import resource
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from jax._src import lru_cache

import gibbs_dp as gdp
from gibbs_dp import io
from gibbs_dp._jaxlib.program_cache import keep_whole
from gibbs_dp.cli import output
from gibbs_dp.cli.output import UsageError
from gibbs_dp.io.files import atomic_write

COMPILED = "jit_x-0"


@contextmanager
def room(size):
    """No file may grow beyond so many bytes: a disk that is full, for this process alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 1024, 100_000])
def test_netcdf_without_room_is_an_error_that_names_the_file(tmp_path, size):
    """HDF5 itself ends the process where it cannot write."""
    path = tmp_path / "a.nc"
    with room(size), pytest.raises(OSError, match=r"File too large: .*a\.nc'"):
        io.save_netcdf(xr.Dataset({"x": ("i", np.zeros(50_000))}), path)
    assert list(tmp_path.iterdir()) == []


def test_a_tree_comes_back_as_it_was(tmp_path):
    held = {"/": xr.Dataset(attrs={"a": 1}), "/b/c": xr.Dataset({"s": ("i", ["x", "yy"])})}
    io.save_netcdf(xr.DataTree.from_dict(held), tmp_path / "a.nc")
    with xr.open_datatree(tmp_path / "a.nc", engine="h5netcdf") as found:
        assert found.attrs == {"a": 1}
        assert list(found["b/c/s"].values) == ["x", "yy"]


@pytest.mark.parametrize("size", [0, 1024, 8192])
def test_a_ledger_without_room_is_refused_and_its_name_stays_free(tmp_path, size):
    asked = {"adjacency": "replace-one", "epsilon": 1.0}
    with room(size), pytest.raises(ValueError, match=r"ledger: cannot make '.*'"):
        gdp.Ledger.create(tmp_path / "l", **asked)
    assert list(tmp_path.iterdir()) == []
    assert gdp.Ledger.create(tmp_path / "l", **asked).left() == {"epsilon": 1.0, "delta": 0.0}
    assert [path.name for path in tmp_path.iterdir()] == ["l"]


def test_a_folder_without_room_is_refused_before_the_work(tmp_path):
    with room(1024), pytest.raises(UsageError, match=r"--out: cannot write to .*with some room"):
        output.prepare_folder(str(tmp_path / "out"))
    assert output.prepare_folder(str(tmp_path / "out")) == tmp_path / "out"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """JAX's folder of compiled programs, as a command has it."""
    for name in ("get", "put"):
        monkeypatch.setattr(lru_cache.LRUCache, name, getattr(lru_cache.LRUCache, name))
    keep_whole()
    return lru_cache.LRUCache(str(tmp_path), max_size=-1)


def test_compiled_programs_are_kept_whole_or_not_at_all(cache):
    from jax._src.compilation_cache import compress_executable

    program = compress_executable(bytes(range(256)) * 64)
    with room(16):
        cache.put(COMPILED, program)
    assert list(Path(cache.path).iterdir()) == []
    cache.put(COMPILED, program)
    (path,) = Path(cache.path).iterdir()
    assert path.read_bytes() == cache.get(COMPILED) == program
    path.write_bytes(program[:20])  # as a version without this left it
    assert cache.get(COMPILED) is None
    cache.put(COMPILED, program)
    assert cache.get(COMPILED) == program


def test_rows_of_a_csv_file_keep_infinity_and_leave_gaps(tmp_path):
    path = tmp_path / "rows.csv"
    io.save_rows(path, [{"a": 1.5, "b": math.inf}, {"a": None, "c": "x, y"}])
    assert path.read_text() == 'a,b,c\n1.5,inf,\n,,"x, y"\n'


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="missing"):
        io.save_rows(tmp_path / "missing" / "rows.csv", [{"a": 1}])
    assert not list(tmp_path.iterdir())


def test_rows_of_json_are_json():
    """Infinite numbers are words, as JSON has none; what is no number is left out."""
    row = {"a": math.inf, "b": -math.inf, "c": math.nan, "d": None, "e": 1e305}
    said = json.dumps(io.json_row(row), allow_nan=False)
    assert json.loads(said) == {"a": "inf", "b": "-inf", "e": 1e305}


@pytest.mark.parametrize(("is_first_kept", "left"), [(False, "second"), (True, "first")])
def test_of_two_writers_the_last_wins_unless_the_first_is_kept(tmp_path, is_first_kept, left):
    path = tmp_path / "file"
    for text in ("first", "second"):
        with atomic_write(path, is_first_kept=is_first_kept) as temporary:
            temporary.write_text(text)
    assert path.read_text() == left
    assert list(tmp_path.iterdir()) == [path]
