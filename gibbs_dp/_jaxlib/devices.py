"""The devices that compute: those that JAX sees, or the one that the user made the default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np

_compiled_for: ContextVar[str | None] = ContextVar("compiled_for", default=None)


def devices() -> list[jax.Device]:
    """Return the local devices of the default platform, or the one of ``jax.default_device``."""
    config: Any = jax.config
    chosen = config.jax_default_device
    if chosen is None:
        return jax.local_devices()
    if isinstance(chosen, str):
        return jax.local_devices(backend=chosen)
    return [chosen]


def on_device(value: Any) -> jax.Array:
    """Move an array or a number of NumPy there; `jnp.asarray` compiles a program for each shape."""
    return value if isinstance(value, jax.Array) else jax.device_put(value)


def key_of(seed: int) -> jax.Array:
    """Return ``jax.random.key(seed)``, for which JAX compiles two programs, without them.

    All 64 bits of a seed count, also where JAX, in single precision, drops the upper ones.
    """
    config: Any = jax.config
    if config.jax_default_prng_impl != "threefry2x32" or config.jax_random_seed_offset:
        return jax.random.key(seed)
    words = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(jax.device_put(words))


def platform() -> str:
    """Name what they are: "cpu", "gpu" or "tpu"."""
    return str(devices()[0].platform)


# Of a device's memory, what programs in flight may take together, and how many these are: the next
# one waits on the device, not on its host.
SHARE_OF_MEMORY, IN_FLIGHT = 0.9, 2


def memory_limit(device: jax.Device) -> int | None:
    """Bytes that a device gives to programs; None where it does not tell."""
    found: int | None = (device.memory_stats() or {}).get("bytes_limit")
    return found


def memory_of_a_program() -> float:
    """Bytes that one program may take, of the smallest device; infinite where none tells."""
    known = [limit for limit in map(memory_limit, devices()) if limit is not None]
    return SHARE_OF_MEMORY * min(known) / IN_FLIGHT if known else float("inf")


@contextmanager
def compiled_for(name: str) -> Iterator[None]:
    """Trace for a platform: what code suits it is decided by :func:`target_platform`."""
    token = _compiled_for.set(name)
    try:
        yield
    finally:
        _compiled_for.reset(token)


def target_platform() -> str:
    """Name what the program that is traced is for; outside of any, what there is."""
    return _compiled_for.get() or platform()


def is_accelerator(name: str) -> bool:
    """Return True if a platform's devices work on thousands of posteriors at once."""
    return name != "cpu"
