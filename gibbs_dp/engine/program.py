"""What a sweep compiles: datasets and replaced ones, sampled and reduced to summaries.

A program takes a block of datasets at one gamma, or at all gammas of a path where a sampler goes
along one, and most that may change is traced: pilots and main runs at all gammas are one program.
On a GPU a loop then asks the host whether to go on, which takes 12 microseconds a round of a whole
block (H200), where another program would take some 15 seconds to compile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import is_accelerator, target_platform
from gibbs_dp._jaxlib.precision import total
from gibbs_dp.engine.datasets import draw_dataset, keys_of
from gibbs_dp.engine.plan import MOST_PAIRS, Inputs, Plan
from gibbs_dp.engine.quantity import Quantity, kept_kind, values_kind
from gibbs_dp.engine.view import (
    Block,
    Chosen,
    Draws,
    Health,
    PairView,
    View,
    per_example_losses,
    structured_losses,
    swap,
)
from gibbs_dp.estimators import group_variances, variance_of_pairs
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.diagnostics import spread
from gibbs_dp.sampling.modes import FARTHEST, NEAREST
from gibbs_dp.sampling.sampler import ChainDraws, GammaSampler, PathSampler, Sampler
from gibbs_dp.sampling.target import Target

# A dataset's posterior, and those of the dataset with examples replaced, one after another.

# Folded into the chains' key for quantities' own random numbers: samplers split theirs, and JAX's
# split(key)[i] is fold_in(key, i).
OWN_NUMBERS = 0x6F776E73


def no_choice() -> Chosen:
    """Return the first training group with the first ghosts: nothing is known of the pairs."""
    nought = jnp.zeros((MOST_PAIRS,), jnp.int32)
    return Chosen(nought, nought, jnp.ones((MOST_PAIRS,)))


def choose_pairs(
    key: PRNGKeyArray,
    spread: tuple[Float[Array, " groups"] | None, Float[Array, " others"]],
    num_groups: int,
    num_pairs: Int[Array, ""] | int,
) -> Chosen:
    """Choose pairs at random: the first by chance alone, the others where the KL may be large.

    What few pairs carry (one example in ten thousand that weighs as much as all others together)
    is met with certainty where it is in the dataset, and counts for as little as it should: each
    pair by the inverse of its chance under all ``num_pairs`` rules together (the balance heuristic
    of Veach & Guibas 1995, section 3), so that no weight exceeds ``num_pairs``.
    """
    of_old, of_new = spread
    side_key, old_key, new_key, any_key = jax.random.split(key, 4)

    def drawn(key: PRNGKeyArray, chances: Float[Array, " groups"]) -> Int[Array, " pairs"]:
        ends = jnp.cumsum(chances)
        place = jnp.searchsorted(ends, ends[-1] * jax.random.uniform(key, (MOST_PAIRS,)))
        return jnp.minimum(place, chances.size - 1).astype(jnp.int32)

    new = drawn(new_key, of_new)
    if of_old is None:
        total = jnp.mean(of_new)
        new = new.at[0].set(0)
        old, score = new % num_groups, of_new[new]
    else:
        total = jnp.mean(of_old) + jnp.mean(of_new)
        is_old = jax.random.uniform(side_key, (MOST_PAIRS,)) * total < jnp.mean(of_old)
        any_old, any_new = (
            jax.random.randint(k, (MOST_PAIRS,), 0, count, jnp.int32)
            for k, count in zip(jax.random.split(any_key), (of_old.size, of_new.size), strict=True)
        )
        old = jnp.where(is_old, drawn(old_key, of_old), any_old).at[0].set(0)
        new = jnp.where(is_old, any_new, new).at[0].set(0)
        score = of_old[old] + of_new[new]
    is_known = (total > 0) & jnp.isfinite(total)
    more = jnp.where(is_known, score / jnp.where(is_known, total, 1.0), 1.0)
    chance = 1.0 / jnp.maximum(num_pairs, 1)
    weight = 1.0 / (chance + (1.0 - chance) * more)
    return Chosen(old, new, weight.astype(jnp.result_type(float)))


def _spread(
    posterior: GibbsPosterior,
    draws: ChainDraws,
    train: PyTree,
    ghosts: PyTree,
    inputs: Inputs,
    plan: Plan,
) -> tuple[Float[Array, " groups"] | None, Float[Array, " others"]]:
    """How much the groups of one dataset move log ratios at one gamma; see :func:`choose_pairs`."""
    if posterior.structured:
        losses = structured_losses(posterior, draws.u, train, ghosts, inputs, plan)
        delta = inputs.gamma * (losses.ghost - losses.train)
        return None, variance_of_pairs(delta, draws.weight)
    losses = per_example_losses(posterior, draws.u, train, ghosts, inputs, plan)
    return group_variances(losses.train, losses.ghost, draws.weight, inputs.gamma, plan.group_size)


class Pairs(NamedTuple):
    """Sums over a dataset and its replaced versions, at one gamma or (leading axis) several."""

    # By quantity: what it found of every pair, zeros beyond those that were sampled.
    found: dict[str, Any]
    chosen: Chosen  # which pairs these are
    is_stuck: Bool[Array, "*gammas"]  # any chain of any of them
    is_improper: Bool[Array, "*gammas"]  # any of them


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

    def choice(base: ChainDraws) -> Chosen:
        def spread(at: tuple[Inputs, ChainDraws]) -> Any:
            return _spread(posterior, at[1], train, ghosts, at[0], plan)

        if lead:  # one replaced dataset for all gammas, each of which has a say
            each = jax.lax.map(spread, (inputs, base))
            whole = sum(jnp.mean(a, axis=1) for a in each if a is not None)
            scale = jnp.where(whole > 0, 1.0 / jnp.where(whole > 0, whole, 1.0), 0.0)
            found = jax.tree.map(lambda a: jnp.mean(scale[:, None] * a, axis=0), each)
        else:
            found = spread((inputs, base))
        own = jax.random.fold_in(key, MOST_PAIRS)
        return choose_pairs(own, found, plan.n // plan.group_size, num_pairs)

    def look(pair: Array, chosen: Chosen, base: ChainDraws, replaced: ChainDraws) -> dict[str, Any]:
        if not lead:
            return look_at(inputs, pair, chosen, base, replaced)
        return jax.vmap(lambda i, b, r: look_at(i, pair, chosen, b, r))(inputs, base, replaced)

    def look_at(
        inputs: Inputs, pair: Array, chosen: Chosen, base: ChainDraws, replaced: ChainDraws
    ) -> dict[str, Any]:
        own = jax.random.fold_in(jax.random.fold_in(key, OWN_NUMBERS), pair)
        old, new = chosen.old[pair], chosen.new[pair]
        view = PairView(posterior, plan, inputs, train, ghosts, own, old, new, base, replaced)
        found = {q.name: q.of_pair(view) for q in quantities}
        return {name: value for name, value in found.items() if value is not None}

    def one(index: Array, carry: tuple[ChainDraws, Pairs]) -> tuple[ChainDraws, Pairs]:
        base, so_far = carry
        is_first, pair = index == 0, jnp.maximum(index - 1, 0)
        old, new = so_far.chosen.old[pair], so_far.chosen.new[pair]
        replaced = swap(train, ghosts, old, new, plan.group_size)
        data = jax.tree.map(lambda a, b: jnp.where(is_first, a, b), train, replaced)
        draws = sample(data)
        base = jax.tree.map(lambda a, b: jnp.where(is_first, a, b), draws, base)
        # No pair yet in the first round, which chooses them, and whose place the first pair takes.
        is_choice = is_first & (num_pairs > 1)
        chosen = jax.lax.cond(is_choice, lambda: choice(base), lambda: so_far.chosen)
        seen = jax.lax.cond(
            is_first, lambda: blank(shapes_found), lambda: look(pair, chosen, base, draws)
        )
        found = jax.tree.map(lambda all_, x: all_.at[pair].set(x), so_far.found, seen)
        return base, Pairs(
            found,
            chosen,
            so_far.is_stuck | jnp.any(draws.is_stuck, axis=-1),
            so_far.is_improper | draws.is_improper,
        )

    def blank(shapes: Any, *lead: int) -> Any:
        return jax.tree.map(lambda s: jnp.zeros((*lead, *s.shape), s.dtype), shapes)

    num_pairs = jnp.max(jnp.asarray(inputs.num_pairs)) if lead else inputs.num_pairs
    shapes = jax.eval_shape(sample, train)
    pair = jax.ShapeDtypeStruct((), jnp.int32)
    shapes_found = jax.eval_shape(look, pair, no_choice(), shapes, shapes)
    false = jnp.zeros(lead, bool)
    nothing = Pairs(blank(shapes_found, MOST_PAIRS), no_choice(), false, false)
    if plan.num_pairs == 0:
        draws = sample(train)
        return draws, nothing._replace(
            is_stuck=jnp.any(draws.is_stuck), is_improper=draws.is_improper
        )
    draws, pairs = jax.lax.fori_loop(0, 1 + num_pairs, one, (blank(shapes), nothing))
    if lead:
        every = jax.tree.map(lambda a: jnp.stack([a] * lead[0]), pairs.chosen)
        found = jax.tree.map(lambda a: jnp.moveaxis(a, 0, 1), pairs.found)
        pairs = pairs._replace(found=found, chosen=every)
    return draws, pairs


# Searches that begin far away, and how much mass the mode has where they end; traced.


def far_away(key: PRNGKeyArray, spread: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Draw what is added to a start: a Gaussian 4 to 64 times as wide as ``spread``.

    How many times is drawn too, its logarithm uniform: one program searches at all scales.
    """
    scale_key, noise_key = jax.random.split(jax.random.fold_in(key, 1))
    low, high = math.log(NEAREST), math.log(FARTHEST)
    factor = jnp.exp(jax.random.uniform(scale_key, (), spread.dtype, low, high))
    return spread * factor * jax.random.normal(noise_key, spread.shape, spread.dtype)


def log_mass(draws: ChainDraws, target: Target, inputs: Inputs) -> Float[Array, ""]:
    """Log of the integral of ``exp(-U)`` over the mode that was sampled, nats.

    Minus the mean energy plus the entropy of a Gaussian with the draws' variances in whitened
    coordinates: for Gaussians exact in the mean, its error that of a mean of ``dim / 2`` nats.
    """
    here, there = draws.reference, target.terms(inputs.reference)
    shift = target.gamma * total(here.losses - there.losses) - (here.log_prior - there.log_prior)
    if draws.log_normalizer is not None:
        return draws.log_normalizer - shift
    energy = jnp.mean(jnp.sum(draws.potential * draws.weight, axis=1))
    variance = jnp.var(draws.v, axis=(0, 1))
    tiny = jnp.finfo(variance.dtype).tiny
    spread = 0.5 * jnp.sum(jnp.log(variance + tiny))
    if draws.whitening is not None:
        spread += draws.whitening.log_volume
    return spread + 0.5 * variance.shape[0] * (1.0 + math.log(2.0 * math.pi)) - energy - shift


def summarize_dataset(
    train: PyTree,
    ghosts: PyTree,
    chain_key: PRNGKeyArray,
    posterior: GibbsPosterior,
    sampler: Sampler,
    plan: Plan,
    quantities: tuple[Quantity, ...],
    inputs: Inputs,
) -> Block:
    """Sample one dataset's posterior, and reduce the draws."""
    assert isinstance(sampler, GammaSampler)
    inputs = inputs.fixed(plan)
    chain_key, start_key = jax.random.split(chain_key)
    start = jnp.where(inputs.is_dispersed, posterior.initial(start_key), inputs.start)
    start = start + far_away(start_key, inputs.spread)

    # One draw a chain is too few for the jackknife to allow for chains that share noise.
    is_joint = plan.num_samples > 1 and not any(q.needs_independent_chains for q in quantities)

    def sample(data: PyTree) -> ChainDraws:
        # The same key for a dataset and its replaced versions couples their chains.
        return sampler.draw(
            chain_key,
            Target(posterior, data, inputs.gamma),
            start[None],
            inputs.schedule,
            plan.num_chains,
            plan.num_samples,
            inputs.scale,
            is_joint=is_joint,
        )

    if sampler.traits.is_exact:
        draws = sample(train)
        pairs = Pairs({}, no_choice(), jnp.any(draws.is_stuck), draws.is_improper)
    else:
        draws, pairs = sample_with_pairs(
            chain_key, sample, posterior, train, ghosts, inputs, plan, quantities
        )
    return _reduced(draws, pairs, train, ghosts, chain_key, posterior, plan, quantities, inputs)


def summarize_path(
    train: PyTree,
    ghosts: PyTree,
    chain_key: PRNGKeyArray,
    posterior: GibbsPosterior,
    sampler: Sampler,
    plan: Plan,
    quantities: tuple[Quantity, ...],
    inputs: Inputs,
) -> Block:
    """Sample one dataset's posteriors at all gammas in one go; ``[gammas]``, like ``inputs``."""
    assert isinstance(sampler, PathSampler)
    assert inputs.segment is not None
    path, segment = sampler, inputs.segment

    def sample(data: PyTree) -> ChainDraws:
        return path.draw_path(chain_key, posterior, data, segment)

    draws, pairs = sample_with_pairs(
        chain_key, sample, posterior, train, ghosts, inputs, plan, quantities
    )

    def one(at_gamma: tuple[ChainDraws, Pairs, Inputs]) -> Block:
        d, p, i = at_gamma
        return _reduced(d, p, train, ghosts, chain_key, posterior, plan, quantities, i)

    # On CPUs one gamma after another: caches hold the losses of all particles at one.
    at_once = segment.num_steps.shape[0] if is_accelerator(target_platform()) else None
    return jax.lax.map(one, (draws, pairs, inputs), batch_size=at_once)


def _reduced(
    draws: ChainDraws,
    pairs: Pairs,
    train: PyTree,
    ghosts: PyTree,
    chain_key: PRNGKeyArray,
    posterior: GibbsPosterior,
    plan: Plan,
    quantities: tuple[Quantity, ...],
    inputs: Inputs,
) -> Block:
    """Let quantities reduce the draws of one dataset at one gamma."""
    values, kept = values_kind(quantities), kept_kind(quantities)
    left = Draws(draws, pairs.chosen, pairs.found)
    views = _views(values, posterior, plan, quantities, inputs, chain_key, train, ghosts, left)
    wanted = {k: v for k, v in pairs.found.items() if k in kept._fields}
    return Block(
        _health(draws, pairs, log_mass(draws, Target(posterior, train, inputs.gamma), inputs)),
        values(*(q.per_dataset(view) for q, view in views)),
        left._replace(pairs=wanted) if kept._fields else None,
    )


def _views(
    kind: Any,
    posterior: GibbsPosterior,
    plan: Plan,
    quantities: tuple[Quantity, ...],
    inputs: Inputs,
    key: PRNGKeyArray,
    train: PyTree,
    ghosts: PyTree,
    left: Draws,
) -> list[tuple[Quantity, View]]:
    """Quantities that are fields of a named tuple, in its order, and what they see."""
    losses_of = structured_losses if posterior.structured else per_example_losses
    losses = losses_of(posterior, left.draws.u, train, ghosts, inputs, plan)
    view = View(posterior, plan, inputs, key, train, ghosts, left.draws, losses, left.chosen)
    named = {q.name: q for q in quantities}
    return [(named[name], view.with_pairs(left.pairs.get(name))) for name in kind._fields]


def _health(draws: ChainDraws, pairs: Pairs, mass: Float[Array, ""]) -> Health:
    weight = draws.weight
    mean_u = jnp.mean(jnp.sum(draws.u * weight[..., None], axis=1), axis=0)
    return Health(
        accept_prob=jnp.mean(draws.accept_prob),
        worst_ess=draws.worst_ess,
        mean_u=mean_u,
        var_u=jnp.mean(jnp.sum((draws.u - mean_u) ** 2 * weight[..., None], axis=1), axis=0),
        square_v=jnp.mean(jnp.sum(draws.v**2 * weight[..., None], axis=1), axis=0),
        log_mass=mass,
        spread=spread(draws),
        is_curved=draws.is_curved,
        is_improper=pairs.is_improper,
        is_stuck=pairs.is_stuck,
        is_finite=jnp.all(jnp.isfinite(draws.u)),
    )


def _block(
    posterior: GibbsPosterior,
    sampler: Sampler,
    plan: Plan,
    quantities: tuple[Quantity, ...],
    num_at_once: int,
    population: Any,
    roots: Key[Array, 2],
    numbers: Int[Array, "2 block"],
    inputs: Inputs,
) -> Block:
    """Summarize a block of datasets; along a path: ``[block, gammas]``, like ``inputs``.

    Those after the first number below zero are not wanted.
    """

    def one(keys: tuple[PRNGKeyArray, PRNGKeyArray]) -> Block:
        data = draw_dataset(posterior, population, keys[0], plan.n, plan.num_ghosts)

        shared = *data, keys[1], posterior, sampler, plan, quantities
        summarize = summarize_path if sampler.traits.is_path else summarize_dataset
        return summarize(*shared, inputs)

    return _over_datasets(one, numbers, num_at_once, keys_of(roots, numbers))


def _over_datasets(
    one: Callable[[Any], Any], numbers: Int[Array, "2 block"], num_at_once: int, given: PyTree
) -> PyTree:
    """Map a function of one dataset over those of a block whose numbers are not below zero."""
    size = numbers.shape[1]
    if num_at_once >= size:
        return jax.vmap(one)(given)
    num_sheets = (jnp.sum(numbers[1] >= 0) + num_at_once - 1) // num_at_once

    @jax.jit  # traced once, for its shapes and for the loop
    def sheet(first: Array) -> PyTree:
        part = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, num_at_once), given)
        if num_at_once > 1:
            return jax.vmap(one)(part)
        alone = one(jax.tree.map(lambda a: a[0], part))  # whose conditions stay conditions
        return jax.tree.map(lambda a: a[None], alone)

    def put(i: Array, found: PyTree) -> PyTree:
        first = i * num_at_once
        into = partial(jax.lax.dynamic_update_slice_in_dim, start_index=first, axis=0)
        return jax.tree.map(into, found, sheet(first))

    shapes = jax.eval_shape(sheet, num_sheets)
    blank = jax.tree.map(lambda s: jnp.zeros((size, *s.shape[1:]), s.dtype), shapes)
    # A plain 0 would be of another type than what shapes were traced with.
    return jax.lax.fori_loop(jnp.zeros_like(num_sheets), num_sheets, put, blank)


STATIC = ("posterior", "sampler", "plan", "quantities", "num_at_once")


# What only the first datasets keep is made of the draws that a block left, in a program of
# its own: pilots and later datasets do not pay for it.

# Datasets that an accelerator takes together: most audits keep something of 64. Products of 4,096
# at once took its compiler 12 s more, which runs each in many ways to choose one (H200).
MOST_KEPT = 256


def _keep(
    posterior: GibbsPosterior,
    sampler: Sampler,
    plan: Plan,
    quantities: tuple[Quantity, ...],
    num_at_once: int,
    population: Any,
    roots: Key[Array, 2],
    numbers: Int[Array, "2 block"],
    inputs: Inputs,
    left: Draws,
    wanted: Bool[Array, "block kept"],
) -> Any:
    """Let quantities reduce the draws again, those that want it; along a path at all gammas."""
    kind, is_path = kept_kind(quantities), sampler.traits.is_path

    def one(given: tuple[tuple[PRNGKeyArray, PRNGKeyArray], Draws, Array]) -> Any:
        (data_key, chain_key), left, wanted = given
        train, ghosts = draw_dataset(posterior, population, data_key, plan.n, plan.num_ghosts)
        key = chain_key if is_path else jax.random.split(chain_key)[0]  # as the draws were made

        def at(given: tuple[Inputs, Draws]) -> Any:
            inputs, left = given[0].fixed(plan), given[1]
            views = _views(kind, posterior, plan, quantities, inputs, key, train, ghosts, left)
            pairs = zip(wanted, views, strict=True)
            return kind(*(_kept_if(is_so, *quantity) for is_so, quantity in pairs))

        if not is_path:
            return at((inputs, left))
        at_once = inputs.gamma.shape[0] if is_accelerator(target_platform()) else None
        return jax.lax.map(at, (inputs, left), batch_size=at_once)

    keys = keys_of(roots, numbers)
    # No chain takes steps here that several would share: on CPUs one dataset after another, whose
    # pairs of draws lie in the cache; on others as many as keep one busy.
    together = min(num_at_once, MOST_KEPT) if is_accelerator(target_platform()) else 1
    return _over_datasets(one, numbers, together, (keys, left, wanted))


def _kept_if(is_so: Bool[Array, ""], quantity: Quantity, view: View) -> Any:
    """Return what a quantity keeps of a dataset; zeros, in no time, where that is not wanted."""
    made = jax.jit(lambda: quantity.keep(view))  # traced once, for its shapes and for its place
    shapes = jax.eval_shape(made)
    return jax.lax.cond(
        is_so, made, lambda: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    )


def keep_program(backend: str, is_quick: bool = False) -> Any:
    """Return the jitted program of what is kept; its arguments are those of ``_keep``."""
    return program(_keep, STATIC, backend, is_quick)


def block_program(backend: str, is_quick: bool = False) -> Any:
    """Return the jitted program of blocks; its arguments are those of ``_block``."""
    return program(_block, STATIC, backend, is_quick)
