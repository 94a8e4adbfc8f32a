"""Compiled programs: how compilers are asked to spend their time, and what is kept of it."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import export
from jaxtyping import Array, Bool

from gibbs_dp._jaxlib import program_cache
from gibbs_dp._jaxlib.chacha import key_kind, wrap_key
from gibbs_dp._jaxlib.devices import (
    compiled_for,
    is_accelerator,
    on_device,
    platform,
    target_platform,
)
from gibbs_dp._jaxlib.linalg import in_pieces, is_affected
from gibbs_dp._jaxlib.precision import exact_products

Result = TypeVar("Result")

# Compile time is user time: full optimization triples it for a fifth of the run time.
OPTIONS = {"xla_backend_optimization_level": 1}
# Half of that compile time again. Exponentials and logarithms are then not vectorized, and code
# full of them is twice as slow; other code is no slower.
QUICK_OPTIONS = {**OPTIONS, "xla_cpu_use_fusion_emitters": False}
# A GPU's products are its library's: Triton compiles dozens of its own for each and times them,
# which is most of the wait (for chains of a network 16 s, 5 without; H200) and pays in long runs.
GPU_OPTIONS = {"xla_gpu_enable_triton_gemm": False}


class _Kept(NamedTuple):
    """A kept program: from arrays to arrays, and what puts these together."""

    call: Any
    put_together: Callable[..., Any]


class Program:
    """A jitted function of one platform, kept in the cache folder where it can be."""

    def __init__(
        self,
        function: Callable[..., Any],
        static: tuple[str, ...],
        backend: str,
        is_quick: bool,
        is_long: bool = False,
    ) -> None:
        self._function, self._backend = function, backend
        self._options = compiler_options(backend, is_quick, is_long)
        names = list(inspect.signature(function).parameters)
        self._is_static = tuple(name in static for name in names)

        is_cut = backend == "cpu" and is_affected()
        whole = in_pieces(function, self._is_static) if is_cut else function

        @wraps(function)
        def traced(*arguments: Any, **named: Any) -> Any:
            with compiled_for(backend), exact_products():
                return whole(*arguments, **named)

        self.traced = traced
        self.jitted = jax.jit(traced, static_argnames=static, compiler_options=self._options)
        self._found: dict[str, _Kept | None] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any, kinds: Sequence[type] = ()) -> Any:
        """Run it; ``kinds`` are named tuples in the result that no module has."""
        leaves, found = self._kept(arguments, kinds)
        if found is None:
            return self.jitted(*arguments)
        return found.put_together(found.call(*leaves))

    def compiled(
        self, *arguments: Any, kinds: Sequence[type] = ()
    ) -> tuple[Any, Callable[..., Any]]:
        """Compile it ahead."""
        leaves, found = self._kept(arguments, kinds)
        if found is None:
            plain = self.jitted.lower(*arguments).compile()
            return plain, plain
        flat = found.call.lower(*leaves).compile()

        def run(*traced: Any) -> Any:
            return found.put_together(flat(*map(_plain, jax.tree.leaves(traced))))

        return flat, run

    def shapes(self, *arguments: Any, kinds: Sequence[type] = ()) -> Any:
        """Return shapes of what it finds; it is traced for them once, and not again to be run."""
        leaves, found = self._kept(arguments, kinds)
        if found is None:
            return self.jitted.eval_shape(*arguments)
        return found.put_together(found.call.eval_shape(*leaves))

    def _kept(
        self, arguments: tuple[Any, ...], kinds: Sequence[type]
    ) -> tuple[list[Any], _Kept | None]:
        """Arrays of the arguments, and the kept program; None where nothing can be kept."""
        if program_cache.folder() is None:
            return [], None
        statics, others = self._split(arguments)
        leaves = [on_device(leaf) for leaf in jax.tree.leaves(others)]
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):  # part of another program
            return [], None
        options = [self._backend, self._options]
        name = program_cache.program_name(self._function, options, statics, others, leaves)
        if name is None:
            return [], None
        if name not in self._found:
            with self._lock:  # two threads that meet a new program must not both trace it
                if name not in self._found:
                    found = program_cache.load(name, kinds) or self._exported(
                        name, arguments, kinds
                    )
                    self._found[name] = found and self._ready(*found)
        return [_plain(leaf) for leaf in leaves], self._found[name]

    def _split(self, arguments: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        """Return static arguments, and those that are traced."""
        pairs = list(zip(arguments, self._is_static, strict=True))
        return [a for a, is_so in pairs if is_so], [a for a, is_so in pairs if not is_so]

    def _ready(self, exported: Any, put_together: Callable[..., Any]) -> _Kept:
        return _Kept(jax.jit(exported.call, compiler_options=self._options), put_together)

    def _exported(self, name: str, arguments: tuple[Any, ...], kinds: Sequence[type]) -> Any:
        is_static = self._is_static
        leaves, structure = jax.tree.flatten(self._split(arguments)[1])
        shape: list[Any] = []
        kinds_of_keys = [_key_kind(leaf) for leaf in leaves]

        def flat(*plain: Any) -> list[Any]:
            pairs = zip(plain, kinds_of_keys, strict=True)
            again = [wrap_key(a, kind) if kind else a for a, kind in pairs]
            given = iter(jax.tree.unflatten(structure, again))
            whole = [
                a if is_so else next(given) for a, is_so in zip(arguments, is_static, strict=True)
            ]
            found, tree = jax.tree.flatten(self.traced(*whole))
            shape[:] = [jax.tree.unflatten(tree, [_key_kind(leaf) or 0 for leaf in found])]
            return [_plain(leaf) for leaf in found]

        try:
            platforms = ("cpu",) if self._backend == "cpu" else None  # JAX's first
            exported = export.export(jax.jit(flat), platforms=platforms)(*map(_plain, leaves))
            description = program_cache.describe(shape[0], kinds)
        except (ValueError, TypeError, NotImplementedError):
            return None  # calls back to Python, say: it is jitted as it stands
        program_cache.save(name, exported, description)
        return exported, program_cache.rebuild(description, kinds)

    def trace(self, *arguments: Any) -> Any:
        """Trace it, as jitted functions do."""
        return self.jitted.trace(*arguments)


def _key_kind(leaf: Any) -> str | None:
    """Name the kind of random keys; None for numbers."""
    if not (hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)):
        return None
    return key_kind(leaf)


def _plain(leaf: Any) -> Array:
    """Numbers as they are, random keys as their data: not every JAX exports typed keys."""
    return jax.random.key_data(leaf) if _key_kind(leaf) else on_device(leaf)


@cache
def program(
    function: Callable[..., Any],
    static: tuple[str, ...],
    backend: str,
    is_quick: bool = False,
    is_long: bool = False,
) -> Program:
    """Return the program of a function on a platform; jit's cache then knows what it has seen.

    ``is_quick``: to compile, on CPUs. ``is_long``: a GPU's compiler takes its time.
    """
    return Program(function, static, backend, is_quick, is_long)


def on_default_backend(
    function: Callable[..., Any], *static: str, is_quick: bool = False
) -> Callable[..., Any]:
    """Jit for the backend that is the default when it is called; ``is_quick``: to compile."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return program(function, static, platform(), is_quick)(*arguments)

    return call


def in_memory(is_so: Bool[Array, ""], compute: Callable[[], Result]) -> Result:
    """Compute once what XLA for CPUs would compute again in every fusion that reads it.

    What a loop carries is in memory; this one has one round.
    """
    if is_accelerator(target_platform()):
        return compute()
    shapes = jax.eval_shape(compute)
    blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return jax.lax.fori_loop(0, is_so.astype(jnp.int32), lambda _, __: compute(), blank)


@cache
def compiler_options(
    backend: str, is_quick: bool = False, is_long: bool = False
) -> dict[str, int | bool] | None:
    """Options for ``jax.jit(compiler_options=...)``; what the user's ``XLA_FLAGS`` name is left."""
    if backend not in ("cpu", "gpu", "cuda"):
        return None
    given = os.environ.get("XLA_FLAGS", "")
    every: dict[str, Any] = QUICK_OPTIONS if backend == "cpu" else GPU_OPTIONS
    known = known_of(tuple((k, v) for k, v in every.items() if k not in given))
    of_cpus = QUICK_OPTIONS if is_quick else OPTIONS
    of_gpus: dict[str, Any] = {} if is_long else GPU_OPTIONS
    wanted = of_cpus if backend == "cpu" else of_gpus
    return {k: v for k, v in wanted.items() if (k, v) in known}


@cache
def known_of(options: tuple[tuple[str, int | bool], ...]) -> tuple[tuple[str, int | bool], ...]:
    """Options that this XLA has: they come and go between versions.

    One small program asks for all, and one for each where that fails.
    """
    if not options:
        return ()
    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        if len(options) == 1:
            return ()
        return tuple(found for option in options for found in known_of((option,)))
    return options


# Room for compiled programs. Linux allows a process some 65,000 memory mappings. Each program that
# XLA compiles takes 3 to 15 of them, more with newer versions (seen with jaxlib 0.7.2 to 0.10.2),
# for as long as JAX keeps it; a first audit takes a thousand. Where none is left, XLA ends the
# process.
MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
# What is left beside it is room for a dozen audits of several modes, with mutual information.
MOST_TAKEN = 0.7


def share_taken(maps: Path = MAPS, limit: Path = LIMIT) -> float:
    """Share of the mappings allowed that is taken; 0 on systems that do not tell."""
    try:
        return maps.read_bytes().count(b"\n") / int(limit.read_text())
    except (OSError, ValueError):
        return 0.0


@lru_cache(maxsize=1)
def _share_taken_in(second: int) -> float:
    """Return what was taken in this second: to look takes as long as a short audit's checks."""
    del second
    return share_taken()


def forget_programs() -> None:
    """Drop everything that JAX has compiled: it is compiled again when it is needed."""
    jax.clear_caches()
    gc.collect()
    _share_taken_in.cache_clear()


def make_room(most_taken: float = MOST_TAKEN) -> bool:
    """Forget what was compiled where little room is left for more; return whether that was so."""
    if _share_taken_in(int(time.monotonic())) <= most_taken:
        return False
    forget_programs()
    return True


def return_memory() -> None:
    """Give the system what compilers have freed: GNU's allocator keeps it, some 400 MB."""
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other allocators have none
    if trim is not None:
        trim(0)
