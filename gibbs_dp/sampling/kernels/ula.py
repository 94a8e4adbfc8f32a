"""The unadjusted Langevin algorithm: noisy full-batch gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.sampling.kernels.unadjusted import Unadjusted

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
class ULA(Unadjusted):
    """Unadjusted Langevin: ``theta <- theta - h grad U(theta) + sqrt(2 h) xi``, full batch.

    Its law is *not* the posterior's. In ``gibbs_dp.sample`` and ``gibbs_dp.audit`` it comes near
    it as ``h`` shrinks: on a Gaussian of variance ``s^2`` the stationary variance is
    ``s^2 / (1 - h / (2 s^2))``, and reports estimate the inflation. What a run of fixed length has
    instead is a privacy guarantee that assumes no convergence
    (``gibbs_dp.privacy.chain_guarantee``): for a fixed step, free of the data, without a
    preconditioner.

    Parameters
    ----------
    step_size
        ``h``: a number, or an optax schedule of the count of steps. In units of theta squared
        (unconstrained coordinates), or of preconditioned coordinates squared. None: see
        ``relative_step``.
    num_steps
        Steps per recorded draw; ``K`` of a private chain, which records its last iterate only.
        None: 20.
    clip
        Per-example gradients are shortened to this norm; None leaves them as they are. Clipping
        that bites changes the law, which the virial column of a report then shows.
    relative_step
        ``h M`` with ``M`` the largest curvature of the potential at the mode, so that ``h``
        shrinks as gamma grows and no step size diverges; a number below 2 or an optax schedule.
        The variance in the stiffest direction is inflated by about half of it. None: 0.03.
    preconditioner
        "none"; "diagonal", a scale per coordinate; or "laplace", the inverse Hessian at the mode
        (at most 512 coordinates): with it all directions mix alike.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> ULA(step_size=0.01, num_steps=100).clip is None
    True
    >>> import optax
    >>> ULA(relative_step=optax.linear_schedule(0.2, 0.02, 500)).default_tuning(dim=3)
    (1.0, 20)
    """
