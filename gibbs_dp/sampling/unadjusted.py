"""Chains of kernels without an acceptance step, and how biased their draws are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree
from numpyro.distributions import constraints

from gibbs_dp._jaxlib.precision import matmul, traced_exactly
from gibbs_dp.model.charts import L2Ball
from gibbs_dp.model.check import as_key, positive_count
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat, Prior
from gibbs_dp.model.supports import Support, real
from gibbs_dp.sampling.chains import ChainSampler, Moved
from gibbs_dp.sampling.kernels.base import Potential, Schedule
from gibbs_dp.sampling.kernels.gradients import (
    Batch,
    everything,
    example_gradients,
    fixed_batch,
    in_parts,
    loss_gradient,
    parts_of,
    poisson_batch,
    prior_gradient,
)
from gibbs_dp.sampling.kernels.langevin import (
    SGLD,
    ULA,
    PlainForm,
    ULAState,
    Unadjusted,
    ula_init,
    ula_step,
)
from gibbs_dp.sampling.laplace import MAX_LAPLACE_DIM, Location
from gibbs_dp.sampling.target import Target, Whitening, fit_whitening

# What theory says is wrong with unadjusted Langevin draws, to first order around a draw.

# Terms of the sums over k: both sums are cut alike, so that their ratio is that of chains which
# started at the mode so many steps ago.
NUM_TERMS = 128

Vector = Float[Array, " dim"]
Scalar = Float[Array, ""]


def batch_variance(
    target: Target, center: Vector, coordinates: Whitening, kernel: Unadjusted
) -> Callable[[Vector, Vector], Scalar]:
    """Return ``(v, probe) ->`` variance of ``probe . minibatch gradient`` at ``v``; 0 in full."""
    posterior, data, gamma = target
    if not isinstance(kernel, SGLD):
        return lambda v, probe: jnp.zeros((), v.dtype)
    n = num_examples(data)

    def slopes(u: Vector, direction: Vector) -> Float[Array, " n"]:
        if kernel.clip is not None:
            each = example_gradients(posterior, u, data, kernel.clip, kernel.clip_by)
            return matmul(each, direction)
        return jax.jvp(lambda x: target.terms(x).losses, (u,), (direction,))[1]

    def variance(v: Vector, probe: Vector) -> Scalar:
        direction = coordinates.color(probe) - coordinates.center
        each = slopes(coordinates.color(v), direction)
        if kernel.control_variate:
            each -= slopes(center, direction)
        if kernel.sampling_rate is not None:
            rate = kernel.sampling_rate
            return gamma**2 * (1.0 - rate) / rate * jnp.sum(each**2)
        return gamma**2 * n**2 / kernel.size_of_batch(n) * jnp.var(each)

    return variance


def variance_inflation(
    key: PRNGKeyArray,
    pulled: Potential,
    variance: Callable[[Vector, Vector], Scalar],
    v: Vector,
    size: Scalar,
) -> Scalar:
    """Estimate the excess of the draws' variance; exact for multiples of the identity."""
    probe = jax.random.rademacher(key, v.shape, v.dtype)
    trace = jnp.sum(probe * jax.jvp(jax.grad(pulled), (v,), (probe,))[1])
    drift, noise = (0.5 * size * x / v.shape[0] for x in (trace, variance(v, probe)))
    return jnp.where(drift < 1, (drift + noise) / (1.0 - drift), jnp.inf)


def kl_inflation(
    key: PRNGKeyArray,
    target: Target,
    pulled: Potential,
    variance: Callable[[Vector, Vector], Scalar],
    coordinates: Whitening,
    v: Vector,
    size: Scalar,
    is_fixed: bool = False,
) -> Scalar:
    """Estimate the relative excess of ``Var(loss(theta, z') - loss(theta, z))`` over draws.

    Half of gamma squared times that variance is the one-sided on-average KL to second order. It
    weighs directions by the examples' gradients, which is where minibatch noise is largest.
    Examples of the dataset stand for the ghosts. The sums end where the chain stops contracting:
    along directions of negative curvature there is no stationary law to compare with. With
    ``is_fixed`` the loop goes on, and the sums stay as they are.
    """
    losses = target.terms(coordinates.color(v)).losses
    signs = jax.random.normal(key, losses.shape, v.dtype)
    signs -= jnp.mean(signs) if losses.shape[0] > 1 else 0.0

    def contrast(x: Vector) -> Scalar:
        return matmul(signs, target.terms(coordinates.color(x)).losses)

    def is_stable(carry: tuple[Vector, Scalar, Scalar, Array, Bool[Array, ""]]) -> Array:
        return carry[4] & (carry[3] < NUM_TERMS)

    def add(
        carry: tuple[Vector, Scalar, Scalar, Array, Bool[Array, ""]],
    ) -> tuple[Vector, Scalar, Scalar, Array, Bool[Array, ""]]:
        q, found, exact, count, _ = carry
        step = q - size * jax.jvp(jax.grad(pulled), (v,), (q,))[1]
        square = jnp.sum(q * q)
        found += 2.0 * square + size * variance(v, q)
        exact += square + jnp.sum(q * step)
        return step, found, exact, count + 1, jnp.sum(step * step) < square

    zero = jnp.zeros((), v.dtype)
    direction = jax.grad(contrast)(v)
    direction /= jnp.linalg.norm(direction) + jnp.finfo(v.dtype).tiny * 1e6
    begin = (direction, zero, zero, jnp.zeros((), int), jnp.ones((), bool))
    if is_fixed:
        _, found, exact, _, _ = jax.lax.fori_loop(
            0,
            NUM_TERMS,
            lambda _, c: jax.tree.map(lambda a, b: jnp.where(is_stable(c), a, b), add(c), c),
            begin,
        )
    else:
        _, found, exact, _, _ = jax.lax.while_loop(is_stable, add, begin)
    return jnp.where(exact > 0, found / exact - 1.0, jnp.inf)


# Unadjusted Langevin chains of one dataset, and the bias that their theory predicts.

POWER_ITERATIONS = 16


class LangevinWalk(NamedTuple):
    """Draws, and what theory says is wrong with them."""

    u: Float[Array, "chains draws dim"]  # draws in flat coordinates, ``[chains, draws, dim]``
    # Per chain: estimated relative excess of the draws' variance over the posterior's, a mean over
    # preconditioned coordinates.
    inflation: Float[Array, " chains"]
    # The same of on-average KL, to second order in the losses' differences.
    kl_inflation: Float[Array, ""]


def precondition(kernel: Unadjusted, found: Location) -> Whitening:
    """Coordinates in which the chain runs."""
    center, scale = found.whitening
    if kernel.preconditioner == "none":
        return Whitening(center, jnp.ones_like(center))
    if kernel.preconditioner == "laplace":
        return Whitening(center, scale)
    guess = scale if scale.ndim == 1 else jnp.diagonal(scale)
    root = jnp.sqrt(jnp.maximum(found.curvature, jnp.finfo(scale.dtype).tiny * 1e6))
    return Whitening(center, jnp.where(found.curvature > 0, 1.0 / root, guess))


def largest_curvature(potential: Potential, at: Vector) -> Float[Array, ""]:
    """Largest absolute eigenvalue of the Hessian, by power iteration (a few percent low)."""

    def multiply(p: Vector) -> Vector:
        return jax.jvp(jax.grad(potential), (at,), (p,))[1]

    def improve(_: Array, p: Vector) -> Vector:
        q = multiply(p)
        norm = jnp.linalg.norm(q)
        return jnp.where(norm > 0, q / norm, p)

    first = jax.random.normal(jax.random.key(0), at.shape, at.dtype)
    top = jax.lax.fori_loop(0, POWER_ITERATIONS, improve, first / jnp.linalg.norm(first))
    found = jnp.linalg.norm(multiply(top))
    slope = jnp.mean(jax.grad(potential)(at) ** 2)
    return jnp.where(found > 0, found, slope)


def walk_langevin(
    key: PRNGKeyArray,
    target: Target,
    potential: Potential,
    positions: Float[Array, "chains dim"],
    center: Vector,
    coordinates: Whitening,
    kernel: Unadjusted,
    schedule: Schedule,
    num_samples: int,
) -> LangevinWalk:
    """Run unadjusted chains; every recorded draw is ``num_steps`` steps after the one before."""
    pulled = coordinates.pull_back(potential)
    curvature = largest_curvature(pulled, coordinates.whiten(center))
    factor, num_steps = schedule.tuning.step_size, schedule.tuning.num_inner
    gradient = _gradient(target, potential, center, coordinates, kernel)
    chain_keys = jax.random.split(key, positions.shape[0])
    total = schedule.num_burn_in + num_samples

    def one_step(count: Array, v: Float[Array, "chains dim"]) -> Float[Array, "chains dim"]:
        size = kernel.step_at(count, factor, curvature)

        def move(chain_key: PRNGKeyArray, position: Vector) -> Vector:
            noise_key, batch_key = jax.random.split(jax.random.fold_in(chain_key, count))
            state = ULAState(position)
            return ula_step(noise_key, state, lambda x: gradient(batch_key, x), size).position

        return jax.vmap(move)(chain_keys, v)

    def one_draw(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        v, memory = carry
        first = index * num_steps
        v = jax.lax.fori_loop(0, num_steps, lambda i, v: one_step(first + i, v), v)
        slot = (index + num_samples - total % num_samples) % num_samples
        return v, memory.at[slot].set(v)

    start = jax.vmap(coordinates.whiten)(positions)
    blank = jnp.zeros((num_samples, *start.shape), start.dtype)
    last, memory = jax.lax.fori_loop(0, total, one_draw, (start, blank))
    recorded = (schedule.num_burn_in + jnp.arange(num_samples) + 1) * num_steps - 1
    sizes = jax.vmap(lambda count: kernel.step_at(count, factor, curvature))(recorded)
    size = jnp.mean(sizes)
    probe_keys = jax.vmap(lambda k: jax.random.fold_in(k, total * num_steps))(chain_keys)
    variance = batch_variance(target, center, coordinates, kernel)

    def excess(probe_key: PRNGKeyArray, v: Vector) -> Float[Array, ""]:
        return variance_inflation(probe_key, pulled, variance, v, size)

    draws = jnp.swapaxes(memory, 0, 1)
    return LangevinWalk(
        u=jax.vmap(jax.vmap(coordinates.color))(draws),
        inflation=jax.vmap(excess)(probe_keys, last),
        kl_inflation=kl_inflation(
            probe_keys[0], target, pulled, variance, coordinates, last[0], size, schedule.is_fixed
        ),
    )


def _gradient(
    target: Target, potential: Potential, center: Vector, coordinates: Whitening, kernel: Unadjusted
) -> Callable[[PRNGKeyArray, Vector], Vector]:
    """Gradient in the chain's coordinates, from a batch of its own at every call."""
    posterior, data, gamma = target
    if not isinstance(kernel, SGLD) and kernel.clip is None:
        pulled = coordinates.pull_back(potential)
        return lambda _, v: jax.grad(pulled)(v)
    n, dtype = num_examples(data), center.dtype
    whole = everything(data, n, dtype)
    anchor = loss_gradient(posterior, center, whole, None)
    is_relative = isinstance(kernel, SGLD) and kernel.control_variate
    rate = kernel.sampling_rate if isinstance(kernel, SGLD) else None
    rows = kernel.size_of_batch(n) if isinstance(kernel, SGLD) and rate is None else n
    parts = parts_of(rows, center.size, kernel.clip, rate)

    def batch(key: PRNGKeyArray) -> Batch:
        if not isinstance(kernel, SGLD):
            return whole
        if rate is not None:
            return poisson_batch(key, data, n, rate, dtype)
        return fixed_batch(key, data, n, kernel.size_of_batch(n), dtype)

    def of_losses(u: Vector, chosen: Batch) -> Vector:
        def of(part: Batch) -> Vector:
            found = loss_gradient(posterior, u, part, kernel.clip, kernel.clip_by)
            return found - loss_gradient(posterior, center, part, None) if is_relative else found

        found = in_parts(of, chosen, parts)
        return anchor + found if is_relative else found

    def gradient(key: PRNGKeyArray, v: Vector) -> Vector:
        u = coordinates.color(v)
        flat = gamma * of_losses(u, batch(key)) + prior_gradient(posterior, u)
        scale = coordinates.scale
        return flat * scale if scale.ndim == 1 else matmul(flat, scale)

    return gradient


@dataclass(frozen=True, repr=False)
class LangevinSampler(ChainSampler[Unadjusted]):
    """Biased chains of ULA or SGLD, in coordinates of their own."""

    def check(self, posterior: GibbsPosterior) -> None:
        """Raise a ValueError where the kernel cannot run on a posterior."""
        name = type(self.kernel).__name__
        if posterior.structured and self.traits.needs_examples:
            raise ValueError(
                f"sampler: {name} with minibatches or clipping needs gradients per example, but a "
                "total_loss has none; use gibbs_dp.HMC, or ULA without clip."
            )
        if self.traits.needs_hessian and posterior.dim > MAX_LAPLACE_DIM:
            raise ValueError(
                f"sampler: a dense Hessian of {posterior.dim} coordinates is out of reach (at most "
                f"{MAX_LAPLACE_DIM}); use {name}(preconditioner='diagonal')."
            )

    def move(
        self,
        key: PRNGKeyArray,
        target: Target,
        potential: Potential,
        positions: Float[Array, "chains dim"],
        found: Location,
        schedule: Schedule,
        num_samples: int,
        is_joint: bool,
    ) -> Moved:
        """Walk, and judge the draws in the Laplace fit's coordinates, or in their own."""
        del is_joint
        laplace, (num_chains, dim) = found.whitening, positions.shape
        run = walk_langevin(
            key,
            target,
            potential,
            positions,
            laplace.center,
            precondition(self.kernel, found),
            self.kernel,
            schedule,
            num_samples,
        )
        fitted = fit_whitening(run.u.reshape(-1, dim), laplace)
        judge = jax.tree.map(lambda a, b: jnp.where(found.is_curved, a, b), laplace, fitted)
        v = jax.vmap(jax.vmap(judge.whiten))(run.u)
        energy = jax.vmap(jax.vmap(potential))(run.u)
        accept, is_stuck = jnp.ones((num_chains,), v.dtype), jnp.zeros((num_chains,), bool)
        return Moved(v, energy, judge, accept, is_stuck, run.inflation, run.kl_inflation)


# Langevin chains in exactly the form their privacy theorems cover.


# Calls of a chain that shows how far it is.
NUM_PARTS = 200


def step_bar(num_steps: int, num_done: int, is_shown: bool) -> Any:
    """Bar of a chain's steps in terminals and notebooks; nothing in a pipe or a batch job's log."""
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        # A notebook without ipywidgets gets the bar of terminals.
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm
    is_hidden = None if is_shown else True
    return tqdm(total=num_steps, initial=num_done, disable=is_hidden, leave=False, unit="step")


def run_langevin(
    posterior: GibbsPosterior,
    data: PyTree,
    *,
    gamma: float,
    kernel: ULA | SGLD,
    start: PyTree | None = None,
    num_draws: int = 1,
    thinning: int | None = None,
    key: int | PRNGKeyArray,
    progress: bool = False,
) -> Float[Array, "draws dim"]:
    """Run independent chains and keep the last iterate of each; or, thinned, several of one chain.

    Nothing but the gradients sees the data: start, step, length, gamma and clip are the caller's,
    there is no preconditioner, no adaptation and no acceptance step. On a box or a ball each step
    ends at the nearest point of it, in theta's own coordinates: draws may lie on the boundary.
    """
    require_langevin(posterior)
    num_draws = positive_count("num_draws", num_draws)
    if not 0 <= gamma < float("inf"):
        raise ValueError(f"gamma: {gamma:g} is not a finite number >= 0.")
    flat = in_theta(posterior)
    position = jnp.zeros(flat.dim) if start is None else flat.unconstrain(start)
    form, examples = kernel.plain_form(), as_examples(data)
    num_chains, num_kept = (num_draws, 1) if thinning is None else (1, num_draws)
    keys = jax.random.split(as_key(key), num_chains)
    at = jnp.tile(project(posterior.prior, position), (num_chains, 1))
    step, kept = 0, []
    walk = partial(walk_plainly, posterior, form._replace(num_steps=0), examples, float(gamma))
    ends = [form.num_steps - (thinning or 0) * left for left in reversed(range(num_kept))]
    with step_bar(form.num_steps, 0, progress) as bar:
        most = form.num_steps if bar.disable else -(-form.num_steps // NUM_PARTS)
        for end in ends:
            while step < end:
                stop = min(end, step + most)
                at = walk(at, keys, step, stop)
                if not bar.disable:
                    jax.block_until_ready(at)
                bar.update(stop - step)
                step = stop
            kept.append(at)
    return jnp.concatenate(kept)


def require_langevin(posterior: GibbsPosterior) -> None:
    """Raise a ValueError unless the posterior is one that Langevin chains here can run on."""
    if posterior.structured:
        raise ValueError(
            "posterior: Langevin steps clip gradients per example, but a total_loss has none; use "
            "a per-example loss."
        )
    if not is_projectable(posterior.prior):
        raise ValueError(
            "posterior: Langevin steps leave this support, and only a box or a ball is projected "
            "onto; use a prior on one of them or on all of Euclidean space, such as a Gaussian one."
        )


@partial(jax.jit, static_argnames=("posterior", "form"))
@traced_exactly
def walk_plainly(
    posterior: GibbsPosterior,
    form: PlainForm,
    data: PyTree,
    gamma: float | Float[Array, ""],
    positions: Float[Array, "chains dim"],
    keys: Array,
    begin: int | Int[Array, ""],
    end: int | Int[Array, ""],
) -> Float[Array, "chains dim"]:
    """Move the chains of `run_langevin` from one step to another; arguments are checked."""
    n, dtype = num_examples(data), positions.dtype
    flat, pull = in_theta(posterior), theta_prior_gradient(posterior)
    parts = parts_of(n, flat.dim, form.clip, form.sampling_rate)

    def chain(key: PRNGKeyArray, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        def one(index: Array, state: ULAState) -> ULAState:
            noise_key, batch_key = jax.random.split(jax.random.fold_in(key, index))
            batch = everything(data, n, dtype)
            if form.sampling_rate is not None:
                batch = poisson_batch(batch_key, data, n, form.sampling_rate, dtype)

            def gradient(theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
                def of(part: Batch) -> Float[Array, " dim"]:
                    return loss_gradient(flat, theta, part, form.clip, form.clip_by)

                return gamma * in_parts(of, batch, parts) + pull(theta)

            moved = ula_step(noise_key, state, gradient, form.step_size)
            return ULAState(project(posterior.prior, moved.position))

        return jax.lax.fori_loop(begin, end, one, ula_init(position)).position

    return jax.vmap(chain)(keys, positions)


def theta_prior_gradient(
    posterior: GibbsPosterior,
) -> Callable[[Float[Array, " dim"]], Float[Array, " dim"]]:
    """Gradient of ``-log prior`` in theta's own coordinates."""
    if posterior.prior.is_euclidean:
        return partial(prior_gradient, posterior)
    flat = in_theta(posterior)

    def cost(theta: Float[Array, " dim"]) -> Float[Array, ""]:
        return -posterior.prior.log_prob(flat.constrain(theta))

    return jax.grad(cost)


# Projections onto the prior's support.


_INTERVALS = (type(constraints.interval(0.0, 1.0)), type(constraints.unit_interval))


def is_projectable(prior: Prior) -> bool:
    """Whether every part lives on a box, on a ball or on all of Euclidean space.

    >>> import gibbs_dp as gdp
    >>> [is_projectable(Prior(Flat(s))) for s in (gdp.supports.l2_ball(2), gdp.supports.simplex(2))]
    [True, False]
    """
    return all(s.is_real or _kind(s) in (L2Ball, *_INTERVALS) for s in prior.supports)


def in_theta(posterior: GibbsPosterior) -> GibbsPosterior:
    """Return the same losses with flat coordinates that are theta's own, whatever its support."""
    if posterior.prior.is_euclidean:
        return posterior
    shapes = [Flat(real(s.shape)) for s in posterior.prior.supports]
    return GibbsPosterior(posterior.loss, posterior.prior.treedef.unflatten(shapes))


def project(prior: Prior, theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Nearest point of the support's closure: entry by entry in a box, along the ray in a ball."""
    if prior.is_euclidean:
        return theta
    parts, start = [], 0
    for support in prior.supports:
        size = prod(support.shape)
        part = theta[start : start + size].reshape(support.shape)
        parts.append(_nearest(support, part).reshape(-1))
        start += size
    return jnp.concatenate(parts)


def _kind(support: Support) -> type[Any]:
    return type(_bare(support))


def _bare(support: Support) -> Any:
    """Return the constraint without the ``to_event`` around it."""
    found = support.constraint
    while hasattr(found, "base_constraint"):
        found = found.base_constraint
    return found


def _nearest(support: Support, part: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    found = _bare(support)
    if isinstance(found, L2Ball):
        lengths = jnp.linalg.norm(part, axis=-1, keepdims=True)
        return part * (found.radius / jnp.maximum(lengths, found.radius))
    if support.is_real:
        return part
    low, high = (np.asarray(end, part.dtype) for end in (found.lower_bound, found.upper_bound))
    return jnp.clip(part, low, high)
