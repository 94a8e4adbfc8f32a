"""What users' functions read from outside themselves, and whether that has changed.

JAX compiles a function once, with the values that it read then: global numbers, arrays that it
closes over, attributes of its object. Where one of these changes and the function does not, as when
a notebook's cell sets ``sigma = 3``, what was compiled before would run again and say what was true
before. So every door looks at them, and where they differ all that was compiled is forgotten.
"""

from __future__ import annotations

import argparse
import dataclasses
import dis
import functools
import hashlib
import os
import site
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

# Values of a function that are looked at, in all and within each other; elements of an array,
# evenly spread beyond.
MOST_VALUES, DEEPEST, MOST_ELEMENTS = 4096, 32, 2**18
# Methods that are traced: what these store counts calls. What others store is set by the user.
CALLED = ("__call__", "sample", "batch")
NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)

_PATHS = [
    *(sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")),
    *site.getsitepackages(),
    site.getusersitepackages(),
    str(Path(__file__).parent.parent),
]
_INSTALLED = tuple(
    {f"{found}{os.sep}" for path in _PATHS for found in (path, os.path.realpath(path))}
)
# What objects were seen with, as long as they live; and what forgets beside JAX.
_seen: dict[int, tuple[Callable[[], Any], Any]] = {}
_forgetting: list[Callable[[], Any]] = [jax.clear_caches]


def forget_with(clear: Callable[[], Any]) -> None:
    """Have ``clear`` called where something has changed: it empties a cache by objects."""
    _forgetting.append(clear)


def notice_changes(given: Any) -> None:
    """Forget what was compiled if functions in ``given``, seen before, read other values now.

    Seen are numbers, texts and arrays, alone or in lists, tuples and dicts: globals, closures,
    defaults and attributes, of functions that are called as well. **Not seen** are installed
    packages and attributes of their objects, what the function itself stores, lists that have grown
    (logs), single elements of large arrays, and what is read in other ways: from files, by
    ``getattr``. What a NumPyro model's prior reads is part of the posterior when that is made.
    """
    changed = [_is_changed(part) for part in _parts(given)]
    if any(changed):
        for clear in _forgetting:
            clear()


def _is_changed(part: Any) -> bool:
    values = _Walk().of(part)
    there, before = _seen.get(id(part), (None, None))
    is_known = there is not None and there() is part
    if not is_known:
        for key in [key for key, (alive, _) in list(_seen.items()) if alive() is None]:
            _seen.pop(key, None)
    _seen[id(part)] = (_reference(part), values)
    return is_known and values != before


def _parts(given: Any, within: tuple[int, ...] = ()) -> Iterator[Any]:
    """Functions and objects of the user's, which may be wrapped anew at every call."""
    if id(given) in within or len(within) >= DEEPEST:
        return
    inside: tuple[Any, ...] = ()
    if isinstance(given, types.MethodType):
        inside = (given.__self__,)
    elif isinstance(given, functools.partial):
        yield given
        inside = (given.func, given.args, given.keywords)
    elif isinstance(given, (list, tuple)):
        inside = tuple(given)
    elif isinstance(given, dict):
        inside = tuple(given.values())
    elif isinstance(given, types.FunctionType) or _wrapped(given) is not None:
        yield given
    elif isinstance(given, type):
        if not _is_of_installed(given):
            yield given
    elif _is_ours(type(given)):
        inside = tuple(_attributes(given).values())
    elif not isinstance(given, types.ModuleType) and not _is_of_installed(type(given)):
        yield given
    for item in inside:
        yield from _parts(item, (*within, id(given)))


def _wrapped(given: Any) -> Any:
    """Return what a decorator, or ``jax.jit``, has wrapped; None for nothing, or an error."""
    try:
        return getattr(given, "__wrapped__", None)
    except Exception:  # whatever users' objects raise
        return None


class _Same:
    """An object that is compared by identity, and kept alive only where nothing else is known."""

    def __init__(self, given: Any) -> None:
        self._there = _reference(given)

    def __eq__(self, other: object) -> bool:
        own = self._there()
        return isinstance(other, _Same) and own is not None and other._there() is own

    def __hash__(self) -> int:
        return 0


def _reference(given: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(given)
    except TypeError:  # such objects are few, and small
        return lambda: given


class _Walk:
    """One look at all that an object reads, each part of it once: numbers, and tuples of those."""

    def __init__(self) -> None:
        self._met: dict[int, Any] = {}
        self._depth = 0

    def of(self, value: Any) -> Any:
        if isinstance(value, (float, np.floating)):
            return repr(value)  # NaN is itself
        if isinstance(value, PLAIN):
            return type(value), value
        if isinstance(value, np.ndarray):
            return _digest(value)
        is_too_much = len(self._met) >= MOST_VALUES or self._depth >= DEEPEST
        if id(value) in self._met or is_too_much:
            return None
        self._met[id(value)] = value
        self._depth += 1
        try:
            return self._inside(value)
        finally:
            self._depth -= 1

    def _inside(self, value: Any) -> Any:
        if isinstance(value, (list, tuple, set, frozenset)):
            return _Items(map(self.of, value))
        if isinstance(value, dict):
            return _Items((key, self.of(item)) for key, item in list(value.items()))
        if isinstance(value, functools.partial):
            return tuple(map(self.of, (value.func, value.args, value.keywords)))
        if isinstance(value, types.MethodType):
            return tuple(map(self.of, (value.__self__, value.__func__)))
        if isinstance(value, types.FunctionType):
            return tuple(self._of_function(value))
        if isinstance(value, type):
            return (_Same(value), *self._of_class(value))
        if isinstance(value, (types.ModuleType, jax.Array)):
            return _Same(value)
        if isinstance(value, NAMESPACES):
            return self.of(vars(value))
        return tuple(self._of_object(value))

    def _of_function(self, function: types.FunctionType) -> Iterator[Any]:
        code = function.__code__
        names = _names(code)  # what it stores are counters of its own
        yield _Same(code)
        yield self.of(function.__defaults__)
        yield self.of(function.__kwdefaults__)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            # Not bound yet: its function is being defined.
            is_bound = cell != types.CellType()
            yield self.of(cell.cell_contents) if is_bound and name not in names.stored else None
        if not code.co_filename.startswith(_INSTALLED):
            for name in sorted(names.read - names.stored):
                yield self._of_global(function, name, names.attributes)

    def _of_global(
        self, function: types.FunctionType, name: str, attributes: frozenset[str]
    ) -> Any:
        value = function.__globals__.get(name)
        if isinstance(value, types.ModuleType):
            if _is_installed(value.__name__):
                return None
            named = attributes & vars(value).keys()
            value = {key: vars(value)[key] for key in sorted(named)}
        return self.of(value)

    def _of_object(self, value: Any) -> Iterator[Any]:
        yield _Same(value)
        yield self.of(_wrapped(value))
        kind = type(value)
        if not _is_ours(kind):
            if _is_of_installed(kind):
                return
            yield from self._of_class(kind)
        yield self.of(_attributes(value))

    def _of_class(self, kind: type) -> Iterator[Any]:
        """Functions and plain values of the user's classes that one is made of."""
        for one in kind.__mro__:
            if _is_of_installed(one):
                continue
            for name, item in list(vars(one).items()):
                found = item.fget if isinstance(item, property) else getattr(item, "__func__", item)
                is_value = isinstance(found, (*PLAIN, list, tuple, dict, np.ndarray))
                is_own = is_value and not name.startswith("__")
                if is_own or isinstance(found, types.FunctionType):
                    yield self.of(found)


class _Items(tuple[Any, ...]):
    """What a container holds; one that has grown, as a log does, counts as unchanged."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Items):
            return False
        return len(self) != len(other) or tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return len(self)


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes that were set, not those that were found later, or that calls store."""
    held, kind = getattr(value, "__dict__", {}), type(value)
    names = (
        [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    )
    later: set[str] = set()
    if not _is_ours(kind):
        methods = [vars(one).get(name) for one in kind.__mro__ for name in CALLED]
        codes = [f.__code__ for f in methods if isinstance(f, types.FunctionType)]
        later = later.union(*(_names(code).set_attributes for code in codes))
    if not names or not _is_ours(kind):
        names += [name for name in held if name not in names]
    return {
        name: object.__getattribute__(value, name)
        for name in names
        if name not in later
        and (name in held or name in getattr(kind, "__slots__", ()))
        and not isinstance(getattr(kind, name, None), functools.cached_property)
    }


class _Names(NamedTuple):
    """Names in a function, and in those inside it."""

    read: frozenset[str]  # globals
    attributes: frozenset[str]  # and globals
    stored: frozenset[str]  # globals, closures, and containers of which an item is set
    set_attributes: frozenset[str]


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> _Names:
    steps = list(dis.get_instructions(code))

    def by(*names: str) -> frozenset[str]:
        return frozenset(step.argval for step in steps if step.opname in names)

    pairs = zip(steps, steps[2:], strict=False)  # container, place, store
    items = {
        first.argval
        for first, last in pairs
        if last.opname == "STORE_SUBSCR" and "LOAD" in first.opname
    }
    own = _Names(
        by("LOAD_GLOBAL", "LOAD_NAME"),
        frozenset(code.co_names),
        by("STORE_GLOBAL", "STORE_DEREF") | items,
        by("STORE_ATTR"),
    )
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return _Names(*(names[0].union(*names[1:]) for names in zip(own, *inner, strict=True)))


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _is_of_installed(kind: type) -> bool:
    return _is_installed(kind.__module__)


def _is_installed(module: str) -> bool:
    """Whether a module is Python's, an installed package's or this one's."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:  # built in, or made by a notebook
        return module.partition(".")[0] in sys.stdlib_module_names and module != "__main__"
    return bool(file.startswith(_INSTALLED))


def _digest(array: np.ndarray) -> tuple[Any, ...]:
    if array.dtype.hasobject:
        return (array.shape, _Same(array))
    some = np.ascontiguousarray(array.flat[:: max(1, array.size // MOST_ELEMENTS)])
    found = hashlib.blake2b(some.view(np.uint8).data, digest_size=16).digest()
    return (array.shape, array.dtype.str, found)
