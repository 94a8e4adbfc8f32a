"""What crosses from one process to another, as bytes."""

from __future__ import annotations

import hashlib
import io
import pickle
import platform
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache, lru_cache
from types import CodeType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import numpyro

from gibbs_dp._extras import require
from gibbs_dp._jaxlib.precision import Mode, current_mode, in_mode
from gibbs_dp._version import __version__
from gibbs_dp.engine.plan import Job, Sheet
from gibbs_dp.engine.quantity import Settings

# Parts that a process keeps: those of some audits, and of the gammas of their jobs.
MAX_PARTS = 256


@contextmanager
def applied(mode: Mode) -> Iterator[None]:
    """Compute as the caller does in this thread, on this process's own devices."""
    with in_mode(mode._replace(device=current_mode().device)):
        yield


def versions() -> dict[str, str]:
    """Of everything that numbers, or the form of what is sent, depend on."""
    return {
        "gibbs_dp": __version__,
        "jax": jax.__version__,
        "jaxlib": jaxlib.version.__version__,
        "numpyro": numpyro.__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


class Parcel(NamedTuple):
    """Settings of an audit as bytes, and their name: equal settings have equal names."""

    name: str
    content: bytes


def pack_settings(settings: Settings) -> Parcel:
    """Pack what all jobs of an audit share, with the mode to run them in.

    Every field by itself: a process that has the posterior of an earlier audit keeps it, and what
    was compiled for it.
    """
    parts = {}
    for field in fields(settings):
        try:
            parts[field.name] = dumps(getattr(settings, field.name))
        except Exception as error:  # pickling runs anybody's code
            raise ValueError(
                f"executor: the audit's {field.name} cannot be sent to workers ({error}); make "
                "what cannot be pickled, such as an open file, inside the function that uses it."
            ) from error
    mode = current_mode()._replace(device=None)  # workers have devices of their own
    content = pickle.dumps((tuple(mode), parts))
    return Parcel(hashlib.sha256(content).hexdigest(), content)


def unpack_settings(content: bytes) -> tuple[Settings, Mode]:
    """Undo :func:`pack_settings`."""
    packed_mode, parts = pickle.loads(content)
    mode = Mode(*packed_mode)
    return Settings(**{name: _part(blob, mode) for name, blob in parts.items()}), mode


def pack_job(job: Any) -> bytes:
    """Pack a named tuple, and those in it, field by field: jobs have most of these in common."""
    return pickle.dumps(_in_parts(job))


def unpack_job(content: bytes, mode: Mode) -> Any:
    """Undo :func:`pack_job`. Equal fields of two jobs are one object: devices have it once."""
    return _together(pickle.loads(content), mode)


def _in_parts(value: Any) -> Any:
    if type(value) is tuple:
        return tuple, [_in_parts(item) for item in value]
    if isinstance(value, (Sheet, Job)):
        return type(value), [_in_parts(item) for item in value]
    return dumps(value)


def _together(parts: Any, mode: Mode) -> Any:
    if isinstance(parts, bytes):
        return _part(parts, mode)
    kind, items = parts
    found = [_together(item, mode) for item in items]
    return tuple(found) if kind is tuple else kind(*found)


@lru_cache(maxsize=MAX_PARTS)
def _part(blob: bytes, mode: Mode) -> Any:
    with applied(mode):  # a float64 stays one
        return pickle.loads(blob)


def pack_error(error: Exception) -> bytes:
    """Pack an exception with where it happened, in as much as can be pickled."""
    where = "".join(traceback.format_exception(error))
    kind, arguments, state = type(error), error.args, error.__dict__
    forms: list[tuple[Any, ...]] = [
        (_itself, error),
        (_rebuilt, kind, arguments, state),
        (_rebuilt, kind, arguments, {}),
    ]
    for make, *parts in forms:
        try:
            blob = dumps((make, parts, where))
            if str(make(*pickle.loads(blob)[1])) == str(error):
                return blob
        except Exception:  # pickling runs anybody's code
            continue
    return dumps((RuntimeError, (f"{kind.__name__}: {error}",), where))


def unpack_error(content: bytes) -> Exception:
    """Return the exception, with a note that says where in a worker it was raised."""
    make, parts, where = pickle.loads(content)
    error: Exception = make(*parts)
    error.add_note(f"\nIn a worker of the executor:\n{where}")
    return error


def _itself(error: Exception) -> Exception:
    return error


def _rebuilt(kind: type[Exception], arguments: Any, state: dict[str, Any]) -> Exception:
    # Without __init__, whose arguments are not those of the message everywhere.
    error = kind.__new__(kind, *arguments)
    error.args = tuple(arguments)
    error.__dict__.update(state)
    return error


def dumps(value: Any) -> bytes:
    """Pickle anything, functions and classes of the user's too."""
    with io.BytesIO() as file:
        _pickler()(file).dump(value)
        return file.getvalue()


@cache
def _pickler() -> Any:
    cloudpickle = require("cloudpickle")

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        """Knows random keys: JAX would make a generator of its own of each.

        And the files that functions come from, for tracebacks: cloudpickle 3.1.3 drops them.
        """

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, CodeType):
                make, arguments = self.dispatch_table[CodeType](value)
                return _code, (make, arguments, value.co_filename)
            if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
                data = np.asarray(jax.random.key_data(value))
                return _key, (data, str(jax.random.key_impl(value)))
            return super().reducer_override(value)

    return Pickler


def _code(make: Any, arguments: tuple[Any, ...], file: str) -> CodeType:
    code: CodeType = make(*arguments)
    return code.replace(co_filename=file)


def _key(data: np.ndarray, generator: str) -> Any:
    return jax.random.wrap_key_data(jnp.asarray(data), impl=generator)
