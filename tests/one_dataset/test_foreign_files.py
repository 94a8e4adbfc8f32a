"""Files of others: in another format, made to do harm, harmed by chance."""

import random
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import gibbs_dp as gdp
from gibbs_dp import io

TABLE = -np.random.default_rng(0).random((2, 100, 5))
GROUP = "log_likelihood"


@pytest.fixture
def file(tmp_path):
    data = xr.Dataset({"y": (("chain", "draw", "person"), TABLE)}, {"person": list("abcde")})
    path = tmp_path / "a.nc"
    xr.DataTree.from_dict({f"/{GROUP}": data}).to_netcdf(path, engine="h5netcdf")
    return path


def with_axes(group, name, made):
    """Give an array the axes of ``y``."""
    for k in range(3):
        made.dims[k].attach_scale(group["y"].dims[k][0])


def external(group, folder):
    (folder / "secret").write_bytes(TABLE.tobytes())
    where = [(str(folder / "secret"), 0, h5py.h5f.UNLIMITED)]
    with_axes(group, "x", group.create_dataset("x", TABLE.shape, "f8", external=where))


def virtual(group, folder):
    with h5py.File(folder / "other", "w") as other:
        other["y"] = TABLE
    layout = h5py.VirtualLayout(TABLE.shape, "f8")
    layout[:] = h5py.VirtualSource(folder / "other", "y", TABLE.shape)
    with_axes(group, "x", group.create_virtual_dataset("x", layout))


def external_link(group, folder):
    with h5py.File(folder / "other", "w") as other:
        other["y"] = TABLE
    group["x"] = h5py.ExternalLink(folder / "other", "y")


def soft_link(group, _):
    group["x"] = h5py.SoftLink("/log_likelihood/y")


def a_linked_group(group, folder):
    root = group.file
    root.move(GROUP, "elsewhere")
    root[GROUP] = h5py.SoftLink("/elsewhere")


def unwritten(group, _):
    """8 GB of the fill value, of which nothing is stored."""
    made = group.create_dataset("x", (2, 100, 5 * 10**6), "f8", chunks=(1, 100, 10**4))
    with_axes(group, "x", made)


def bomb(group, _):
    """Zeros, which deflate packs a thousand times smaller."""
    shape = (2, 10**5, 5)
    made = group.create_dataset("x", shape, "f8", data=np.zeros(shape), compression=9)
    with_axes(group, "x", made)


def lzf(group, _):
    """A filter that HDF5 does not bring: others could be loaded as plugins."""
    with_axes(group, "x", group.create_dataset("x", data=TABLE, compression="lzf"))


def no_axes(group, _):
    group["x"] = TABLE


def packed(group, _):
    made = group.create_dataset("x", data=TABLE.astype("i2"))
    made.attrs["scale_factor"] = 0.1
    with_axes(group, "x", made)


def many_long_labels(group, _):
    made = group.create_dataset("x", data=np.zeros(50_000, "S900"))
    made.make_scale("x")
    made[:] = b"x" * 900


HARM = {
    external: "'x' lies in another file",
    virtual: "'x' lies in another file",
    external_link: "'x' is a link to somewhere else",
    soft_link: "'x' is a link to somewhere else",
    unwritten: "'x' declares 8000000000 bytes and stores 0",
    bomb: "'x' declares 8000000 bytes and stores",
    lzf: "'x' is compressed in a way of its own; write it with zlib",
    no_axes: "'x' has an axis without a name",
    packed: "'x' is packed as scaled whole numbers",
    many_long_labels: "has labels of more than 10000000 bytes",
}


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
def test_only_what_the_file_itself_holds_is_read(harm, file, tmp_path):
    with h5py.File(file, "a") as held:
        harm(held[GROUP], tmp_path)
    with pytest.raises(io.DamagedFileError, match=HARM[harm]) as error:
        gdp.audit_inference_data(file)
    assert "\n" not in str(error.value)


def test_a_group_that_is_a_link_is_none(file, tmp_path):
    with h5py.File(file, "a") as held:
        a_linked_group(held[GROUP], tmp_path)
    with pytest.raises(ValueError, match=r"it has no group log_likelihood .it has .*elsewhere"):
        gdp.audit_inference_data(file)


def test_what_is_not_asked_for_is_not_read(file):
    """Groups of others may hold anything."""
    with h5py.File(file, "a") as held:
        posterior = held.create_group("posterior")
        posterior["link"] = h5py.ExternalLink("nowhere", "y")
        posterior.create_dataset("huge", (10**12,), "f8", chunks=(1000,))
    assert gdp.audit_inference_data(file).names.tolist() == list("abcde")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"CDF\x01" + bytes(100), "is NetCDF-3, which has no groups; write NetCDF-4"),
        (b"CDF\x05" + bytes(100), "is NetCDF-3"),
        (b"a,b\n1,2\n", "is no NetCDF-4 file"),
        (b"", "is no NetCDF-4 file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "is not a readable NetCDF-4 file"),
    ],
)
def test_other_formats_are_told(tmp_path, content, message):
    path = tmp_path / "a.nc"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        gdp.audit_inference_data(path)


def test_folders_and_missing_files_are_told(tmp_path):
    with pytest.raises(ValueError, match=r"is a folder \(Zarr\?\); write a NetCDF-4 file"):
        gdp.audit_inference_data(tmp_path)
    with pytest.raises(ValueError, match="there is no file"):
        gdp.audit_inference_data(str(tmp_path / "b.nc"))


def mutant(plain, rng):
    """One to sixteen changes of bytes: flipped, overwritten, taken out, copied elsewhere."""
    found = bytearray(plain)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at, size = rng.randrange(len(found)), rng.randrange(1, 64)
        match rng.randrange(4):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), rng.randbytes(8)])
            case 2:
                del found[at : at + size]
            case 3:
                other = rng.randrange(len(found))
                found[at : at + size] = found[other : other + size]
    return bytes(found)


def test_mutants_load_or_are_refused_in_a_sentence(file, tmp_path):
    plain, rng, texts = file.read_bytes(), random.Random(23), []
    for i in range(150):
        path = tmp_path / f"{i}.nc"
        path.write_bytes(mutant(plain, rng))
        try:
            gdp.audit_inference_data(path)
        except ValueError as error:
            texts.append(str(error))
        path.unlink()
    assert all("\n" not in text for text in texts)
    assert 20 < len(texts) < 150


def test_reports_are_loaded_as_they_were_saved(tmp_path):
    path = tmp_path / "r.nc"
    for names in (None, list("abcde")):
        report = gdp.audit_log_likelihood(TABLE, 0.5, names=names)
        report.save(path)
        found = gdp.load_one_dataset_report(path)
        assert (found.averages, found.settings) == (report.averages, report.settings)
        assert str(found) == str(report)
        assert found.to_dataframe().equals(report.to_dataframe())
    plain, rng, texts = path.read_bytes(), random.Random(24), []
    for _ in range(60):
        path.write_bytes(mutant(plain, rng))
        try:
            str(gdp.load_one_dataset_report(path))
        except ValueError as error:
            texts.append(str(error))
    assert len(texts) > 10
    assert all("\n" not in text for text in texts)
    Path(path).write_bytes(plain)
    with pytest.raises(ValueError, match="does not hold a gibbs_dp report "):
        gdp.load_report(path)
