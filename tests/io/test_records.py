"""Records in .npz files: exact round trips, and every damage seen."""

import pickle
import zipfile
from typing import NamedTuple

import numpy as np
import pytest

from gibbs_dp import io


class Inner(NamedTuple):
    x: np.ndarray
    flag: np.ndarray


class Outer(NamedTuple):
    inner: Inner
    optional: Inner | None
    number: float
    choice: bool


LABELS = {"first": 64, "gamma": 0.1}


def outer(optional=None):
    x = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    return Outer(Inner(x, np.array([True, False])), optional, 1 / 3, True)


def same(a, b):
    return (
        (a.inner.x == b.inner.x).all()
        and a.inner.x.dtype == b.inner.x.dtype
        and (a.inner.flag == b.inner.flag).all()
        and (a.optional is None) == (b.optional is None)
        and (a.number, a.choice) == (b.number, b.choice)
    )


@pytest.mark.parametrize("optional", [None, Inner(np.zeros(0), np.array(False))])
def test_a_record_comes_back_exactly(tmp_path, optional):
    path = tmp_path / "a.npz"
    io.save_record(path, outer(optional), LABELS)
    found = io.load_record(path, Outer, LABELS)
    assert same(found, outer(optional))
    assert type(found.number) is float
    assert type(found.choice) is bool
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_no_flipped_bit_changes_what_is_read(tmp_path):
    path = tmp_path / "a.npz"
    io.save_record(path, outer(), LABELS)
    plain = path.read_bytes()
    refused, every = 0, 3
    rng = np.random.default_rng(1)
    for position in range(0, len(plain), every):
        flipped = bytearray(plain)
        flipped[position] ^= 1 << rng.integers(8)
        path.write_bytes(flipped)
        try:
            assert same(io.load_record(path, Outer, LABELS), outer())  # dates of a zip file
        except io.DamagedFileError:
            refused += 1
    path.write_bytes(plain)
    with zipfile.ZipFile(path) as archive:
        content = sum(member.file_size for member in archive.infolist())
    assert every * refused >= content


def test_no_truncated_file_is_read(tmp_path):
    path = tmp_path / "a.npz"
    io.save_record(path, outer(), LABELS)
    plain = path.read_bytes()
    for length in range(0, len(plain), 5):
        path.write_bytes(plain[:length])
        with pytest.raises(io.DamagedFileError, match="damaged"):
            io.load_record(path, Outer, LABELS)


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    io.save_record(path, outer(), {**LABELS, "first": 128})
    with pytest.raises(io.DamagedFileError, match="belongs elsewhere"):
        io.load_record(path, Outer, LABELS)
    io.save_record(path, outer(), LABELS)
    with pytest.raises(io.DamagedFileError, match="damaged"):
        io.load_record(path, Inner, LABELS)
    with pytest.raises(FileNotFoundError):
        io.load_record(tmp_path / "b.npz", Outer, LABELS)


def test_nothing_in_a_file_is_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        header = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }"
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
        magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
        archive.writestr("layout.npy", magic + header + pickle.dumps(Trap()))
    with pytest.raises(io.DamagedFileError, match="it holds object, which is neither"):
        io.load_record(path, Outer, LABELS)
    assert not (tmp_path / "sprung").exists()


def test_the_first_of_two_writers_wins_where_that_is_asked_for(tmp_path):
    path = tmp_path / "a.npz"
    io.save_record(path, outer(), LABELS, is_first=True)
    io.save_record(path, outer()._replace(number=2.0), LABELS, is_first=True)
    assert io.load_record(path, Outer, LABELS).number == 1 / 3
    io.save_record(path, outer()._replace(number=2.0), LABELS)
    assert io.load_record(path, Outer, LABELS).number == 2.0
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]
