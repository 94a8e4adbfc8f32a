"""One compiled program: posteriors of datasets and their neighbours, and critics between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from gibbs_dp import estimators
from gibbs_dp._jaxlib.compile import program
from gibbs_dp.capacity.adversaries import Adversary
from gibbs_dp.capacity.objectives import KL
from gibbs_dp.capacity.training import Training, train_and_judge
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.diagnostics import Spread, spread
from gibbs_dp.sampling.kernels import Kernel
from gibbs_dp.sampling.schedule import Schedule
from gibbs_dp.sampling.target import Target


class PairPlan(NamedTuple):
    """Static settings: what a new compilation depends on."""

    n: int
    num_chains: int
    num_samples: int
    adversaries: tuple[Adversary, ...]
    training: Training


class PairSummary(NamedTuple):
    """What leaves the device for each dataset (leading axis: datasets).

    Attributes
    ----------
    critics
        What each class's trained critic attains, nats.
    full
        Half the symmetrized KL of the pair from the same draws: unbiased for the on-average KL.
    accept_prob, is_stuck
        Of the chains of both posteriors.
    spread
        For the drift test.
    is_finite
        Whether every number is.
    """

    critics: Float[Array, "*b classes"]
    full: Float[Array, "*b"]
    accept_prob: Float[Array, "*b"]
    is_stuck: Bool[Array, "*b"]
    spread: Spread
    is_finite: Bool[Array, "*b"]


def _one_pair(
    data_key: Any,
    chain_key: Any,
    posterior: GibbsPosterior,
    population: Any,
    kernel: Kernel,
    plan: PairPlan,
    gamma: Float[Array, ""],
    schedule: Schedule,
) -> PairSummary:
    train, ghost = population.sample(data_key, plan.n, 1)
    replaced = jax.tree.map(lambda a, b: a.at[0].set(b[0]), train, ghost)
    chain_key, start_key, critic_key = jax.random.split(chain_key, 3)
    start = posterior.initial(start_key)[None]
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), train, replaced)
    # One key for both couples their chains: what a critic gains is then hardly noisy, and for a
    # given critic the means, and so the lower bound, are the same.
    draws = jax.vmap(
        lambda data: as_sampler(kernel).draw(
            chain_key,
            Target(posterior, data, gamma),
            start,
            schedule,
            plan.num_chains,
            plan.num_samples,
        )
    )(both)
    outputs = jax.vmap(jax.vmap(jax.vmap(lambda u: ravel_pytree(posterior.constrain(u))[0])))(
        draws.u
    )
    # Ordered by chain: the two halves share none.
    x_p, x_q = outputs.reshape(2, plan.num_chains * plan.num_samples, -1)
    found = [
        train_and_judge(critic_key, x_p, x_q, adversary, KL(), plan.training).value
        for adversary in plan.adversaries
    ]

    def delta(u: Float[Array, " dim"]) -> Float[Array, 1]:
        theta = posterior.constrain(u)
        if posterior.structured:
            change = posterior.empirical_loss(theta, replaced)
            change -= posterior.empirical_loss(theta, train)
            return gamma * change[None]
        first = jax.tree.map(lambda a: a[:1], train)
        return gamma * (posterior.losses(theta, ghost) - posterior.losses(theta, first))

    at_p, at_q = jax.vmap(jax.vmap(jax.vmap(delta)))(draws.u)
    critics = jnp.stack(found)
    full = estimators.two_sided_kl(at_p, at_q, draws.weight[0])
    return PairSummary(
        critics=critics,
        full=full,
        accept_prob=jnp.mean(draws.accept_prob),
        is_stuck=jnp.any(draws.is_stuck) | jnp.any(draws.is_improper),
        spread=spread(jax.tree.map(lambda a: a[0], draws)),
        is_finite=jnp.all(jnp.isfinite(critics)) & jnp.isfinite(full),
    )


def _run_pairs(
    posterior: GibbsPosterior,
    kernel: Kernel,
    plan: PairPlan,
    population: Any,
    roots: Key[Array, 2],
    indices: Int[Array, " block"],
    gamma: Float[Array, ""],
    schedule: PyTree,
) -> PairSummary:
    """Summarize a block of datasets; a dataset is the same in whatever block it is."""
    fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    data_keys, chain_keys = jax.vmap(fold, in_axes=(0, None))(roots, indices)
    return jax.vmap(
        lambda data_key, chain_key: _one_pair(
            data_key, chain_key, posterior, population, kernel, plan, gamma, schedule
        )
    )(data_keys, chain_keys)


def pairs_program(backend: str) -> Any:
    """Return the jitted program of a backend; its arguments are those of ``_run_pairs``."""
    return program(_run_pairs, ("posterior", "kernel", "plan"), backend)
