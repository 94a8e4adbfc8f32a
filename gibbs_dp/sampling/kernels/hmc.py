"""Hamiltonian Monte Carlo with a fixed number of steps of jittered size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from gibbs_dp.sampling.kernels.base import (
    ChainState,
    Kernel,
    Potential,
    StepInfo,
    Traits,
    Tuning,
    check_ranges,
    evaluate,
    metropolis,
)
from gibbs_dp.sampling.noise import normals_and_uniforms, spread_radii

# Reversible, volume preserving integrators of Hamilton's equations with unit mass.

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
    """Kicks by the gradient, and straight drifts between."""
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


# Acceptance around a Gaussian fit above which a share of the steps and a shorter burn-in do: on a
# Gaussian posterior, and on one so close to it that no test here found a bias with 4 steps.
EASED = ((0.999, 1 / 3, 2), (0.985, 2 / 3, 8))

# Times as many steps, and the angle that they go together, where gradients cost little. On a
# Gaussian, neighbours are correlated by -0.4, and their squares by 0.2.
LENGTHENED, LONGER_WAY = 5 / 3, 2.0

# Standard normals and uniforms of all chains.
Noise = tuple[Float[Array, "dim chains"], Float[Array, "4 chains"]]


def step(
    key: PRNGKeyArray,
    state: ChainState,
    potential: Potential,
    tuning: Tuning,
    jitter: float = 0.2,
    integrator: Integrator = split,
) -> tuple[ChainState, StepInfo]:
    """One HMC transition (Duane et al. 1987) with unit mass.

    All lanes of a vmap take the same number of steps, so none waits for another. The size of the
    steps is multiplied by a uniform draw from ``[1 - jitter, 1 + jitter]``, which breaks the
    periodic orbits that a fixed trajectory length has on Gaussians.
    """
    dim, dtype = state.position.shape[0], state.position.dtype
    momentum, uniform = normals_and_uniforms(key, dim, 2, dtype)
    return transition(momentum, uniform, state, potential, tuning, jitter, integrator)


def transition(
    momentum: Float[Array, " dim"],
    uniform: Float[Array, 2],
    state: ChainState,
    potential: Potential,
    tuning: Tuning,
    jitter: float,
    integrator: Integrator,
) -> tuple[ChainState, StepInfo]:
    """One HMC transition with given noise: standard normals, and two uniform numbers."""
    size = tuning.step_size * (1.0 + jitter * (2.0 * uniform[0] - 1.0))
    proposal, last, first = integrator(state, momentum, potential, size, tuning.num_inner)
    energy_change = (proposal.potential + 0.5 * jnp.sum(last**2)) - (
        state.potential + 0.5 * jnp.sum(first**2)
    )
    return metropolis(uniform[1], state, proposal, -energy_change)


@dataclass(frozen=True)
class HMC(Kernel):
    """Hamiltonian Monte Carlo on whitened coordinates.

    Parameters
    ----------
    step_size
        Size of a step in whitened coordinates (posterior standard deviations; for "split", the
        angle of a rotation in radians). ``None``: a quarter orbit of a Gaussian in
        ``num_leapfrog`` steps, tuned down where it is rejected.
    num_leapfrog
        Steps, and gradients, of a trajectory. ``None``: 3, growing like ``dim ** (1/4)`` above 50
        dimensions; audits take fewer where their pilots accept nearly everything, and
        ``gibbs_dp.sample`` 5, shorter ones over a longer way, where the Laplace fit is of use and
        gradients are a small part of its time.
    jitter
        Relative half-width of the uniform factor on the step size, in [0, 1).
    target_accept
        Acceptance rate that adaptation aims for.
    integrator
        "split" follows the Gaussian that the coordinates were whitened with exactly and corrects
        for the rest: fewer rejections close to a Gaussian, the same far from it. "leapfrog" is the
        plain one.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> HMC(num_leapfrog=5).default_tuning(dim=2)[1]
    5
    """

    traits: ClassVar[Traits] = Traits(has_joint_noise=True)

    step_size: float | None = None
    num_leapfrog: int | None = None
    jitter: float = 0.2
    target_accept: float = 0.8
    integrator: Literal["split", "leapfrog"] = "split"

    def __post_init__(self) -> None:
        check_ranges(self)

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Step size and number of steps: their product is a quarter orbit, pi/2."""
        shrink = max(1.0, dim / 50) ** 0.25
        count = self.num_leapfrog or max(3, round(3 * shrink))
        size = self.step_size or min(0.55 / shrink, 1.6 / count)
        return size, count

    def eased(
        self, accept_rate: float, tuning: tuple[float, int]
    ) -> tuple[tuple[float, int], int] | None:
        """Fewer steps to a quarter orbit, and a short burn-in, where the fit is nearly exact.

        The "split" integrator then follows the posterior without error, and chains start from
        nearly the posterior itself.
        """
        if self.integrator != "split":
            return None
        for least, share, num_burn_in in EASED:
            if accept_rate > least:
                size, count = tuning
                if self.num_leapfrog is None and self.step_size is None:
                    fewer = math.ceil(share * count)
                    size, count = size * count / fewer, fewer
                return (size, count), num_burn_in
        return None

    def lengthened(self, tuning: tuple[float, int]) -> tuple[float, int]:
        """More steps over a longer way: of a posterior wider than its fit, twice the draws' worth.

        Not as far as a half orbit, where draws of a Gaussian alternate between two sides of it:
        means of theirs would be better still, and variances much worse.
        """
        if self.num_leapfrog is not None or self.step_size is not None:
            return tuning
        count = math.ceil(LENGTHENED * tuning[1])
        return LONGER_WAY / count, count

    def step(
        self, key: PRNGKeyArray, state: ChainState, potential: Potential, tuning: Tuning
    ) -> tuple[ChainState, StepInfo]:
        """One transition; see :func:`step`."""
        return step(key, state, potential, tuning, self.jitter, INTEGRATORS[self.integrator])

    def noise_of_all(self, keys: Key[Array, " chains"], dim: int, dtype: Any) -> Noise:
        """Draw the noise of :meth:`step_all`: for each chain what :meth:`step` draws, and more."""
        return normals_and_uniforms(keys, dim, 4, dtype)

    def step_all(
        self, noise: Noise, states: ChainState, potential: Potential, tuning: Tuning
    ) -> tuple[ChainState, StepInfo]:
        """One transition of every chain of one posterior, their momenta of all lengths.

        By itself each chain does what :meth:`step` does. Together the momenta's lengths cover
        their law evenly (:func:`gibbs_dp.sampling.noise.spread_radii`), so that averages over
        chains of what is quadratic in the parameter, as on-average KL nearly is, vary less.
        """
        normals, uniforms = noise
        momenta = spread_radii(normals.T, uniforms[2], uniforms[3, 0])
        one = partial(
            transition,
            potential=potential,
            tuning=tuning,
            jitter=self.jitter,
            integrator=INTEGRATORS[self.integrator],
        )
        return jax.vmap(one)(momenta, uniforms[:2].T, states)
