"""What each dataset keeps of its draws, and their losses on other datasets' examples."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp import estimators
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp._jaxlib.devices import is_accelerator, on_device, target_platform
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.engine.datasets import training_set
from gibbs_dp.engine.plan import Plan
from gibbs_dp.engine.view import View
from gibbs_dp.estimators.on_average_kl import log_mean_ratio_of_few
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.sampler import log_ratios
from gibbs_dp.sampling.smc_particles import evenly
from gibbs_dp.sampling.target import Target

# What one dataset leaves behind for mutual information: draws and a normalizer.

# Points of the proposal that normalizers are bridged from.
NUM_PROPOSALS = 256
# Draws kept of a posterior that is summed exactly, as many as chains would leave.
GRID_DRAWS = (8, 8)


class Nodes(NamedTuple):
    """Points of a dataset's own that a sum weighs."""

    u: Float[Array, "*b points dim"]
    weight: Float[Array, "*b points"]


class Kept(NamedTuple):
    """Draws of each dataset and what its posterior's density at them is (leading axis: datasets).

    Losses are relative to those at the sweep's anchor, example by example, so that float32
    resolves their differences.
    """

    u: Float[Array, "*b chains draws dim"]  # draws in flat coordinates
    # Normalized log density of the draws there (log weights, on a grid).
    log_density: Float[Array, "*b chains draws"]
    # log_normalizer, log_normalizer_se, overlap: of ``exp(-gamma (L(theta, Z) - L(anchor, Z)))
    # prior(theta)``, by bridge sampling
    log_normalizer: Float[Array, "*b"]
    log_normalizer_se: Float[Array, "*b"]
    overlap: Float[Array, "*b"]
    # mean_loss, loss_variance: posterior mean and variance of ``L(theta, Z) - L(anchor, Z)``
    mean_loss: Float[Array, "*b"]
    loss_variance: Float[Array, "*b"]
    nodes: Nodes | None = None  # of a sum over points that datasets do not share


def keep_draws(view: View) -> Kept:
    """Normalize one dataset's posterior and pack its draws."""
    posterior, inputs, draws = view.posterior, view.inputs, view.draws

    def total(point: Array) -> Array:
        theta = posterior.constrain(point)
        if posterior.structured:
            return posterior.empirical_loss(theta, view.train)[None]
        return posterior.losses(theta, view.train)

    base = total(inputs.anchor)
    # From losses relative to the reference of the chains to losses relative to the anchor.
    shift = draws.reference.log_prior - inputs.gamma * jnp.sum(draws.reference.losses - base)
    relative = jax.vmap(jax.vmap(lambda u: jnp.sum(total(u) - base)))(draws.u)
    mean = jnp.mean(jnp.sum(relative * draws.weight, axis=1))
    variance = jnp.mean(jnp.sum((relative - mean) ** 2 * draws.weight, axis=1))
    value, value_se, nodes = draws.log_normalizer, draws.log_normalizer_se, None
    if value is not None and value_se is None:
        found = estimators.Normalizer(value, jnp.zeros_like(value), jnp.ones_like(value))
        log_density = -draws.potential[0] - value
        key = jax.random.fold_in(view.key, 1)
        rows = jax.random.categorical(key, jnp.log(draws.weight[0]), shape=GRID_DRAWS)
        u, log_density = draws.u[0, rows], log_density[rows]
        if draws.whitening is not None:
            nodes = Nodes(draws.u[0], draws.weight[0])
    else:
        worth = estimators.point_worth(posterior.dim)
        proposals = estimators.quasi_normals(NUM_PROPOSALS, posterior.dim)
        target = Target(posterior, view.train, inputs.gamma)
        ratios = log_ratios(draws, target, proposals, inputs.proposal_scale)
        found = estimators.bridge(*ratios, worth)
        if value is not None and value_se is not None:
            found = _more_precise(found, value, value_se)
        u, log_density = draws.u, -draws.potential - found.value
        if value is not None:
            # Islands weigh differently, and particles are more than the comparison is made for.
            rows = evenly(jnp.log(draws.weight), GRID_DRAWS, is_dealt=True)
            u, log_density = u.reshape(-1, u.shape[-1])[rows], log_density.ravel()[rows]
    return Kept(
        u=u,
        log_density=log_density,
        log_normalizer=found.value + shift,
        log_normalizer_se=found.se,
        overlap=found.overlap,
        mean_loss=mean,
        loss_variance=variance,
        nodes=nodes,
    )


def _more_precise(bridged: estimators.Normalizer, value: Array, se: Array) -> estimators.Normalizer:
    """Take a path's normalizer where a Gaussian over all modes says less than the path does."""
    is_path = ~(bridged.se < se)
    one = jnp.ones_like(bridged.overlap)
    return estimators.Normalizer(
        jnp.where(is_path, value, bridged.value),
        jnp.where(is_path, se, bridged.se),
        jnp.where(is_path, one, bridged.overlap),
    )


# Losses of every dataset's draws on every other dataset: compiled programs for the M x M table.

# Beyond this many coordinates the d^2 statistics of a quadratic loss cost more than its examples.
MAX_QUADRATIC_DIM = 32
# Relative rounding of a quadratic form above which examples are asked one by one.
LARGEST_ROUNDING = 0.01
# Enough for loops to be few, few enough for caches.
DATASETS_AT_ONCE = 16


def has_statistics(posterior: GibbsPosterior) -> bool:
    """Whether a dataset's gradient and Hessian at one point say all about its total loss."""
    return posterior.is_quadratic and posterior.dim <= MAX_QUADRATIC_DIM


def _training_set(
    posterior: GibbsPosterior, population: Any, plan: Plan, root: PRNGKeyArray, index: Array
) -> PyTree:
    return training_set(posterior, population, root, index, plan.n, plan.num_ghosts)


def _flat(posterior: GibbsPosterior, u: Float[Array, " dim"]) -> Float[Array, " size"]:
    return ravel_pytree(posterior.constrain(u))[0]


class Statistics(NamedTuple):
    """What every dataset's total loss, a quadratic, is at an anchor."""

    slope: Float[Array, "datasets size"]
    curvature: Float[Array, "datasets size size"]


class Summaries(NamedTuple):
    """What comparisons at all gammas need of every dataset."""

    first: PyTree  # its first example
    statistics: Statistics | None  # where they say all about its loss


def _summarize(
    posterior: GibbsPosterior,
    plan: Plan,
    population: Any,
    root: Key[Array, ""],
    indices: Int[Array, " datasets"],
    anchor: Float[Array, " dim"],
) -> Summaries:
    """Make every dataset again and keep what :class:`Summaries` names."""
    flat, unravel = ravel_pytree(posterior.constrain(anchor))

    def one(index: Array) -> Summaries:
        data = _training_set(posterior, population, plan, root, index)
        first = jax.tree.map(lambda a: a[0], data)

        def total(vector: Array) -> Array:
            return posterior.empirical_loss(unravel(vector), data)

        if not has_statistics(posterior):
            return Summaries(first, None)
        return Summaries(first, Statistics(jax.grad(total)(flat), jax.hessian(total)(flat)))

    return jax.lax.map(one, indices, batch_size=DATASETS_AT_ONCE)


def _quadratic_losses(
    posterior: GibbsPosterior,
    statistics: Statistics,
    anchor: Float[Array, " dim"],
    points: Float[Array, "points dim"],
    columns: Int[Array, " columns"],
) -> Float[Array, "points columns"]:
    """``L(theta_p, Z_k) - L(anchor, Z_k)`` of quadratic losses: two matrix products."""
    statistics = _chosen(statistics, columns)
    shift = jax.vmap(lambda u: _flat(posterior, u))(points) - _flat(posterior, anchor)
    features = (shift[:, :, None] * shift[:, None, :]).reshape(points.shape[0], -1)
    curvature = statistics.curvature.reshape(statistics.curvature.shape[0], -1)
    return matmul(shift, statistics.slope.T) + 0.5 * matmul(features, curvature.T)


def is_resolved(
    posterior: GibbsPosterior,
    statistics: Statistics,
    anchor: Float[Array, " dim"],
    points: Float[np.ndarray, "points dim"],
) -> bool:
    """Whether rounding leaves what quadratic forms say of these points.

    Where columns are nearly equal, large terms cancel: a float32 has lost the rest.
    """
    flat = jax.vmap(lambda u: _flat(posterior, u))(on_device(points))
    shift = np.asarray(flat, np.float64) - np.asarray(_flat(posterior, anchor), np.float64)
    curvature = np.asarray(statistics.curvature).mean(axis=0, dtype=np.float64)
    terms = np.sum(np.abs(shift) @ np.abs(curvature) * np.abs(shift))
    rounding = np.finfo(statistics.curvature.dtype).eps * terms
    return bool(rounding <= LARGEST_ROUNDING * np.abs(np.sum(shift @ curvature * shift)))


def _pair_losses(
    posterior: GibbsPosterior,
    plan: Plan,
    population: Any,
    root: Key[Array, ""],
    indices: Int[Array, " datasets"],
    anchor: Float[Array, " dim"],
    points: Float[Array, "points dim"],
) -> Float[Array, "points datasets"]:
    """``L(theta_p, Z_k) - L(anchor, Z_k)``, differences taken example by example."""
    reference = posterior.constrain(anchor)

    def one(index: Array) -> Float[Array, " points"]:
        data = _training_set(posterior, population, plan, root, index)

        def terms(theta: PyTree) -> Array:
            if posterior.structured:
                return posterior.empirical_loss(theta, data)[None]
            return posterior.losses(theta, data)

        base = terms(reference)
        return jax.vmap(lambda u: jnp.sum(terms(posterior.constrain(u)) - base))(points)

    return jax.lax.map(one, indices).T  # one dataset at a time: [points, n] is enough


def _swap_terms(
    posterior: GibbsPosterior,
    firsts: PyTree,
    owners: Int[Array, " owners"],
    columns: Int[Array, " columns"],
    draws: Float[Array, "columns chains draws dim"],
    gamma: Float[Array, ""],
    weight: Float[Array, "columns draws"] | None,
) -> Float[Array, "owners columns"]:
    """``log C(Z_k with its first example replaced by z_m) - log C(Z_k)``, from draws of ``Z_k``.

    Both are named by their numbers among the first examples. Weights, where there are any, are
    those of the points of a sum. Of draws, what is right on average is ``exp(-gain)``: densities
    are divided by the gain and averaged over ``k``, so that noise in it would make them larger.
    """
    others, own = _chosen(firsts, owners), _chosen(firsts, columns)

    def one(given: tuple[PyTree, Array, Array | None]) -> Float[Array, " owners"]:
        example, u, weight = given

        def delta(point: Array) -> Float[Array, " owners"]:
            theta = posterior.constrain(point)
            mine = posterior.losses(theta, jax.tree.map(lambda a: a[None], example))[0]
            return gamma * (posterior.losses(theta, others) - mine)

        found = jax.vmap(jax.vmap(delta))(u)
        if weight is None:
            return log_mean_ratio_of_few(found, corrections=2.0)
        return jax.nn.logsumexp(jnp.log(weight)[:, None] - found[0], axis=0)

    # On CPUs one at a time: its numbers stay in a processor's caches.
    at_once = DATASETS_AT_ONCE if is_accelerator(target_platform()) else None
    return jax.lax.map(one, (own, draws, weight), batch_size=at_once).T


def _point_losses(
    posterior: GibbsPosterior,
    firsts: PyTree,
    columns: Int[Array, " columns"],
    points: Float[Array, "points dim"],
) -> Float[Array, "points columns"]:
    """Loss of every point on datasets' first examples."""
    examples = _chosen(firsts, columns)
    return jax.vmap(lambda u: posterior.losses(posterior.constrain(u), examples))(points)


def _chosen(firsts: PyTree, datasets: Int[Array, " datasets"]) -> PyTree:
    return jax.tree.map(lambda a: a[datasets], firsts)


summarize = on_default_backend(_summarize, "posterior", "plan", is_quick=True)
quadratic_losses = on_default_backend(_quadratic_losses, "posterior", is_quick=True)
pair_losses = on_default_backend(_pair_losses, "posterior", "plan", is_quick=True)
swap_terms = on_default_backend(_swap_terms, "posterior", is_quick=True)
point_losses = on_default_backend(_point_losses, "posterior", is_quick=True)


# What swapping one example does to the normalizer of a posterior that is a sum over points.

# A product of sums that is smaller has lost terms to underflow.
_LEAST = 1e-250
# Pairs summed term by term at once.
_PAIRS = 4096


class SwapSums:
    """``log C(Z_k with its first example replaced by z_m) - log C(Z_k)``, over points in parts.

    The sum over points of ``exp(a_k(t) + b_m(t))``, ``a_k`` the log posterior without the first
    example and ``b_m`` the new one's log likelihood, is a matrix product of exponentials. Where
    all terms underflow, as they do where the two peak far apart, a pair's are summed by themselves.
    """

    def __init__(self, others: int, datasets: int) -> None:
        self._swapped = np.full((others, datasets), -np.inf)
        self._own = np.full(datasets, -np.inf)

    def add(
        self,
        log_weight: Float[np.ndarray, "points datasets"],
        first: Float[np.ndarray, "points datasets"],
        other: Float[np.ndarray, "points others"],
    ) -> None:
        """Add points."""
        self._own = np.logaddexp(self._own, np.logaddexp.reduce(log_weight, axis=0))
        self._swapped = np.logaddexp(self._swapped, _log_product(log_weight + first, -other))

    def result(self) -> Float[np.ndarray, "others datasets"]:
        """Log ratios of the normalizers."""
        return self._swapped - self._own


def _log_product(
    a: Float[np.ndarray, "points datasets"], b: Float[np.ndarray, "points others"]
) -> Float[np.ndarray, "others datasets"]:
    """``log sum_t exp(a_tk + b_tm)``."""
    top_a, top_b = a.max(axis=0), b.max(axis=0)
    sums = np.exp(b - top_b).T @ np.exp(a - top_a)
    lost = np.argwhere(sums < _LEAST)
    with np.errstate(divide="ignore"):
        found = np.log(sums) + top_b[:, None] + top_a
    for start in range(0, len(lost), _PAIRS):
        m, k = lost[start : start + _PAIRS].T
        found[m, k] = np.logaddexp.reduce(a[:, k] + b[:, m], axis=0)
    return np.asarray(found)


def _log_priors(
    posterior: GibbsPosterior, points: Float[Array, "points dim"]
) -> Float[Array, " points"]:
    """Log prior density of theta at points in flat coordinates."""
    return jax.vmap(lambda u: posterior.prior.log_prob(posterior.constrain(u)))(points)


log_priors = on_default_backend(_log_priors, "posterior")
