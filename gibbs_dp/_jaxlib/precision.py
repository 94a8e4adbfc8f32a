"""How JAX computes in one thread: single or double, how exact its products, on which device.

These settings are local to a thread, so that workers have to be given their caller's. Products of
float32 numbers are rounded to 10 bits (TF32) by default on NVIDIA GPUs, and to 8 on TPUs: enough to
spoil acceptance rates, which decide on differences of energies. The library's programs are traced
for exact ones, a user's own loss included, unless the user chose otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

Result = TypeVar("Result")

EXACT = "highest"


class Mode(NamedTuple):
    """JAX's settings in one thread.

    Attributes
    ----------
    is_double
        Whether it computes in double precision.
    matmul_precision
        What the user set for products; None: nothing.
    device
        Where it computes by default; None: JAX's first.
    """

    is_double: bool
    matmul_precision: str | None
    device: Any


def current_mode() -> Mode:
    """Return this thread's settings."""
    config: Any = jax.config
    return Mode(is_double(), config.jax_default_matmul_precision, config.jax_default_device)


@contextmanager
def in_mode(mode: Mode) -> Iterator[None]:
    """Give this thread the settings of another."""
    with ExitStack() as stack:
        stack.enter_context(precision(mode.is_double))
        stack.enter_context(jax.default_matmul_precision(mode.matmul_precision))
        stack.enter_context(jax.default_device(mode.device))
        yield


def traced_exactly(function: Callable[..., Result]) -> Callable[..., Result]:
    """Trace with exact products, unless the user set another precision; for :func:`jax.jit`."""

    @wraps(function)
    def traced(*arguments: Any, **named: Any) -> Result:
        given: Any = jax.config
        with jax.default_matmul_precision(given.jax_default_matmul_precision or EXACT):
            return function(*arguments, **named)

    return traced


def matmul(left: Array, right: Array) -> Array:
    """Multiply matrices or vectors, as :func:`jax.numpy.matmul`, exactly on every device."""
    return jnp.matmul(left, right, precision=EXACT)


def precision(is_double: bool) -> AbstractContextManager[None]:
    """Return a context in which this thread's JAX computes in double precision, or in single."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(is_double)
    from jax import experimental  # where it was before JAX 0.8

    return getattr(experimental, "enable_x64")(is_double)  # noqa: B009


def is_double() -> bool:
    """Whether this thread's JAX computes in double precision."""
    return bool(jnp.zeros(()).dtype == jnp.dtype("float64"))
