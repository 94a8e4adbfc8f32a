"""Named tuples of arrays in ``.npz`` files: written whole, checked when read, never unpickled."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import types
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from gibbs_dp.io.files import DamagedFileError, atomic_write, parse_json, reason

Record = TypeVar("Record")
Labels = Mapping[str, Any]

# What an array of a record may hold: numbers, truth values, texts of a fixed length.
_KINDS = "biufcSU"


def save_record(
    path: str | os.PathLike[str], record: Any, labels: Labels, *, is_first: bool = False
) -> None:
    """Write a (nested) named tuple of arrays and numbers, flushed and whole or not at all."""
    parts: dict[str, list[np.ndarray]] = {}
    fields = []
    for name, array in _flatten(record, ""):
        fields.append([name, array.dtype.str, list(array.shape)])
        parts.setdefault(array.dtype.str, []).append(array.ravel())
    arrays = {_member(kind): np.concatenate(found) for kind, found in parts.items()}
    whole = {"labels": dict(labels), "fields": fields}
    layout = json.dumps(whole | {"sha256": _digest(whole, arrays.values())})
    content = io.BytesIO()
    np.savez(content, layout=np.frombuffer(layout.encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    with atomic_write(path, is_first_kept=is_first) as temporary:
        temporary.write_bytes(content.getbuffer())


def load_record(path: str | os.PathLike[str], kind: type[Record], labels: Labels) -> Record:
    """Read what :func:`save_record` wrote, after checking its checksums, labels and fields."""
    content = Path(path).read_bytes()
    try:
        arrays = _arrays(content)
        layout = parse_json(arrays.pop("layout.npy").tobytes().decode(), dict)
        # The archive's own checksums are those of whoever packed it last.
        if layout.pop("sha256") != _digest(layout, arrays.values()):
            raise ValueError("its contents are not those that were written")
        flat = _split(layout["fields"], arrays)
        if layout["labels"] != json.loads(json.dumps(dict(labels))):
            raise ValueError("it belongs elsewhere")
        record = _rebuild(kind, flat, "")
        if flat:
            raise ValueError(f"it has unknown fields {sorted(flat)}")
    except Exception as error:  # whatever zipfile, zlib or NumPy makes of a damaged file
        raise DamagedFileError(f"{os.fspath(path)}: damaged ({reason(error)}).") from error
    return record


def _digest(layout: Labels, arrays: Iterable[np.ndarray]) -> str:
    """SHA-256 of a layout and, in their order, of all arrays."""
    found = hashlib.sha256(json.dumps(layout).encode())
    for array in arrays:
        found.update(np.ascontiguousarray(array).view(np.uint8).data)
    return found.hexdigest()


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    """Take arrays out of an uncompressed ``.npz``, no more bytes than it has, checked before."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed")
        if sum(member.file_size for member in members) > len(content):
            raise ValueError(f"it declares more than its {len(content)} bytes can hold")
        # Reading a member to its end compares its checksum.
        return {member.filename: _array(archive.read(member)) for member in members}


def _array(member: bytes) -> np.ndarray:
    """Read one list of an ``.npz`` file; the header may not declare more than there is."""
    stream = io.BytesIO(member)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("its arrays have an unknown header")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.kind not in _KINDS:
        raise ValueError(f"it holds {dtype}, which is neither numbers nor text")
    values = member[stream.tell() :]
    if len(shape) != 1 or shape[0] * dtype.itemsize != len(values):
        raise ValueError("its arrays are not as long as they should be")
    return np.frombuffer(bytearray(values), dtype)  # writable


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _member(dtype: str) -> str:
    return np.dtype(dtype).name


def _flatten(value: Any, prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, field in zip(value._fields, value, strict=True):
        if hasattr(field, "_fields"):
            yield from _flatten(field, f"{prefix}{name}.")
        elif field is not None:
            yield prefix + name, np.asarray(field)


def _split(fields: list[Any], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    flat, used = {}, dict.fromkeys((kind for _, kind, _ in fields), 0)
    members = {kind: arrays[f"{_member(kind)}.npy"] for kind in used}
    if any(member.dtype.str != kind for kind, member in members.items()):
        raise ValueError("its arrays are not of the type that they should be")
    for name, kind, shape in fields:
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"the shape of {name!r} is {shape}")
        start = used[kind]
        used[kind] += math.prod(shape)
        flat[name] = members[kind][start : used[kind]].reshape(shape)
    if any(used[kind] != members[kind].size for kind in used):
        raise ValueError("its arrays are not as long as they should be")
    return flat


def _rebuild(kind: Any, flat: dict[str, np.ndarray], prefix: str) -> Any:
    """Rebuild a named tuple; its annotations say which fields are tuples, numbers or None."""
    values: dict[str, Any] = {}
    for name, hint in _hints(kind).items():
        options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        inner = next((o for o in options if hasattr(o, "_fields")), None)
        key = prefix + name
        if type(None) in options and not any(f"{f}.".startswith(f"{key}.") for f in flat):
            values[name] = None
        elif inner is not None:
            values[name] = _rebuild(inner, flat, key + ".")
        else:
            array = flat.pop(key)
            number = next((o for o in options if o in (bool, int, float, str)), None)
            values[name] = array if number is None else number(array.item())
    return kind(**values)
