"""What traced methods of quantities see of one dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from gibbs_dp.engine.losses import Losses, over_draws, swap
from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.sampler import ChainDraws


@dataclass(frozen=True)
class PairView:
    """A dataset's draws, and those of the dataset with one group of examples replaced.

    Attributes
    ----------
    posterior, plan, inputs
        What was run.
    train, ghosts
        Training examples, and fresh ones.
    key
        For a quantity's own random numbers.
    pair
        Number of the pair: which group is replaced, and by which ghosts.
    base, replaced
        Draws of both posteriors; their chains share random numbers.
    """

    posterior: GibbsPosterior
    plan: Plan
    inputs: Inputs
    train: PyTree
    ghosts: PyTree
    key: PRNGKeyArray
    pair: Int[Array, ""]
    base: ChainDraws
    replaced: ChainDraws

    def delta(self, u: Float[Array, "chains draws dim"]) -> Float[Array, "chains draws 1"]:
        """``log p - log p'`` at draws, up to a constant, nats."""
        return over_draws(lambda point: self._delta(point)[None], u)

    def _delta(self, point: Float[Array, " dim"]) -> Float[Array, ""]:
        size, theta, posterior = (
            self.plan.group_size,
            self.posterior.constrain(point),
            self.posterior,
        )
        if posterior.structured:
            new = posterior.empirical_loss(theta, swap(self.train, self.ghosts, self.pair, size))
            return self.inputs.gamma * (new - posterior.empirical_loss(theta, self.train))
        rows = self.pair * size + jnp.arange(size)
        old = posterior.losses(theta, _rows(self.train, rows))
        new = posterior.losses(theta, _rows(self.ghosts, rows))
        return self.inputs.gamma * jnp.sum(new - old)


def _rows(data: PyTree, rows: Int[Array, " rows"]) -> PyTree:
    return jax.tree.map(lambda a: a[rows], data)


@dataclass(frozen=True)
class View:
    """One dataset, its draws, and their losses.

    Attributes
    ----------
    posterior, plan, inputs
        What was run.
    key
        For a quantity's own random numbers.
    train
        Training examples.
    draws
        Of the posterior.
    losses
        Of the draws.
    pairs
        What :meth:`~gibbs_dp.engine.quantity.Quantity.of_pair` gave, with a leading axis of
        ``MOST_PAIRS`` pairs, zeros beyond those that were sampled; None for other quantities.
    """

    posterior: GibbsPosterior
    plan: Plan
    inputs: Inputs
    key: PRNGKeyArray
    train: PyTree
    draws: ChainDraws
    losses: Losses
    pairs: Any = None

    def with_pairs(self, pairs: Any) -> View:
        """Return the same with other findings of pairs."""
        return replace(self, pairs=pairs)

    @property
    def gap_scale(self) -> Float[Array, ""]:
        """What the generalization error is multiplied by for the KL of a whole group.

        A structured loss replaces the group within its own difference; a sum has ``k`` equal gaps.
        """
        num_gaps = 1 if self.posterior.structured else self.plan.group_size
        return num_gaps * self.inputs.gamma
