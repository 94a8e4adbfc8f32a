"""The one compiled program of a sweep: a block of datasets, sampled and reduced to summaries."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp import estimators
from gibbs_dp._jaxlib.compile import program
from gibbs_dp.audit.kept import Kept, keep_draws
from gibbs_dp.audit.losses import (
    ghosts_needed,
    per_example_losses,
    structured_losses,
)
from gibbs_dp.audit.paired import Pairs, sample_with_pairs, summarize_pairs
from gibbs_dp.audit.plan import Inputs, Plan, Summary
from gibbs_dp.audit.sizes import MOST_PAIRS
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.chains import ChainDraws, run_chains
from gibbs_dp.sampling.diagnostics import spread
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.kernels import Kernel, Unadjusted


def _edge_weight(
    kernel: Kernel | Unadjusted | Grid,
    posterior: GibbsPosterior,
    weight: Float[Array, "chains draws"],
) -> Float[Array, ""]:
    if not isinstance(kernel, Grid):
        return jnp.zeros((), weight.dtype)
    return jnp.sum(jnp.where(kernel.edge(posterior), weight[0], 0.0))


def summarize_dataset(
    data_key: PRNGKeyArray,
    chain_key: PRNGKeyArray,
    posterior: GibbsPosterior,
    population: Any,
    kernel: Kernel | Unadjusted | Grid,
    plan: Plan,
    inputs: Inputs,
) -> tuple[Summary, Kept | None]:
    """Draw one dataset and its ghosts, sample its posterior, and reduce the draws."""
    train, ghosts = population.sample(data_key, plan.n, ghosts_needed(posterior, plan))
    chain_key, start_key = jax.random.split(chain_key)
    start = jnp.where(inputs.is_dispersed, posterior.initial(start_key), inputs.start)

    if isinstance(kernel, Grid):
        draws = kernel.draws(posterior, train, inputs.gamma)
        nothing = jnp.zeros((MOST_PAIRS,), start.dtype)
        pairs = Pairs(nothing, jnp.any(draws.is_stuck), draws.is_improper)
    else:

        def sample(data: PyTree) -> ChainDraws:
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
                inputs.scale,
                is_joint=plan.num_samples > 1,  # what the jackknife needs to allow for it
            )

        draws, pairs = sample_with_pairs(sample, posterior, train, ghosts, inputs, plan)

    if posterior.structured:
        losses = structured_losses(posterior, draws.u, train, ghosts, inputs, plan)
        delta = inputs.gamma * (losses.ghost - losses.train)
        direct = estimators.direct_kl_of_pairs(delta, draws.weight)
        variance = estimators.pair_variance_of_pairs(delta, draws.weight, MOST_PAIRS)
    else:
        losses = per_example_losses(posterior, draws.u, train, ghosts, inputs, plan)
        direct = estimators.direct_kl(
            losses.train, losses.ghost, draws.weight, inputs.gamma, plan.group_size
        )
        variance = estimators.pair_variance(
            losses.train, losses.ghost, draws.weight, inputs.gamma, plan.group_size, MOST_PAIRS
        )
    paired = summarize_pairs(pairs, variance, inputs)
    weight = draws.weight
    population_risk = estimators.risk(losses.population, weight)
    mean_u = jnp.mean(jnp.sum(draws.u * weight[..., None], axis=1), axis=0)
    kept = keep_draws(chain_key, posterior, kernel, plan, inputs, train, draws)
    control = estimators.reference_gap(*losses.reference)
    of_mean = losses.mean[..., None]
    generalization = estimators.gap(of_mean, losses.ghost, weight) - control
    # A structured loss replaces the group within its own difference; a sum of k equal gaps else.
    num_gaps = 1 if posterior.structured else plan.group_size
    return Summary(
        generalization=generalization,
        control=control,
        empirical_risk=estimators.risk(of_mean, weight),
        population_risk=population_risk,
        excess_risk=population_risk - jnp.mean(losses.optimum),
        kl_direct=direct.value,
        kl_tail=direct.tail,
        kl_two_sided=paired.mean,
        pair_control=paired.control,
        pair_spread=paired.spread,
        kl_ghost=num_gaps * inputs.gamma * generalization,
        kl_control=num_gaps * inputs.gamma * control,
        accept_prob=jnp.mean(draws.accept_prob),
        virial=jnp.mean(draws.virial) / posterior.dim,
        inflation=jnp.mean(draws.inflation),
        kl_inflation=draws.kl_inflation,
        mean_u=mean_u,
        var_u=jnp.mean(jnp.sum((draws.u - mean_u) ** 2 * weight[..., None], axis=1), axis=0),
        effective_points=1.0 / jnp.mean(jnp.sum(weight**2, axis=1)),
        edge_weight=_edge_weight(kernel, posterior, weight),
        square_v=jnp.mean(jnp.sum(draws.v**2 * weight[..., None], axis=1), axis=0),
        spread=spread(draws),
        is_curved=draws.is_curved,
        is_improper=pairs.is_improper,
        is_stuck=pairs.is_stuck,
        is_finite=jnp.all(jnp.isfinite(draws.u)),
    ), kept


def _block(
    posterior: GibbsPosterior,
    kernel: Kernel | Unadjusted | Grid,
    plan: Plan,
    num_at_once: int,
    population: Any,
    roots: Key[Array, 2],
    indices: Int[Array, "2 block"],
    inputs: Inputs,
) -> tuple[Summary, Kept | None]:
    # fold_in(root, index) makes a dataset the same whatever block, device or process it is in.
    fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    data_keys, chain_keys = jax.vmap(fold)(roots, indices)

    def one(keys: tuple[PRNGKeyArray, PRNGKeyArray]) -> tuple[Summary, Kept | None]:
        return summarize_dataset(*keys, posterior, population, kernel, plan, inputs)

    if num_at_once >= indices.shape[1]:
        return jax.vmap(one)((data_keys, chain_keys))
    return jax.lax.map(one, (data_keys, chain_keys), batch_size=num_at_once)


def block_program(backend: str, is_quick: bool = False) -> Any:
    """Return the jitted block program of a backend; its arguments are those of ``_block``."""
    return program(_block, ("posterior", "kernel", "plan", "num_at_once"), backend, is_quick)
