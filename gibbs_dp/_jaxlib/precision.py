"""The settings of JAX in one thread: precision, exactness of products and of functions, device.

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
import numpy as np
from jaxtyping import Array, Float

from gibbs_dp._jaxlib.devices import is_accelerator, target_platform

Result = TypeVar("Result")

EXACT = "highest"


class Mode(NamedTuple):
    """JAX's settings in one thread."""

    is_double: bool  # whether it computes in double precision
    matmul_precision: str | None  # what the user set for products; None: nothing
    device: Any  # where it computes by default; None: JAX's first


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


def exact_products() -> AbstractContextManager[None]:
    """Return a context to trace in with exact products, unless the user set another precision."""
    given: Any = jax.config
    return jax.default_matmul_precision(given.jax_default_matmul_precision or EXACT)


def traced_exactly(function: Callable[..., Result]) -> Callable[..., Result]:
    """Trace with exact products, unless the user set another precision; for :func:`jax.jit`."""

    @wraps(function)
    def traced(*arguments: Any, **named: Any) -> Result:
        with exact_products():
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
    """Return True if this thread's JAX computes in double precision."""
    return bool(jnp.result_type(float) == jnp.dtype("float64"))


# Elementary functions in arithmetic that every compiler vectorizes: XLA's are calls on CPUs.

# exp(r) - 1 over r for abs(r) <= log(2) / 2; the first term left out is 2e-8 of the value.
_EXPM1 = tuple(1.0 / k for k in (5040, 720, 120, 24, 6, 2, 1))
# Of atanh(s) / s in s^2 up to 1/9; the first one left out is 1.4e-8 of the value.
_ATANH = tuple(1.0 / k for k in (13, 11, 9, 7, 5, 3, 1))


def horner(coefficients: tuple[float, ...], x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Polynomial, highest power first."""
    value = jnp.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        value = value * x + c
    return value


def expm1_and_exp(
    x: Float[Array, "*shape"],
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return ``exp(x) - 1`` and ``exp(x)``, exact to rounding where ``abs(x) <= 80``.

    With ``x = k log(2) + r``, ``exp(x) - 1 = 2^k p + (2^k - 1)`` for ``p = exp(r) - 1``, a series.
    """
    if x.dtype != jnp.float32:
        return jnp.expm1(x), jnp.exp(x)
    k = jnp.floor(x * np.float32(1.0 / np.log(2.0)) + 0.5)
    # log(2) in two parts, the first of few digits: k times it is exact.
    r = (x - k * np.float32(0.693359375)) + k * np.float32(2.12194440e-4)
    power = jax.lax.bitcast_convert_type((k.astype(jnp.int32) + 127) << 23, jnp.float32)
    scaled = power * (horner(_EXPM1, r) * r)
    return scaled + (power - 1.0), scaled + power


def log1p_of_share(t: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return ``log(1 + t)`` for ``t`` in [0, 1], by the series of ``2 atanh(t / (2 + t))``."""
    if t.dtype != jnp.float32:
        return jnp.log1p(t)
    s = t / (2.0 + t)
    return 2.0 * s * horner(_ATANH, s * s)


@jax.custom_jvp
def logaddexp(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``log(e^a + e^b)`` with sigmoids as derivatives, so that gradients compute no logarithm."""
    gap = a - b
    value = jnp.maximum(a, b) + log1p_of_share(jnp.exp(-jnp.abs(gap)))
    return jnp.where(jnp.isnan(gap), a + b, value)  # of two infinities, or not a number


@logaddexp.defjvp
def _logaddexp_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    (a, b), (da, db) = primals, tangents
    share = jax.nn.sigmoid(a - b)
    return logaddexp(a, b), share * da + jax.nn.sigmoid(b - a) * db


def spread(value: Float[Array, "*shape"], ones: Float[Array, " n"]) -> Float[Array, "*shape n"]:
    """Repeat along a new last axis: the derivative is then a sum like :func:`total`'s."""
    return jax.lax.dot_general(value, ones, (((), ()), ((), ())), precision="highest")


def total(terms: Float[Array, "*batch terms"]) -> Float[Array, "*batch"]:
    """Sum over the last axis; on CPUs as a product with ones, which is vectorized."""
    if is_accelerator(target_platform()):
        return jnp.sum(terms, axis=-1)
    return jnp.dot(terms, jnp.ones((terms.shape[-1],), terms.dtype), precision="highest")
