"""Checks of arguments that samplers and audits share."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp.io.damage import shown
from gibbs_dp.model.posterior import GibbsPosterior

# Of examples, datasets, chains or draws.
MOST = 2**31 - 1


def as_key(key: Any) -> PRNGKeyArray:
    """Turn an integer seed into a JAX key; pass keys through.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not -(2**63) <= key < 2**63:
            raise ValueError(f"key: a seed has 64 bits, and {shown(str(key), 40)} has more.")
        return jax.random.key(int(key))
    if isinstance(key, jax.Array):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
            return key
        return jax.random.wrap_key_data(key)
    raise ValueError(f"key: give an integer seed or a JAX key, got {type(key).__name__}.")


def positive_count(name: str, value: Any, least: int = 1) -> int:
    """Check an integer setting.

    Raises
    ------
    ValueError
        If it is not an integer of at least ``least`` that 32 bits hold, as JAX counts.
    """
    is_whole = isinstance(value, (int, np.integer)) or (
        isinstance(value, (float, np.floating)) and float(value).is_integer()
    )
    if isinstance(value, bool) or not is_whole or value < least:
        raise ValueError(f"{name}: must be an integer of at least {least}, got {value}.")
    if value > MOST:
        raise ValueError(f"{name}: must be at most {MOST}, got {shown(str(value), 40)}.")
    return int(value)


def check_gamma(gamma: Any) -> float:
    """Check one inverse temperature.

    Raises
    ------
    ValueError
        If it is not one finite number >= 0.
    """
    if isinstance(gamma, str) or np.ndim(gamma) != 0:
        raise ValueError(f"gamma: must be one number, got {gamma!r}; call once for each.")
    try:
        value = float(gamma)
    except TypeError:
        raise ValueError(f"gamma: must be one number, got {type(gamma).__name__}.") from None
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"gamma: {value:g} is not a finite number >= 0.")
    return value


def check_posterior(posterior: Any) -> GibbsPosterior:
    """Check that a posterior is one.

    Raises
    ------
    ValueError
        If it is something else, such as the loss alone.
    """
    if not isinstance(posterior, GibbsPosterior):
        raise ValueError(
            f"posterior: got {type(posterior).__name__}; give gibbs_dp.GibbsPosterior(loss, prior)."
        )
    return posterior


def check_loss(posterior: GibbsPosterior, data: PyTree, n: int) -> None:
    """Check on real data that the loss is a scalar per example and accepts the prior's theta.

    Raises
    ------
    ValueError
        With the offending shape.
    """
    theta = posterior.prior.initial(jax.random.key(0))
    what = "total_loss(theta, data)" if posterior.structured else "loss(theta, z)"
    wanted: tuple[int, ...] = ()
    try:
        if posterior.structured:
            value = jnp.asarray(posterior.empirical_loss(theta, data))
        elif hasattr(posterior.loss, "batch"):
            value, wanted = posterior.losses(theta, data), (n,)
        else:
            assert posterior.loss is not None
            first = jax.tree.map(lambda a: a[0], data)
            value = jnp.asarray(posterior.loss(theta, first))
    except (TypeError, ValueError, IndexError, KeyError) as error:
        shapes = jax.tree.map(jnp.shape, (theta, data))
        raise ValueError(
            f"loss: it cannot be evaluated with theta and data of shapes {shapes}, as the prior "
            f"and the population make them ({str(error).splitlines()[0]})."
        ) from error
    if value.shape != wanted:
        raise ValueError(
            f"loss: {what} must return a scalar, got shape {value.shape}; sum or average inside it."
        )
    if not bool(jnp.all(jnp.isfinite(value))):
        raise ValueError("loss: it is NaN or infinite at a draw from the prior.")
