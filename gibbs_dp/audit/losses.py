"""Losses of one dataset's draws: on training examples, ghosts, references and replaced datasets."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from gibbs_dp.audit.plan import Inputs, Plan
from gibbs_dp.model.posterior import GibbsPosterior


def ghosts_needed(posterior: GibbsPosterior, plan: Plan) -> int:
    """Fresh examples to draw per dataset; structured losses also need a whole fresh dataset."""
    return plan.num_ghosts + (plan.n if posterior.structured else 0)


def swap(train: PyTree, ghosts: PyTree, pair: Int[Array, ""], size: int) -> PyTree:
    """Replace a training group by ghost group ``pair``: that of the same number, in a circle."""
    n = jax.tree.leaves(train)[0].shape[0]
    rows = jnp.arange(size)
    old, new = pair % (n // size) * size + rows, pair * size + rows
    return jax.tree.map(lambda a, b: a.at[old].set(b[new]), train, ghosts)


def over_draws(function: Any, u: Float[Array, "chains draws dim"]) -> Any:
    """Evaluate a function of one flat parameter at every draw of every chain."""
    return jax.vmap(jax.vmap(function))(u)


class Losses(NamedTuple):
    """Everything the estimators need of one dataset, per-example or structured alike."""

    train: Float[Array, "chains draws n"]
    ghost: Float[Array, "chains draws ghosts"]
    population: Float[Array, "chains draws fresh"]
    reference: tuple[Array, Array]
    optimum: Float[Array, " fresh"]


def per_example_losses(
    posterior: GibbsPosterior, u: Array, train: PyTree, ghosts: PyTree, inputs: Inputs
) -> Losses:
    """Losses of a sum loss: one column per example."""

    def losses(point: Array, data: PyTree) -> Array:
        return posterior.losses(posterior.constrain(point), data)

    ghost = over_draws(lambda p: losses(p, ghosts), u)
    return Losses(
        train=over_draws(lambda p: losses(p, train), u),
        ghost=ghost,
        population=ghost,
        reference=(losses(inputs.reference, train), losses(inputs.reference, ghosts)),
        optimum=losses(inputs.optimum, ghosts),
    )


def structured_losses(
    posterior: GibbsPosterior, u: Array, train: PyTree, ghosts: PyTree, inputs: Inputs, plan: Plan
) -> Losses:
    """One 'example' is the whole dataset; ghosts are the datasets with a group replaced."""
    size = plan.group_size
    pairs = jnp.arange(plan.num_ghosts // size)
    variants = jax.vmap(lambda p: swap(train, ghosts, p, size))(pairs)
    fresh = jax.tree.map(lambda a: a[None, plan.num_ghosts :], ghosts)
    whole = jax.tree.map(lambda a: a[None], train)

    def losses(point: Array, datasets: PyTree) -> Array:
        theta = posterior.constrain(point)
        return jax.vmap(lambda z: posterior.empirical_loss(theta, z))(datasets)

    return Losses(
        train=over_draws(lambda p: losses(p, whole), u),
        ghost=over_draws(lambda p: losses(p, variants), u),
        population=over_draws(lambda p: losses(p, fresh), u),
        reference=(losses(inputs.reference, whole), losses(inputs.reference, variants)),
        optimum=losses(inputs.optimum, fresh),
    )
