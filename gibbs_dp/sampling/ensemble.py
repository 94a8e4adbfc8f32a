"""HMC of many chains that learn coordinates, step size and length from each other."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gibbs_dp._jaxlib.linalg import solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.model.changes import forget_with
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.recentring import Recentring, find_recentring
from gibbs_dp.sampling.laplace import hessian_diagonal
from gibbs_dp.sampling.noise import chain_keys, normals_and_uniforms, step_key
from gibbs_dp.sampling.target import (
    MAX_DENSE_DIM,
    Potential,
    Stretch,
    Target,
    Terms,
    fitted,
    fitted_stretch,
)

# Transitions of the windows after which coordinates and step size are learned anew, of trials of a
# length, and of the last window; a step size settles in as many as follow.
WINDOWS, LAST_WINDOW, SETTLING, TRIAL = (50, 100, 150), 150, 50, 25
LENGTHS = (2, 4, 8, 16, 32, 64)
# Of a longer trajectory's squared jumps per gradient, over the best so far, below which no longer
# one is tried.
WORTH_TRYING = 0.5
# Steps of every chain while it draws, of which few may be kept. Where a chain's draws are worth
# neither as many independent ones nor as large a share of them as independent ones, it draws anew,
# with times as many steps from one to the next: adaptation took longer than that takes.
FEWEST_STEPS = 16
WORTH_ENOUGH, SHARE_ENOUGH, FARTHER = 40.0, 1 / 3, 4
FIRST_SIZE, FIRST_LENGTH, JITTER = 0.3, 8, 0.3
# Nats below the others' median, beside twice the dimension, from which a chain is lost.
LOST = 30.0
# Robust standard deviations from most others, and nats of mass less, beside half the root of the
# dimension, at which a chain that a window has not brought back is lost.
FAR, SMALL = 6.0, 5.0
# Independent draws that half a window, of 25 at least, is worth where chains have mixed.
MIXES = 10.0
# Directions in which curvatures are taken at every chain's place.
PROBES = 4


class Adapted(NamedTuple):
    """What the chains have learned."""

    share: Float[Array, " dim"]  # how far each coordinate is centred; 1 where it cannot be moved
    stretch: Stretch | None  # of heavy tails; None: not asked for
    num_leapfrog: Int[Array, ""]
    num_replaced: Int[Array, ""]  # chains that went on from where another was
    num_gradients: Int[Array, ""]  # of every chain


class _Averaging(NamedTuple):
    """Dual averaging of the log step size (Nesterov 2009; Hoffman & Gelman 2014, algorithm 5)."""

    anchor: Float[Array, ""]
    current: Float[Array, ""]
    average: Float[Array, ""]
    error: Float[Array, ""]
    steps: Float[Array, ""]

    @classmethod
    def at(cls, log_size: Float[Array, ""]) -> _Averaging:
        zero = jnp.zeros_like(log_size)
        return cls(log_size + math.log(2.0), log_size, log_size, zero, zero)

    def seen(self, accept_prob: Float[Array, ""], target: float) -> _Averaging:
        steps = self.steps + 1.0
        weight = 1.0 / (steps + 10.0)
        error = (1.0 - weight) * self.error + weight * (target - accept_prob)
        current = self.anchor - jnp.sqrt(steps) / 0.05 * error
        share = steps**-0.75
        average = share * current + (1.0 - share) * self.average
        return _Averaging(self.anchor, current, average, error, steps)


class _Chains(NamedTuple):
    """Chains in the coordinates ``w``: of :class:`Recentring`, not yet whitened."""

    w: Float[Array, "chains dim"]
    u: Float[Array, "chains dim"]  # in flat coordinates
    log_density: Float[Array, " chains"]  # of w
    potential: Float[Array, " chains"]  # minus that of u
    gradient: Float[Array, "chains dim"]


class _Trials(NamedTuple):
    """Lengths tried: squared jumps of the worst direction per gradient."""

    jump: Float[Array, " dim"]  # sum over the trial that runs
    best: Float[Array, ""]
    num_leapfrog: Int[Array, ""]
    is_over: Bool[Array, ""]


class Ring(NamedTuple):
    """The last draws, the newest at ``place - 1``."""

    u: Float[Array, "kept chains dim"]
    potential: Float[Array, "kept chains"]  # minus the log density of u
    energy: Float[Array, "kept chains"]  # and of w
    accept_prob: Float[Array, "kept chains"]
    place: Int[Array, ""]


class _State(NamedTuple):
    chains: _Chains
    is_stale: Bool[Array, ""]  # the chains know their w only
    reference: Terms  # that energies are relative to: large ones leave a float32 no digits
    averaging: _Averaging
    share: Float[Array, " dim"]
    stretch: Stretch | None
    scale: Float[Array, "*shape"]  # of whitened coordinates: a lower triangle, or a diagonal
    trials: _Trials
    ring: Ring
    mixes: Bool[Array, ""]  # chains agree: those of the last window, or their draws
    num_replaced: Int[Array, ""]
    num_gradients: Int[Array, ""]


class _Now(NamedTuple):
    """What happens at one transition, known beforehand."""

    is_adapting: Any  # the step size
    length: Any  # of a trial; 0: the length in use
    ends_window: Any  # its number of transitions, whose second half is learned from; 0: goes on
    ends_trial: Any
    ends_draws: Any  # for the first time
    rescues: Any  # lost chains are looked for
    is_kept: Any  # the next transition does not take this one's place
    # What comes next if chains mix well already, no longer length is worth it, or draws are enough.
    onward: Any


_KINDS = {bool: bool, int: np.int32}


def _plan(patience: int, num_draws: int, is_fixed: bool) -> _Now:
    """Every transition's part: windows, trials of lengths, the last window, draws."""
    rows: list[tuple[bool, int, int, bool, bool, bool, bool, str]] = []
    begins: dict[str, int] = {}

    def window(count: int, onward: str = "") -> None:
        for i in range(1, count + 1):
            ends = onward if i == count else ""
            rows.append((True, 0, count * bool(ends), False, False, i % 25 == 0, True, ends))

    for count in WINDOWS:
        window(patience * count, "settling")
    begins["settling"] = len(rows)
    window(SETTLING)
    for length in LENGTHS:
        for i in range(1, TRIAL + 1):
            ends = "last" if i == TRIAL else ""
            rows.append((False, length, 0, bool(ends), False, False, True, ends))
    begins["last"] = len(rows)
    window(patience * LAST_WINDOW, "draws")
    window(SETTLING)
    begins["draws"] = len(rows)
    steps = max(patience, -(-FEWEST_STEPS // num_draws))
    for each in (steps,) if is_fixed else (steps, FARTHER * steps):
        kept = num_draws * [*[False] * (each - 1), True]
        rows.extend((False, 0, 0, False, False, False, is_kept, "") for is_kept in kept)
        begins["end"] = len(rows)
        if each == steps:
            rows[-1] = (False, 0, 0, False, True, False, True, "end")
    *columns, onward = zip(*rows, strict=True)
    places = [begins.get(name, i + 1) for i, name in enumerate(onward)]
    return _Now._make(np.asarray(x, _KINDS[type(x[0])]) for x in (*columns, places))


@lru_cache(maxsize=64)
def recentring_of(posterior: GibbsPosterior) -> Recentring | None:
    """As :func:`find_recentring`, which traces the prior, once for each posterior."""
    return find_recentring(posterior)


forget_with(recentring_of.cache_clear)


class Coordinates(NamedTuple):
    """What chains are moved in, before whitening: recentred, and stretched where asked for."""

    recentring: Recentring | None
    share: Float[Array, " dim"]
    stretch: Stretch | None

    def to_flat(self, w: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Flat coordinates, and the log determinant of the way to them, but for a constant."""
        log_det = jnp.zeros((), w.dtype)
        if self.stretch is not None:
            w, log_det = self.stretch.stretched(w)
        if self.recentring is not None:
            w, growth = self.recentring.to_flat(w, self.share)
            log_det += growth
        return w, log_det

    def from_flat(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Invert :meth:`to_flat`."""
        w = self.unstretched_from_flat(u)
        return w if self.stretch is None else self.stretch.unstretched(w)

    def unstretched_from_flat(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Go half way: recentred, and not stretched."""
        return u if self.recentring is None else self.recentring.from_flat(u, self.share)

    def pull_back(self, potential: Potential) -> Potential:
        """Express the potential as a function of these coordinates."""

        def pulled(w: Float[Array, " dim"]) -> Float[Array, ""]:
            u, log_det = self.to_flat(w)
            return potential(u) - log_det

        return pulled


class _Space(NamedTuple):
    target: Target
    reference: Terms
    coordinates: Coordinates

    def at(self, w: Float[Array, "chains dim"]) -> _Chains:
        """Chains at these places."""
        potential = self.target.relative_to(self.reference)

        def log_density(w: Float[Array, " dim"]) -> tuple[Array, tuple[Array, Array]]:
            u, log_det = self.coordinates.to_flat(w)
            energy = potential(u)
            return log_det - energy, (u, energy)

        both = jax.vmap(jax.value_and_grad(log_density, has_aux=True))
        (value, (u, energy)), gradient = both(w)
        return _Chains(w, u, value, energy, gradient)


def learn_share(
    recentring: Recentring, target: Target, reference: Terms, u: Float[Array, "draws dim"]
) -> Float[Array, " dim"]:
    """How much of every coordinate the data decide, in the middle of these draws."""

    def loss(u: Float[Array, " dim"]) -> Float[Array, ""]:
        return target.gamma * jnp.sum(target.terms(u).losses - reference.losses)

    def one(u: Float[Array, " dim"]) -> tuple[Array, Array]:
        return hessian_diagonal(loss, u, PROBES), recentring.place(u).log_scale

    curvature, log_scale = jax.lax.map(one, u)
    told = jnp.nanmedian(jnp.maximum(curvature, 0.0), axis=0)
    told = told * jnp.exp(2.0 * jnp.nanmedian(log_scale, axis=0))
    share = jnp.where(jnp.isfinite(told), told / (1.0 + told), 0.0)
    return jnp.where(jnp.asarray(recentring.is_free), share, 1.0)


def _color(scale: Float[Array, "*shape"], v: Float[Array, "chains dim"]) -> Array:
    return v * scale if scale.ndim == 1 else matmul(v, scale.T)


def _pull(scale: Float[Array, "*shape"], gradient: Float[Array, "chains dim"]) -> Array:
    return gradient * scale if scale.ndim == 1 else matmul(gradient, scale)


def _whiten(scale: Float[Array, "*shape"], w: Float[Array, "chains dim"]) -> Array:
    return w / scale if scale.ndim == 1 else solve_lower(scale, w.T).T


def _move(
    key: PRNGKeyArray,
    space: _Space,
    chains: _Chains,
    is_stale: Bool[Array, ""],
    scale: Float[Array, "*shape"],
    step_size: Float[Array, ""],
    num_leapfrog: Int[Array, ""],
) -> tuple[_Chains, Float[Array, " chains"], Float[Array, "chains dim"]]:
    """One trajectory of every chain: chains, acceptance, whitened ways that were accepted."""
    count, dim = chains.w.shape
    keys = jax.vmap(step_key, (0, None))(chain_keys(key, count), jnp.zeros((), jnp.int32))
    normals, uniforms = normals_and_uniforms(keys, dim, 2, chains.w.dtype)
    momentum, uniform = normals.T, uniforms[0]
    size = step_size * (1.0 + JITTER * (2.0 * uniforms[1, 0] - 1.0))

    def leap(i: Array, state: tuple[_Chains, _Chains, Array]) -> tuple[_Chains, _Chains, Array]:
        first, at, velocity = state
        kick = size * jnp.where(i < 0, 0.0, jnp.where(i == 0, 0.5, 1.0))
        velocity = velocity + kick * _pull(scale, at.gradient)
        end = space.at(at.w + jnp.where(i < 0, 0.0, size) * _color(scale, velocity))
        first = jax.tree.map(lambda new, old: jnp.where(i < 0, new, old), end, first)
        return first, end, velocity

    begin = jnp.where(is_stale, -1, 0).astype(num_leapfrog.dtype)
    first, end, last = jax.lax.fori_loop(begin, num_leapfrog, leap, (chains, chains, momentum))
    last = last + 0.5 * size * _pull(scale, end.gradient)
    gain = end.log_density - first.log_density + 0.5 * jnp.sum(momentum**2 - last**2, axis=1)
    gain = jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
    accept_prob = jnp.where(num_leapfrog > 0, jnp.exp(jnp.minimum(gain, 0.0)), 1.0)
    is_moved = uniform < accept_prob
    way = _whiten(scale, jnp.where(is_moved[:, None], end.w - first.w, 0.0))

    def chosen(new: Array, old: Array) -> Array:
        return jnp.where(is_moved.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return jax.tree.map(chosen, end, first), accept_prob, way


def _replaced(
    key: PRNGKeyArray, chains: _Chains, is_lost: Bool[Array, " chains"]
) -> tuple[_Chains, Int[Array, ""]]:
    """Let lost chains go on from where others are, drawn at random."""
    count = is_lost.shape[0]
    # The others in an order of their own, then the lost ones; each takes its place among them.
    noise = jax.random.bits(key, (count,), jnp.uint32) >> 1
    order = jnp.argsort(jnp.where(is_lost, jnp.uint32(2**31) + noise, noise))
    num_others = jnp.maximum(count - jnp.sum(is_lost), 1)
    source = jnp.where(is_lost, order[jnp.arange(count) % num_others], jnp.arange(count))
    return jax.tree.map(lambda a: a[source], chains), jnp.sum(is_lost, dtype=jnp.int32)


def _is_lost(chains: _Chains) -> Bool[Array, " chains"]:
    """Chains so much less dense than most that they are on their way from a start far off."""
    dim = chains.w.shape[1]
    middle = jnp.median(chains.log_density)
    return ~(chains.log_density > middle - (LOST + 2.0 * dim))


class _Seen(NamedTuple):
    """What a window's chains saw in each coordinate."""

    mean: Float[Array, "chains dim"]
    within: Float[Array, "chains dim"]  # variance


def _seen(w: Float[Array, "kept chains dim"], weight: Float[Array, " kept"]) -> _Seen:
    share = weight / jnp.sum(weight)
    mean = jnp.einsum("k,kcd->cd", share, w)
    return _Seen(mean, jnp.einsum("k,kcd->cd", share, (w - mean) ** 2))


def _worth(seen: _Seen) -> Float[Array, ""]:
    """Independent draws that a chain's are worth where they are worth least, by chains' means."""
    return jnp.min(jnp.mean(seen.within, axis=0) / jnp.var(seen.mean, axis=0))


def _is_astray(
    seen: _Seen, energy: Float[Array, "kept chains"], weight: Float[Array, " kept"]
) -> Bool[Array, " chains"]:
    """Chains that spent a window far from most others, where there is next to no mass."""
    mean, dim = seen.mean, seen.mean.shape[1]
    middle = jnp.median(mean, axis=0)
    spread = 1.4826 * jnp.median(jnp.abs(mean - middle), axis=0)
    within = jnp.sqrt(jnp.median(seen.within, axis=0))
    is_far = jnp.any(jnp.abs(mean - middle) > FAR * jnp.maximum(spread, within), axis=1)
    tiny = jnp.finfo(mean.dtype).tiny
    log_mass = 0.5 * jnp.sum(jnp.log(seen.within + tiny), axis=1)
    log_mass -= jnp.sum(weight[:, None] * energy, axis=0) / jnp.sum(weight)
    return is_far & (log_mass < jnp.median(log_mass) - (SMALL + 0.5 * math.sqrt(dim)))


def _is_still(
    u: Float[Array, "kept chains dim"], weight: Float[Array, " kept"]
) -> Bool[Array, " chains"]:
    """Chains that a window did not move, in the neck of a funnel say, if it moved most."""
    is_still = jnp.all((u == u[jnp.argmax(weight)]) | (weight == 0)[:, None, None], axis=(0, 2))
    return is_still & (jnp.mean(is_still) < 0.5)


def _started(
    key: PRNGKeyArray,
    space: _Space,
    starts: Float[Array, "starts dim"],
    num_chains: int,
    is_given: bool,
) -> _Chains:
    """Begin around the origin, or at a given start where the density is not finite there."""
    dim, dtype = starts.shape[1], starts.dtype
    w = jax.random.uniform(key, (num_chains, dim), dtype, -2.0, 2.0)
    given = starts[jnp.arange(num_chains) % starts.shape[0]]
    given = jax.vmap(space.coordinates.from_flat)(given)
    potential = space.target.relative_to(space.reference)

    def chosen(both: tuple[Array, Array]) -> Array:
        u, log_det = space.coordinates.to_flat(both[0])
        return jnp.where(jnp.isfinite(potential(u) - log_det), *both)

    w = given if is_given else jax.vmap(chosen)((w, given))
    blank = jnp.full((num_chains,), -jnp.inf, dtype)
    return _Chains(w, w, blank, blank, jnp.zeros_like(w))


def run_ensemble(
    key: PRNGKeyArray,
    target: Target,
    starts: Float[Array, "starts dim"],
    num_chains: int,
    num_draws: int,
    target_accept: float,
    patience: int,
    recentring: Recentring | None,
    is_given: bool = False,
    is_fixed: bool = False,
    heavy_tails: bool = False,
) -> tuple[Ring, Terms, Adapted]:
    """Adapt, then draw; the ring holds ``num_draws`` draws of every chain, in order."""
    dim, dtype = starts.shape[1], starts.dtype
    is_dense = dim <= MAX_DENSE_DIM
    longest = patience * max(*WINDOWS, LAST_WINDOW)
    kept = max(longest // 2, num_draws)
    start_key, walk_key = jax.random.split(key)
    share = jnp.ones((dim,), dtype)
    if recentring is not None:
        share = jnp.where(jnp.asarray(recentring.is_free), 0.0, share)
    reference = target.terms(starts[0])
    stretch = Stretch.none(dim, is_dense, dtype) if heavy_tails else None
    space = _Space(target, reference, Coordinates(recentring, share, stretch))
    chains = _started(start_key, space, starts, num_chains, is_given)

    zero, none = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    blank = jnp.zeros((kept, num_chains), dtype)
    ring = Ring(jnp.zeros((kept, num_chains, dim), dtype), blank, blank, blank, none)
    trials = _Trials(jnp.zeros((dim,), dtype), zero, none + FIRST_LENGTH, none > 0)
    every = jnp.ones((num_chains,), dtype)
    state = _State(
        chains,
        none == 0,
        reference,
        _Averaging.at(jnp.log(zero + FIRST_SIZE)),
        share,
        stretch,
        fitted(chains.w, every, is_dense),
        trials,
        ring,
        none > 0,
        none,
        none,
    )

    def space_of(state: _State) -> _Space:
        own = Coordinates(recentring, state.share, state.stretch)
        return _Space(target, state.reference, own)

    def ended_window(key: PRNGKeyArray, state: _State, count: Array) -> _State:
        ring, space = state.ring, space_of(state)
        own = space.coordinates
        age = (ring.place - 1 - jnp.arange(kept)) % kept
        weight = (age < count // 2).astype(dtype)
        seen = _seen(jax.vmap(jax.vmap(own.from_flat))(ring.u), weight)
        is_astray = _is_astray(seen, ring.energy, weight) | _is_still(ring.u, weight)
        chains, num_replaced = _replaced(key, state.chains, is_astray)
        counted = (weight[:, None] * ~is_astray).ravel()
        if recentring is not None:
            share = learn_share(recentring, target, state.reference, chains.u)
            own = own._replace(share=share)
        flat = ring.u.reshape(-1, dim)
        if heavy_tails:
            whole = jax.vmap(own.unstretched_from_flat)(flat)
            own = own._replace(stretch=fitted_stretch(whole, counted, is_dense))
        if recentring is not None or heavy_tails:
            chains = chains._replace(w=jax.vmap(own.from_flat)(chains.u))
        w = jax.vmap(own.from_flat)(flat)
        return state._replace(
            chains=chains,
            is_stale=jnp.ones((), bool),
            reference=target.terms(chains.u[jnp.argmin(chains.potential)]),
            share=own.share,
            stretch=own.stretch,
            scale=fitted(w, counted, is_dense),
            averaging=_Averaging.at(state.averaging.average),
            mixes=(_worth(seen) > MIXES) & (num_replaced == 0),
            num_replaced=state.num_replaced + num_replaced,
        )

    def ended_trial(state: _State, length: Array) -> _State:
        trials = state.trials
        worth = jnp.min(trials.jump) / (length + 1.0)
        is_best = worth > trials.best
        trials = _Trials(
            jump=jnp.zeros_like(trials.jump),
            best=jnp.maximum(worth, trials.best),
            num_leapfrog=jnp.where(is_best & ~trials.is_over, length, trials.num_leapfrog),
            is_over=trials.is_over | (worth < WORTH_TRYING * trials.best),
        )
        return state._replace(trials=trials)

    def ended_draws(state: _State) -> _State:
        age = (state.ring.place - 1 - jnp.arange(kept)) % kept
        worth = _worth(_seen(state.ring.u, (age < num_draws).astype(dtype)))
        return state._replace(mixes=worth >= min(WORTH_ENOUGH, SHARE_ENOUGH * num_draws))

    def transition(state: _State, now: _Now, key: PRNGKeyArray) -> _State:
        move_key, rescue_key, window_key = jax.random.split(key, 3)
        averaging, trials = state.averaging, state.trials
        log_size = jnp.where(now.is_adapting, averaging.current, averaging.average)
        trial = jnp.where(trials.is_over, 0, now.length)
        length = jnp.where(now.length > 0, trial, trials.num_leapfrog)
        chains, accept_prob, way = _move(
            move_key,
            space_of(state),
            state.chains,
            state.is_stale,
            state.scale,
            jnp.exp(log_size),
            length,
        )
        seen = averaging.seen(jnp.mean(accept_prob), target_accept)
        averaging = jax.tree.map(partial(jnp.where, now.is_adapting), seen, averaging)
        jump = trials.jump + jnp.where(now.length > 0, jnp.mean(way**2, axis=0), 0.0)
        place = state.ring.place % kept
        ring = Ring(
            state.ring.u.at[place].set(chains.u),
            state.ring.potential.at[place].set(chains.potential),
            state.ring.energy.at[place].set(-chains.log_density),
            state.ring.accept_prob.at[place].set(accept_prob),
            state.ring.place + now.is_kept,
        )
        is_lost = jnp.where(now.rescues, _is_lost(chains), ~jnp.isfinite(chains.log_density))
        chains, num_lost = _replaced(rescue_key, chains, is_lost)
        state = state._replace(
            chains=chains,
            is_stale=jnp.zeros((), bool),
            averaging=averaging,
            trials=trials._replace(jump=jump),
            ring=ring,
            num_replaced=state.num_replaced + num_lost,
            num_gradients=state.num_gradients + length,
        )
        state = jax.lax.cond(
            now.ends_window > 0,
            lambda s: ended_window(window_key, s, now.ends_window),
            lambda s: s,
            state,
        )
        if not is_fixed:
            state = jax.lax.cond(now.ends_draws, ended_draws, lambda s: s, state)
        return jax.lax.cond(
            now.ends_trial, lambda s: ended_trial(s, now.length), lambda s: s, state
        )

    plan = jax.tree.map(jnp.asarray, _plan(patience, num_draws, is_fixed))
    length = plan.length.shape[0]
    keys = jax.random.split(walk_key, length)

    def one(at: tuple[_State, Array]) -> tuple[_State, Array]:
        state, i = at
        now: _Now = jax.tree.map(lambda a: a[i], plan)
        state = transition(state, now, keys[i])
        skips = ((now.ends_window > 0) | now.ends_draws) & state.mixes
        skips |= now.ends_trial & state.trials.is_over
        return state, jnp.where(skips, now.onward, i + 1)

    if is_fixed:  # in step with others
        state = jax.lax.fori_loop(0, length, lambda i, s: one((s, i))[0], state)
    else:
        state, _ = jax.lax.while_loop(lambda at: at[1] < length, one, (state, none))
    order = (state.ring.place - num_draws + jnp.arange(num_draws)) % kept
    ring = state.ring._replace(
        u=state.ring.u[order],
        potential=state.ring.potential[order],
        accept_prob=state.ring.accept_prob[order],
    )
    return (
        ring,
        state.reference,
        Adapted(
            share=state.share,
            stretch=state.stretch,
            num_leapfrog=state.trials.num_leapfrog,
            num_replaced=state.num_replaced,
            num_gradients=state.num_gradients,
        ),
    )
