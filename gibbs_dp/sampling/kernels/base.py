"""The contracts of Markov kernels and their schedules, and what samplers are able to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.devices import on_device
from gibbs_dp.model.posterior import GibbsPosterior

# What a sampler says of itself, so that nothing has to ask what type it is.


class Traits(NamedTuple):
    """Properties of a sampler that engine and reports act on.

    Attributes
    ----------
    is_adjusted
        Its stationary law is the posterior. False for Langevin chains without an acceptance step,
        whose reports estimate the bias instead.
    is_exact
        It sums over the posterior: its draws carry exact weights and the normalizer, and there is
        no burn-in, tuning or convergence to diagnose.
    is_discretized
        It is exact for points that stand for a continuum, which may be too few or too narrow.
    is_local
        It is exact around the mode that a search finds, with points that every dataset has for
        itself: other modes are looked for, and two runs compared.
    is_tuned
        It adapts to every dataset from dispersed starts: pilots have nothing to tune, and no other
        modes to look for.
    is_path
        One run gives draws and normalizers at all gammas of a grid: a
        :class:`~gibbs_dp.sampling.sampler.PathSampler`.
    has_joint_noise
        It can draw the noise of several chains together (see ``Kernel.step_all``).
    needs_examples
        It takes gradients example by example: no structured loss.
    needs_hessian
        It needs a dense Hessian, and so few enough coordinates.
    """

    is_adjusted: bool = True
    is_exact: bool = False
    is_discretized: bool = False
    is_local: bool = False
    is_tuned: bool = False
    is_path: bool = False
    has_joint_noise: bool = False
    needs_examples: bool = False
    needs_hessian: bool = False


# The contract of Markov kernels with an acceptance step.

Potential = Callable[[Float[Array, " dim"]], Float[Array, ""]]


class ChainState(NamedTuple):
    """The position of a chain, with the potential and gradient that its next step reuses."""

    position: Float[Array, " dim"]
    potential: Float[Array, ""]
    gradient: Float[Array, " dim"]


class StepInfo(NamedTuple):
    """The outcome of one step."""

    accept_prob: Float[Array, ""]  # Metropolis acceptance probability of the proposal
    is_accepted: Bool[Array, ""]  # whether the chain moved


class Tuning(NamedTuple):
    """Settings of a kernel; where they are traced, changing them compiles nothing."""

    step_size: Float[Array, ""]
    num_inner: Int[Array, ""] | int  # leapfrog steps of HMC, Langevin transitions of MALA


# What settings may be; None, where it is the default, leaves them to the kernel.
RANGES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "step_size": ("positive", lambda value: value > 0),
    "friction": ("positive and finite", lambda value: 0 < value < math.inf),
    "jitter": ("in [0, 1)", lambda value: 0 <= value < 1),
    "target_accept": ("in (0, 1)", lambda value: 0 < value < 1),
    "num_parallel": ("at least 8", lambda value: value >= 8),
    "integrator": ("'split' or 'leapfrog'", lambda value: value in ("split", "leapfrog")),
    **dict.fromkeys(
        ("num_leapfrog", "num_inner", "num_steps", "patience"),
        ("at least 1", lambda value: value >= 1),
    ),
}


def check_ranges(kernel: Any) -> None:
    """Raise a ValueError unless the settings of a dataclass are in their ranges."""
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        if field.name not in RANGES or (value is None and field.default is None):
            continue
        words, is_right = RANGES[field.name]
        if not is_right(value):
            raise ValueError(
                f"{type(kernel).__name__}({field.name}) must be {words}, got {value!r}."
            )


def metropolis(
    uniform: Float[Array, ""], state: Any, proposal: Any, log_ratio: Float[Array, ""]
) -> tuple[Any, StepInfo]:
    """Accept a proposal with probability ``min(1, exp(log_ratio))``, never where that is NaN."""
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

    def lengthened(self, tuning: tuple[float, int]) -> tuple[float, int]:
        """Tuning where inner steps cost little beside all else; by default the same."""
        return tuning

    def check(self, posterior: GibbsPosterior) -> None:
        """Raise a ValueError where it cannot run on a posterior; by default it runs on all."""
        del posterior

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
    """Refuse a kernel of the user's that cannot be compiled for; ``argument`` is its name there."""
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


# How long chains run, and with what tuning.


class Counts(NamedTuple):
    """Static numbers of rounds of loops, where a program is compiled for them."""

    num_inner: int
    num_burn_in: int
    num_adapt_rounds: int
    num_newton: int


class Schedule(NamedTuple):
    """Settings of a run."""

    tuning: Tuning  # step size and inner steps of the kernel, in whitened coordinates
    num_burn_in: Int[Array, ""] | int  # steps discarded before the draws
    # Rounds of pooled adaptation; 0 trusts the Laplace whitening.
    num_adapt_rounds: Int[Array, ""] | int
    # Steps of every mode search, static. None: until all searches of a batch have ended.
    num_newton: int | None = None

    def fixed(self, counts: Counts) -> Schedule:
        """Put static counts in place of traced ones."""
        tuning = self.tuning._replace(num_inner=counts.num_inner)
        return Schedule(tuning, counts.num_burn_in, counts.num_adapt_rounds, counts.num_newton)

    @property
    def is_fixed(self) -> bool:
        """True if counts are static."""
        return self.num_newton is not None

    @property
    def on_host(self) -> tuple[tuple[float, int], int, int]:
        """The same as plain numbers: what :func:`make_schedule` takes."""
        tuning = float(self.tuning.step_size), int(self.tuning.num_inner)
        return tuning, int(self.num_burn_in), int(self.num_adapt_rounds)


def make_schedule(tuning: tuple[float, int], num_burn_in: int, num_adapt_rounds: int) -> Schedule:
    """Pack host numbers as traced arrays."""
    # Converted on the host: on the device, each conversion would be a program of its own.
    step_size = on_device(np.asarray(tuning[0], jnp.result_type(float)))
    counts = (on_device(np.int32(n)) for n in (tuning[1], num_burn_in, num_adapt_rounds))
    num_inner, burn_in, adapt_rounds = counts
    return Schedule(Tuning(step_size, num_inner), burn_in, adapt_rounds)
