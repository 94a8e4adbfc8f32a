"""The Metropolis-adjusted Langevin algorithm."""

from __future__ import annotations

from dataclasses import dataclass

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
from gibbs_dp.sampling.rejection import normals_and_uniforms


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
