"""One group of a NetCDF-4 file that another library wrote, read without running anything of it.

Such files are compressed legally, in chunks, so the rule of :mod:`gibbs_dp.io.netcdf`, no more
bytes than the file has, cannot hold. Here an array may take 256 times the bytes that are stored of
it, which deflate hardly reaches for numbers of any use; it must lie in the file, and pass through
no filters but HDF5's own. Only the group that is asked for is read.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gibbs_dp.io.atomic import DamagedFileError, reason
from gibbs_dp.io.heaps import check_attributes, check_heaps, check_texts
from gibbs_dp.io.netcdf import MAX_TEXTS

# Deflate, shuffle, checksum, szip, n-bit, scale and offset: what HDF5 itself brings.
FILTERS = frozenset({1, 2, 3, 4, 5, 6})
MOST_EXPANSION = 256
# Longest text of a label, bytes of memory that labels may take.
_LONGEST, _ALL_TEXTS = 1000, 10_000_000
# Attributes that HDF5 reads to find the dimensions of an array.
_OF_DIMENSIONS = ("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "scale_factor", "add_offset")
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
    """Read the arrays of numbers of a group, and one-dimensional texts, which are labels.

    Parameters
    ----------
    path
        A file in NetCDF-4 or HDF5 with dimensions, as xarray, ArviZ and PyMC write.
    name
        Of a group under the root.
    attributes
        Of the root, to read where they are one text or one number.

    Returns
    -------
    Group
        Variables by name; those of dimensions under the dimension's name.

    Raises
    ------
    ValueError
        If there is no such file, or it is in another format; :class:`NoGroupError`, one of them,
        if it has no such group.
    DamagedFileError
        If it is corrupt, refers to other files, or expands to far more than it stores.
    """
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
                return Group(_read(file[name], held), _marks(file, attributes))
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


def _read(group: Any, content: mmap.mmap) -> dict[str, Variable]:
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
        found[key] = Variable(tuple(dims), _numbers(key, held))
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
