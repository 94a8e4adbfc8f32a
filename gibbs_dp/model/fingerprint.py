"""What posteriors compute, as digests of their traced functions.

A function is known by its jaxpr: the program that JAX makes of it, with every array that it closes
over. So a digest changes with any change of the code that has an effect on the numbers, and with
changed data, but not with comments or another machine. **What it cannot see**: the code behind a
host callback (``jax.pure_callback``), and state that a function reads while it runs rather than
when it is traced.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jaxtyping import PyTree

from gibbs_dp._jaxlib import program_cache
from gibbs_dp._jaxlib.devices import compiled_for, key_of
from gibbs_dp._jaxlib.jaxprs import Closed, programs
from gibbs_dp.model.posterior import GibbsPosterior

DIGITS = 16
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def digest_text(text: str) -> str:
    """Short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def digest(function: Callable[..., Any], *arguments: Any) -> str:
    """Digest of a traced function: its equations, and all arrays in them."""
    with compiled_for("cpu"):  # one form for all devices
        program = jax.make_jaxpr(function)(*arguments)
    text = program.jaxpr.pretty_print(use_color=False, source_info=False)
    found = hashlib.sha256(ADDRESS.sub("", text).encode())
    for array in _arrays(program):
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()[:DIGITS]


def _arrays(program: Any) -> Iterator[np.ndarray]:
    """Yield every array that a jaxpr holds, at any depth, in order."""
    jaxpr, consts = Closed.of(program)
    yield from map(_as_numpy, consts)
    for equation in jaxpr.eqns:
        for variable in equation.invars:
            if isinstance(variable, Literal):
                yield _as_numpy(variable.val)
        for name in sorted(equation.params):
            for inner in programs(equation.params[name]):
                yield from _arrays(inner)


def _as_numpy(value: Any) -> np.ndarray:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def of_posterior(posterior: GibbsPosterior, examples: PyTree) -> dict[str, str]:
    """Digests of loss and prior, with their gradients; of the examples only shapes are needed."""
    u = jax.ShapeDtypeStruct((posterior.dim,), jnp.result_type(float))
    theta = jax.eval_shape(posterior.constrain, u)

    def loss(theta: Any, data: Any) -> Any:
        each = jnp.zeros(()) if posterior.structured else posterior.losses(theta, data)
        return posterior.empirical_loss(theta, data), each

    return {
        "loss": digest(jax.value_and_grad(loss, has_aux=True), theta, examples),
        "prior": digest(jax.value_and_grad(posterior.log_prior_unconstrained), u)
        + digest(posterior.initial, key_of(0))[: DIGITS // 2],
    }


def identity(posterior: GibbsPosterior, examples: PyTree, *others: Any) -> str | None:
    """Digest of all that programs for a posterior and examples of these shapes depend on."""
    u = jax.ShapeDtypeStruct((posterior.dim,), jnp.result_type(float))
    try:
        about: list[Any] = [of_posterior(posterior, examples), digest(posterior.constrain, u)]
        theta = jax.eval_shape(posterior.constrain, u)
        about += [posterior.is_log_concave]
    except Exception:  # whatever users' functions raise
        return None
    loss, prior = posterior.loss or posterior.total_loss, posterior.prior
    about += [posterior.structured, posterior.is_quadratic, posterior.dim]
    about += [prior.has_draws, prior.is_euclidean, prior.is_hierarchical]
    about += [f"{type(x).__module__}.{type(x).__qualname__}" for x in (loss, prior)]
    about += [prior.is_flat, [bool(b) for b in prior.is_bounded_flat]]
    about += [[repr(s) for s in prior.supports]]
    about += [str(jax.tree.structure(tree)) for tree in (theta, examples)]  # names in results
    return digest_text(json.dumps([about, others]))


def kept_programs(posterior: GibbsPosterior, examples: PyTree) -> AbstractContextManager[None]:
    """Return a context in which programs for a posterior are kept, where JAX keeps any."""
    if program_cache.folder() is None:
        return nullcontext()
    found = identity(posterior, examples)
    return nullcontext() if found is None else program_cache.identified((posterior,), found)
