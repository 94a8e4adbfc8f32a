"""Heaps in which HDF5 keeps texts, and references to them: damaged ones bring its C library down.

A damaged heap sends it into an endless loop. A text or list of any length is stored as a length,
the address of a heap and a number in it; HDF5 makes room for the length before it looks at the
heap, so 16 damaged bytes cost gigabytes. Here both are read from the bytes of the file ("IV.A.2.m.
The Attribute Message" and "VIII. Appendix A" of the HDF5 File Format Specification), before HDF5
sees them.
"""

from __future__ import annotations

import math
import mmap
import re
import zlib
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

# "GCOL", version 1, three zeros; eight bytes of size follow. HDF5 reads no other heaps.
_HEAP = re.compile(rb"GCOL\x01\x00\x00\x00", re.DOTALL)
_HEADER = 16


def check_heaps(content: bytes | mmap.mmap) -> None:
    """Walk through every heap of a file as HDF5 does.

    A heap is a list of objects: index, references, size, then the object, in steps of 8 bytes;
    index 0 is the free space at its end, whose size includes its header. HDF5 steps from one to
    the next by their sizes, and loops endlessly if a step is zero ("III.E. Disk Format: Level
    1E - Global Heap" of the HDF5 File Format Specification).

    Raises
    ------
    ValueError
        If a heap does not end within the file, or an object not within its heap or takes no room.
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
    """Check all attributes of some names in a file that are stored in its heaps.

    Raises
    ------
    ValueError
        If one is longer than the file.
    """
    for name, data, count in _attributes(content, [name.encode() for name in names]):
        _check(name.decode(errors="replace"), data, count, len(content))


def check_texts(content: bytes | mmap.mmap, name: str, held: Any) -> None:
    """Check the references of an array of texts.

    Parameters
    ----------
    content
        The file.
    name
        Of the array.
    held
        The array, as h5py has it.

    Raises
    ------
    ValueError
        If a text is longer than the file, or the array is stored so that nothing tells.
    """
    import h5py

    kind = held.id.get_type()
    if kind.get_class() != h5py.h5t.STRING or not kind.is_variable_str():
        return
    made, count = held.id.get_create_plist(), math.prod(held.shape)
    layout = made.get_layout()
    if layout == h5py.h5d.CONTIGUOUS:
        at = held.id.get_offset()
        if at is not None:
            _check(name, content[at : at + _SIZE * count], count, len(content))
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
        _check(name, _unpacked(name, data, filters, mask, most), most // _SIZE, len(content))


def _check(name: str, data: bytes, count: int, size: int) -> None:
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


def _attributes(
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
