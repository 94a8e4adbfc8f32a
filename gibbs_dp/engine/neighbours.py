"""A dataset's posterior, and those of the dataset with examples replaced, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from gibbs_dp.engine.losses import swap
from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.engine.quantity import Quantity
from gibbs_dp.engine.sizes import MOST_PAIRS
from gibbs_dp.engine.view import PairView
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.sampler import ChainDraws


class Pairs(NamedTuple):
    """What a dataset and its replaced versions add up to, at one gamma or (leading axis) several.

    Attributes
    ----------
    found
        By quantity: what it found of every pair, zeros beyond those that were sampled.
    is_stuck
        Any chain of any of them.
    is_improper
        Any of them.
    """

    found: dict[str, Any]
    is_stuck: Bool[Array, "*gammas"]
    is_improper: Bool[Array, "*gammas"]


def sample_with_pairs(
    key: PRNGKeyArray,
    sample: Callable[[PyTree], ChainDraws],
    posterior: GibbsPosterior,
    train: PyTree,
    ghosts: PyTree,
    inputs: Inputs,
    plan: Plan,
    quantities: tuple[Quantity, ...],
) -> tuple[ChainDraws, Pairs]:
    """Draws of the dataset itself, and what quantities make of ``inputs.num_pairs`` pairs.

    Of a sampler that draws at all gammas at once, draws and inputs have a leading axis of gammas.

    The sampler is in the program once, in a loop whose first round is the dataset itself: how
    many pairs there are, or none, may be traced. Without pairs, statically, there is no loop.
    """
    sample = jax.jit(sample)  # traced once, for its shapes and for the loop
    lead = jnp.shape(inputs.gamma)

    def look(pair: Array, base: ChainDraws, replaced: ChainDraws) -> dict[str, Any]:
        if not lead:
            return look_at(inputs, pair, base, replaced)
        return jax.vmap(lambda i, b, r: look_at(i, pair, b, r))(inputs, base, replaced)

    def look_at(
        inputs: Inputs, pair: Array, base: ChainDraws, replaced: ChainDraws
    ) -> dict[str, Any]:
        own = jax.random.fold_in(key, pair)
        view = PairView(posterior, plan, inputs, train, ghosts, own, pair, base, replaced)
        found = {q.name: q.of_pair(view) for q in quantities}
        return {name: value for name, value in found.items() if value is not None}

    def one(index: Array, carry: tuple[ChainDraws, Pairs]) -> tuple[ChainDraws, Pairs]:
        base, so_far = carry
        is_first, pair = index == 0, jnp.maximum(index - 1, 0)
        replaced = swap(train, ghosts, pair, plan.group_size)
        data = jax.tree.map(lambda a, b: jnp.where(is_first, a, b), train, replaced)
        draws = sample(data)
        base = jax.tree.map(lambda a, b: jnp.where(is_first, a, b), draws, base)
        # No pair yet in the first round, whose place the first pair takes.
        if is_fixed:  # a branch would be decided by the host
            seen = look(pair, base, draws)
        else:
            seen = jax.lax.cond(
                is_first, lambda: blank(shapes_found), lambda: look(pair, base, draws)
            )
        new = jax.tree.map(lambda all_, x: all_.at[pair].set(x), so_far.found, seen)
        is_stuck = jnp.any(draws.is_stuck, axis=-1)
        return base, Pairs(new, so_far.is_stuck | is_stuck, so_far.is_improper | draws.is_improper)

    def blank(shapes: Any, *lead: int) -> Any:
        return jax.tree.map(lambda s: jnp.zeros((*lead, *s.shape), s.dtype), shapes)

    is_fixed = isinstance(inputs.num_pairs, int)
    num_pairs = jnp.max(jnp.asarray(inputs.num_pairs)) if lead else inputs.num_pairs
    shapes = jax.eval_shape(sample, train)
    pair = jax.ShapeDtypeStruct((), jnp.int32)
    shapes_found = jax.eval_shape(look, pair, shapes, shapes)
    false = jnp.zeros(lead, bool)
    nothing = Pairs(blank(shapes_found, MOST_PAIRS), false, false)
    if is_fixed and inputs.num_pairs == 0:
        draws = sample(train)
        return draws, Pairs(nothing.found, jnp.any(draws.is_stuck), draws.is_improper)
    draws, pairs = jax.lax.fori_loop(0, 1 + num_pairs, one, (blank(shapes), nothing))
    if lead:
        pairs = pairs._replace(found=jax.tree.map(lambda a: jnp.moveaxis(a, 0, 1), pairs.found))
    return draws, pairs
