"""What a posterior and a population compute, reduced to short digests.

A function is known by its jaxpr: the program that JAX makes of it, with every array that it closes
over. So a digest changes with any change of the code that has an effect on the numbers, and with
changed data, but not with comments or another machine. **What it cannot see**: the code behind a
host callback (``jax.pure_callback``), and state that a function reads while it runs rather than
when it is traced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from gibbs_dp._jaxlib.devices import compiled_for
from gibbs_dp.model.populations import Population
from gibbs_dp.model.posterior import GibbsPosterior

DIGITS = 16
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def fingerprints(
    posterior: GibbsPosterior, population: Population, n: int, num_fresh: int
) -> dict[str, str]:
    """Digests of loss, prior and population, as they are used on datasets of ``n`` examples.

    The loss and the prior are traced together with their gradients, which see custom derivative
    rules too.

    Parameters
    ----------
    posterior, population
        What is audited.
    n, num_fresh
        Examples of a dataset, and fresh ones drawn beside it.

    Returns
    -------
    dict[str, str]
        By "loss", "prior" and "population".

    Examples
    --------
    >>> import jax, gibbs_dp as gdp
    >>> flat = gdp.Flat(gdp.supports.real())
    >>> source = gdp.populations.Sampler(lambda key, n: jax.random.normal(key, (n,)))
    >>> def digest(scale):
    ...     posterior = gdp.GibbsPosterior(lambda theta, z: scale * (theta - z) ** 2, flat)
    ...     return fingerprints(posterior, source, 5, 1)["loss"]
    >>> digest(1.0) == digest(1.0), digest(1.0) == digest(2.0)
    (True, False)
    """
    key = jax.random.key(0)
    u = jax.ShapeDtypeStruct((posterior.dim,), jnp.zeros(()).dtype)
    train, _ = jax.eval_shape(lambda k: population.sample(k, n, num_fresh), key)

    theta = jax.eval_shape(posterior.constrain, u)

    def loss(theta: Any, data: Any) -> Any:
        each = jnp.zeros(()) if posterior.structured else posterior.losses(theta, data)
        return posterior.empirical_loss(theta, data), each

    return {
        "loss": digest(jax.value_and_grad(loss, has_aux=True), theta, train),
        "prior": digest(jax.value_and_grad(posterior.log_prior_unconstrained), u)
        + digest(posterior.initial, key)[: DIGITS // 2],
        "population": digest(lambda k: population.sample(k, n, num_fresh), key),
    }


def digest(function: Callable[..., Any], *arguments: Any) -> str:
    """Digest of a traced function: its equations, and all arrays in them."""
    with compiled_for("cpu"):  # one form for all devices
        program = jax.make_jaxpr(function)(*arguments)
    text = program.jaxpr.pretty_print(use_color=False, source_info=False)
    found = hashlib.sha256(_ADDRESS.sub("", text).encode())
    for array in _arrays(program):
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()[:DIGITS]


def digest_value(value: Any) -> str:
    """Digest of plain values and arrays, nested in tuples, lists and dicts."""
    leaves, structure = jax.tree.flatten(value)
    found = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        found.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()[:DIGITS]


def _arrays(program: Any) -> Iterator[np.ndarray]:
    """Yield every array that a jaxpr holds, at any depth, in order."""
    if isinstance(program, ClosedJaxpr):
        yield from map(_as_numpy, program.consts)
        yield from _arrays(program.jaxpr)
    elif isinstance(program, Jaxpr):
        for equation in program.eqns:
            for variable in equation.invars:
                if isinstance(variable, Literal):
                    yield _as_numpy(variable.val)
            for name in sorted(equation.params):
                yield from _arrays(equation.params[name])
    elif isinstance(program, (tuple, list)):
        for part in program:
            yield from _arrays(part)


def _as_numpy(value: Any) -> np.ndarray:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)
