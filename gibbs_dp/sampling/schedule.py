"""How long chains run, and with what tuning: traced, so that a grid of schedules compiles once."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from gibbs_dp.sampling.kernels.base import Tuning


class Schedule(NamedTuple):
    """Traced settings of a run.

    Attributes
    ----------
    tuning
        Step size and inner steps of the kernel, in whitened coordinates.
    num_burn_in
        Steps discarded before the draws.
    num_adapt_rounds
        Rounds of pooled adaptation; 0 trusts the Laplace whitening.
    """

    tuning: Tuning
    num_burn_in: Int[Array, ""]
    num_adapt_rounds: Int[Array, ""]

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
