"""What leaves a program, and what quantities see of it: of one dataset, and of one gamma."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.precision import total
from gibbs_dp.engine.plan import AuditSpec, Inputs, Plan, Tuned
from gibbs_dp.estimators import students
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.diagnostics import Pooled, Spread, pool
from gibbs_dp.sampling.sampler import ChainDraws

Part = TypeVar("Part")


# Losses of one dataset's draws: on training examples, ghosts, references and replaced datasets.

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
    # Behind all ghosts, of which the plan may want the first alone.
    fresh = jax.tree.map(lambda a: a[None, len(a) - plan.n :], ghosts)
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


# What traced methods of quantities see of one dataset.


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
        """Gamma times the losses of the replaced group and of the new one, or of whole datasets."""
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
    """Which pairs of a training group and a ghost group were sampled, ``MOST_PAIRS`` of them."""

    # The groups.
    old: Int[Array, " pairs"]
    new: Int[Array, " pairs"]
    # What a pair counts for, so that means over the pairs that are used are, on average, means over
    # all pairs of the dataset.
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
    train, ghosts
        Training examples, and fresh ones.
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
    ghosts: PyTree
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


# What leaves the device for each dataset: health for the engine, values for the quantities.


class Health(NamedTuple):
    """How the chains of each dataset fared (leading axis: datasets)."""

    accept_prob: Float[Array, "*b"]  # mean acceptance probability
    # Smallest share of particles that were effective on the way to the posterior; 1: no such way.
    worst_ess: Float[Array, "*b"]
    # Mean and variance of the draws in flat coordinates.
    mean_u: Float[Array, "*b dim"]
    var_u: Float[Array, "*b dim"]
    square_v: Float[Array, "*b dim"]  # mean square of the whitened draws
    # Of the mode that was sampled: log of the integral of ``exp(-U)`` over it, as the draws' energy
    # and entropy have it, with the potential relative to that at the inputs' reference.
    log_mass: Float[Array, "*b"]
    spread: Spread  # for R-hat, effective draws and the drift test
    is_curved: Bool[Array, "*b"]  # whether there is a usable Laplace fit
    # Of the dataset's posterior, or of any of its replaced ones.
    is_improper: Bool[Array, "*b"]
    is_stuck: Bool[Array, "*b"]
    is_finite: Bool[Array, "*b"]  # whether all draws are


class Summary(NamedTuple):
    """What every dataset leaves behind (leading axis: datasets)."""

    health: Health
    values: Any  # a named tuple: the ``Values`` of every quantity, by its name

    @property
    def size(self) -> int:
        """Datasets."""
        return int(self.health.is_finite.shape[0])

    def only(self, chosen: Bool[np.ndarray, " datasets"]) -> Summary:
        """Keep the chosen datasets."""
        return self if chosen.all() else jax.tree.map(lambda a: a[chosen], self)


class Draws(NamedTuple):
    """What a program leaves for quantities that keep something: draws, and what pairs gave."""

    draws: ChainDraws
    chosen: Chosen
    pairs: dict[str, Any]


class Block(NamedTuple):
    """A block of datasets, as the program returns it and a store keeps it."""

    health: Health
    values: Any
    kept: Any  # a named tuple: the ``Kept`` of quantities that have it; None beyond the first

    @property
    def summary(self) -> Summary:
        """Without what is kept of the first datasets only."""
        return Summary(self.health, self.values)


def concatenate(parts: list[Part], count: int) -> Part:
    """Join blocks in order and cut them to ``count`` datasets."""
    return jax.tree.map(lambda *a: np.concatenate(a)[:count], *parts)


# Which datasets count, and whether their chains are stuck, slow or drifting.

DRIFT_Z = 4.0
DRIFT_SIZE = 0.02
# Effective draws over draws, and a chain, from which on 16 steps of burn-in do: starts are nearly
# as wide as posteriors are, and of what they lack 16 draws leave 0.2% if each is 2/3 of the last.
LEAST_ESS, LEAST_ESS_PER_CHAIN = 0.2, 1.5
# Of the acceptance below which tuning looks for shorter steps: below it readers are told.
LOW_ACCEPT_SHARE = 0.8


def is_believed(summary: Summary) -> Bool[np.ndarray, " datasets"]:
    """Datasets whose chains can be believed: finite, moving, with a proper posterior.

    What is estimated from them may fail on its own, and is then left out on its own: an estimate
    that is not reported has no say in which datasets those are that do count.
    """
    health = summary.health
    return np.asarray(health.is_finite) & ~health.is_stuck & ~health.is_improper


def believed(summary: Summary) -> Summary:
    """Drop the datasets that failed."""
    return summary.only(is_believed(summary))


def why_failed(summary: Summary, is_good: Bool[np.ndarray, " datasets"]) -> str:
    """Count the reasons for which datasets are left out."""
    health = summary.health
    improper = int(np.sum(health.is_improper))
    stuck = int(np.sum(health.is_stuck & ~health.is_improper))
    other = int(np.sum(~is_good)) - improper - stuck
    parts = [f"{improper} improper"] * (improper > 0) + [f"{stuck} stuck chains"] * (stuck > 0)
    return ", ".join(parts + [f"{other} not finite"] * (other > 0))


def is_drifting(pooled: Pooled) -> bool:
    """Whether the first half of the draws differs from the second, visibly and significantly."""
    is_clear = pooled.drift_z > students(DRIFT_Z, pooled.num_datasets)
    return is_clear and pooled.drift_size > DRIFT_SIZE


def is_slow(pooled: Pooled, num_draws: int, num_chains: int) -> bool:
    """Whether chains forget so slowly that a short burn-in leaves a drift too small to see here."""
    return pooled.ess_min < max(LEAST_ESS * num_draws, LEAST_ESS_PER_CHAIN * num_chains)


# What host methods of quantities see of one gamma.

_NO_CHAINS = Pooled(r_hat=1.0, r_hat_exceed=0.0, ess_min=np.inf, drift_z=0.0, drift_size=0.0)


@dataclass(frozen=True)
class GammaResult:
    """One gamma of a finished (or interrupted) sweep.

    Attributes
    ----------
    settings
        What was asked for.
    gamma
        Inverse temperature.
    tuned
        What pilots decided.
    missed_rel_error
        Whether ``rel_error`` was out of reach.
    summary
        Of all completed datasets.
    is_good
        Datasets that the leading quantity is a mean over.
    leading
        Its value for every dataset, finite or not.
    kept
        What the first datasets keep, a named tuple by quantity; None where nothing is kept.
    found
        What :meth:`~gibbs_dp.engine.quantity.Quantity.explore` found, by quantity.
    """

    settings: AuditSpec
    gamma: float
    tuned: Tuned
    missed_rel_error: bool
    summary: Summary
    is_good: Bool[np.ndarray, " datasets"]
    leading: Float[np.ndarray, " datasets"]
    kept: Any
    found: dict[str, Any] = field(default_factory=dict)

    def kept_of(self, name: str) -> Any:
        """Return what a quantity keeps of the first datasets; None for nothing."""
        return getattr(self.kept, name, None)

    @cached_property
    def good(self) -> Summary:
        """Only the datasets that count."""
        return self.summary.only(self.is_good)

    @cached_property
    def pooled(self) -> Pooled:
        """Convergence of the chains, pooled over datasets."""
        s = self.settings
        return (
            _NO_CHAINS if s.is_exact else pool(self.good.health.spread, s.num_chains, s.num_samples)
        )

    def only_believed(
        self, values: Float[np.ndarray, " datasets"]
    ) -> Float[np.ndarray, " datasets"]:
        """Values of the first datasets, or of all, in double precision; NaN for failed ones."""
        found = np.asarray(values, np.float64)
        return np.where(is_believed(self.summary)[: found.size] & np.isfinite(found), found, np.nan)


# All gammas of a finished sweep, for quantities that look at them together.

# From what is looked for (a named tuple), a name that says what it depends on beside the blocks,
# at which gammas, and a function that finds it at one: to what was found, None elsewhere.
Find = Callable[[type, str, Sequence[bool], Callable[[int], Any]], list[Any]]


@dataclass(frozen=True)
class Explored:
    """What a finished sweep knows.

    Attributes
    ----------
    settings
        What was asked for.
    results
        One a gamma.
    find
        Finds something at every gamma: what a store has is read, and what is new is stored;
        processes that share the store share the work.
    """

    settings: AuditSpec
    results: Sequence[GammaResult]
    find: Find
