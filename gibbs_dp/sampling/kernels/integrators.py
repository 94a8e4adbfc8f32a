"""Reversible, volume preserving integrators of Hamilton's equations with unit mass."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gibbs_dp.sampling.kernels.base import ChainState, Potential, evaluate

Vector = Float[Array, " dim"]
Integrator = Callable[
    [ChainState, Vector, Potential, Float[Array, ""], Int[Array, ""] | int],
    tuple[ChainState, Vector, Vector],
]


def leapfrog(
    state: ChainState,
    momentum: Vector,
    potential: Potential,
    size: Float[Array, ""],
    num_leapfrog: Int[Array, ""] | int,
) -> tuple[ChainState, Vector, Vector]:
    """Kicks by the gradient, and straight drifts between.

    Returns
    -------
    end, last, first
        Where the trajectory ends, with what momentum, and the momentum it began with, read back
        from the loop's start, which is in memory: XLA would compute the noise again.
    """
    kick = 0.5 * size * state.gradient
    half = momentum - kick
    gradient_of = jax.grad(potential)

    def one(_: Array, carry: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
        position, half = carry
        return position + size * half, half - size * gradient_of(position + size * half)

    # The half kick is followed by num_leapfrog - 1 (drift, full kick), a drift and the last half
    # kick: the potential's value is needed only once, at the end.
    position, last = jax.lax.fori_loop(0, num_leapfrog - 1, one, (state.position, half))
    end = evaluate(position + size * last, potential)
    return end, last - 0.5 * size * end.gradient, half + kick


def split(
    state: ChainState,
    momentum: Vector,
    potential: Potential,
    angle: Float[Array, ""],
    num_leapfrog: Int[Array, ""] | int,
) -> tuple[ChainState, Vector, Vector]:
    """Rotations by ``angle``, and kicks by what the gradient has beyond a Gaussian's between.

    The potential is ``|v|^2 / 2`` plus a residual (Shahbaba, Lan, Johnson & Neal 2014, section
    3.1). The flow of the first part is a rotation of position and momentum, without error; the
    residual's gradient is ``grad U(v) - v``. Exact on a standard Gaussian, and close to it the
    error is that of the residual alone. Returns what :func:`leapfrog` returns.
    """
    kick = 0.5 * angle * (state.gradient - state.position)
    kicked = momentum - kick
    gradient_of = jax.grad(potential)
    cos, sin = jnp.cos(angle), jnp.sin(angle)

    def rotate(position: Vector, momentum: Vector) -> tuple[Vector, Vector]:
        return cos * position + sin * momentum, cos * momentum - sin * position

    def one(_: Array, carry: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
        position, momentum = rotate(*carry)
        return position, momentum - angle * (gradient_of(position) - position)

    position, last = rotate(*jax.lax.fori_loop(0, num_leapfrog - 1, one, (state.position, kicked)))
    end = evaluate(position, potential)
    return end, last - 0.5 * angle * (end.gradient - end.position), kicked + kick


INTEGRATORS: dict[str, Integrator] = {"leapfrog": leapfrog, "split": split}
