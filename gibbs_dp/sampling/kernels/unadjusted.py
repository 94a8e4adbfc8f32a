"""Settings that Langevin chains without an acceptance step share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from jaxtyping import Array, Float, Int

from gibbs_dp.information import checks
from gibbs_dp.sampling.traits import Traits

# An optax schedule: a number for every count of steps.
StepSchedule = Callable[[Any], Any]
Preconditioner = Literal["none", "diagonal", "laplace"]

DEFAULT_RELATIVE_STEP = 0.03
DEFAULT_NUM_STEPS = 20


class PlainForm(NamedTuple):
    """The chain that privacy theorems cover: a fixed step, in theta's own coordinates.

    Attributes
    ----------
    step_size, num_steps
        ``h`` and ``K``.
    clip
        Norm to which per-example gradients are shortened; None leaves them as they are.
    sampling_rate
        Of Poisson minibatches; None: every step sees all examples.
    """

    step_size: float
    num_steps: int
    clip: float | None
    sampling_rate: float | None


@dataclass(frozen=True)
class Unadjusted:
    """Settings of a Langevin kernel without an acceptance step; see `gibbs_dp.ULA`."""

    step_size: float | StepSchedule | None = None
    num_steps: int | None = None
    clip: float | None = None
    relative_step: float | StepSchedule | None = field(default=None, kw_only=True)
    preconditioner: Preconditioner = field(default="none", kw_only=True)

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
        if self.preconditioner not in get_args(Preconditioner):
            raise ValueError(
                f"{name}(preconditioner): {self.preconditioner!r} is not one of "
                f"{', '.join(get_args(Preconditioner))}."
            )

    @property
    def traits(self) -> Traits:
        """What the kernel is able to do, and what it needs."""
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
        size = factor * value(count) if callable(value) else factor
        return size if self.step_size is not None else size / curvature

    @property
    def _step(self) -> float | StepSchedule:
        if self.step_size is not None:
            return self.step_size
        return DEFAULT_RELATIVE_STEP if self.relative_step is None else self.relative_step

    def plain_form(self) -> PlainForm:
        """Return the settings of a private run.

        Raises
        ------
        ValueError
            If the chain is more than the theorems cover.
        """
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
        return PlainForm(float(size), steps, self.clip, None)
