"""Everything an audit depends on, validated in one place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.populations import Population, Table
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels import Kernel

Estimator = Literal["auto", "one-sided", "two-sided"]


@dataclass(frozen=True)
class Settings:
    """A validated audit: what to sample, how much of it, and how."""

    posterior: GibbsPosterior
    population: Population
    n: int
    gammas: tuple[float, ...]
    num_datasets: int
    num_ghosts: int
    key: PRNGKeyArray
    kernel: Kernel
    num_chains: int
    num_warmup: int | None
    num_samples: int
    group_size: int
    rel_error: float | None
    max_datasets: int
    domain: Domain | None
    estimator: Estimator
    block_size: int

    def describe(self) -> dict[str, Any]:
        """Plain numbers and strings, for the saved report."""
        loss = self.posterior.loss or self.posterior.total_loss
        return {
            "loss": getattr(loss, "__name__", None) or type(loss).__name__,
            "structured": self.posterior.structured,
            "population": type(self.population).__name__,
            "n": self.n,
            "num_datasets": self.num_datasets,
            "num_ghosts": self.num_ghosts,
            "kernel": repr(self.kernel),
            "num_chains": self.num_chains,
            "num_warmup": "auto" if self.num_warmup is None else self.num_warmup,
            "num_samples": self.num_samples,
            "group_size": self.group_size,
            "rel_error": self.rel_error if self.rel_error is not None else "none",
            "estimator": self.estimator,
            "dtype": str(jnp.zeros(()).dtype),
        }


def as_key(key: int | PRNGKeyArray) -> PRNGKeyArray:
    """Turn an integer seed into a JAX key; pass keys through.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return jax.random.key(int(key))
    if isinstance(key, jax.Array):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
            return key
        return jax.random.wrap_key_data(key)
    raise ValueError(f"key: give an integer seed or a JAX key, got {type(key).__name__}.")


def check_gammas(gammas: float | Sequence[float]) -> tuple[float, ...]:
    """Sort and check a grid of inverse temperatures.

    Raises
    ------
    ValueError
        If it is empty, repeats a value, or holds one that is negative, NaN or infinite.
    """
    values = [float(g) for g in np.atleast_1d(np.asarray(gammas, dtype=float))]
    if not values:
        raise ValueError("gammas: the grid is empty; give at least one value.")
    for g in values:
        if not (math.isfinite(g) and g >= 0):
            raise ValueError(f"gammas: {g:g} is not a finite number >= 0.")
    if len(set(values)) < len(values):
        raise ValueError("gammas: a value is repeated; give each once.")
    return tuple(sorted(values))


def positive_count(name: str, value: int, least: int = 1) -> int:
    """Check an integer setting.

    Raises
    ------
    ValueError
        If it is not an integer of at least ``least``.
    """
    if isinstance(value, bool) or int(value) != value or value < least:
        raise ValueError(f"{name}: must be an integer of at least {least}, got {value}.")
    return int(value)


def check_examples(
    posterior: GibbsPosterior, population: Population, n: int, num_ghosts: int, key: PRNGKeyArray
) -> PyTree:
    """Draw one dataset and check that population, loss and prior fit together.

    Returns the drawn training examples.

    Raises
    ------
    ValueError
        If examples are not finite or misshapen, labels do not suit the loss, or the loss is not
        one finite number per example.
    """
    if isinstance(population, Table):
        population.check_size(n, num_ghosts)
        if isinstance(posterior.loss, Loss):
            posterior.loss.check_data(population.data)
    try:
        train, ghosts = population.sample(key, n, num_ghosts)
    except TypeError as error:
        raise ValueError(
            f"population: sampling failed ({error}); a callable takes (key, n) and returns "
            "examples with leading axis n."
        ) from error
    for name, examples, size in (("train", train, n), ("ghosts", ghosts, num_ghosts)):
        shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(examples)]
        if not shapes or any(not s or s[0] != size for s in shapes):
            raise ValueError(
                f"population: asked for {size} {name} examples, got arrays of shapes {shapes}; "
                "the leading axis must be the number of examples."
            )
        for leaf in jax.tree.leaves(examples):
            if not bool(jnp.all(jnp.isfinite(leaf))):
                raise ValueError("population: it produced NaN or infinite examples.")
    check_loss(posterior, train, n)
    return train


def check_loss(posterior: GibbsPosterior, data: PyTree, n: int) -> None:
    """Check on real data that the loss is a scalar per example and accepts the prior's theta.

    Raises
    ------
    ValueError
        With the offending shape.
    """
    theta = posterior.prior.initial(jax.random.key(0))
    what = "total_loss(theta, data)" if posterior.structured else "loss(theta, z)"
    try:
        if posterior.structured:
            value, wanted = jnp.asarray(posterior.empirical_loss(theta, data)), ()
        elif hasattr(posterior.loss, "batch"):
            value, wanted = posterior.losses(theta, data), (n,)
        else:
            assert posterior.loss is not None
            first = jax.tree.map(lambda a: a[0], data)
            value, wanted = jnp.asarray(posterior.loss(theta, first)), ()
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


def default_block_size(
    posterior: GibbsPosterior, n: int, num_ghosts: int, num_chains: int, num_samples: int
) -> int:
    """Datasets per block: small enough for the caches of a CPU, large enough to fill a GPU."""
    largest, numbers = (64, 2**23) if jax.default_backend() == "cpu" else (4096, 2**29)
    copies = num_ghosts if posterior.structured else 1
    per_dataset = num_chains * num_samples * copies * (n + num_ghosts + posterior.dim)
    size = 1
    while size < largest and 2 * size * per_dataset <= numbers:
        size *= 2
    return size
