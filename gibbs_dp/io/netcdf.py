"""NetCDF and HDF5: arrays and JSON text, nothing that executes."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gibbs_dp.io.atomic import DamagedFileError, atomic_write, printable, reason
from gibbs_dp.io.heaps import check_attributes, check_heaps, check_texts

if TYPE_CHECKING:
    import xarray as xr


# HDF5 read with suspicion: only what the file itself holds, and no more than its length.
#
# HDF5 files may point at other files, expand to far more data than they store, and refer to
# themselves. Files of this library do none of that, so any that does is refused.

# Dimensions that have a length and no values are stored as arrays with this name.
_NO_VALUES = "This is a netCDF dimension but not a netCDF variable"
# Texts in one array: a report has one per gamma.
MAX_TEXTS = 100_000


class Contents(NamedTuple):
    """Contents of a group of a file.

    ``attributes`` are texts and numbers, ``variables`` arrays over dimensions, ``coordinates``
    the values of dimensions; ``groups`` lie within it.
    """

    attributes: dict[str, str | int | float]
    variables: dict[str, np.ndarray]
    coordinates: dict[str, np.ndarray]
    groups: dict[str, Contents]


def read_hdf5(path: str | os.PathLike[str]) -> Contents:
    """Read a file's arrays of numbers and texts and its attributes, groups one level deep.

    Arrays and texts together may take no more bytes than the file has: files are written without
    compression, so reading one takes no more memory than a small multiple of its length.

    Returns
    -------
    Contents
        Of the root group.

    Raises
    ------
    DamagedFileError
        If the file is not HDF5, is corrupt, links to other files or within itself, is stored in
        pieces (compressed, chunked, virtual), or declares more than it holds.
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

    Raises
    ------
    OSError
        If the folder is missing or cannot be written, or the disk is full.
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
    """Read a file that :func:`save_netcdf` wrote, checking its ``gibbs_dp_kind`` attribute.

    Returns
    -------
    Contents
        Arrays, attributes and groups.

    Raises
    ------
    ValueError
        If the file is missing or holds something else.
    DamagedFileError
        If it is not NetCDF, or not as :func:`save_netcdf` writes it: see :func:`read_hdf5`.
    """
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
