"""Named tuples of arrays in ``.npz`` files: written whole, checked when read, never unpickled."""

from __future__ import annotations

import io
import json
import math
import os
import struct
import types
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from gibbs_dp.io.atomic import atomic_write

Record = TypeVar("Record")
Labels = Mapping[str, Any]

_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    NotImplementedError,  # a compression that a flipped bit asks for
    RuntimeError,  # likewise, encryption
)


class DamagedFileError(ValueError):
    """A file that is truncated, corrupt, or holds something else than it should."""


def save_record(
    path: str | os.PathLike[str], record: Any, labels: Labels, *, is_first: bool = False
) -> None:
    """Write a (nested) named tuple of arrays and numbers, flushed and whole or not at all.

    All arrays of one type lie in one array of the file, since a block of summaries has dozens;
    ``layout``, JSON text, says which part is what.

    Parameters
    ----------
    path
        File to write.
    record
        Its fields are arrays, numbers, strings, None, or again named tuples.
    labels
        What the file is, as JSON values: :func:`load_record` refuses it under other labels.
    is_first
        Keep a file that is there already.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    parts: dict[str, list[np.ndarray]] = {}
    fields = []
    for name, array in _flatten(record, ""):
        fields.append([name, array.dtype.str, list(array.shape)])
        parts.setdefault(array.dtype.str, []).append(array.ravel())
    layout = json.dumps({"labels": dict(labels), "fields": fields})
    arrays = {_member(kind): np.concatenate(found) for kind, found in parts.items()}
    content = io.BytesIO()
    np.savez(content, layout=np.frombuffer(layout.encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    with atomic_write(path, is_first_kept=is_first) as temporary:
        temporary.write_bytes(content.getbuffer())


def load_record(path: str | os.PathLike[str], kind: type[Record], labels: Labels) -> Record:
    """Read what :func:`save_record` wrote, after checking its checksums, labels and fields.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DamagedFileError
        If it is not, bit for bit, a file that was written for these labels.
    """
    content = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            # Reading a member to its end compares its checksum.
            members = {name: archive.read(name) for name in archive.namelist()}
        arrays = {
            name: np.lib.format.read_array(io.BytesIO(member), allow_pickle=False)
            for name, member in members.items()
        }
        layout = json.loads(arrays.pop("layout.npy").tobytes().decode())
        flat = _split(layout["fields"], arrays)
        if layout["labels"] != json.loads(json.dumps(dict(labels))):
            raise ValueError("it belongs elsewhere")
        record = _rebuild(kind, flat, "")
        if flat:
            raise ValueError(f"it has unknown fields {sorted(flat)}")
    except _DAMAGE as error:
        raise DamagedFileError(f"{os.fspath(path)}: damaged ({error}).") from error
    return record


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
    for name, kind, shape in fields:
        start = used[kind]
        used[kind] += math.prod(shape)
        flat[name] = members[kind][start : used[kind]].reshape(shape).astype(kind, copy=False)
    if any(used[kind] != members[kind].size for kind in used):
        raise ValueError("its arrays are not as long as they should be")
    return flat


def _rebuild(kind: Any, flat: dict[str, np.ndarray], prefix: str) -> Any:
    """Put a named tuple together; its annotations say which fields are tuples, numbers or None."""
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
