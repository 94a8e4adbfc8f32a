"""What every Markov kernel offers to the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

Potential = Callable[[Float[Array, " dim"]], Float[Array, ""]]


class ChainState(NamedTuple):
    """Where a chain is, with the potential and gradient that its next step reuses."""

    position: Float[Array, " dim"]
    potential: Float[Array, ""]
    gradient: Float[Array, " dim"]


class StepInfo(NamedTuple):
    """What one step did.

    Attributes
    ----------
    accept_prob
        Metropolis acceptance probability of the proposal.
    is_accepted
        Whether the chain moved.
    """

    accept_prob: Float[Array, ""]
    is_accepted: Bool[Array, ""]


class Tuning(NamedTuple):
    """Traced settings of a kernel: changing them compiles nothing."""

    step_size: Float[Array, ""]
    num_inner: Int[Array, ""]  # leapfrog steps of HMC, Langevin transitions of MALA


@runtime_checkable
class Kernel(Protocol):
    """Settings of a Markov kernel on whitened coordinates."""

    @property
    def target_accept(self) -> float:
        """Acceptance rate that adaptation aims for."""
        ...

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Step size and number of leapfrog steps for a standard Gaussian of this dimension."""
        ...

    def step(
        self, key: PRNGKeyArray, state: ChainState, potential: Potential, tuning: Tuning
    ) -> tuple[ChainState, StepInfo]:
        """Make one transition that leaves ``exp(-potential)`` invariant."""
        ...


@runtime_checkable
class JointKernel(Kernel, Protocol):
    """A kernel that can draw the noise of several chains together."""

    def noise_of_all(self, keys: Key[Array, " chains"], dim: int, dtype: Any) -> PyTree[Array]:
        """Draw what one transition of every chain takes."""
        ...

    def step_all(
        self,
        noise: PyTree[Array],
        states: ChainState,
        potential: Potential,
        tuning: Tuning,
    ) -> tuple[ChainState, StepInfo]:
        """Make one transition of every chain, each by itself as :meth:`Kernel.step` would."""
        ...


def init(position: Float[Array, " dim"], potential: Potential) -> ChainState:
    """Evaluate potential and gradient at a starting position."""
    value, gradient = jax.value_and_grad(potential)(position)
    return ChainState(position, value, gradient)


def metropolis(
    uniform: Float[Array, ""],
    state: ChainState,
    proposal: ChainState,
    log_ratio: Float[Array, ""],
) -> tuple[ChainState, StepInfo]:
    """Accept the proposal with probability ``min(1, exp(log_ratio))``; never accept NaN."""
    log_ratio = jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
    accept_prob = jnp.exp(jnp.minimum(log_ratio, 0.0))
    accepted = uniform < accept_prob
    chosen = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposal, state)
    return chosen, StepInfo(accept_prob, accepted)
