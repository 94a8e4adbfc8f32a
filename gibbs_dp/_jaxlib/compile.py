"""How the CPU compiler is asked to spend its time."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from gibbs_dp._jaxlib.devices import compiled_for, is_accelerator, platform, target_platform
from gibbs_dp._jaxlib.precision import traced_exactly

Result = TypeVar("Result")

# Compile time is user time: full optimization triples it for a fifth of the run time.
OPTIONS = {"xla_backend_optimization_level": 1}
# Half of that compile time again. Exponentials and logarithms are then not vectorized, and code
# full of them is twice as slow; other code is no slower.
QUICK_OPTIONS = {**OPTIONS, "xla_cpu_use_fusion_emitters": False}


@cache
def program(
    function: Callable[..., Any], static: tuple[str, ...], backend: str, is_quick: bool = False
) -> Any:
    """Return a jitted function of a backend, one for the life of the process.

    jit's own cache then recognizes posteriors, kernels and plans that it has seen, and compiles
    nothing for a new gamma, schedule or table.
    """
    options = compiler_options(backend, is_quick)

    @wraps(function)
    def traced(*arguments: Any, **named: Any) -> Any:
        with compiled_for(backend):
            return traced_exactly(function)(*arguments, **named)

    return jax.jit(traced, static_argnames=static, compiler_options=options)


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
