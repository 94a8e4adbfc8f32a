"""What traced methods of quantities see of one dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
    old, new
        Training group that is replaced, and the ghost group that replaces it.
    base, replaced
        Draws of both posteriors; their chains share random numbers.
    """

    posterior: GibbsPosterior
    plan: Plan
    inputs: Inputs
    train: PyTree
    ghosts: PyTree
    key: PRNGKeyArray
    old: Int[Array, ""]
    new: Int[Array, ""]
    base: ChainDraws
    replaced: ChainDraws

    def delta(self, u: Float[Array, "chains draws dim"]) -> Float[Array, "chains draws 1"]:
        """``log p - log p'`` at draws, up to a constant, nats."""
        parts = self.parts(u)
        return parts[..., 1:] - parts[..., :1]

    def parts(self, u: Float[Array, "chains draws dim"]) -> Float[Array, "chains draws 2"]:
        """Gamma times the loss with what is replaced, and with what replaces it, at draws.

        Of the groups alone; of the whole datasets where losses are structured.
        """
        return over_draws(self._parts, u)

    def _parts(self, point: Float[Array, " dim"]) -> Float[Array, " 2"]:
        size, posterior = self.plan.group_size, self.posterior
        theta = posterior.constrain(point)
        if posterior.structured:
            swapped = swap(self.train, self.ghosts, self.old, self.new, size)
            datasets = self.train, swapped
            losses = [posterior.empirical_loss(theta, data) for data in datasets]
        else:
            rows = jnp.arange(size)
            groups = (
                _rows(self.train, self.old * size + rows),
                _rows(self.ghosts, self.new * size + rows),
            )
            losses = [jnp.sum(posterior.losses(theta, group)) for group in groups]
        return self.inputs.gamma * jnp.stack(losses)


def _rows(data: PyTree, rows: Int[Array, " rows"]) -> PyTree:
    return jax.tree.map(lambda a: a[rows], data)


class Chosen(NamedTuple):
    """Which pairs of a training group and a ghost group were sampled, ``MOST_PAIRS`` of them.

    Attributes
    ----------
    old, new
        The groups.
    weight
        What a pair counts for, so that means over the pairs that are used are, on average, means
        over all pairs of the dataset.
    """

    old: Int[Array, " pairs"]
    new: Int[Array, " pairs"]
    weight: Float[Array, " pairs"]


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
    chosen
        Pairs that were sampled.
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
    chosen: Chosen
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
