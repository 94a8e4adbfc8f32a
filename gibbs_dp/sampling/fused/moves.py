"""HMC's transition on coordinates held one by one, as a GPU kernel holds them.

The same arithmetic as :mod:`gibbs_dp.sampling.kernels.integrators`, which has vectors: a GPU kernel
cannot take a coordinate out of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from gibbs_dp.sampling.fused.energy import Coordinates, Energy, Number, State, squared_norm
from gibbs_dp.sampling.kernels.base import StepInfo, Tuning, metropolis

Integrator = Callable[[State, Coordinates, Energy, Number, Any], tuple[State, Coordinates]]


def _plus(x: Coordinates, factor: Number, y: Coordinates) -> Coordinates:
    return tuple(a + factor * b for a, b in zip(x, y, strict=True))


def leapfrog(
    state: State, momentum: Coordinates, energy: Energy, size: Number, num_leapfrog: Any
) -> tuple[State, Coordinates]:
    """Kicks by the gradient, and straight drifts between: the end, and the momentum there."""
    begin = state.position, _plus(momentum, -0.5 * size, state.gradient)

    def one(_: Array, carry: tuple[Coordinates, Coordinates]) -> tuple[Coordinates, Coordinates]:
        position = _plus(carry[0], size, carry[1])
        return position, _plus(carry[1], -size, energy.gradient(position))

    position, half = jax.lax.fori_loop(0, num_leapfrog - 1, one, begin)
    end = energy.at(_plus(position, size, half))
    return end, _plus(half, -0.5 * size, end.gradient)


def split(
    state: State, momentum: Coordinates, energy: Energy, angle: Number, num_leapfrog: Any
) -> tuple[State, Coordinates]:
    """Rotations, and kicks by what the gradient has beyond a Gaussian's between."""
    cos, sin = jnp.cos(angle), jnp.sin(angle)

    def kicked(
        momentum: Coordinates, share: Number, gradient: Coordinates, at: Coordinates
    ) -> Coordinates:
        residual = tuple(g - q for g, q in zip(gradient, at, strict=True))
        return _plus(momentum, -share, residual)

    def rotate(q: Coordinates, p: Coordinates) -> tuple[Coordinates, Coordinates]:
        pairs = list(zip(q, p, strict=True))
        return tuple(cos * a + sin * b for a, b in pairs), tuple(
            cos * b - sin * a for a, b in pairs
        )

    def one(_: Array, carry: tuple[Coordinates, Coordinates]) -> tuple[Coordinates, Coordinates]:
        position, momentum = rotate(*carry)
        return position, kicked(momentum, angle, energy.gradient(position), position)

    begin = state.position, kicked(momentum, 0.5 * angle, state.gradient, state.position)
    position, last = rotate(*jax.lax.fori_loop(0, num_leapfrog - 1, one, begin))
    end = energy.at(position)
    return end, kicked(last, 0.5 * angle, end.gradient, position)


INTEGRATORS: dict[str, Integrator] = {"leapfrog": leapfrog, "split": split}


def transition(
    momentum: Coordinates,
    uniforms: tuple[Number, Number],
    state: State,
    energy: Energy,
    tuning: Tuning,
    jitter: float,
    integrator: Integrator,
) -> tuple[State, StepInfo]:
    """One HMC transition with given noise; see :func:`gibbs_dp.sampling.kernels.hmc.transition`."""
    size = tuning.step_size * (1.0 + jitter * (2.0 * uniforms[0] - 1.0))
    proposal, last = integrator(state, momentum, energy, size, tuning.num_inner)
    change = (proposal.potential + 0.5 * squared_norm(last)) - (
        state.potential + 0.5 * squared_norm(momentum)
    )
    return metropolis(uniforms[1], state, proposal, -change)
