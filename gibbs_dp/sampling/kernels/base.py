"""The contract of Markov kernels with an acceptance step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp.sampling.traits import Traits

Potential = Callable[[Float[Array, " dim"]], Float[Array, ""]]


@runtime_checkable
class State(Protocol):
    """What every kernel's state has; a NamedTuple with any further fields."""

    @property
    def position(self) -> Float[Array, " dim"]:
        """Where the chain is."""
        ...

    @property
    def potential(self) -> Float[Array, ""]:
        """Potential there."""
        ...


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
    """Settings of a kernel; where they are traced, changing them compiles nothing."""

    step_size: Float[Array, ""]
    num_inner: Int[Array, ""] | int  # leapfrog steps of HMC, Langevin transitions of MALA


def metropolis(
    uniform: Float[Array, ""], state: Any, proposal: Any, log_ratio: Float[Array, ""]
) -> tuple[Any, StepInfo]:
    """Accept a proposal with probability ``min(1, exp(log_ratio))``, and never where that is NaN.

    ``uniform`` is a uniform random number; states are pytrees. Returned are the state that is next
    and what the step did.
    """
    log_ratio = jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
    accept_prob = jnp.exp(jnp.minimum(log_ratio, 0.0))
    accepted = uniform < accept_prob
    chosen = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposal, state)
    return chosen, StepInfo(accept_prob, accepted)


class Kernel:
    """Base of Markov kernels with an acceptance step, on whitened coordinates.

    A kernel is a frozen dataclass of its settings that subclasses this and gives
    :meth:`default_tuning` and :meth:`step`; :meth:`init` too where its state is its own. Its state
    is any NamedTuple with ``position`` and ``potential``; :meth:`metropolis` accepts or rejects. It
    then works in ``gibbs_dp.sample`` and ``gibbs_dp.audit``, which find the mode, whiten, adapt and
    diagnose.

    Attributes
    ----------
    traits
        What the kernel is able to do.
    target_accept
        Acceptance rate that adaptation aims for.
    """

    traits: ClassVar[Traits] = Traits()
    target_accept = 0.8
    metropolis = staticmethod(metropolis)

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Step size and number of inner steps for a standard Gaussian of this dimension."""
        raise NotImplementedError

    def eased(
        self, accept_rate: float, tuning: tuple[float, int]
    ) -> tuple[tuple[float, int], int] | None:
        """Tuning and burn-in that do where pilots accepted this much; None: no less than usual."""
        del accept_rate, tuning
        return None

    def init(self, key: PRNGKeyArray, position: Float[Array, " dim"], potential: Potential) -> Any:
        """Start a chain: its state at a position."""
        del key
        return evaluate(position, potential)

    def step(
        self, key: PRNGKeyArray, state: Any, potential: Potential, tuning: Tuning
    ) -> tuple[Any, StepInfo]:
        """Make one transition that leaves ``exp(-potential)`` invariant."""
        raise NotImplementedError

    def noise_of_all(self, keys: Key[Array, " chains"], dim: int, dtype: Any) -> PyTree[Array]:
        """Draw what one transition of every chain takes; with ``traits.has_joint_noise`` only."""
        raise NotImplementedError

    def step_all(
        self, noise: PyTree[Array], states: Any, potential: Potential, tuning: Tuning
    ) -> tuple[Any, StepInfo]:
        """Make one transition of every chain, each by itself as :meth:`step` would."""
        raise NotImplementedError


def evaluate(position: Float[Array, " dim"], potential: Potential) -> ChainState:
    """Potential and gradient at a position."""
    value, gradient = jax.value_and_grad(potential)(position)
    return ChainState(position, value, gradient)


# Kernels of users, checked before anything is compiled for them.


def check_own(kernel: Kernel, argument: str = "kernel") -> None:
    """Refuse a kernel of the user's that cannot be compiled for; ``argument`` is its name there.

    Raises
    ------
    ValueError
        If it lacks a method or cannot be hashed.
    """
    name = type(kernel).__name__
    for method in ("default_tuning", "step"):
        if getattr(type(kernel), method) is getattr(Kernel, method):
            raise ValueError(
                f"{argument}: {name} has no method {method}; a subclass of gibbs_dp.Kernel gives "
                "default_tuning and step."
            )
    try:
        hash(kernel)
    except TypeError as error:
        raise ValueError(
            f"{argument}: {name} cannot be hashed ({error}), so that nothing can be compiled for "
            "it; make it a frozen dataclass of plain settings."
        ) from error
