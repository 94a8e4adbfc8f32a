"""What a sweep compiles: datasets, sampled and reduced to summaries.

A CPU's program takes a block of datasets at one gamma, and most that may change is traced. An
accelerator's takes a sheet, datasets x gammas, with static counts: each dataset is drawn once for
all gammas, and no loop asks the host whether to go on. So does any device's of a sampler that goes
along a path of all gammas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import is_accelerator, target_platform
from gibbs_dp._jaxlib.precision import total
from gibbs_dp.engine.datasets import draw_dataset, keys_of
from gibbs_dp.engine.losses import per_example_losses, structured_losses
from gibbs_dp.engine.neighbours import Pairs, no_choice, sample_with_pairs
from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.engine.quantity import Quantity, kept_kind, values_kind
from gibbs_dp.engine.summary import Block, Health
from gibbs_dp.engine.view import View
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.diagnostics import spread
from gibbs_dp.sampling.modes import FARTHEST, NEAREST
from gibbs_dp.sampling.sampler import ChainDraws, GammaSampler, PathSampler, Sampler
from gibbs_dp.sampling.target import Target

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
    losses_of = structured_losses if posterior.structured else per_example_losses
    losses = losses_of(posterior, draws.u, train, ghosts, inputs, plan)
    views = {
        q.name: View(
            posterior,
            plan,
            inputs,
            chain_key,
            train,
            draws,
            losses,
            pairs.chosen,
            pairs.found.get(q.name),
        )
        for q in quantities
    }
    values, kept = values_kind(quantities), kept_kind(quantities)
    named = {q.name: q for q in quantities}
    return Block(
        _health(draws, pairs, log_mass(draws, Target(posterior, train, inputs.gamma), inputs)),
        values(*(named[name].per_dataset(views[name]) for name in values._fields)),
        kept(*(named[name].keep(views[name]) for name in kept._fields)) if kept._fields else None,
    )


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
    def one(keys: tuple[PRNGKeyArray, PRNGKeyArray]) -> Block:
        data = draw_dataset(posterior, population, keys[0], plan.n, plan.num_ghosts)
        return summarize_dataset(*data, keys[1], posterior, sampler, plan, quantities, inputs)

    return _over_datasets(one, keys_of(roots, numbers), num_at_once)


def _sheet(
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
    """Like ``_block``, with ``inputs`` of several gammas stacked: ``[block, gammas]``."""

    def one(keys: tuple[PRNGKeyArray, PRNGKeyArray]) -> Block:
        data = draw_dataset(posterior, population, keys[0], plan.n, plan.num_ghosts)
        if sampler.traits.is_path:
            return summarize_path(*data, keys[1], posterior, sampler, plan, quantities, inputs)

        def at(inputs: Inputs) -> Block:
            return summarize_dataset(*data, keys[1], posterior, sampler, plan, quantities, inputs)

        return jax.vmap(at)(inputs)

    return _over_datasets(one, keys_of(roots, numbers), num_at_once)


def _over_datasets(one: Callable[[Any], Any], keys: Any, num_at_once: int) -> Any:
    if num_at_once >= keys[0].shape[0]:
        return jax.vmap(one)(keys)
    return jax.lax.map(one, keys, batch_size=num_at_once)


STATIC = ("posterior", "sampler", "plan", "quantities", "num_at_once")


def block_program(backend: str, is_quick: bool = False) -> Any:
    """Return the jitted block program of a backend; its arguments are those of ``_block``."""
    return program(_block, STATIC, backend, is_quick)


def sheet_program(backend: str) -> Any:
    """Return the jitted sheet program of a backend; its arguments are those of ``_sheet``."""
    return program(_sheet, STATIC, backend)
