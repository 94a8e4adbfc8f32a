"""Bytes that are harmed, wherever they are from."""

from __future__ import annotations

from random import Random

# How files of other kinds begin.
MAGIC = (
    *(
        b"PK\x03\x04",
        b"\x1f\x8b\x08",
        b"BZh9",
        b"\xfd7zXZ\x00",
        b"(\xb5/\xfd",
        b"\x89HDF\r\n\x1a\n",
    ),
    *(b"PAR1", b"SQLite format 3\x00", b"CDF\x01", b"\x93NUMPY", b"\x80\x04\x95", b"\xff\xfe"),
    *(b"\xef\xbb\xbf", b"%PDF-1.7", b"\x7fELF", b"#!/bin/sh\n", b"{", b"\x00" * 8),
)
HUGE = (2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1, 10**9, 0, 1)


def harmed(rng: Random, content: bytes, most: int = 8) -> bytes:
    """Change bytes: flip, overwrite, remove, insert, move, cut, and claim huge sizes.

    Parameters
    ----------
    rng
        Source of every choice.
    content
        A whole file.
    most
        Changes at most.

    Returns
    -------
    bytes
        Another file, or the same.
    """
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, most))):
        if not found:
            break
        _CHANGES[rng.randrange(len(_CHANGES))](rng, found)
    return bytes(found)


def _at(rng: Random, found: bytearray) -> int:
    """Return a place; often near an end, where headers and directories are."""
    size = len(found)
    near = min(size, 256)
    match rng.randrange(4):
        case 0:
            return rng.randrange(near)
        case 1:
            return size - 1 - rng.randrange(near)
        case _:
            return rng.randrange(size)


def _flip(rng: Random, found: bytearray) -> None:
    found[_at(rng, found)] ^= 1 << rng.randrange(8)


def _overwrite(rng: Random, found: bytearray) -> None:
    found[_at(rng, found)] = rng.randrange(256)


def _claim(rng: Random, found: bytearray) -> None:
    at, width = _at(rng, found), rng.choice((2, 4, 8))
    number = rng.choice(HUGE) % 256**width
    at -= at % width
    found[at : at + width] = number.to_bytes(width, rng.choice(("little", "big")))


def _remove(rng: Random, found: bytearray) -> None:
    at = _at(rng, found)
    del found[at : at + rng.choice((1, 1, 2, 7, 64, 1000))]


def _insert(rng: Random, found: bytearray) -> None:
    at = _at(rng, found)
    found[at:at] = bytes([rng.randrange(256)]) * rng.choice((1, 1, 2, 8, 64, 1000))


def _splice(rng: Random, found: bytearray) -> None:
    at, other, size = _at(rng, found), _at(rng, found), rng.choice((1, 4, 16, 64, 512))
    found[at : at + size] = found[other : other + size]


def _double(rng: Random, found: bytearray) -> None:
    at = _at(rng, found)
    if len(found) < 1_000_000:
        found[at:at] = found[at:]


def _cut(rng: Random, found: bytearray) -> None:
    del found[_at(rng, found) :]


def _blank(rng: Random, found: bytearray) -> None:
    at = _at(rng, found)
    size = rng.choice((8, 64, 512, 4096))
    found[at : at + size] = bytes(len(found[at : at + size]))


def _mask(rng: Random, found: bytearray) -> None:
    magic = rng.choice(MAGIC)
    found[: len(magic)] = magic


_CHANGES = (
    *(_flip, _flip, _overwrite, _claim, _claim, _remove, _insert, _splice, _double, _cut),
    *(_blank, _mask),
)
