"""Langevin kernels with an acceptance step, of one position or of position and momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.sampling.kernels.base import (
    ChainState,
    Kernel,
    Potential,
    StepInfo,
    Tuning,
    evaluate,
    metropolis,
)
from gibbs_dp.sampling.kernels.hmc import INTEGRATORS
from gibbs_dp.sampling.rejection import normals_and_uniforms

# The Metropolis-adjusted Langevin algorithm.


def step(
    key: PRNGKeyArray, state: ChainState, potential: Potential, tuning: Tuning
) -> tuple[ChainState, StepInfo]:
    """One MALA transition (Roberts & Tweedie 1996).

    Proposes ``x' = x - h grad U(x) + sqrt(2 h) xi`` with ``h = step_size**2 / 2`` and corrects
    with Metropolis-Hastings. ``step_size`` is the standard deviation of the noise.
    """
    size = tuning.step_size
    dim, dtype = state.position.shape[0], state.position.dtype
    noise, uniform = normals_and_uniforms(key, dim, 1, dtype)
    h = 0.5 * size**2
    proposal = evaluate(state.position - h * state.gradient + size * noise, potential)

    def log_q(to: ChainState, start: ChainState) -> Float[Array, ""]:
        gap = to.position - start.position + h * start.gradient
        return -0.5 * jnp.sum((gap / size) ** 2)

    log_ratio = (
        state.potential - proposal.potential + log_q(state, proposal) - log_q(proposal, state)
    )
    return metropolis(uniform[0], state, proposal, log_ratio)


@dataclass(frozen=True)
class MALA(Kernel):
    """Metropolis-adjusted Langevin on whitened coordinates.

    Parameters
    ----------
    step_size
        Standard deviation of the proposal noise, in posterior standard deviations. ``None``:
        ``1.3 dim ** (-1/6)``, tuned down where it is rejected.
    num_inner
        Langevin transitions per recorded draw: one gradient each, so 3 cost what an HMC step
        costs.
    target_accept
        Acceptance rate that adaptation aims for; 0.574 is optimal in high dimension
        (Roberts & Rosenthal 1998).

    Raises
    ------
    ValueError
        If a setting is out of range.
    """

    step_size: float | None = None
    num_inner: int = 3
    target_accept: float = 0.6

    def __post_init__(self) -> None:
        if self.step_size is not None and not self.step_size > 0:
            raise ValueError(f"MALA(step_size) must be positive, got {self.step_size}.")
        if self.num_inner < 1:
            raise ValueError(f"MALA(num_inner) must be at least 1, got {self.num_inner}.")
        if not 0 < self.target_accept < 1:
            raise ValueError(f"MALA(target_accept) must be in (0, 1), got {self.target_accept}.")

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Step size, and the number of inner transitions."""
        return self.step_size or 1.3 * dim ** (-1 / 6), self.num_inner

    def step(
        self, key: PRNGKeyArray, state: ChainState, potential: Potential, tuning: Tuning
    ) -> tuple[ChainState, StepInfo]:
        """``num_inner`` transitions; the info is of their mean acceptance."""

        def one(
            i: Array, carry: tuple[ChainState, Array, Array]
        ) -> tuple[ChainState, Array, Array]:
            current, total, moved = carry
            current, info = step(jax.random.fold_in(key, i), current, potential, tuning)
            return current, total + info.accept_prob, moved | info.is_accepted

        zero = jnp.zeros((), state.position.dtype)
        begin = (state, zero, jnp.zeros((), bool))
        end, total, moved = jax.lax.fori_loop(0, tuning.num_inner, one, begin)
        return end, StepInfo(total / tuning.num_inner, moved)


# Underdamped Langevin with an acceptance step: chains that remember their momentum.


class UnderdampedState(NamedTuple):
    """Where a chain is and how fast it moves."""

    position: Float[Array, " dim"]
    potential: Float[Array, ""]
    gradient: Float[Array, " dim"]
    momentum: Float[Array, " dim"]


@dataclass(frozen=True)
class UnderdampedLangevin(Kernel):
    """Metropolis-adjusted underdamped Langevin trajectories, on whitened coordinates.

    A trajectory follows ``dx = p dt``, ``dp = -grad U dt - friction p dt + sqrt(2 friction) dW`` in
    steps that refresh the momentum by half, move by Hamilton's equations, and refresh it by half
    again. It is accepted by the energy errors of the moves in between, which leaves the posterior
    times a standard normal momentum exactly invariant (Riou-Durand & Vogrinc 2022, *Metropolis
    adjusted Langevin trajectories*, for momenta drawn afresh; Horowitz 1991 for those that are kept
    and turned round on rejection, as here).

    Parameters
    ----------
    step_size
        Size of a step in whitened coordinates (for "split", an angle in radians). ``None``:
        0.5, shrinking like ``dim ** (-1/4)`` above 50 dimensions, tuned down where it is rejected.
    num_steps
        Steps, and gradients, of a trajectory, after which a draw may be recorded.
    friction
        How fast momentum is forgotten, per unit of time. Small values keep to one orbit for long,
        large ones make a random walk.
    target_accept
        Acceptance rate that adaptation aims for: high, as a rejection turns the chain round.
    integrator
        "split" or "leapfrog", as in `gibbs_dp.HMC`.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> UnderdampedLangevin(num_steps=5).default_tuning(dim=2)
    (0.5, 5)
    """

    step_size: float | None = None
    num_steps: int = 3
    friction: float = 1.0
    target_accept: float = 0.9
    integrator: Literal["split", "leapfrog"] = "split"

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.step_size is not None and not self.step_size > 0:
            raise ValueError(f"{name}(step_size) must be positive, got {self.step_size}.")
        if self.num_steps < 1:
            raise ValueError(f"{name}(num_steps) must be at least 1, got {self.num_steps}.")
        if not 0 < self.friction < float("inf"):
            raise ValueError(f"{name}(friction) must be positive, got {self.friction}.")
        if not 0 < self.target_accept < 1:
            raise ValueError(f"{name}(target_accept) must be in (0, 1), got {self.target_accept}.")
        if self.integrator not in INTEGRATORS:
            raise ValueError(
                f"{name}(integrator) must be 'split' or 'leapfrog', got {self.integrator!r}."
            )

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Step size, and steps of a trajectory."""
        return self.step_size or 0.5 / max(1.0, dim / 50) ** 0.25, self.num_steps

    def init(
        self, key: PRNGKeyArray, position: Float[Array, " dim"], potential: Potential
    ) -> UnderdampedState:
        """Start at a position with a momentum of the stationary law."""
        momentum = jax.random.normal(key, position.shape, position.dtype)
        return UnderdampedState(*evaluate(position, potential), momentum)

    def step(
        self, key: PRNGKeyArray, state: UnderdampedState, potential: Potential, tuning: Tuning
    ) -> tuple[UnderdampedState, StepInfo]:
        """One trajectory; where it is rejected the chain stays and turns round."""
        dim, dtype, size = state.position.shape[0], state.position.dtype, tuning.step_size
        integrate = INTEGRATORS[self.integrator]
        kept = jnp.exp(-0.5 * self.friction * size)
        fresh = jnp.sqrt(-jnp.expm1(-self.friction * size))

        def one(i: Array, carry: tuple[UnderdampedState, Array]) -> tuple[UnderdampedState, Array]:
            at, error = carry
            noise, _ = normals_and_uniforms(jax.random.fold_in(key, i), 2 * dim, 0, dtype)
            momentum = kept * at.momentum + fresh * noise[:dim]
            begin = ChainState(at.position, at.potential, at.gradient)
            end, last, first = integrate(begin, momentum, potential, size, jnp.asarray(1))
            error += end.potential - begin.potential + 0.5 * jnp.sum(last**2 - first**2)
            return UnderdampedState(*end, kept * last + fresh * noise[dim:]), error

        zero = jnp.zeros((), dtype)
        proposal, error = jax.lax.fori_loop(0, tuning.num_inner, one, (state, zero))
        _, uniform = normals_and_uniforms(jax.random.fold_in(key, tuning.num_inner), 1, 1, dtype)
        turned = state._replace(momentum=-state.momentum)
        return metropolis(uniform[0], turned, proposal, -error)
