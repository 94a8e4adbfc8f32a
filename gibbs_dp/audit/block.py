"""The one compiled program of a sweep: a block of datasets, sampled and reduced to summaries."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp import estimators
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.chains import ChainDraws, run_chains
from gibbs_dp.sampling.diagnostics import Spread, spread
from gibbs_dp.sampling.evolve import Schedule
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.kernels import Kernel


class Plan(NamedTuple):
    """Static shape of a block program: what a new compilation depends on.

    Attributes
    ----------
    n
        Examples per dataset.
    num_ghosts
        Fresh examples per dataset.
    group_size
        Examples replaced at once.
    num_pairs
        Replaced posteriors sampled per dataset for the two-sided estimator; 0: none.
    num_chains, num_samples
        Chains per dataset, draws kept per chain.
    """

    n: int
    num_ghosts: int
    group_size: int
    num_pairs: int
    num_chains: int
    num_samples: int


class Inputs(NamedTuple):
    """Traced inputs of a block program: changing them compiles nothing.

    Attributes
    ----------
    gamma
        Inverse temperature.
    schedule
        Burn-in, adaptation and kernel tuning.
    start
        Where mode searches begin, in flat coordinates.
    is_dispersed
        Begin them at overdispersed random points instead.
    reference
        The control variate's parameter, free of every dataset it is used on.
    optimum
        The best parameter for the population (NaN: unknown).
    """

    gamma: Float[Array, ""]
    schedule: Schedule
    start: Float[Array, " dim"]
    is_dispersed: Bool[Array, ""]
    reference: Float[Array, " dim"]
    optimum: Float[Array, " dim"]


class Summary(NamedTuple):
    """What leaves the device for each dataset (leading axis: datasets)."""

    generalization_ghost: Float[Array, "*b"]
    generalization: Float[Array, "*b"]  # with the control variate
    empirical_risk: Float[Array, "*b"]
    population_risk: Float[Array, "*b"]
    excess_risk: Float[Array, "*b"]
    kl_direct: Float[Array, "*b"]
    kl_plug_in: Float[Array, "*b"]
    kl_two_sided: Float[Array, "*b"]
    accept_prob: Float[Array, "*b"]
    mean_u: Float[Array, "*b dim"]
    var_u: Float[Array, "*b dim"]
    effective_points: Float[Array, "*b"]  # of a chain, or of a grid: one over the sum of squares
    edge_weight: Float[Array, "*b"]  # of the rim of a lattice
    spread: Spread
    is_curved: Bool[Array, "*b"]
    is_improper: Bool[Array, "*b"]
    is_stuck: Bool[Array, "*b"]
    is_finite: Bool[Array, "*b"]


def ghosts_needed(posterior: GibbsPosterior, plan: Plan) -> int:
    """Fresh examples to draw per dataset; structured losses also need a whole fresh dataset."""
    return plan.num_ghosts + (plan.n if posterior.structured else 0)


def _swap(train: PyTree, ghosts: PyTree, pair: Int[Array, ""], size: int) -> PyTree:
    """Replace training group ``pair`` by ghost group ``pair``."""
    rows = pair * size + jnp.arange(size)
    return jax.tree.map(lambda a, b: a.at[rows].set(b[rows]), train, ghosts)


def _over_draws(function: Any, u: Float[Array, "chains draws dim"]) -> Any:
    return jax.vmap(jax.vmap(function))(u)


class _Losses(NamedTuple):
    """Everything the estimators need of one dataset, per-example or structured alike."""

    train: Float[Array, "chains draws n"]
    ghost: Float[Array, "chains draws ghosts"]
    population: Float[Array, "chains draws fresh"]
    reference: tuple[Array, Array]
    optimum: Float[Array, " fresh"]


def _per_example(
    posterior: GibbsPosterior, u: Array, train: PyTree, ghosts: PyTree, inputs: Inputs
) -> _Losses:
    def losses(point: Array, data: PyTree) -> Array:
        return posterior.losses(posterior.constrain(point), data)

    ghost = _over_draws(lambda p: losses(p, ghosts), u)
    return _Losses(
        train=_over_draws(lambda p: losses(p, train), u),
        ghost=ghost,
        population=ghost,
        reference=(losses(inputs.reference, train), losses(inputs.reference, ghosts)),
        optimum=losses(inputs.optimum, ghosts),
    )


def _structured(
    posterior: GibbsPosterior, u: Array, train: PyTree, ghosts: PyTree, inputs: Inputs, plan: Plan
) -> _Losses:
    """One 'example' is the whole dataset; ghosts are the datasets with a group replaced."""
    size = plan.group_size
    num_swaps = min(plan.n, plan.num_ghosts) // size
    variants = jax.vmap(lambda p: _swap(train, ghosts, p, size))(jnp.arange(num_swaps))
    fresh = jax.tree.map(lambda a: a[None, plan.num_ghosts :], ghosts)
    whole = jax.tree.map(lambda a: a[None], train)

    def losses(point: Array, datasets: PyTree) -> Array:
        theta = posterior.constrain(point)
        return jax.vmap(lambda z: posterior.empirical_loss(theta, z))(datasets)

    return _Losses(
        train=_over_draws(lambda p: losses(p, whole), u),
        ghost=_over_draws(lambda p: losses(p, variants), u),
        population=_over_draws(lambda p: losses(p, fresh), u),
        reference=(losses(inputs.reference, whole), losses(inputs.reference, variants)),
        optimum=losses(inputs.optimum, fresh),
    )


def _pair_deltas(
    posterior: GibbsPosterior,
    draws: ChainDraws,
    replaced: ChainDraws,
    train: PyTree,
    ghosts: PyTree,
    gamma: Float[Array, ""],
    plan: Plan,
) -> tuple[Float[Array, "chains draws pairs"], Float[Array, "chains draws pairs"]]:
    """Log ratios of each pair at draws of the posterior and of its replaced posterior."""
    size = plan.group_size

    def delta(point: Array, pair: Array) -> Array:
        theta = posterior.constrain(point)
        if posterior.structured:
            new = posterior.empirical_loss(theta, _swap(train, ghosts, pair, size))
            return gamma * (new - posterior.empirical_loss(theta, train))
        rows = pair * size + jnp.arange(size)
        old = posterior.losses(theta, jax.tree.map(lambda a: a[rows], train))
        return gamma * jnp.sum(
            posterior.losses(theta, jax.tree.map(lambda a: a[rows], ghosts)) - old
        )

    pairs = jnp.arange(plan.num_pairs)
    at_p = _over_draws(lambda p: jax.vmap(lambda i: delta(p, i))(pairs), draws.u)
    at_q = jax.vmap(lambda u, i: _over_draws(lambda p: delta(p, i), u), out_axes=-1)(
        replaced.u, pairs
    )
    return at_p, at_q


def _edge_weight(
    kernel: Kernel | Grid, posterior: GibbsPosterior, weight: Float[Array, "chains draws"]
) -> Float[Array, ""]:
    if not isinstance(kernel, Grid):
        return jnp.zeros((), weight.dtype)
    return jnp.sum(jnp.where(kernel.edge(posterior), weight[0], 0.0))


def summarize_dataset(
    data_key: PRNGKeyArray,
    chain_key: PRNGKeyArray,
    posterior: GibbsPosterior,
    population: Any,
    kernel: Kernel | Grid,
    plan: Plan,
    inputs: Inputs,
) -> Summary:
    """Draw one dataset and its ghosts, sample its posterior, and reduce the draws."""
    train, ghosts = population.sample(data_key, plan.n, ghosts_needed(posterior, plan))
    chain_key, start_key = jax.random.split(chain_key)
    start = jnp.where(inputs.is_dispersed, posterior.initial(start_key), inputs.start)

    def sample(data: PyTree) -> ChainDraws:
        if isinstance(kernel, Grid):
            return kernel.draws(posterior, data, inputs.gamma)
        # The same key for a dataset and its replaced versions couples their chains.
        return run_chains(
            chain_key,
            posterior,
            data,
            inputs.gamma,
            start[None],
            kernel,
            inputs.schedule,
            plan.num_chains,
            plan.num_samples,
        )

    two_sided = jnp.asarray(jnp.nan, start.dtype)
    if plan.num_pairs:
        pairs = jnp.arange(plan.num_pairs)
        variants = jax.vmap(lambda p: _swap(train, ghosts, p, plan.group_size))(pairs)
        both = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), train, variants)
        all_draws = jax.vmap(sample)(both)
        draws = jax.tree.map(lambda a: a[0], all_draws)
        replaced = jax.tree.map(lambda a: a[1:], all_draws)
        deltas = _pair_deltas(posterior, draws, replaced, train, ghosts, inputs.gamma, plan)
        two_sided = estimators.two_sided_kl(*deltas, draws.weight)
        any_stuck = jnp.any(all_draws.is_stuck)
        any_improper = jnp.any(all_draws.is_improper)
    else:
        draws = sample(train)
        any_stuck, any_improper = jnp.any(draws.is_stuck), draws.is_improper

    if posterior.structured:
        losses = _structured(posterior, draws.u, train, ghosts, inputs, plan)
        delta = inputs.gamma * (losses.ghost - losses.train)
        direct = estimators.direct_kl_of_pairs(delta, draws.weight)
    else:
        losses = _per_example(posterior, draws.u, train, ghosts, inputs)
        direct = estimators.direct_kl(
            losses.train, losses.ghost, draws.weight, inputs.gamma, plan.group_size
        )
    weight = draws.weight
    population_risk = estimators.risk(losses.population, weight)
    mean_u = jnp.mean(jnp.sum(draws.u * weight[..., None], axis=1), axis=0)
    return Summary(
        generalization_ghost=estimators.gap(losses.train, losses.ghost, weight),
        generalization=estimators.gap(losses.train, losses.ghost, weight, *losses.reference),
        empirical_risk=estimators.risk(losses.train, weight),
        population_risk=population_risk,
        excess_risk=population_risk - jnp.mean(losses.optimum),
        kl_direct=direct.value,
        kl_plug_in=direct.plug_in,
        kl_two_sided=two_sided,
        accept_prob=jnp.mean(draws.accept_prob),
        mean_u=mean_u,
        var_u=jnp.mean(jnp.sum((draws.u - mean_u) ** 2 * weight[..., None], axis=1), axis=0),
        effective_points=1.0 / jnp.mean(jnp.sum(weight**2, axis=1)),
        edge_weight=_edge_weight(kernel, posterior, weight),
        spread=spread(draws),
        is_curved=draws.is_curved,
        is_improper=any_improper,
        is_stuck=any_stuck,
        is_finite=jnp.all(jnp.isfinite(draws.u)) & jnp.all(jnp.isfinite(losses.train)),
    )


def _block(
    posterior: GibbsPosterior,
    kernel: Kernel | Grid,
    plan: Plan,
    population: Any,
    roots: Key[Array, 2],
    indices: Int[Array, " block"],
    inputs: Inputs,
) -> Summary:
    # fold_in(root, index) makes a dataset the same whatever block, device or process it is in.
    fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    data_keys, chain_keys = jax.vmap(fold, in_axes=(0, None))(roots, indices)
    return jax.vmap(
        lambda data_key, chain_key: summarize_dataset(
            data_key, chain_key, posterior, population, kernel, plan, inputs
        )
    )(data_keys, chain_keys)


@lru_cache(maxsize=8)
def block_program(backend: str) -> Any:
    """Return the jitted block program of a backend; its arguments are those of ``_block``.

    One per backend, kept for the life of the process: jit's own cache then recognizes the same
    posterior, kernel and plan, and compiles nothing for a new gamma, schedule or table.
    """
    # Full optimization triples the compile time on CPU for a fifth of the run time.
    options = {"xla_backend_optimization_level": 1} if backend == "cpu" else None
    return jax.jit(
        _block, static_argnames=("posterior", "kernel", "plan"), compiler_options=options
    )
