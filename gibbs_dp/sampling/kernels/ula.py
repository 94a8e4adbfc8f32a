"""The unadjusted Langevin algorithm: noisy full-batch gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

Gradient = Callable[[Float[Array, " dim"]], Float[Array, " dim"]]


class ULAState(NamedTuple):
    """Where the chain is."""

    position: Float[Array, " dim"]


def init(position: Float[Array, " dim"]) -> ULAState:
    """Start at a position."""
    return ULAState(position)


def step(
    key: PRNGKeyArray, state: ULAState, gradient: Gradient, step_size: float | Float[Array, ""]
) -> ULAState:
    """``theta <- theta - h grad U(theta) + sqrt(2 h) xi``, with standard normal ``xi``."""
    position = state.position
    noise = jax.random.normal(key, position.shape, position.dtype)
    drift = position - step_size * gradient(position)
    return ULAState(drift + jnp.sqrt(2.0 * step_size) * noise)


@dataclass(frozen=True)
class ULA:
    """Unadjusted Langevin on theta itself: no acceptance step, no preconditioner, full batch.

    Its law after ``num_steps`` steps is *not* the posterior's; what it has instead is a privacy
    guarantee that assumes no convergence (`gibbs_dp.privacy.chain_guarantee`).

    Parameters
    ----------
    step_size
        ``h``, in the units of theta squared; fixed, free of the data.
    num_steps
        ``K``.
    clip
        Per-example gradients are shortened to this norm; None leaves them as they are.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> ULA(step_size=0.01, num_steps=100).clip is None
    True
    """

    step_size: float
    num_steps: int
    clip: float | None = None

    def __post_init__(self) -> None:
        check_settings("ULA", self.step_size, self.num_steps, self.clip)


def check_settings(name: str, step_size: float, num_steps: int, clip: float | None) -> None:
    """Raise a ValueError unless the settings of a Langevin kernel make sense."""
    if not 0 < step_size < float("inf"):
        raise ValueError(f"{name}(step_size) must be positive and finite, got {step_size}.")
    if num_steps < 1:
        raise ValueError(f"{name}(num_steps) must be at least 1, got {num_steps}.")
    if clip is not None and not 0 < clip < float("inf"):
        raise ValueError(
            f"{name}(clip) must be positive and finite, got {clip}; None clips nothing."
        )
