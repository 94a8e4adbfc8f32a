"""Langevin kernels: MALA, underdamped trajectories, and ULA and SGLD, which accept every step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gibbs_dp.information import checks
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
from gibbs_dp.sampling.kernels.gradients import ClipBy
from gibbs_dp.sampling.kernels.hmc import INTEGRATORS
from gibbs_dp.sampling.noise import normals_and_uniforms

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
        check_ranges(self)

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
    """The position of a chain, and its momentum."""

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
        check_ranges(self)

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


# Settings that Langevin chains without an acceptance step share.

# An optax schedule: a number for every count of steps.
StepSchedule = Callable[[Any], Any]
Preconditioner = Literal["none", "diagonal", "laplace"]

DEFAULT_RELATIVE_STEP = 0.03
DEFAULT_NUM_STEPS = 20


class PlainForm(NamedTuple):
    """The chain that privacy theorems cover: a fixed step, in theta's own coordinates."""

    # ``h`` and ``K``.
    step_size: float
    num_steps: int
    # Norm to which per-example gradients are shortened; None leaves them as they are.
    clip: float | None
    sampling_rate: float | None  # of Poisson minibatches; None: every step sees all examples
    clip_by: ClipBy = "example"


@dataclass(frozen=True)
class Unadjusted:
    """Settings of a Langevin kernel without an acceptance step; see `gibbs_dp.ULA`."""

    step_size: float | StepSchedule | None = None
    num_steps: int | None = None
    clip: float | None = None
    relative_step: float | StepSchedule | None = field(default=None, kw_only=True)
    preconditioner: Preconditioner = field(default="none", kw_only=True)
    clip_by: ClipBy = field(default="example", kw_only=True)

    def __post_init__(self) -> None:
        name = type(self).__name__
        for keyword in ("step_size", "relative_step"):
            value = getattr(self, keyword)
            if value is None or callable(value):
                continue
            if not 0 < value < math.inf:
                raise ValueError(f"{name}({keyword}) must be positive and finite, got {value}.")
        if self.step_size is not None and self.relative_step is not None:
            raise ValueError(
                f"{name}(step_size, relative_step): the step is either fixed or follows the "
                "curvature; give one of them."
            )
        relative = self.relative_step
        if relative is not None and not callable(relative) and relative >= 2:
            raise ValueError(
                f"{name}(relative_step) must be below 2, where a Gaussian chain diverges, got "
                f"{relative}."
            )
        if self.num_steps is not None:
            checks.count(f"{name}(num_steps)", self.num_steps)
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise ValueError(
                f"{name}(clip) must be positive and finite, got {self.clip}; None clips nothing."
            )
        for keyword, choices in (("preconditioner", Preconditioner), ("clip_by", ClipBy)):
            if getattr(self, keyword) not in get_args(choices):
                raise ValueError(
                    f"{name}({keyword}): {getattr(self, keyword)!r} is not one of "
                    f"{', '.join(get_args(choices))}."
                )
        if self.clip_by == "array" and self.clip is None:
            raise ValueError(f"{name}(clip_by): there is no clip to share out; give clip=, too.")

    @property
    def traits(self) -> Traits:
        """Abilities and needs of the kernel."""
        return Traits(
            is_adjusted=False,
            needs_examples=self.clip is not None,
            needs_hessian=self.preconditioner == "laplace",
        )

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Step size (or factor of a schedule), and steps per recorded draw."""
        del dim
        value = self._step
        size = 1.0 if callable(value) else float(value)
        return size, self.num_steps or DEFAULT_NUM_STEPS

    def step_at(
        self, count: Int[Array, ""], factor: Float[Array, ""], curvature: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Step ``h`` after ``count`` steps, where the largest curvature is ``curvature``."""
        value = self._step
        # Optax's linear schedule to 0 ends a little below, rounded as it is.
        size = factor * jnp.maximum(value(count), 0.0) if callable(value) else factor
        return size if self.step_size is not None else size / curvature

    @property
    def _step(self) -> float | StepSchedule:
        if self.step_size is not None:
            return self.step_size
        return DEFAULT_RELATIVE_STEP if self.relative_step is None else self.relative_step

    def plain_form(self) -> PlainForm:
        """Return the settings of a private run."""
        name, size, steps = type(self).__name__, self.step_size, self.num_steps
        if size is None or callable(size):
            raise ValueError(
                f"{name}(step_size): a private chain has one fixed step, free of the data; give a "
                "number."
            )
        if steps is None:
            raise ValueError(
                f"{name}(num_steps): a private chain has a fixed number of steps; give it."
            )
        if self.preconditioner != "none":
            raise ValueError(
                f"{name}(preconditioner): {self.preconditioner!r} looks at the data, so that a "
                "private chain would lose its guarantee; leave it at 'none'."
            )
        return PlainForm(float(size), steps, self.clip, None, self.clip_by)


# The unadjusted Langevin algorithm: noisy full-batch gradient descent.

Gradient = Callable[[Float[Array, " dim"]], Float[Array, " dim"]]


class ULAState(NamedTuple):
    """The position of the chain."""

    position: Float[Array, " dim"]


def ula_init(position: Float[Array, " dim"]) -> ULAState:
    """Start at a position."""
    return ULAState(position)


def ula_step(
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
        Per-example gradients are shortened to this norm, and zero where they are not finite; None
        leaves them as they are. Clipping that bites changes the law, which the virial column of a
        report then shows.
    relative_step
        ``h M`` with ``M`` the largest curvature of the potential at the mode, so that ``h``
        shrinks as gamma grows and no step size diverges; a number below 2 or an optax schedule.
        The variance in the stiffest direction is inflated by about half of it. None: 0.03.
    preconditioner
        "none"; "diagonal", a scale per coordinate; or "laplace", the inverse Hessian at the mode
        (at most 512 coordinates): with it all directions mix alike.
    clip_by
        "example": the whole gradient of an example is shortened. "array": each of the parameter's
        ``L`` arrays, a layer's weights or its offsets, to ``clip / sqrt(L)`` (McMahan et al. 2018),
        so that a layer of large gradients does not shorten those of others. The norm of all is
        ``clip`` at most, as before; no convexity is known of what such a chain follows.

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


# Stochastic gradient Langevin dynamics: Langevin steps on minibatches.

DEFAULT_BATCH_SIZE = 32


@dataclass(frozen=True)
class SGLD(Unadjusted):
    """Langevin steps on an unbiased minibatch gradient (Welling & Teh 2011), cf. `gibbs_dp.ULA`.

    The minibatch's noise adds to the chain's own: where it has variance ``N`` per coordinate and
    the posterior is ``N(0, s^2)``, the stationary variance is
    ``s^2 (1 + h N / 2) / (1 - h / (2 s^2))``. ``N`` falls like one over the batch size, and to
    nearly nothing with the control variate. Reports estimate the inflation.

    Parameters
    ----------
    step_size, num_steps, clip, relative_step, preconditioner, clip_by
        As in `gibbs_dp.ULA`.
    sampling_rate
        Every example enters a minibatch with this probability, in (0, 1]: what the privacy
        accountant is for. A step costs what a large sample of that rate would cost.
    batch_size
        Instead: examples per minibatch, drawn with replacement. By default 32, or all where there
        are fewer.
    control_variate
        Sum gradients relative to those at the mode, whose full sum is computed once (Baker et al.
        2019): for posteriors that are concentrated, so that the differences are small.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> SGLD(step_size=1e-3, num_steps=500, clip=1.0, sampling_rate=0.1).sampling_rate
    0.1
    >>> SGLD(batch_size=64, control_variate=True, preconditioner="laplace").step_size is None
    True
    """

    sampling_rate: float | None = None
    batch_size: int | None = field(default=None, kw_only=True)
    control_variate: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        rate, size = self.sampling_rate, self.batch_size
        if rate is not None and not 0 < rate <= 1:
            raise ValueError(f"SGLD(sampling_rate) must be in (0, 1], got {rate}.")
        if size is not None and size < 1:
            raise ValueError(f"SGLD(batch_size) must be at least 1, got {size}.")
        if rate is not None and size is not None:
            raise ValueError(
                "SGLD(sampling_rate, batch_size): minibatches are Poisson samples or of fixed "
                "size; give one of them."
            )
        if self.control_variate and self.clip is not None:
            raise ValueError(
                "SGLD(control_variate): clipped gradients do not add up to the gradient at the "
                "mode; drop clip or control_variate."
            )

    @property
    def traits(self) -> Traits:
        """Abilities and needs of the kernel: minibatches are of examples."""
        return super().traits._replace(needs_examples=True)

    def size_of_batch(self, n: int) -> int:
        """Examples per minibatch of fixed size, of ``n``."""
        return min(DEFAULT_BATCH_SIZE, n) if self.batch_size is None else self.batch_size

    def plain_form(self) -> PlainForm:
        """Return the settings of a private run.

        Raises
        ------
        ValueError
            If the chain is more than the accountant covers.
        """
        if self.sampling_rate is None or self.clip is None:  # so there is no control variate
            raise ValueError(
                "SGLD(sampling_rate, clip): the accountant of a private chain needs Poisson "
                "minibatches and clipped gradients; give both."
            )
        return super().plain_form()._replace(sampling_rate=self.sampling_rate)
