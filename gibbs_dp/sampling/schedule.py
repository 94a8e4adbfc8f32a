"""How long chains run, and with what tuning.

On CPUs all of it is traced, so that a grid of schedules compiles once. On GPUs a program asks its
host at every round of a loop whose length it does not know; there counts are static, a handful of
them in an audit.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from gibbs_dp.sampling.kernels.base import Tuning


class Counts(NamedTuple):
    """How often loops go round, where a program is compiled for that."""

    num_inner: int
    num_burn_in: int
    num_adapt_rounds: int
    num_newton: int


class Schedule(NamedTuple):
    """Settings of a run.

    Attributes
    ----------
    tuning
        Step size and inner steps of the kernel, in whitened coordinates.
    num_burn_in
        Steps discarded before the draws.
    num_adapt_rounds
        Rounds of pooled adaptation; 0 trusts the Laplace whitening.
    num_newton
        Steps of every mode search, static. None: until all searches of a batch have ended.
    """

    tuning: Tuning
    num_burn_in: Int[Array, ""] | int
    num_adapt_rounds: Int[Array, ""] | int
    num_newton: int | None = None

    def fixed(self, counts: Counts) -> Schedule:
        """Put static counts in place of traced ones."""
        tuning = self.tuning._replace(num_inner=counts.num_inner)
        return Schedule(tuning, counts.num_burn_in, counts.num_adapt_rounds, counts.num_newton)

    @property
    def is_fixed(self) -> bool:
        """Whether counts are static."""
        return self.num_newton is not None

    @property
    def on_host(self) -> tuple[tuple[float, int], int, int]:
        """The same as plain numbers: what :func:`make_schedule` takes."""
        tuning = float(self.tuning.step_size), int(self.tuning.num_inner)
        return tuning, int(self.num_burn_in), int(self.num_adapt_rounds)


def make_schedule(tuning: tuple[float, int], num_burn_in: int, num_adapt_rounds: int) -> Schedule:
    """Pack host numbers as traced arrays."""
    return Schedule(
        Tuning(jnp.asarray(tuning[0], jnp.zeros(()).dtype), jnp.asarray(tuning[1], jnp.int32)),
        jnp.asarray(num_burn_in, jnp.int32),
        jnp.asarray(num_adapt_rounds, jnp.int32),
    )
