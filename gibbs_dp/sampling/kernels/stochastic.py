"""Stochastic-gradient Langevin steps: with momentum, a learnt scale, and steps that come round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gibbs_dp._jaxlib.devices import on_device
from gibbs_dp.information import checks

# Step sizes.

# The step for every count of steps, as Optax's schedules give it.
StepSchedule = Callable[[Any], Any]


@dataclass(frozen=True)
class Cyclical:
    """Steps that shrink along a cosine and begin anew: each cycle finds a mode, then samples it.

    Step ``k`` has the size ``h_k = h_0 (1 + cos(pi (k mod K) / K)) / 2`` (Zhang, Li, Zhang, Chen &
    Wilson 2020, *Cyclical stochastic gradient MCMC*, Equation 1). In the first part of a cycle
    there is no noise and no draw is kept: the chain descends. The rest of it samples. Every cycle
    counts alike, so that weights of modes are those of descents, not of the posterior.

    Parameters
    ----------
    step_size
        ``h_0``, the first step of a cycle.
    length
        ``K``, the steps of a cycle.
    explore
        Share of a cycle without noise, in [0, 1).

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> cycle = Cyclical(step_size=1e-4, length=1000)
    >>> cycle.is_sampling(799), cycle.is_sampling(800), cycle.is_sampling(1000)
    (False, True, False)
    """

    step_size: float
    length: int
    explore: float = 0.8

    def __post_init__(self) -> None:
        checks.count("Cyclical(length)", self.length)
        if not 0 < self.step_size < math.inf:
            raise ValueError(
                f"Cyclical(step_size) must be positive and finite, got {self.step_size}."
            )
        if not 0 <= self.explore < 1:
            raise ValueError(f"Cyclical(explore) must be in [0, 1), got {self.explore}.")

    def __call__(self, count: Int[Array, ""] | int) -> Float[Array, ""]:
        """Step size after ``count`` steps."""
        return 0.5 * self.step_size * (1.0 + jnp.cos(jnp.pi * (count % self.length) / self.length))

    @property
    def num_explored(self) -> int:
        """Steps of a cycle without noise."""
        return min(math.ceil(self.explore * self.length), self.length - 1)

    def is_sampling(self, count: Any) -> Any:
        """Whether the step after ``count`` steps has noise."""
        return count % self.length >= self.num_explored


# The kernel.

Scale = Literal["none", "rmsprop"]


class StochasticState(NamedTuple):
    """Where a chain is, and what it carries on."""

    position: Float[Array, "*chains dim"]
    # In its own standard deviations, so that it outlasts a change of step; None: no momentum.
    momentum: Float[Array, "*chains dim"] | None
    # Running mean of squared gradients a row; None without a preconditioner.
    square: Float[Array, "*chains dim"] | None


class StateInParts(NamedTuple):
    """The same, each vector cut into arrays of the parameter's shapes."""

    position: list[Array]
    momentum: list[Array] | None
    square: list[Array] | None


class Rule(NamedTuple):
    """What programs are compiled for."""

    schedule: StepSchedule | None  # None: the step is a number, and traced
    has_momentum: bool
    is_scaled: bool


class Numbers(NamedTuple):
    """What is traced: other numbers compile nothing."""

    step_size: Float[Array, ""]
    friction: Float[Array, ""]
    decay: Float[Array, ""]
    damping: Float[Array, ""]
    num_rows: Float[Array, ""]  # of the whole dataset


@dataclass(frozen=True)
class StochasticLangevin:
    """Langevin steps on minibatch gradients for `gibbs_dp.sample_minibatches`: SGLD and SGHMC.

    With ``g`` an unbiased estimate of the gradient of ``gamma loss - log prior``, step ``h``,
    friction ``a`` and standard normal ``xi``, a step is::

        v <- (1 - a) v - h g + sqrt(2 a h) xi
        u <- u + v

    That is SGHMC (Chen, Fox & Guestrin 2014, Equation 15, no estimate of the gradient's noise
    taken off) and, with friction 1, SGLD (Welling & Teh 2011; their step is ``2 h``). There is no
    acceptance step: on a Gaussian of variance ``s^2``, with gradient noise of variance ``N``, the
    draws have variance ``s^2 (1 + h N / (2 a)) / (1 - h / (2 (2 - a) s^2))``. Small friction
    moves farther and lets more of the minibatch's noise in.

    Parameters
    ----------
    step_size
        ``h``, in squared units of the unconstrained parameter: a number, an Optax schedule, any
        function of the count of steps, warmup included, that JAX can trace; or
        `gibbs_dp.Cyclical`. The chain diverges where ``h`` times the largest
        curvature of ``gamma loss - log prior`` exceeds ``2 (2 - a)``.
    friction
        ``a``, the share of momentum that a step forgets, in (0, 1]. 1 keeps none: SGLD.
    preconditioner
        "none"; or "rmsprop": every coordinate has the step ``h / (damping + sqrt(V))``, with ``V``
        a running mean of squared minibatch gradients divided by the number of rows (Li, Chen,
        Carlson & Carin 2016). It is learnt during warmup and fixed from then on, each chain's its
        own; so there is no term for its derivative (their Gamma), which only a scale that changes
        with the position needs.
    decay
        Weight of the past in ``V``, in [0, 1).
    damping
        What is added to ``sqrt(V)``; bounds the step at ``h / damping``.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> StochasticLangevin(step_size=1e-5, friction=0.05).friction
    0.05
    >>> StochasticLangevin(step_size=Cyclical(1e-4, length=2000), preconditioner="rmsprop").decay
    0.99
    """

    step_size: float | StepSchedule
    friction: float = 1.0
    preconditioner: Scale = "none"
    decay: float = 0.99
    damping: float = 1e-5

    def __post_init__(self) -> None:
        size = self.step_size
        if not callable(size) and not checks.real("StochasticLangevin(step_size)", size) > 0:
            raise ValueError(f"StochasticLangevin(step_size) must be positive, got {size}.")
        ranges = {
            "step_size": ("finite", callable(size) or size < math.inf),
            "friction": ("in (0, 1]", 0 < self.friction <= 1),
            "decay": ("in [0, 1)", 0 <= self.decay < 1),
            "damping": ("positive and finite", 0 < self.damping < math.inf),
            "preconditioner": (
                f"one of {', '.join(get_args(Scale))}",
                self.preconditioner in get_args(Scale),
            ),
        }
        for name, (words, is_right) in ranges.items():
            if not is_right:
                raise ValueError(
                    f"StochasticLangevin({name}) must be {words}, got {getattr(self, name)!r}."
                )

    @property
    def rule(self) -> Rule:
        """What programs are compiled for."""
        schedule = self.step_size if callable(self.step_size) else None
        return Rule(schedule, self.friction < 1, self.preconditioner == "rmsprop")

    def check_schedule(self) -> None:
        """Refuse a schedule that programs cannot follow."""
        if not callable(self.step_size):
            return
        try:
            found = jax.eval_shape(self.step_size, jax.ShapeDtypeStruct((), jnp.int32))
            is_number = found.shape == () and found.dtype.kind in "iuf"
            wrong = "" if is_number else f"returns {found.dtype} of shape {found.shape}"
        except Exception as error:  # it is a user's function
            wrong = f"cannot be traced ({str(error).splitlines()[0]})"
        if wrong:
            raise ValueError(
                f"StochasticLangevin(step_size): the schedule {wrong}; write step_size(count), "
                "which returns one number, in jax.numpy: jnp.where(count < 100, a, b) for 'if'."
            )

    def numbers(self, num_rows: int) -> Numbers:
        """Pack the settings as traced numbers."""
        size = 0.0 if callable(self.step_size) else self.step_size
        values = (size, self.friction, self.decay, self.damping, num_rows)
        dtype = jnp.result_type(float)
        return Numbers(*(on_device(np.asarray(value, dtype)) for value in values))


def init(position: Float[Array, "*chains dim"], rule: Rule) -> StochasticState:
    """Start at a position, at rest."""
    blank = jnp.zeros_like(position)
    return StochasticState(
        position, blank if rule.has_momentum else None, blank if rule.is_scaled else None
    )


def step(
    noise: list[Array],
    state: StateInParts,
    slope: list[Array],
    rule: Rule,
    numbers: Numbers,
    count: Int[Array, ""],
    is_learning: Bool[Array, ""],
    num_learnt: Int[Array, ""],
) -> StateInParts:
    """Make one step along an estimate of the gradient; see `StochasticLangevin`."""
    # In parts: joined to one vector and cut again at every step, they cost a GPU a tenth of it.
    dtype = noise[0].dtype
    size = numbers.step_size
    if rule.schedule is not None:
        # Optax's linear schedule to 0 ends at about -1e-7 of its first step, rounded as it is.
        size = jnp.maximum(jnp.asarray(rule.schedule(count), dtype), 0.0)
    has_noise = jnp.asarray(True)
    if isinstance(rule.schedule, Cyclical):
        has_noise = rule.schedule.is_sampling(count)
    # A mean that began at 0 is too small by this factor.
    share = 1.0 - numbers.decay ** num_learnt.astype(dtype)

    def move(noise: Array, slope: Array, position: Array, momentum: Any, square: Any) -> Any:
        here = size
        if square is not None:
            mixed = numbers.decay * square + (1.0 - numbers.decay) * (slope / numbers.num_rows) ** 2
            square = jnp.where(is_learning, mixed, square)
            here = size / (numbers.damping + jnp.sqrt(square / share))
        scale = jnp.sqrt(here)
        force = jnp.sqrt(2.0 * numbers.friction) * jnp.where(has_noise, noise, 0.0)
        push = force - scale * slope
        if momentum is None:
            return position + scale * push, None, square
        momentum = (1.0 - numbers.friction) * momentum + push
        return position + scale * momentum, momentum, square

    nothing = [None] * len(noise)
    given = zip(
        noise,
        slope,
        state.position,
        state.momentum or nothing,
        state.square or nothing,
        strict=True,
    )
    positions, momenta, squares = map(list, zip(*(move(*parts) for parts in given), strict=True))
    return StateInParts(
        positions,
        None if state.momentum is None else momenta,
        None if state.square is None else squares,
    )
