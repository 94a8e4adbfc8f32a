"""Particles on a path of temperatures: the path, how they are weighed, and how they move."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.recentring import Recentring
from gibbs_dp.sampling.ensemble import Coordinates
from gibbs_dp.sampling.kernels.base import Kernel, Potential, StepInfo, Tuning
from gibbs_dp.sampling.noise import step_key
from gibbs_dp.sampling.target import Target, Terms, Whitening

# The path of an SMC sampler, and what is frozen of it before it runs.


class Point(NamedTuple):
    """A law on the path: ``exp(-gamma L) prior^share origin^(1 - share)``."""

    gamma: Float[Array, "*b"]
    share: Float[Array, "*b"]


class Segment(NamedTuple):
    """The part of a path that ends at one gamma of a grid; the same for all datasets.

    Nothing of it may come from the particles that it is used on: normalizers would be biased
    upwards, unseen by islands.
    """

    points: Point  # laws after each step; the last one that counts is at the grid's gamma
    # What coordinates are whitened with at each step: lower-triangular matrices, or vectors of
    # standard deviations above ``MAX_DENSE_DIM`` coordinates.
    scale: Float[Array, "*shape"]
    # How far each coordinate is centred at each step: of priors whose parts depend on each other.
    share: Float[Array, "*b steps dim"]
    step_size: Float[Array, "*b steps"]  # of the kernel, at each step
    num_moves: Int[Array, "*b steps"]  # transitions of every particle, at each step
    num_steps: Int[Array, "*b"]  # steps that count; beyond them is padding
    origin: Whitening  # the wide normal that paths start from; not used where the prior is proper

    @property
    def length(self) -> int:
        """Steps, with padding."""
        return int(self.step_size.shape[-1])

    def padded(self, length: int) -> Segment:
        """Repeat the last step until there are so many."""
        axis = self.num_steps.ndim

        def longer(a: Float[Any, "*shape"] | Int[Any, "*shape"]) -> Array:
            steps = jnp.minimum(jnp.arange(length), self.length - 1)
            return jnp.take(jnp.asarray(a), steps, axis=axis)

        return self._replace(
            points=jax.tree.map(longer, self.points),
            scale=longer(self.scale),
            share=longer(self.share),
            step_size=longer(self.step_size),
            num_moves=longer(self.num_moves),
        )


def begin_point(is_proper: bool, dtype: jnp.dtype) -> Point:
    """Return the beginning of paths."""
    return Point(jnp.zeros((), dtype), jnp.asarray(1.0 if is_proper else 0.0, dtype))


def log_origin(origin: Whitening, u: Float[Array, " dim"]) -> Float[Array, ""]:
    """Log density of the wide normal."""
    return jnp.sum(jax.scipy.stats.norm.logpdf(origin.whiten(u))) - origin.log_volume


# Particles of one dataset's posterior: drawn, weighed, resampled and moved.

# Transitions of every particle in one step: the random numbers of so many are set apart.
MOST_MOVES = 32
# Flat coordinates at which ends of supports are, to a double's last digit.
FARTHEST = 40.0
# Of the iterations that find in which direction particles lie apart.
POWER_STEPS = 6


class Energies(NamedTuple):
    """Energies that the path is made of, at every particle, relative to a reference."""

    loss: Float[Array, "islands each"]
    log_prior: Float[Array, "islands each"]
    log_origin: Float[Array, "islands each"]


class Particles(NamedTuple):
    """Equally weighted particles of a law on the path."""

    u: Float[Array, "islands each dim"]  # where they are, in flat coordinates
    energies: Energies  # there, relative to ``reference``
    best: Float[Array, " dim"]  # the particle of largest density
    # Energy terms at it: what losses, the prior and normalizers are relative to, so that single
    # precision resolves their differences.
    reference: Terms
    # Of each island, of the law over its density at ``best`` (without the origin's).
    log_normalizer: Float[Array, " islands"]


class Landscape(NamedTuple):
    """A dataset, and what the path to its posterior begins with."""

    posterior: GibbsPosterior
    data: PyTree
    origin: Whitening
    recentring: Recentring | None = None  # coordinates that particles move in

    def coordinates(self, share: Float[Array, " dim"]) -> Coordinates:
        """Coordinates that particles move in, before whitening."""
        return Coordinates(self.recentring, share, None)

    @property
    def is_proper(self) -> bool:
        """True if paths begin at the prior."""
        return self.posterior.prior.has_draws

    def _loss(self, reference: Terms, whitening: Whitening) -> Potential:
        """Total loss minus that at the whitening's center, in the cheapest exact form."""
        one = jnp.ones((), whitening.center.dtype)
        plain = Target(self.posterior, self.data, one)
        without = Terms(reference.losses, jnp.zeros_like(one))
        with_prior = plain.around(whitening.center, without, whitening)
        return lambda u: with_prior(u) + self.posterior.log_prior_unconstrained(u)

    def energies(
        self, u: Float[Array, "islands each dim"], reference: Terms, whitening: Whitening
    ) -> Energies:
        """Evaluate them at particles, relative to the whitening's center."""
        loss = self._loss(reference, whitening)

        def one(point: Float[Array, " dim"]) -> Energies:
            log_prior = self.posterior.log_prior_unconstrained(point) - reference.log_prior
            nothing = jnp.zeros((), u.dtype)
            start = nothing if self.is_proper else log_origin(self.origin, point)
            return Energies(loss(point), log_prior, start)

        return jax.vmap(jax.vmap(one))(u)

    def potential(self, at: Point, reference: Terms, whitening: Whitening) -> Potential:
        """Minus log density of a law on the path, relative to that at the whitening's center."""
        whole = Target(self.posterior, self.data, at.gamma)
        target = whole.around(whitening.center, reference, whitening)
        if self.is_proper:
            return target

        def tempered(u: Float[Array, " dim"]) -> Float[Array, ""]:
            log_prior = self.posterior.log_prior_unconstrained(u) - reference.log_prior
            return target(u) + (1.0 - at.share) * (log_prior - log_origin(self.origin, u))

        return tempered

    def begin(self, key: PRNGKeyArray, num_islands: int, num_each: int) -> Particles:
        """Draw particles of the law that paths begin with."""
        posterior = self.posterior
        dtype = jnp.result_type(float)
        if self.is_proper:
            keys = jax.random.split(key, num_islands * num_each)
            u = jax.vmap(lambda k: posterior.unconstrain(posterior.prior.sample(k)))(keys)
            # A draw that rounds to an end of the support is beyond what a number tells from it.
            u = jnp.nan_to_num(u, nan=jnp.nan, posinf=FARTHEST, neginf=-FARTHEST)
        else:
            noise = jax.random.normal(key, (num_islands * num_each, posterior.dim), dtype)
            u = jax.vmap(self.origin.color)(noise)
        best = _finite_one(u, self.origin.center)
        reference = Target(posterior, self.data, jnp.ones((), dtype)).terms(best)
        islands = u.reshape(num_islands, num_each, -1)
        energies = self.energies(islands, reference, Whitening(best, jnp.ones_like(best)))
        zero = jnp.zeros((num_islands,), dtype)
        if self.is_proper:  # the prior over its density at best
            zero = zero + posterior.prior.log_mass - reference.log_prior
        return Particles(islands, energies, best, reference, zero)


def _finite_one(u: Float[Array, "particles dim"], other: Float[Array, " dim"]) -> Array:
    """Return the first particle with finite coordinates; ``other`` where there is none."""
    is_finite = jnp.all(jnp.isfinite(u), axis=1)
    return jnp.where(jnp.any(is_finite), u[jnp.argmax(is_finite)], other)


def log_weights(energies: Energies, at: Point, to: Point) -> Float[Array, "islands each"]:
    """Log of the ratio of two laws on the path; minus infinity where the later one has none."""
    more = -(to.gamma - at.gamma) * energies.loss
    prior = jnp.where(
        to.share == at.share,
        0.0,
        (to.share - at.share) * (energies.log_prior - energies.log_origin),
    )
    return jnp.where(jnp.isnan(more + prior), -jnp.inf, more + prior)


def cess(log_weight: Float[Array, "islands each"]) -> Float[Array, ""]:
    """Share of the particles that are effective after weighing: (sum w)^2 / (N sum w^2)."""
    flat = log_weight.ravel()
    first = jax.scipy.special.logsumexp(flat)
    second = jax.scipy.special.logsumexp(2.0 * flat)
    return jnp.exp(2.0 * first - second) / flat.size


class Weighed(NamedTuple):
    """Particles weighed for the next law, resampled, and not yet moved."""

    # With the best of all as their reference; energies are still relative to the one before.
    particles: Particles
    log_weight: Float[Array, "islands each"]  # before resampling


def reweigh(
    key: PRNGKeyArray, particles: Particles, landscape: Landscape, at: Point, to: Point
) -> Weighed:
    """Weigh particles of one law for the next; resample every island by itself."""
    log_weight = log_weights(particles.energies, at, to)
    num_each = log_weight.shape[1]
    grown = jax.scipy.special.logsumexp(log_weight, axis=1) - jnp.log(num_each)
    uniform, turn = jax.random.uniform(key, (2, log_weight.shape[0]), log_weight.dtype)
    order = jnp.argsort(_along(particles.u), axis=1)
    sorted_weight = jnp.take_along_axis(log_weight, order, axis=1)
    parents = jax.vmap(systematic)(uniform, sorted_weight)
    # Even ones first, and from anywhere on: no place in an island is one of the order.
    parents = jnp.concatenate([parents[:, ::2], parents[:, 1::2]], axis=1)
    places = jnp.arange(num_each) + jnp.floor(turn * num_each).astype(int)[:, None]
    parents = jnp.take_along_axis(parents, places % num_each, axis=1)
    parents = jnp.take_along_axis(order, parents, axis=1)
    u = jnp.take_along_axis(particles.u, parents[..., None], axis=1)

    e = particles.energies
    height = -to.gamma * e.loss + to.share * e.log_prior + (1.0 - to.share) * e.log_origin
    height = jnp.where(jnp.isfinite(log_weight) & jnp.isfinite(height), height, -jnp.inf)
    index = jnp.argmax(height)
    is_any = height.ravel()[index] > -jnp.inf
    best = jnp.where(is_any, particles.u.reshape(-1, u.shape[-1])[index], particles.best)
    loss = jnp.where(is_any, e.loss.ravel()[index], 0.0)
    log_prior = jnp.where(is_any, e.log_prior.ravel()[index], 0.0)
    rise = to.gamma * loss - to.share * log_prior
    reference = Target(landscape.posterior, landscape.data, to.gamma).terms(best)
    log_normalizer = particles.log_normalizer + grown + rise
    found = Particles(u, particles.energies, best, reference, log_normalizer)
    return Weighed(found, log_weight)


def _along(u: Float[Array, "islands each dim"]) -> Float[Array, "islands each"]:
    """Coordinate of all particles along their first principal direction, in units of their own."""
    flat = u.reshape(-1, u.shape[-1])
    centred = flat - jnp.mean(flat, axis=0)
    unit = jnp.sqrt(jnp.mean(centred**2, axis=0)) + jnp.finfo(u.dtype).tiny
    standard = jnp.nan_to_num(centred / unit)

    def power(_: Any, direction: Array) -> Array:
        found = matmul(matmul(standard, direction), standard)
        return found / (jnp.linalg.norm(found) + jnp.finfo(u.dtype).tiny)

    # Unequal entries: orthogonal to no direction that a symmetry of the model would have.
    begin = 1.0 + jnp.arange(u.shape[-1], dtype=u.dtype) * jnp.sqrt(jnp.asarray(2.0, u.dtype)) % 1
    direction = jax.lax.fori_loop(0, POWER_STEPS, power, begin)
    return matmul(standard, direction).reshape(u.shape[:2])


def systematic(uniform: Float[Array, ""], log_weight: Float[Array, " each"]) -> Array:
    """Numbers of the chosen particles: each as often as its weight says, but for rounding."""
    count = log_weight.shape[0]
    share = jax.nn.softmax(log_weight)
    # Where no particle has any density, all stay: the island is lost, and says so.
    share = jnp.where(jnp.isnan(share), 1.0 / count, share)
    edges = jnp.cumsum(share)
    at = (jnp.arange(count, dtype=share.dtype) + uniform) / count * edges[-1]
    return jnp.clip(jnp.searchsorted(edges, at), 0, count - 1)


def evenly(
    log_weight: Float[Array, "islands each"], shape: tuple[int, int], is_dealt: bool = False
) -> Int[Array, "chains draws"]:
    """Numbers of unweighted particles, of all islands together, that stand for weighted ones."""
    num_chains, num_draws = shape
    count = num_chains * num_draws
    share = jax.nn.softmax(log_weight.ravel())
    at = (jnp.arange(count, dtype=share.dtype) + 0.5) / count
    edges = jnp.cumsum(share)
    rows = jnp.clip(jnp.searchsorted(edges, at * edges[-1]), 0, share.size - 1)
    return rows.reshape(num_draws, num_chains).T if is_dealt else rows.reshape(shape)


class MovedParticles(NamedTuple):
    """Particles after some transitions of a kernel."""

    # In flat, and in whitened coordinates.
    u: Float[Array, "islands each dim"]
    v: Float[Array, "islands each dim"]
    potential: Float[Array, "islands each"]  # there
    accept_prob: Float[Array, "islands each"]  # mean over transitions, of every particle
    has_moved: Any  # whether any proposal was accepted


def move(
    streams: Array,
    first: Any,
    count: Any,
    u: Float[Array, "islands each dim"],
    potential: Potential,
    coordinates: Coordinates,
    whitening: Whitening,
    kernel: Kernel,
    tuning: Tuning,
) -> MovedParticles:
    """Move every particle ``count`` times; ``streams`` and ``first`` number the random keys."""
    dim, dtype = u.shape[-1], u.dtype
    whitening = whitening._replace(center=coordinates.from_flat(whitening.center))
    pulled = whitening.pull_back(coordinates.pull_back(potential))

    def keys_at(step: Any) -> Array:
        return jax.vmap(jax.vmap(lambda words: step_key(words, step)))(streams)

    def begin(key: Array, point: Array) -> Any:
        return kernel.init(key, whitening.whiten(coordinates.from_flat(point)), pulled)

    def of_island(keys: Array, states: Any) -> tuple[Any, StepInfo]:
        if kernel.traits.has_joint_noise:
            noise = kernel.noise_of_all(keys, dim, dtype)
            return kernel.step_all(noise, states, pulled, tuning)
        return jax.vmap(lambda k, s: kernel.step(k, s, pulled, tuning))(keys, states)

    def one(i: Any, carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        states, accept, has_moved = carry
        states, info = jax.vmap(of_island)(keys_at(first + 1 + i), states)
        return states, accept + info.accept_prob, has_moved | info.is_accepted

    states = jax.vmap(jax.vmap(begin))(keys_at(first), u)
    none = jnp.zeros(u.shape[:2], dtype), jnp.zeros(u.shape[:2], bool)
    states, accept, has_moved = jax.lax.fori_loop(0, count, one, (states, *none))
    v = states.position
    u, log_det = jax.vmap(jax.vmap(lambda v: coordinates.to_flat(whitening.color(v))))(v)
    return MovedParticles(
        u=u,
        v=v,
        potential=states.potential + log_det,
        accept_prob=accept / jnp.maximum(count, 1),
        has_moved=has_moved,
    )
