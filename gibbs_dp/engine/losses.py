"""Losses of one dataset's draws: on training examples, ghosts, references and replaced datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from gibbs_dp._jaxlib.precision import total
from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.model.posterior import GibbsPosterior

# Training groups that the direct estimate pairs with ghosts, and at least so many for each ghost:
# with more, nearly all of its variance is the ghosts'.
MAX_GROUPS, GROUPS_PER_GHOST = 4096, 16
# Further examples whose losses are added at a time: those of all draws stay in a core's cache.
CHUNK = 4096


def swap(
    train: PyTree, ghosts: PyTree, old: Int[Array, ""], new: Int[Array, ""], size: int
) -> PyTree:
    """Replace training group ``old`` by ghost group ``new``."""
    rows = jnp.arange(size)
    return jax.tree.map(
        lambda a, b: a.at[old * size + rows].set(b[new * size + rows]), train, ghosts
    )


def over_draws(function: Any, u: Float[Array, "chains draws dim"]) -> Any:
    """Evaluate a function of one flat parameter at every draw of every chain."""
    return jax.vmap(jax.vmap(function))(u)


class Losses(NamedTuple):
    """Everything the estimators need of one dataset, per-example or structured alike.

    ``mean`` is over all training examples; ``train`` are the losses on the first of them, as many
    as the direct estimate looks at.
    """

    mean: Float[Array, "chains draws"]
    train: Float[Array, "chains draws first"]
    ghost: Float[Array, "chains draws ghosts"]
    population: Float[Array, "chains draws fresh"]
    reference: tuple[Array, Array]
    optimum: Float[Array, " fresh"]


def per_example_losses(
    posterior: GibbsPosterior, u: Array, train: PyTree, ghosts: PyTree, inputs: Inputs, plan: Plan
) -> Losses:
    """Losses of a sum loss: one column per example."""

    def losses(point: Array, data: PyTree) -> Array:
        return posterior.losses(posterior.constrain(point), data)

    def of_draws(data: PyTree) -> Float[Array, "chains draws n"]:
        return over_draws(lambda p: losses(p, data), u)

    n, most = plan.n, max(MAX_GROUPS, GROUPS_PER_GHOST * plan.num_ghosts)
    looked_at = min(n, most * plan.group_size)
    first = of_draws(jax.tree.map(lambda a: a[:looked_at], train))
    rest = jax.tree.map(lambda a: a[looked_at:], train)
    ghost = of_draws(ghosts)
    return Losses(
        mean=(total(first) + _total_in_chunks(of_draws, rest, n - looked_at)) / n,
        train=first,
        ghost=ghost,
        population=ghost,
        reference=(losses(inputs.reference, train), losses(inputs.reference, ghosts)),
        optimum=losses(inputs.optimum, ghosts),
    )


def _total_in_chunks(
    of_draws: Callable[[PyTree], Float[Array, "chains draws n"]], data: PyTree, n: int
) -> Float[Array, "chains draws"] | float:
    """Sum over examples of the losses of all draws, which are never all in memory."""
    whole, left = n - n % CHUNK, jax.tree.map(lambda a: a[n - n % CHUNK :], data)
    so_far: Any = total(of_draws(left)) if n % CHUNK else 0.0
    if not whole:
        return so_far
    chunks = jax.tree.map(lambda a: a[:whole].reshape(whole // CHUNK, CHUNK, *a.shape[1:]), data)
    return so_far + jnp.sum(jax.lax.map(lambda chunk: total(of_draws(chunk)), chunks), axis=0)


def structured_losses(
    posterior: GibbsPosterior, u: Array, train: PyTree, ghosts: PyTree, inputs: Inputs, plan: Plan
) -> Losses:
    """One 'example' is the whole dataset; ghosts are the datasets with a group replaced."""
    size = plan.group_size
    new = jnp.arange(plan.num_ghosts // size)
    old = new % (plan.n // size)  # in a circle
    variants = jax.vmap(lambda o, g: swap(train, ghosts, o, g, size))(old, new)
    fresh = jax.tree.map(lambda a: a[None, plan.num_ghosts :], ghosts)
    whole = jax.tree.map(lambda a: a[None], train)

    def losses(point: Array, datasets: PyTree) -> Array:
        theta = posterior.constrain(point)
        return jax.vmap(lambda z: posterior.empirical_loss(theta, z))(datasets)

    of_whole = over_draws(lambda p: losses(p, whole), u)
    return Losses(
        mean=of_whole[..., 0],
        train=of_whole,
        ghost=over_draws(lambda p: losses(p, variants), u),
        population=over_draws(lambda p: losses(p, fresh), u),
        reference=(losses(inputs.reference, whole), losses(inputs.reference, variants)),
        optimum=losses(inputs.optimum, fresh),
    )
