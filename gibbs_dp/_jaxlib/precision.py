"""JAX's precision in one thread.

The setting is local to a thread, so that workers have to be given their caller's.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import jax
import jax.numpy as jnp


def precision(is_double: bool) -> AbstractContextManager[None]:
    """Return a context in which this thread's JAX computes in double precision, or in single."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(is_double)
    from jax import experimental  # where it was before JAX 0.8

    return getattr(experimental, "enable_x64")(is_double)  # noqa: B009


def is_double() -> bool:
    """Whether this thread's JAX computes in double precision."""
    return bool(jnp.zeros(()).dtype == jnp.dtype("float64"))
