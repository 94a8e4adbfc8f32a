"""The heaps in which HDF5 keeps texts: damaged ones send its C library into an endless loop."""

from __future__ import annotations

import mmap
import re

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
