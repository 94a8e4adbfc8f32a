"""NetCDF-4 and HDF5, read with suspicion: arrays, texts and numbers, nothing that executes."""

from __future__ import annotations

import io
import math
import mmap
import os
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gibbs_dp.io.files import DamagedFileError, atomic_write, printable, reason

if TYPE_CHECKING:
    import xarray as xr

# Heaps in which HDF5 keeps texts, and references to them: damaged ones bring its C library down.
#
# A damaged heap sends it into an endless loop. A text or list of any length is stored as a length,
# the address of a heap and a number in it; HDF5 makes room for the length before it looks at the
# heap, so 16 damaged bytes cost gigabytes. Here both are read from the bytes of the file before
# HDF5 sees them ("IV.A.2.m. The Attribute Message" and "VIII. Appendix A" of the HDF5 File Format
# Specification).

# "GCOL", version 1, three zeros; eight bytes of size follow. HDF5 reads no other heaps.
_HEAP = re.compile(rb"GCOL\x01\x00\x00\x00", re.DOTALL)
_HEADER = 16


def check_heaps(content: bytes | mmap.mmap) -> None:
    """Walk through every heap of a file as HDF5 does.

    A heap is a list of objects: index, references, size, then the object, in steps of 8 bytes;
    index 0 is the free space at its end, whose size includes its header. HDF5 steps from one to
    the next by their sizes, and loops endlessly if a step is zero ("III.E. Disk Format: Level
    1E - Global Heap" of the HDF5 File Format Specification).
    """
    for found in _HEAP.finditer(content):
        start = found.start()
        end = start + int.from_bytes(content[start + 8 : start + _HEADER], "little")
        if end > len(content):
            raise ValueError("a heap of its texts ends outside of it")
        at = start + _HEADER
        while at + _HEADER <= end:
            index = int.from_bytes(content[at : at + 2], "little")
            size = int.from_bytes(content[at + 8 : at + _HEADER], "little")
            step = _HEADER + -(-size // 8) * 8 if index else size
            if step < _HEADER or at + step > end:
                raise ValueError("a heap of its texts is damaged")
            at += step


# References to heaps.

# Bytes of a reference, and the class of types of any length.
_SIZE, _VARIABLE = 16, 9
_SHUFFLE, _DEFLATE, _CHECKSUM = 2, 1, 3


def check_attributes(content: bytes | mmap.mmap, names: Collection[str]) -> None:
    """Check all attributes of some names in a file that are stored in its heaps."""
    for name, data, count in _heap_attributes(content, [name.encode() for name in names]):
        _check_references(name.decode(errors="replace"), data, count, len(content))


def check_texts(content: bytes | mmap.mmap, name: str, held: Any) -> None:
    """Check the references of an array of texts."""
    import h5py

    kind = held.id.get_type()
    if kind.get_class() != h5py.h5t.STRING or not kind.is_variable_str():
        return
    made, count = held.id.get_create_plist(), math.prod(held.shape)
    layout = made.get_layout()
    if layout == h5py.h5d.CONTIGUOUS:
        at = held.id.get_offset()
        if at is not None:
            _check_references(name, content[at : at + _SIZE * count], count, len(content))
        return
    if layout != h5py.h5d.CHUNKED:
        raise ValueError(f"{name!r} stores its texts in an unusual way")
    filters = [made.get_filter(i)[0] for i in range(made.get_nfilters())]
    most = _SIZE * math.prod(held.chunks)
    if most > 256 * len(content):
        raise ValueError(f"{name!r} declares more texts than it stores")
    for index in range(held.id.get_num_chunks()):
        where = held.id.get_chunk_info(index).chunk_offset
        mask, data = held.id.read_direct_chunk(where)
        _check_references(
            name, _unpacked(name, data, filters, mask, most), most // _SIZE, len(content)
        )


def _check_references(name: str, data: bytes, count: int, size: int) -> None:
    if len(data) < _SIZE * count:
        raise ValueError(f"{name!r} declares more than it stores")
    lengths = np.frombuffer(data, "<u4", 4 * count)[::4]
    if lengths.size and int(lengths.max()) > size:
        raise ValueError(f"with {name!r} it declares more than its {size} bytes can hold")


def _unpacked(name: str, data: bytes, filters: list[int], mask: int, most: int) -> bytes:
    """Undo the filters of a chunk, the last first."""
    for place in reversed(range(len(filters))):
        if mask >> place & 1:
            continue
        if filters[place] == _CHECKSUM:
            data = data[:-4]
        elif filters[place] == _DEFLATE:
            data = zlib.decompressobj().decompress(data, most)
        elif filters[place] == _SHUFFLE:
            data = np.frombuffer(data, np.uint8).reshape(_SIZE, -1).T.tobytes()
        else:
            raise ValueError(f"{name!r} stores its texts in an unusual way")
    return data


def _heap_attributes(
    content: bytes | mmap.mmap, names: list[bytes]
) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield name, data and count of every attribute that refers to a heap."""
    for found in re.finditer(b"(?:" + b"|".join(map(re.escape, names)) + b")\0", content):
        at, name = found.start(), found[0]
        for version, back in ((1, 8), (2, 8), (3, 9)):
            head = content[at - back : at] if at >= back else b""
            if len(head) == back and head[0] == version:
                size, *rest = (int.from_bytes(head[k : k + 2], "little") for k in (2, 4, 6))
                if size == len(name):
                    yield from _message(content, at, version, name, *rest)


def _message(
    content: bytes | mmap.mmap, at: int, version: int, name: bytes, kind: int, space: int
) -> Iterator[tuple[bytes, bytes, int]]:
    step = 8 if version == 1 else 1
    kind_at = at + -(-len(name) // step) * step
    space_at = kind_at + -(-kind // step) * step
    data_at = space_at + -(-space // step) * step
    if content[kind_at : kind_at + 1] and content[kind_at] & 15 == _VARIABLE:
        shape = content[space_at : space_at + space]
        begin = 8 if shape[:1] == b"\x01" else 4
        rank = shape[1] if len(shape) > 1 else 0
        words = (shape[begin + 8 * k : begin + 8 * k + 8] for k in range(rank))
        count = math.prod(int.from_bytes(word, "little") for word in words)
        if _SIZE * count > len(content):
            raise ValueError("an attribute declares more than the file can hold")
        yield name[:-1], content[data_at : data_at + _SIZE * count], count


# Files that this library wrote.


# HDF5 files may point at other files, expand to far more data than they store, and refer to
# themselves. Files of this library do none of that, so any that does is refused.

# Dimensions that have a length and no values are stored as arrays with this name.
_NO_VALUES = "This is a netCDF dimension but not a netCDF variable"
# Texts in one array: a report has one per gamma.
MAX_TEXTS = 100_000


class Contents(NamedTuple):
    """Contents of a group of a file."""

    attributes: dict[str, str | int | float]
    variables: dict[str, np.ndarray]
    coordinates: dict[str, np.ndarray]
    groups: dict[str, Contents]


def read_hdf5(path: str | os.PathLike[str]) -> Contents:
    """Read a file's arrays of numbers and texts and its attributes, groups one level deep.

    Arrays and texts together may take no more bytes than the file has: files are written without
    compression, so reading one takes no more memory than a small multiple of its length.
    """
    import h5py  # slow to import

    content = Path(path).read_bytes()
    try:
        check_heaps(content)
        with h5py.File(io.BytesIO(content), "r") as file:  # the bytes that were checked
            return _group(file, _Room(content), levels=1)
    except Exception as error:  # whatever HDF5 or NumPy makes of a damaged file
        raise DamagedFileError(
            f"path: {os.fspath(path)!r} is not a readable NetCDF file ({reason(error)})."
        ) from error


class _Room:
    """Bytes that may still be read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.size = self.left = len(content)
        self.checked: set[str] = set()

    def check(self, name: str) -> None:
        """Check the attributes of a name, once."""
        if name not in self.checked:
            check_attributes(self.content, [name])
            self.checked.add(name)

    def take(self, name: str, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError(f"with {name!r} it declares more than its {self.size} bytes can hold")


def _group(group: Any, room: _Room, levels: int) -> Contents:
    import h5py

    found = Contents(_attributes(group, room), {}, {}, {})
    for name in group:
        if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
            raise ValueError(f"{name!r} is a link to somewhere else")
        held = group[name]
        if isinstance(held, h5py.Group):
            if not levels:
                raise ValueError(f"{name!r} is a group too deep within it")
            found.groups[name] = _group(held, room, levels - 1)
        elif isinstance(held, h5py.Dataset):
            about = _attributes(held, room)
            if str(about.get("NAME")).startswith(_NO_VALUES):
                continue
            is_scale = about.get("CLASS") == "DIMENSION_SCALE"
            where = found.coordinates if is_scale else found.variables
            where[name] = _array(name, held, room, is_bool=about.get("dtype") == "bool")
        else:
            raise ValueError(f"{name!r} is neither a group nor an array")
    return found


def _attributes(owner: Any, room: _Room) -> dict[str, str | int | float]:
    """Read attributes that are one text or one number; others are NetCDF's own."""
    found: dict[str, str | int | float] = {}
    for name in owner.attrs:
        kind = owner.attrs.get_id(name)
        is_one = kind.shape is not None and math.prod(kind.shape) == 1
        if not is_one or not _is_plain(kind.get_type()):
            continue
        room.take(name, kind.get_type().get_size())
        room.check(name)
        value = owner.attrs[name]
        if isinstance(value, np.ndarray):
            value = value.item()
        if isinstance(value, bytes):
            value = value.decode()
        if isinstance(value, str):
            room.take(name, len(value))
        found[name] = value.item() if isinstance(value, np.generic) else value
    return found


def _array(name: str, held: Any, room: _Room, is_bool: bool) -> np.ndarray:
    """Read an array that lies whole within the file."""
    import h5py

    made = held.id.get_create_plist()
    if made.get_external_count():
        raise ValueError(f"{name!r} lies in another file")
    if made.get_layout() not in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT):
        raise ValueError(f"{name!r} is stored in pieces, compressed or virtual")
    kind = held.id.get_type()
    if held.shape is None or not _is_plain(kind):
        raise ValueError(f"{name!r} holds no plain numbers or texts")
    room.take(name, math.prod(held.shape) * kind.get_size())
    if kind.get_class() != h5py.h5t.STRING:
        values = held[()]
        return values.astype(bool) if is_bool else np.asarray(values)
    # One by one: any number of entries may share one long text.
    if math.prod(held.shape) > MAX_TEXTS:
        raise ValueError(f"{name!r} has more than {MAX_TEXTS} texts")
    check_texts(room.content, name, held)
    values = np.empty(held.shape, object)
    for index in np.ndindex(held.shape):
        values[index] = held.asstr()[index]
        room.take(name, len(values[index]))
    return values


def _is_plain(kind: Any) -> bool:
    import h5py

    return kind.get_class() in (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING)


def save_netcdf(dataset: xr.Dataset | xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a dataset or tree to NetCDF-4, whole or not at all.

    HDF5 ends the process on a disk that is full, so it writes to memory, and Python to the disk.
    """
    import h5netcdf
    import xarray as xr
    from xarray.backends import H5NetCDFStore

    content = io.BytesIO()
    nodes = [("/", dataset)]
    if not isinstance(dataset, xr.Dataset):
        nodes = [(node.path, node.to_dataset(inherit=False)) for node in dataset.subtree]
    with h5netcdf.File(content, "w") as written:
        for name, node in nodes:
            node.dump_to_store(H5NetCDFStore(written, group=name, mode="a"))
    with atomic_write(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def load_netcdf(path: str | os.PathLike[str], kind: str) -> Contents:
    """Read a file that :func:`save_netcdf` wrote, checking its ``gibbs_dp_kind`` attribute."""
    if not Path(path).is_file():
        raise ValueError(f"path: there is no file {os.fspath(path)!r}.")
    contents = read_hdf5(path)
    found = contents.attributes.get("gibbs_dp_kind")
    if found != kind:
        told = printable(str(found or "unknown")[:40])
        raise ValueError(
            f"path: {os.fspath(path)!r} does not hold a gibbs_dp {kind} (its kind is {told})."
        )
    return contents


# One group of a NetCDF-4 file that another library wrote, read without running anything of it.
#
# Such files are compressed legally, in chunks: an array may take 256 times the bytes that are
# stored of it, which deflate hardly reaches for numbers of any use; it must lie in the file, and
# pass through no filters but HDF5's own. Only the group that is asked for is read.


# Deflate, shuffle, checksum, szip, n-bit, scale and offset: what HDF5 itself brings.
FILTERS = frozenset({1, 2, 3, 4, 5, 6})
MOST_EXPANSION = 256
# Longest text of a label, bytes of memory that labels may take.
_LONGEST, _ALL_TEXTS = 1000, 10_000_000
# What CF conventions call numbers that are none.
_MISSING = ("_FillValue", "missing_value")
# Attributes that HDF5 reads to find the dimensions of an array, and others that are read.
_OF_DIMENSIONS = (
    *("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "scale_factor", "add_offset"),
    *_MISSING,
)
_NETCDF3 = (b"CDF\x01", b"CDF\x02", b"CDF\x05")


class Variable(NamedTuple):
    """An array and the names of its dimensions."""

    dims: tuple[str, ...]
    values: np.ndarray


class Group(NamedTuple):
    """Arrays of a group by name, and attributes of the file: texts and numbers."""

    variables: dict[str, Variable]
    attributes: dict[str, str | float]


class NoGroupError(ValueError):
    """A file without the group that is wanted; ``groups`` are those that it has."""

    def __init__(self, groups: list[str]) -> None:
        self.groups = groups
        super().__init__("the group is missing")


def read_group(path: str | os.PathLike[str], name: str, attributes: Sequence[str] = ()) -> Group:
    """Read the arrays of numbers of a group, and one-dimensional texts, which are labels."""
    import h5py  # slow to import

    shown = os.fspath(path)
    _check_format(Path(path), shown)
    try:
        with Path(path).open("rb") as raw, mmap.mmap(raw.fileno(), 0, prot=mmap.PROT_READ) as held:
            check_heaps(held)
            check_attributes(held, (*attributes, *_OF_DIMENSIONS))
            with h5py.File(path, "r") as file:
                groups = [key for key in file if _is_hard(file, key)]
                if name not in groups or not isinstance(file[name], h5py.Group):
                    raise NoGroupError(groups)
                marks = _marks(file[name], attributes) | _marks(file, attributes)
                return Group(_read_variables(file[name], held), marks)
    except NoGroupError:
        raise
    except Exception as error:  # whatever HDF5 or NumPy makes of a damaged file
        raise DamagedFileError(
            f"path: {shown!r} is not a readable NetCDF-4 file ({reason(error)})."
        ) from error


def _marks(file: Any, wanted: Sequence[str]) -> dict[str, str | float]:
    found: dict[str, str | float] = {}
    for name in wanted:
        value = file.attrs.get(name)
        if isinstance(value, str):
            found[name] = value
        elif value is not None and np.shape(value) in ((), (1,)) and np.isrealobj(value):
            found[name] = float(np.ravel(value)[0])
    return found


def _check_format(path: Path, shown: str) -> None:
    if path.is_dir():
        raise ValueError(
            f"path: {shown!r} is a folder (Zarr?); write a NetCDF-4 file with idata.to_netcdf, or "
            "pass the object that ArviZ reads from it."
        )
    if not path.is_file():
        raise ValueError(f"path: there is no file {shown!r}.")
    with path.open("rb") as raw:
        magic = raw.read(8)
    if magic[:4] in _NETCDF3:
        raise ValueError(
            f"path: {shown!r} is NetCDF-3, which has no groups; write NetCDF-4 with "
            "idata.to_netcdf."
        )
    if magic != b"\x89HDF\r\n\x1a\n":
        raise ValueError(f"path: {shown!r} is no NetCDF-4 file (HDF5); idata.to_netcdf writes one.")


def _is_hard(group: Any, key: str) -> bool:
    import h5py

    return bool(group.id.links.get_info(key.encode()).type == h5py.h5l.TYPE_HARD)


def _read_variables(group: Any, content: mmap.mmap) -> dict[str, Variable]:
    import h5py

    found: dict[str, Variable] = {}
    for key in group:
        if not _is_hard(group, key):
            raise ValueError(f"{key!r} is a link to somewhere else")
        held = group[key]
        if isinstance(held, h5py.Dataset):
            found |= _with_labels(key, held, content)
    return found


def _with_labels(key: str, held: Any, content: mmap.mmap) -> dict[str, Variable]:
    """Read a variable, and those of its dimensions that lie elsewhere in the file."""
    if held.attrs.get("CLASS") == b"DIMENSION_SCALE":
        values = _labels(held, content)
        return {} if values is None else {key: Variable((key,), values)}
    found: dict[str, Variable] = {}
    dims = []
    for k in range(held.ndim):
        if len(held.dims[k]) == 0:
            raise ValueError(f"{key!r} has an axis without a name")
        scale = held.dims[k][0]
        dims.append(scale.name.rpartition("/")[2])
        values = _labels(scale, content)
        if values is not None:
            found[dims[-1]] = Variable((dims[-1],), values)
    kind = held.id.get_type()
    if kind.get_class() in (h5_class("INTEGER"), h5_class("FLOAT")):
        if {"scale_factor", "add_offset"} & set(held.attrs):
            raise ValueError(f"{key!r} is packed as scaled whole numbers")
        found[key] = Variable(tuple(dims), _with_gaps(_numbers(key, held), held))
    elif held.ndim == 1 and (texts := _labels(held, content)) is not None:
        found[key] = Variable(tuple(dims), texts)
    return found


def _labels(held: Any, content: mmap.mmap) -> np.ndarray | None:
    """Read the labels of a dimension; None for one that has a length only, or other things."""
    if str(held.attrs.get("NAME", b""))[2:].startswith("This is a netCDF dimension but"):
        return None
    kind = held.id.get_type()
    if held.ndim != 1 or held.shape[0] > MAX_TEXTS:
        return None
    if kind.get_class() in (h5_class("INTEGER"), h5_class("FLOAT")):
        return _numbers(held.name, held)
    if kind.get_class() != h5_class("STRING") or kind.get_size() > _LONGEST:
        return None
    _check_place(held.name, held)
    check_texts(content, held.name, held)
    texts, room = [], _ALL_TEXTS
    for index in range(held.shape[0]):  # one by one: many entries may share one long text
        texts.append(held.asstr()[index][:_LONGEST])
        room -= 4 * len(texts[-1])
        if room < 0:
            raise ValueError(f"{held.name!r} has labels of more than {_ALL_TEXTS} bytes")
    return np.array(texts, str)


def _numbers(key: str, held: Any) -> np.ndarray:
    _check_place(key, held)
    size = math.prod(held.shape) * held.id.get_type().get_size()
    if size > MOST_EXPANSION * held.id.get_storage_size():
        raise ValueError(
            f"{key!r} declares {size} bytes and stores {held.id.get_storage_size()} of them"
        )
    return np.asarray(held[()])


def _with_gaps(values: np.ndarray, held: Any) -> np.ndarray:
    """Make what stands for a missing number NaN."""
    for name in _MISSING:
        mark = held.attrs.get(name)
        if np.size(mark) == 1 and np.isrealobj(mark) and np.asarray(mark).dtype.kind in "iuf":
            values = np.where(values == np.ravel(mark)[0], np.nan, values)
    return values


def _check_place(key: str, held: Any) -> None:
    """Check that an array lies in the file, and that HDF5 itself can unpack it."""
    import h5py

    made = held.id.get_create_plist()
    if made.get_external_count() or made.get_layout() == h5py.h5d.VIRTUAL:
        raise ValueError(f"{key!r} lies in another file")
    used = {made.get_filter(i)[0] for i in range(made.get_nfilters())}
    if not used <= FILTERS:
        raise ValueError(
            f"{key!r} is compressed in a way of its own; write it with zlib or not compressed"
        )


def h5_class(name: str) -> int:
    """HDF5's number of a class of types.

    >>> h5_class("INTEGER"), h5_class("FLOAT")
    (0, 1)
    """
    import h5py

    return int(getattr(h5py.h5t, name))
