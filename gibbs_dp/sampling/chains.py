"""Chains of one dataset: mode, whitening, starts, adaptation, draws, and how they are judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.base import Kernel, Potential, Schedule, StepInfo, Traits, Tuning
from gibbs_dp.sampling.kernels.langevin import Unadjusted
from gibbs_dp.sampling.laplace import Location, locate
from gibbs_dp.sampling.noise import chain_keys, spread_radii, step_key
from gibbs_dp.sampling.sampler import ChainDraws, Sampler, described
from gibbs_dp.sampling.target import Target, Whitening, fit_whitening

STEPS_PER_ROUND = 20
MAX_STEPS = 2**20  # in one round; the last number is for the start


class Walk(NamedTuple):
    """Draws in the whitened coordinates they were made in."""

    v: Float[Array, "chains draws dim"]  # draws, ``[chains, draws, dim]``
    potential: Float[Array, "chains draws"]  # their potential energy, ``[chains, draws]``
    whitening: Whitening  # the coordinates
    accept_prob: Float[Array, " chains"]  # mean acceptance probability per chain while drawing
    is_stuck: Bool[Array, " chains"]  # per chain: no proposal was accepted in the whole last round


def _movers(has_moved: Bool[Array, " chains"]) -> Int[Array, " chains"]:
    """For every chain one that has moved; itself where none has."""
    places = jnp.arange(has_moved.shape[0])
    count = jnp.sum(has_moved)
    rank = jnp.sum(has_moved & (places < places[:, None]), axis=1)  # among those that moved
    wanted = places % jnp.maximum(count, 1)
    found = jnp.argmax(has_moved & (rank == wanted[:, None]), axis=1)
    return jnp.where(count > 0, found, places)


class _Memory(NamedTuple):
    """The memory of the loop: the last ``num_samples`` draws, as a ring."""

    v: Float[Array, "draws chains dim"]
    potential: Float[Array, "draws chains"]
    accept_prob: Float[Array, "draws chains"]


_Carry = tuple[Array, Whitening, Array, _Memory, Array]


def evolve(
    key: PRNGKeyArray,
    potential: Potential,
    positions: Float[Array, "chains dim"],
    whitening: Whitening,
    kernel: Kernel,
    schedule: Schedule,
    num_samples: int,
    is_joint: bool = False,
) -> Walk:
    """Run adaptation rounds, then one long round whose last ``num_samples`` draws are kept.

    Between rounds the last draws, pooled over chains, give the next whitening; within one, the step
    size follows the pooled acceptance by a Robbins-Monro rule. The last round holds both fixed: its
    chain is a plain Markov chain. A traced schedule has one loop body, compiled once.
    """
    num_chains, dim = positions.shape
    rounds = schedule.num_adapt_rounds
    log_default = jnp.log(schedule.tuning.step_size)
    blank = _Memory(
        jnp.zeros((num_samples, num_chains, dim), positions.dtype),
        jnp.zeros((num_samples, num_chains), positions.dtype),
        jnp.zeros((num_samples, num_chains), positions.dtype),
    )

    is_joint = is_joint and kernel.traits.has_joint_noise
    streams = chain_keys(key, num_chains)

    def noise_of(step: Array) -> Any:
        keys = jax.vmap(lambda words: step_key(words, step))(streams)
        return kernel.noise_of_all(keys, dim, positions.dtype) if is_joint else keys

    def each_step(
        keys: Any, states: Any, potential: Potential, tuning: Tuning
    ) -> tuple[Any, StepInfo]:
        return jax.vmap(lambda k, s: kernel.step(k, s, potential, tuning))(keys, states)

    step_all = kernel.step_all if is_joint else each_step
    still = jnp.zeros((num_chains,), bool)

    def one_round(index: Array, carry: _Carry, is_last: bool | None) -> _Carry:
        """``is_last``: None where that is traced."""
        positions, current, log_step, memory, _ = carry
        is_end = index == rounds if is_last is None else is_last
        pulled = current.pull_back(potential)
        first = index * MAX_STEPS
        keys = jax.vmap(lambda words: step_key(words, first + MAX_STEPS - 1))(streams)
        states = jax.vmap(lambda k, u: kernel.init(k, current.whiten(u), pulled))(keys, positions)
        # Coordinates are new in every round, so the step size starts afresh; where the rounds
        # before had to shorten it, the last one keeps the shorter.
        begin = jnp.where(is_end, jnp.minimum(log_step, log_default), log_default)
        longest = schedule.num_burn_in + num_samples
        count: Array | int
        if is_last is None:
            count = jnp.where(is_end, longest, STEPS_PER_ROUND)
        else:
            count = longest if is_last else STEPS_PER_ROUND

        def one_step(
            t: Array, inner: tuple[Any, Array, _Memory, Array, Any]
        ) -> tuple[Any, Array, _Memory, Array, Any]:
            chains, log_step, memory, has_moved, noise = inner
            tuning = Tuning(jnp.exp(log_step), schedule.tuning.num_inner)
            chains, info = step_all(noise, chains, pulled, tuning)
            slot = (t + num_samples - count % num_samples) % num_samples
            new = _Memory(chains.position, chains.potential, info.accept_prob)
            memory = jax.tree.map(lambda old, x: old.at[slot].set(x), memory, new)
            if is_last is not True:
                # A factor e^2 at first: the step may start decades away.
                gain = jnp.where(is_end, 0.0, 2.0 / jnp.sqrt(1.0 + t))
                log_step += gain * (jnp.mean(info.accept_prob) - kernel.target_accept)
            # What a loop carries is in memory; else everything that reads it would draw it again.
            noise = noise_of(first + t + 1)
            return chains, log_step, memory, has_moved | info.is_accepted, noise

        _, log_step, memory, has_moved, _ = jax.lax.fori_loop(
            0, count, one_step, (states, begin, memory, still, noise_of(first))
        )
        flat = jax.vmap(jax.vmap(current.color))(memory.v)
        pooled = flat[-min(num_samples, STEPS_PER_ROUND) :].reshape(-1, dim)
        fresh = fit_whitening(pooled, current)
        kept = jax.tree.map(lambda a, b: jnp.where(is_end, a, b), current, fresh)
        # A chain that cannot move, in the neck of a funnel, goes on from where another is.
        ends = jnp.where(has_moved[:, None], flat[-1], flat[-1][_movers(has_moved)])
        return ends, kept, log_step, memory, has_moved

    carry = (positions, whitening, log_default, blank, still)
    if schedule.is_fixed:
        if not isinstance(rounds, int) or rounds > 0:  # a plain 0 compiles no loop
            carry = jax.lax.fori_loop(0, rounds, partial(one_round, is_last=False), carry)
        carry = one_round(jnp.asarray(rounds, jnp.int32), carry, True)
    else:
        carry = jax.lax.fori_loop(0, rounds + 1, partial(one_round, is_last=None), carry)
    _, whitening, _, memory, has_moved = carry
    return Walk(
        v=jnp.swapaxes(memory.v, 0, 1),
        potential=memory.potential.T,
        accept_prob=jnp.mean(memory.accept_prob, axis=0),
        is_stuck=~has_moved,
        whitening=whitening,
    )


class Moved(NamedTuple):
    """Draws of chains, in the coordinates ``whitening`` that they are judged in."""

    v: Float[Array, "chains draws dim"]
    potential: Float[Array, "chains draws"]
    whitening: Whitening
    accept_prob: Float[Array, " chains"]
    is_stuck: Bool[Array, " chains"]
    inflation: Float[Array, " chains"]
    kl_inflation: Float[Array, ""]


# Quarters of the way to a center that a start without density may go.
MOST_PULLS = 16


def _pulled_in(
    potential: Potential,
    positions: Float[Array, "chains dim"],
    centers: Float[Array, "starts dim"],
    tries: int,
) -> Float[Array, "chains dim"]:
    """Move starts without density towards their centers, and onto them in the end."""

    def nearer(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        at, _, left = state
        inside = jnp.isfinite(jax.vmap(potential)(at))[:, None]
        share = jnp.where(left > 1, 0.25, 0.0)
        return jnp.where(inside, at, centers + share * (at - centers)), inside, left - 1

    # Nothing is known before the first round: a test before the loop would be compiled twice.
    begin = positions, jnp.zeros((positions.shape[0], 1), bool), jnp.asarray(tries)
    if tries == 1:
        return nearer(begin)[0]
    return jax.lax.while_loop(lambda s: (s[2] > 0) & ~jnp.all(s[1]), nearer, begin)[0]


def _with_scale(found: Location, scale: Float[Array, " dim"]) -> Whitening:
    center, fitted = found.whitening
    given = scale if fitted.ndim == 1 else jnp.diag(scale)
    is_used = ~found.is_curved & jnp.all(jnp.isfinite(scale))
    return Whitening(center, jnp.where(is_used, given, fitted))


# What samplers that run chains of a kernel share.

# Acceptance below which steps are too long: of gradient kernels, and of a kernel's own target.
LEAST_ACCEPT, SHARE_OF_TARGET = 0.5, 5 / 6

K = TypeVar("K", Kernel, Unadjusted)


@dataclass(frozen=True, repr=False)
class ChainSampler(Sampler, Generic[K]):
    """Chains of a kernel; a sampler once :meth:`move` is given."""

    kernel: K

    def __repr__(self) -> str:
        return repr(self.kernel)

    @property
    def traits(self) -> Traits:
        """Those of the kernel."""
        return self.kernel.traits

    @property
    def identity(self) -> str:
        """The kernel and its settings, and the code of one's own."""
        return described(self.kernel)

    @property
    def least_accept(self) -> float:
        """A half; less where the kernel itself aims for so little."""
        return min(LEAST_ACCEPT, getattr(self.kernel, "target_accept", 1.0) * SHARE_OF_TARGET)

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Tuning that the kernel begins with."""
        return self.kernel.default_tuning(dim)

    def draw(
        self,
        key: PRNGKeyArray,
        target: Target,
        starts: Float[Array, "starts dim"],
        schedule: Schedule,
        num_chains: int,
        num_samples: int,
        scale: Float[Array, " dim"] | None = None,
        is_joint: bool = False,
    ) -> ChainDraws:
        """Find the mode of one dataset, start all chains around it, move them, pack their draws."""
        start_key, walk_key = jax.random.split(key)
        newton = schedule.num_newton
        found = locate(target, starts, newton)
        if scale is not None:
            found = found._replace(whitening=_with_scale(found, scale))
        laplace, reference = found.whitening, found.reference
        noise = jax.random.normal(start_key, (num_chains, starts.shape[1]), starts.dtype)
        if is_joint:
            radius_key, turn_key = jax.random.split(jax.random.fold_in(start_key, 1))
            uniform = jax.random.uniform(radius_key, (num_chains,), starts.dtype)
            noise = spread_radii(noise, uniform, jax.random.uniform(turn_key, (), starts.dtype))
        positions = found.centers - laplace.center + jax.vmap(laplace.color)(noise)
        potential = target.around(laplace.center, reference, laplace)
        # A loop of unknown length asks the host, where a number of steps is given.
        tries = MOST_PULLS if newton is None else 1
        positions = _pulled_in(potential, positions, found.centers, tries)
        run = self.move(
            walk_key, target, potential, positions, found, schedule, num_samples, is_joint
        )
        last, pulled = run.v[:, -1], run.whitening.pull_back(potential)
        return ChainDraws(
            u=jax.vmap(jax.vmap(run.whitening.color))(run.v),
            v=run.v,
            weight=jnp.full(run.v.shape[:2], 1.0 / run.v.shape[1], starts.dtype),
            potential=run.potential,
            log_normalizer=None,
            log_normalizer_se=None,
            worst_ess=jnp.ones((), starts.dtype),
            accept_prob=run.accept_prob,
            virial=jax.vmap(lambda v: jax.jvp(pulled, (v,), (v,))[1])(last),
            is_stuck=run.is_stuck,
            whitening=run.whitening,
            reference=reference,
            mode=laplace.center,
            mode_potential_gap=found.gaps,
            is_curved=found.is_curved,
            is_improper=found.is_improper,
            edge_weight=jnp.zeros((), starts.dtype),
            inflation=run.inflation,
            kl_inflation=run.kl_inflation,
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
        """Move all chains from their positions, and keep the last draws."""
        raise NotImplementedError


# The sampler of every Markov kernel that has an acceptance step.


@dataclass(frozen=True, repr=False)
class MarkovSampler(ChainSampler[Kernel]):
    """Chains whitened around the mode, adapted where that is asked for."""

    def check(self, posterior: GibbsPosterior) -> None:
        """Ask the kernel."""
        self.kernel.check(posterior)

    def eased(
        self, accept_rate: float, tuning: tuple[float, int]
    ) -> tuple[tuple[float, int], int] | None:
        """Ask the kernel."""
        return self.kernel.eased(accept_rate, tuning)

    def lengthened(self, tuning: tuple[float, int]) -> tuple[float, int]:
        """Ask the kernel."""
        return self.kernel.lengthened(tuning)

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
        """Run rounds of adaptation, burn-in and draws."""
        run = evolve(
            key, potential, positions, found.whitening, self.kernel, schedule, num_samples, is_joint
        )
        none = jnp.zeros((positions.shape[0],), positions.dtype)
        return Moved(*run, none, none[0])
