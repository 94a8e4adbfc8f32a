"""How the CPU compiler is asked to spend its time."""

from __future__ import annotations

import os
from functools import cache

# Compile time is user time: full optimization triples it for a fifth of the run time.
OPTIONS = {"xla_backend_optimization_level": 1}


@cache
def compiler_options(backend: str) -> dict[str, int] | None:
    """Options for ``jax.jit(compiler_options=...)``; what the user's ``XLA_FLAGS`` name is left."""
    if backend != "cpu":
        return None
    given = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in OPTIONS.items() if name not in given}
