"""Hamiltonian Monte Carlo with a fixed number of leapfrog steps of jittered size."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gibbs_dp.sampling.kernels.base import (
    ChainState,
    Potential,
    StepInfo,
    Tuning,
    init,
    metropolis,
)
from gibbs_dp.sampling.noise import normals_and_uniforms

__all__ = ["HMC", "init", "step", "trajectory"]

Vector = Float[Array, " dim"]


def trajectory(
    state: ChainState,
    momentum: Vector,
    potential: Potential,
    size: Float[Array, ""],
    num_leapfrog: Int[Array, ""],
) -> tuple[ChainState, Vector]:
    """Follow the leapfrog integrator; return where it ends, and with what momentum.

    Volume preserving, and reversible: from the end with the momentum negated it leads back.
    """
    half = momentum - 0.5 * size * state.gradient
    return _after_first_kick(state, half, potential, size, num_leapfrog)


def _after_first_kick(
    state: ChainState,
    half: Vector,
    potential: Potential,
    size: Float[Array, ""],
    num_leapfrog: Int[Array, ""],
) -> tuple[ChainState, Vector]:
    gradient_of = jax.grad(potential)

    def leapfrog(_: Array, carry: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
        position, half = carry
        return position + size * half, half - size * gradient_of(position + size * half)

    # The half kick is followed by num_leapfrog - 1 (drift, full kick), a drift and the last half
    # kick: the potential's value is needed only once, at the end.
    position, half = jax.lax.fori_loop(0, num_leapfrog - 1, leapfrog, (state.position, half))
    end = init(position + size * half, potential)
    return end, half - 0.5 * size * end.gradient


def step(
    key: PRNGKeyArray, state: ChainState, potential: Potential, tuning: Tuning, jitter: float = 0.2
) -> tuple[ChainState, StepInfo]:
    """One HMC transition (Duane et al. 1987) with unit mass.

    All lanes of a vmap take the same number of leapfrog steps, so none waits for another. The
    size of the steps is multiplied by a uniform draw from ``[1 - jitter, 1 + jitter]``, which
    breaks the periodic orbits that a fixed trajectory length has on Gaussians.
    """
    dim, dtype = state.position.shape[0], state.position.dtype
    momentum, uniform = normals_and_uniforms(key, dim, 2, dtype)
    size = tuning.step_size * (1.0 + jitter * (2.0 * uniform[0] - 1.0))
    kick = 0.5 * size * state.gradient
    half = momentum - kick
    proposal, last = _after_first_kick(state, half, potential, size, tuning.num_inner)
    # Read back from the loop's start, which is in memory: XLA would compute the noise again.
    momentum = half + kick
    energy_change = (proposal.potential + 0.5 * jnp.sum(last**2)) - (
        state.potential + 0.5 * jnp.sum(momentum**2)
    )
    return metropolis(uniform[1], state, proposal, -energy_change)


@dataclass(frozen=True)
class HMC:
    """Hamiltonian Monte Carlo on whitened coordinates.

    Parameters
    ----------
    step_size
        Leapfrog step in whitened coordinates (posterior standard deviations). ``None``: a
        quarter orbit of a Gaussian in ``num_leapfrog`` steps, tuned down where it is rejected.
    num_leapfrog
        Gradients per step. ``None``: 3, growing like ``dim ** (1/4)`` above 50 dimensions.
    jitter
        Relative half-width of the uniform factor on the step size, in [0, 1).
    target_accept
        Acceptance rate that adaptation aims for.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> HMC(num_leapfrog=5).default_tuning(dim=2)[1]
    5
    """

    step_size: float | None = None
    num_leapfrog: int | None = None
    jitter: float = 0.2
    target_accept: float = 0.8

    def __post_init__(self) -> None:
        if self.step_size is not None and not self.step_size > 0:
            raise ValueError(f"HMC(step_size) must be positive, got {self.step_size}.")
        if self.num_leapfrog is not None and self.num_leapfrog < 1:
            raise ValueError(f"HMC(num_leapfrog) must be at least 1, got {self.num_leapfrog}.")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"HMC(jitter) must be in [0, 1), got {self.jitter}.")
        if not 0 < self.target_accept < 1:
            raise ValueError(f"HMC(target_accept) must be in (0, 1), got {self.target_accept}.")

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Step size and leapfrog count: their product is a quarter orbit, pi/2."""
        shrink = max(1.0, dim / 50) ** 0.25
        count = self.num_leapfrog or max(3, round(3 * shrink))
        size = self.step_size or min(0.55 / shrink, 1.6 / count)
        return size, count

    def step(
        self, key: PRNGKeyArray, state: ChainState, potential: Potential, tuning: Tuning
    ) -> tuple[ChainState, StepInfo]:
        """One transition; see :func:`step`."""
        return step(key, state, potential, tuning, self.jitter)
