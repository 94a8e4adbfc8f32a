"""Files that were made to do harm, and files that were harmed: a sentence, or what they hold."""

import hashlib
import json
import random
import time
import tracemalloc
import zipfile
import zlib
from typing import NamedTuple

import h5py
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp import io
from gibbs_dp.io.netcdf import read_hdf5
from gibbs_dp.sampling.draws import Draws

ROWS = (
    {"gamma": 0.1, "on_average_kl": 1.5e-4, "on_average_kl_se": 2e-6, "estimator": "one-sided"},
    {"gamma": 9.0, "on_average_kl": 1.5, "on_average_kl_se": 0.02, "estimator": "two-sided"},
)
VALUES = tuple({"on_average_kl": np.linspace(0.0, row["gamma"], 5)} for row in ROWS)
DRAWS = np.linspace(-1.0, 1.0, 20).reshape(2, 5, 2)
SECRET = b"a line of a file that is nobody's business"


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "report.nc"
    gdp.Report(ROWS, {"n": 10}, ("a warning.",), ("a note",), VALUES).save(path)
    return path


@pytest.fixture
def draws(tmp_path):
    path = tmp_path / "draws.nc"
    still = np.zeros(2, bool)
    Draws({"a": DRAWS, "b": DRAWS[..., 0]}, DRAWS[..., 0], 1.0 + still, still, 2.0, {}).save(path)
    return path


def test_what_was_saved_is_loaded(report, draws):
    found = gdp.load_report(report)
    assert (found.rows, found.settings, found.warnings) == (ROWS, {"n": 10}, ("a warning.",))
    assert np.array_equal(found.per_dataset[1]["on_average_kl"], VALUES[1]["on_average_kl"])
    found = gdp.load_draws(draws)
    assert np.array_equal(found.theta["a"], DRAWS)
    assert (found.gamma, found.is_stuck.tolist()) == (2.0, [False, False])


def external(file, folder):
    (folder / "secret").write_bytes(SECRET + b" " * 64)
    where = [(str(folder / "secret"), 0, h5py.h5f.UNLIMITED)]
    file.create_dataset("x", (2,), "f8", external=where)


def virtual(file, folder):
    with h5py.File(folder / "other", "w") as other:
        other["y"] = np.arange(2.0)
    layout = h5py.VirtualLayout((2,), "f8")
    layout[:] = h5py.VirtualSource(folder / "other", "y", (2,))
    file.create_virtual_dataset("x", layout)


def external_link(file, folder):
    with h5py.File(folder / "other", "w") as other:
        other["y"] = np.arange(2.0)
    file["x"] = h5py.ExternalLink(folder / "other", "y")


def soft_link(file, _):
    file["x"] = h5py.SoftLink("/gamma")


def cycle(file, _):
    file["x"] = file["/"]


def compressed(file, _):
    file.create_dataset("x", (10**9,), "f8", chunks=(10**6,), compression="gzip")


def declared(file, _):
    """Nothing was written: 8 GB of the fill value."""
    file.create_dataset("x", (10**9,), "f8")


def declared_texts(file, _):
    file.create_dataset("x", (10**6,), h5py.string_dtype(length=8000))


def one_text_for_many(file, _):
    """A thousand entries that stand for one long text; h5py itself writes it once for each."""
    texts = file.create_dataset("x", (1000,), h5py.string_dtype())
    texts[0] = "x" * 50_000
    file.flush()
    name, at = file.filename, texts.id.get_offset()
    file.close()
    with open(name, "r+b") as raw:  # noqa: PTH123
        raw.seek(at)
        entry = raw.read(16)
        raw.seek(at)
        raw.write(1000 * entry)


def many_texts(file, _):
    file.create_dataset("x", (200_000,), h5py.string_dtype())


def objects(file, _):
    file["x"] = np.zeros(2, [("a", "f8"), ("b", "i4")])


def references(file, _):
    file.create_dataset("x", (2,), h5py.ref_dtype)


def named_type(file, _):
    file["x"] = np.dtype("f8")


HARM = {
    external: "'x' lies in another file",
    virtual: "'x' is stored in pieces, compressed or virtual",
    external_link: "'x' is a link to somewhere else",
    soft_link: "'x' is a link to somewhere else",
    cycle: "'x' is a group too deep|is a group too deep",
    compressed: "'x' is stored in pieces",
    declared: "with 'x' it declares more than its",
    declared_texts: "with 'x' it declares more than its",
    one_text_for_many: "with 'x' it declares more than its",
    many_texts: "has more than 100000 texts|with 'x' it declares more",
    objects: "'x' holds no plain numbers or texts",
    references: "'x' holds no plain numbers or texts",
    named_type: "'x' is neither a group nor an array",
}


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("which", ["report", "draws"])
def test_only_what_the_file_itself_holds_is_read(harm, which, request, tmp_path):
    path = request.getfixturevalue(which)
    load, inside = {"report": (gdp.load_report, ""), "draws": (gdp.load_draws, "posterior")}[which]
    with h5py.File(path, "r+") as file:
        if inside and harm not in (cycle, soft_link, one_text_for_many):
            harm(file[inside], tmp_path)
        else:
            harm(file, tmp_path)
    tracemalloc.start()
    with pytest.raises(io.DamagedFileError, match=HARM[harm]) as caught:
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    assert "\n" not in str(caught.value)
    assert SECRET.decode() not in str(caught.value)


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("warnings", 5, "int where JSON text should be"),
        ("warnings", "5", "its JSON is an int where a list should be"),
        ("warnings", "[5]", "its warnings or notes are no texts"),
        ("warnings", np.arange(3), "warnings"),
        ("settings", "[]", "its JSON is a list where a dict should be"),
        ("settings", f'{{"a": {DEEP}}}', "nested too deep"),
        ("settings", "{", "Expecting property name"),
        ("notes", "9" * 5000, "integer string conversion"),
        ("notes", np.array(["a"], object), "Expecting value"),
        ("notes", np.bytes_(b"\xff\xfe"), "invalid|utf-8|decode"),
        ("gibbs_dp_kind", 5, "its kind is 5"),
        ("gibbs_dp_kind", "\u202etxt\x1b[2J", r"its kind is \\u202etxt\\x1b\[2J\)"),
        ("gibbs_dp_kind", "x" * 60_000, r"its kind is x{40}\)"),
    ],
)
def test_odd_attributes_are_damage(report, name, value, message):
    with h5py.File(report, "r+") as file:
        del file.attrs[name]
        file.attrs[name] = value
    with pytest.raises(ValueError, match=message) as caught:
        gdp.load_report(report)
    assert len(str(caught.value)) < 500
    assert isinstance(caught.value, io.DamagedFileError) or name == "gibbs_dp_kind"


def replaced(path, name, value):
    with h5py.File(path, "r+") as file:
        if name in file:
            scale = dict(file[name].attrs) if name == "gamma" else {}
            del file[name]
        if value is not None:
            file[name] = value
            if name == "gamma":
                file[name].attrs["CLASS"] = scale["CLASS"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gamma", None, "gamma"),
        ("gamma", ["a", "b"], "its gammas are no list of numbers"),
        ("gamma", np.zeros(0), "its gammas are no list of numbers"),
        ("gamma", 1.0, "its gammas are no list of numbers"),
        ("on_average_kl", ["a", "b"], "'on_average_kl' is text"),
        ("on_average_kl", np.zeros(3), "'on_average_kl' has not one value for every gamma"),
        ("on_average_kl_per_dataset", np.zeros((3, 5)), "single datasets"),
        ("on_average_kl_per_dataset", np.zeros(2), "single datasets"),
    ],
)
def test_odd_columns_of_reports_are_damage(report, name, value, message):
    replaced(report, name, value)
    with pytest.raises(io.DamagedFileError, match=message):
        gdp.load_report(report)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("posterior/a", ["a", "b"], "'a' has not one array of numbers for every draw"),
        ("posterior/a", np.zeros((2, 4)), "'a' has not one array of numbers for every draw"),
        ("sample_stats/lp", None, "lp"),
        ("sample_stats/lp", np.zeros(2), "log densities"),
        ("sample_stats/lp", np.zeros((2, 5), int), "log densities"),
        ("sample_stats/stuck", np.zeros(3, np.int8), "'stuck' has not one number"),
        ("sample_stats/acceptance_rate", ["a", "b"], "'acceptance_rate' has not one number"),
        ("posterior", None, "posterior"),
    ],
)
def test_odd_draws_are_damage(draws, name, value, message):
    replaced(draws, name, value)
    with pytest.raises(io.DamagedFileError, match=message):
        gdp.load_draws(draws)


@pytest.mark.parametrize("value", ["x", '{"variance_inflation": []}'])
def test_odd_settings_of_draws_are_damage(draws, value):
    with h5py.File(draws, "r+") as file:
        file.attrs["settings"] = value
    with pytest.raises(io.DamagedFileError, match="holds damaged draws"):
        gdp.load_draws(draws)
    with h5py.File(draws, "r+") as file:
        file.attrs["settings"], file.attrs["gamma"] = "{}", "1"
    with pytest.raises(io.DamagedFileError, match="is no number"):
        gdp.load_draws(draws)


# -- blocks of stores ---------------------------------------------------------------------------


class Block(NamedTuple):
    x: np.ndarray
    count: int


BLOCK = Block(np.linspace(0.0, 1.0, 50), 3)


def npy(descr, shape, body):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def layout(fields, *bodies):
    """Sealed over what arrays hold, so that only what else is wrong remains to be found."""
    text = fields
    if not isinstance(fields, str):
        whole = {"labels": {}, "fields": fields}
        seal = hashlib.sha256(json.dumps(whole).encode() + b"".join(bodies)).hexdigest()
        text = json.dumps(whole | {"sha256": seal})
    return npy("|u1", (len(text),), text.encode())


FIELDS = [["x", "<f8", [2]], ["count", "<i8", []]]
BODIES = bytes(16), bytes(8)
X, COUNT = npy("<f8", (2,), BODIES[0]), npy("<i8", (1,), BODIES[1])


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([layout(FIELDS, *BODIES), X, COUNT], None),
        ([layout(FIELDS, *BODIES), npy("<f8", (2,), bytes(15) + b"\x01"), COUNT], "not those that"),
        ([layout(FIELDS), X, COUNT], "not those that"),
        ([layout(FIELDS), npy("<f8", (10**9,), b""), COUNT], "long"),
        ([layout(FIELDS), npy("<f8", (-2,), X[-16:]), COUNT], "long"),
        ([layout(FIELDS), npy("|O", (2,), bytes(16)), COUNT], "it holds object"),
        ([layout(FIELDS), npy("|V8", (2,), bytes(16)), COUNT], "neither numbers"),
        ([layout(FIELDS, *BODIES), npy("<f4", (4,), bytes(16)), COUNT], "not of the type"),
        ([layout(f'{{"a": {DEEP}}}')], "nested too deep"),
        ([layout([["x", "<f8", [-1]], FIELDS[1]], *BODIES), X, COUNT], "shape of 'x'"),
        ([layout([["x", "<f8", [0, 10**30]], FIELDS[1]], *BODIES), X, COUNT], "dimension"),
        ([layout([["x", "f8,f8", [1]]], BODIES[0]), X], "void128"),
        ([npy("|u1", "(" * 300 + ")" * 300, b"")], "damaged"),
        ([layout([["x", "<U900000000", [2]]], BODIES[0]), X], "<U9"),
    ],
)  # fmt: skip
def test_blocks_declare_no_more_than_they_hold(tmp_path, members, message):
    path = tmp_path / "block.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in zip(("layout", "float64", "int64"), members, strict=False):
            archive.writestr(f"{name}.npy", content)
    if message is None:
        assert io.load_record(path, Block, {}).count == 0
        return
    with pytest.raises(io.DamagedFileError, match=message) as caught:
        io.load_record(path, Block, {})
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["block.npz"]


def test_compressed_blocks_are_refused(tmp_path):
    path = tmp_path / "block.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("layout.npy", layout(FIELDS))
        archive.writestr("float64.npy", npy("<f8", (10**6,), bytes(8 * 10**6)))
    tracemalloc.start()
    with pytest.raises(io.DamagedFileError, match="it is compressed"):
        io.load_record(path, Block, {})
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_one_part_that_is_listed_many_times_is_refused(tmp_path):
    """A central directory whose entries all name the same bytes."""
    path = tmp_path / "block.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("float64.npy", npy("<f8", (10**5,), bytes(8 * 10**5)))
        (first,) = archive.infolist()
        for i in range(100):
            again = zipfile.ZipInfo(f"a{i}.npy")
            for name in ("header_offset", "CRC", "compress_size", "file_size", "create_version"):
                setattr(again, name, getattr(first, name))
            archive.filelist.append(again)
    with pytest.raises(io.DamagedFileError, match="declares more than its"):
        io.load_record(path, Block, {})


@pytest.mark.parametrize("name", ["../../layout.npy", "float64.npy"])
def test_blocks_without_a_layout_are_refused(tmp_path, name):
    path = tmp_path / "block.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, X)
    with pytest.raises(io.DamagedFileError, match=r"layout\.npy"):
        io.load_record(path, Block, {})
    assert [p.name for p in tmp_path.iterdir()] == ["block.npz"]


def test_heaps_without_an_end_are_refused(report):
    """HDF5 2.0 never comes back from a heap whose free room says that it takes none."""
    plain = report.read_bytes()
    at = plain.index(b"GCOL") + 16
    while plain[at : at + 2] != bytes(2):
        at += 16 + -(-int.from_bytes(plain[at + 8 : at + 16], "little") // 8) * 8
    for size in (0, 8, 2**40):
        report.write_bytes(plain[: at + 8] + size.to_bytes(8, "little") + plain[at + 16 :])
        with pytest.raises(io.DamagedFileError, match="a heap of its texts is damaged"):
            gdp.load_report(report)


# -- files that were harmed by chance -----------------------------------------------------------


def mutant(plain, rng):
    """One to sixteen changes of bytes: flipped, overwritten, taken out, copied elsewhere."""
    found = bytearray(plain)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at, size = rng.randrange(len(found)), rng.randrange(1, 64)
        match rng.randrange(5):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at] = rng.randrange(256)
            case 2:
                found[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), rng.randbytes(8)])
            case 3:
                del found[at : at + size]
            case 4:
                other = rng.randrange(len(found))
                found[at : at + size] = found[other : other + size]
    return bytes(found)


@pytest.mark.parametrize("which", ["report", "draws", "block"])
def test_mutants_load_or_are_refused_in_a_sentence(which, request, tmp_path):
    if which == "block":
        path = tmp_path / "block.npz"
        io.save_record(path, BLOCK, {})
    else:
        path = request.getfixturevalue(which)
    load = {
        "report": gdp.load_report,
        "draws": gdp.load_draws,
        "block": lambda path: io.load_record(path, Block, {}),
    }[which]
    plain, rng, sentences = path.read_bytes(), random.Random(16), []
    for _ in range(100):
        path.write_bytes(mutant(plain, rng))
        try:
            str(load(path)) if which == "report" else load(path)
        except ValueError as error:
            sentences.append((error, str(error)))
    assert all("\n" not in text for _, text in sentences)
    assert all(isinstance(e, io.DamagedFileError) or "not hold" in text for e, text in sentences)
    refused = len(sentences)
    assert 20 < refused <= 100


# -- lengths in references ----------------------------------------------------------------------


def references(content, texts):
    """Places of the references of an array of texts, by the number of each in its heap."""
    first = content.index(b"GCOL").to_bytes(8, "little")
    found, at = [], content.find(first)
    while at >= 0:
        length = int.from_bytes(content[at - 4 : at], "little")
        if length in map(len, texts):
            found.append(at - 4)
        at = content.find(first, at + 1)
    return found


def test_lengths_of_texts_are_checked_before_there_is_room_for_them(report):
    """HDF5 makes room for four gigabytes first, and looks for the text then."""
    plain = report.read_bytes()
    with h5py.File(report) as file:
        first = file["estimator"].id.get_offset()
    for at in (first, first + 16):  # one for each gamma
        report.write_bytes(plain[:at] + b"\xff\xff\xff\xff" + plain[at + 4 :])
        began = time.perf_counter()
        with pytest.raises(io.DamagedFileError, match="with 'estimator' it declares more than its"):
            gdp.load_report(report)
        assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize("version", ["earliest", "latest"])
@pytest.mark.parametrize("many", [1, 12])
def test_lengths_of_attributes_are_checked_before_there_is_room_for_them(tmp_path, version, many):
    """Of files without checksums of their own, few attributes and many (which lie elsewhere)."""
    path, words = tmp_path / "f.nc", "w" * 77
    with h5py.File(path, "w", libver=version) as file:
        for k in range(many):
            file.attrs[f"settings {k}"] = words
    assert read_hdf5(path).attributes["settings 0"] == words
    plain = path.read_bytes()
    places = references(plain, [words])
    assert len(places) >= many
    for at in places[:3]:
        path.write_bytes(plain[:at] + b"\xff\xff\xff\xff" + plain[at + 4 :])
        began = time.perf_counter()
        with pytest.raises(io.DamagedFileError, match=r"it declares more than its|checksum"):
            read_hdf5(path)
        assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize(
    "stored", [{}, {"chunks": (3,)}, {"chunks": (3,), "compression": "gzip", "shuffle": True}]
)
def test_lengths_of_labels_in_others_files_are_checked(tmp_path, stored):
    path, names = tmp_path / "f.nc", ["a" * 41, "b" * 41, "c" * 41, "d" * 41]
    with h5py.File(path, "w") as file:
        group = file.create_group("log_likelihood")
        group.create_dataset("obs", data=names, dtype=h5py.string_dtype(), **stored)
        group["obs"].make_scale("obs")
        texts = group["obs"].id
        if stored:
            where = texts.get_chunk_info(0)
            at, size = where.byte_offset, where.size
        else:
            at, size = texts.get_offset(), 16 * 4
    assert io.read_group(path, "log_likelihood").variables["obs"].values.tolist() == names
    plain = path.read_bytes()
    held = plain[at : at + size]
    if "compression" in stored:
        rows = np.frombuffer(zlib.decompress(held), np.uint8).reshape(16, 3).copy()
        rows[:4, 1] = 255  # shuffled: all first bytes, all second ones, ...
        packed = zlib.compress(rows.tobytes(), 9)
        if len(packed) > size:
            packed = zlib.compress(bytes([255]) * 48, 9)
        held = packed + held[len(packed) :]
    else:
        held = held[:16] + b"\xff" * 4 + held[20:]
    path.write_bytes(plain[:at] + held + plain[at + size :])
    began = time.perf_counter()
    with pytest.raises(io.DamagedFileError, match="it declares more than its"):
        io.read_group(path, "log_likelihood")
    assert time.perf_counter() - began < 1.0
