"""Chains of one dataset: mode, whitening, starts, the walk, and how draws are judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gibbs_dp.sampling.kernels.base import Kernel, Potential, Schedule, Traits
from gibbs_dp.sampling.kernels.unadjusted import Unadjusted
from gibbs_dp.sampling.laplace import Location, locate
from gibbs_dp.sampling.rejection import spread_radii
from gibbs_dp.sampling.sampler import ChainDraws, Sampler, described
from gibbs_dp.sampling.target import Target, Whitening


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

    def is_inside(positions: Array) -> Array:
        return jnp.isfinite(jax.vmap(potential)(positions))[:, None]

    def nearer(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        at, inside, left = state
        share = jnp.where(left > 1, 0.25, 0.0)
        at = jnp.where(inside, at, centers + share * (at - centers))
        return at, is_inside(at), left - 1

    begin = positions, is_inside(positions), jnp.asarray(tries)
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
    """Chains of a kernel; a :class:`~gibbs_dp.sampling.sampler.Sampler` once :meth:`move` is given.

    Parameters
    ----------
    kernel
        How a chain moves.
    """

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
        """Move all chains from their positions, and keep the last draws.

        ``potential`` is relative to the mode, which ``found`` tells of; the rest as in
        :meth:`~gibbs_dp.sampling.sampler.Sampler.draw`.
        """
        raise NotImplementedError
