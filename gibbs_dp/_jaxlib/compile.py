"""Compiled programs: how the CPU compiler is asked to spend its time, and what is kept of it."""

from __future__ import annotations

import inspect
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import jaxlib
from jax import export
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Array, Bool, PyTree

from gibbs_dp._jaxlib import program_cache
from gibbs_dp._jaxlib.chacha import key_kind, wrap_key
from gibbs_dp._jaxlib.devices import compiled_for, is_accelerator, platform, target_platform
from gibbs_dp._jaxlib.linalg import SHARED_OUT
from gibbs_dp._jaxlib.per_example import bind
from gibbs_dp._jaxlib.precision import exact_products
from gibbs_dp._jaxlib.structure import describe, rebuild

# Programs whose large batches of matrices are factored in pieces.
#
# jaxlib 0.10 and 0.11.0 share a LAPACK call on a large batch out to XLA's thread pool, and hold a
# thread of that pool until it is done: a few such calls at once can hold every thread and wait
# forever (`gibbs_dp._jaxlib.linalg`). Losses and priors of users factor matrices as they please, so
# the finished program of all draws and datasets is rewritten.

FIRST, LAST = (0, 10, 0), (0, 11, 0)  # jaxlib versions that share batches out
# Operations on a matrix, over its rows times the entries of it or of the right-hand side.
COSTS = dict.fromkeys(("eig", "eigh", "svd", "schur", "hessenberg"), 10.0)
COSTS |= dict.fromkeys(("cholesky", "lu", "qr", "geqrf", "geqp3", "householder_product"), 1.0)
COSTS |= {"ormqr": 1.0, "triangular_solve": 1.0, "tridiagonal_solve": 5.0}
# Programs within an equation that can be evaluated in its place, by the parameter that holds them.
INLINE = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_vmap_call": "call",
}
LOOPS = ("scan", "while", "cond")


def is_affected() -> bool:
    """Whether the installed jaxlib may hang."""
    return FIRST <= jaxlib.version.__version_info__ <= LAST


def in_pieces(function: Callable[..., PyTree], is_static: Sequence[bool]) -> Callable[..., PyTree]:
    """Trace a function so that no batch of matrices in it is large; for the outermost jit.

    Parameters
    ----------
    function
        What is traced, with all its derivatives and batches.
    is_static
        Of its arguments: which are not traced.

    Returns
    -------
    callable
        The same function where it factors no large batch.
    """
    static = tuple(i for i, is_so in enumerate(is_static) if is_so)
    traced = jax.make_jaxpr(function, static_argnums=static, return_shape=True)

    def whole(*arguments: Any) -> Any:
        program, found = traced(*arguments)
        dynamic = [a for a, is_so in zip(arguments, is_static, strict=True) if not is_so]
        run = _run if any(_large(program.jaxpr)) else jax.core.eval_jaxpr
        outputs = run(program.jaxpr, program.consts, *jax.tree.leaves(dynamic))
        return jax.tree.unflatten(jax.tree.structure(found), outputs)

    return whole


def _large(program: Jaxpr) -> Iterator[bool]:
    """Yield for every equation, at any depth, whether it factors a large batch."""
    for equation in program.eqns:
        yield _is_large(equation)
        for inner in _programs(equation):
            yield from _large(inner)


def _has_large(equation: JaxprEqn) -> bool:
    return any(any(_large(inner)) for inner in _programs(equation))


def _programs(equation: JaxprEqn) -> Iterator[Jaxpr]:
    values = jax.tree.leaves(tuple(equation.params.values()), is_leaf=_is_program)
    for value in values:
        if _is_program(value):
            program: Any = getattr(value, "jaxpr", value)
            yield program


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")


def _is_large(equation: JaxprEqn) -> bool:
    cost = _cost(equation)
    return cost is not None and cost >= SHARED_OUT and _batch(equation) > 1


def _cost(equation: JaxprEqn) -> float | None:
    """Operations of all matrices together; None for other equations."""
    name = equation.primitive.name
    if name not in COSTS:
        return None
    shapes = [_shape(v) for v in equation.invars]
    rows = 1 if name == "tridiagonal_solve" else shapes[0][-2]
    return COSTS[name] * rows * math.prod(shapes[-1])


def _lead(equation: JaxprEqn) -> tuple[int, ...]:
    # A tridiagonal matrix comes as three vectors.
    axes = 1 if equation.primitive.name == "tridiagonal_solve" else 2
    return _shape(equation.invars[0])[:-axes]


def _shape(variable: Any) -> tuple[int, ...]:
    return tuple(variable.aval.shape)


def _batch(equation: JaxprEqn) -> int:
    return math.prod(_lead(equation))


def _run(program: Jaxpr, consts: Sequence[Any], *arguments: Any) -> list[Any]:
    """Evaluate a program, large batches in pieces."""
    known = dict(zip(program.constvars, consts, strict=True))
    known.update(zip(program.invars, arguments, strict=True))
    for equation in program.eqns:
        values = [v.val if isinstance(v, Literal) else known[v] for v in equation.invars]
        found = _apply(equation, values, program)
        known.update(zip(equation.outvars, found, strict=True))
    return [v.val if isinstance(v, Literal) else known[v] for v in program.outvars]


def _apply(equation: JaxprEqn, values: list[Any], within: Jaxpr) -> Sequence[Any]:
    name = equation.primitive.name
    if _is_large(equation):
        return _cut(equation, values)
    if name in INLINE and INLINE[name] in equation.params and _has_large(equation):
        inner = equation.params[INLINE[name]]
        return _run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), *values)
    if name in LOOPS and _has_large(equation):
        params = {key: _rewritten(value) for key, value in equation.params.items()}
        equation = equation.replace(params=params)
    return bind(equation, values, within)


def _rewritten(value: Any) -> Any:
    """Rewrite a loop's body, or each of several branches; pass everything else through."""
    if isinstance(value, tuple) and value and all(isinstance(v, ClosedJaxpr) for v in value):
        return tuple(map(_rewritten, value))
    if not isinstance(value, ClosedJaxpr):
        return value
    shapes = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False))
        for a in value.in_avals
    ]
    return jax.make_jaxpr(lambda *given: _run(value.jaxpr, value.consts, *given))(*shapes)


def _cut(equation: JaxprEqn, values: list[Array]) -> list[Array]:
    """Call on as many matrices at a time as one thread does alone."""
    lead, count = _lead(equation), _batch(equation)
    cost = _cost(equation)
    assert cost is not None
    most = max(1, int((SHARED_OUT - 1) // (cost / count)))
    size = -(-count // -(-count // most))  # pieces as even as they can be
    flat = [a.reshape(count, *a.shape[len(lead) :]) for a in values]

    def one(parts: list[Array]) -> list[Array]:
        found = equation.primitive.bind(*parts, **equation.params)
        return list(found) if equation.primitive.multiple_results else [found]

    found = jax.lax.map(one, flat, batch_size=size)
    return [a.reshape(*lead, *a.shape[1:]) for a in found]


Result = TypeVar("Result")

# Compile time is user time: full optimization triples it for a fifth of the run time.
OPTIONS = {"xla_backend_optimization_level": 1}
# Half of that compile time again. Exponentials and logarithms are then not vectorized, and code
# full of them is twice as slow; other code is no slower.
QUICK_OPTIONS = {**OPTIONS, "xla_cpu_use_fusion_emitters": False}


class _Kept(NamedTuple):
    """A kept program: from arrays to arrays, and what puts these together."""

    call: Any
    put_together: Callable[..., Any]


class Program:
    """A jitted function of one platform, kept in the cache folder where it can be.

    Parameters
    ----------
    function
        What to compile.
    static
        Names of its arguments that are not traced.
    backend
        The platform.
    is_quick
        See :func:`compiler_options`.
    """

    def __init__(
        self, function: Callable[..., Any], static: tuple[str, ...], backend: str, is_quick: bool
    ) -> None:
        self._function, self._backend = function, backend
        self._options = compiler_options(backend, is_quick)
        names = list(inspect.signature(function).parameters)
        self._is_static = tuple(name in static for name in names)

        is_cut = backend == "cpu" and is_affected()
        whole = in_pieces(function, self._is_static) if is_cut else function

        @wraps(function)
        def traced(*arguments: Any, **named: Any) -> Any:
            with compiled_for(backend), exact_products():
                return whole(*arguments, **named)

        self._traced = traced
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
        """Compile it ahead.

        Returns
        -------
        compiled
            What tells of its memory.
        run
            Takes the arguments that are traced.
        """
        leaves, found = self._kept(arguments, kinds)
        if found is None:
            plain = self.jitted.lower(*arguments).compile()
            return plain, plain
        flat = found.call.lower(*leaves).compile()

        def run(*traced: Any) -> Any:
            return found.put_together(flat(*map(_plain, jax.tree.leaves(traced))))

        return flat, run

    def _kept(
        self, arguments: tuple[Any, ...], kinds: Sequence[type]
    ) -> tuple[list[Any], _Kept | None]:
        """Arrays of the arguments, and the kept program; None where nothing can be kept."""
        if program_cache.folder() is None:
            return [], None
        statics, others = self._split(arguments)
        leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(others)]
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
            found, tree = jax.tree.flatten(self._traced(*whole))
            shape[:] = [jax.tree.unflatten(tree, [_key_kind(leaf) or 0 for leaf in found])]
            return [_plain(leaf) for leaf in found]

        try:
            platforms = ("cpu",) if self._backend == "cpu" else None  # JAX's first
            exported = export.export(jax.jit(flat), platforms=platforms)(*map(_plain, leaves))
            description = describe(shape[0], kinds)
        except (ValueError, TypeError, NotImplementedError):
            return None  # calls back to Python, say: it is jitted as it stands
        program_cache.save(name, exported, description)
        return exported, rebuild(description, kinds)

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
    return jax.random.key_data(leaf) if _key_kind(leaf) else jnp.asarray(leaf)


@cache
def program(
    function: Callable[..., Any], static: tuple[str, ...], backend: str, is_quick: bool = False
) -> Program:
    """Return the program of a function on a platform, one for the life of the process.

    jit's own cache then recognizes posteriors, kernels and plans that it has seen, and compiles
    nothing for a new gamma, schedule or table.
    """
    return Program(function, static, backend, is_quick)


def on_default_backend(function: Callable[..., Any], *static: str) -> Callable[..., Any]:
    """Jit for the backend that is the default when it is called."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return program(function, static, platform())(*arguments)

    return call


def in_memory(is_so: Bool[Array, ""], compute: Callable[[], Result]) -> Result:
    """Compute once what XLA for CPUs would compute again in every fusion that reads it.

    What a loop carries is in memory; this one has one round.

    Parameters
    ----------
    is_so
        True, traced: XLA must not know. Where it is false the result is zeros.
    compute
        What to compute.
    """
    if is_accelerator(target_platform()):
        return compute()
    shapes = jax.eval_shape(compute)
    blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return jax.lax.fori_loop(0, is_so.astype(jnp.int32), lambda _, __: compute(), blank)


@cache
def compiler_options(backend: str, is_quick: bool = False) -> dict[str, int | bool] | None:
    """Options for ``jax.jit(compiler_options=...)``; what the user's ``XLA_FLAGS`` name is left.

    Parameters
    ----------
    backend
        Platform of the devices; only "cpu" has options.
    is_quick
        Whether the program has few exponentials and logarithms, or runs for a moment only.
    """
    if backend != "cpu":
        return None
    given = os.environ.get("XLA_FLAGS", "")
    wanted = QUICK_OPTIONS if is_quick else OPTIONS
    return {k: v for k, v in wanted.items() if k not in given and is_known(k, v)}


@cache
def is_known(name: str, value: int | bool) -> bool:
    """Whether this XLA has the option: they come and go between versions."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" in str(error):
            return False
        raise
    return True
