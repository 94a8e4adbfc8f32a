"""The potential and its gradient, coordinate by coordinate, from a dataset on the chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, Int

from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.sampling.fused.row_prior import RowPrior

Number = Float[Array, ""]
Coordinates = tuple[Number, ...]
Lanes = Float[Array, " lanes"]
# a * b + c.
MultiplyAdd = Callable[[Lanes, Lanes, Lanes], Lanes]


class State(NamedTuple):
    """Where a chain is."""

    position: Coordinates
    potential: Number
    gradient: Coordinates


@dataclass(frozen=True)
class Energy:
    """Potential relative to the reference, in whitened coordinates, and its gradient.

    Elementwise operations on some rows at a time, a loop over rows, and one sum at its end: what a
    GPU kernel can hold, in code that does not grow with the dataset. The slope of the loss is JAX's
    derivative of ``loss.value``.

    Attributes
    ----------
    loss, prior, gamma
        The posterior.
    refs
        References to the dataset as :class:`~gibbs_dp.sampling.fused.program.Rows`.
    num_examples
        How many rows are examples.
    lanes
        Rows at a time.
    multiply_add
        How to multiply and add.
    """

    loss: LinearLoss
    prior: RowPrior
    gamma: Number
    refs: Any
    num_examples: int
    lanes: int
    multiply_add: MultiplyAdd

    def at(self, position: Coordinates) -> State:
        """Evaluate both."""
        blank = jnp.zeros((self.lanes,), position[0].dtype)

        def one(index: Array, carry: tuple[Lanes, tuple[Lanes, ...]]) -> Any:
            energies, pull = jax.vjp(*self._of_rows(index, position))
            return carry[0] + energies, self._pulled(index, carry[1], pull)

        value, sums = self._over_rows(one, (blank, (blank,) * len(position)))
        return State(position, jnp.sum(value), tuple(jnp.sum(a) for a in sums))

    def gradient(self, position: Coordinates) -> Coordinates:
        """Transposed product of the design with the rows' slopes."""
        blank = jnp.zeros((self.lanes,), position[0].dtype)

        def one(index: Array, sums: tuple[Lanes, ...]) -> tuple[Lanes, ...]:
            return self._pulled(index, sums, jax.vjp(*self._of_rows(index, position))[1])

        sums = self._over_rows(one, (blank,) * len(position))
        return tuple(jnp.sum(a) for a in sums)

    def _over_rows(self, body: Callable[[Any, Any], Any], begin: Any) -> Any:
        num = self.refs.offset.shape[0] // self.lanes
        return jax.lax.fori_loop(0, num, body, begin)

    def _here(self, index: Int[Array, ""]) -> Any:
        return pl.ds(index * self.lanes, self.lanes)

    def _pulled(self, index: Array, sums: tuple[Lanes, ...], pull: Any) -> tuple[Lanes, ...]:
        (slope,), here = pull(jnp.ones_like(sums[0])), self._here(index)
        return tuple(
            self.multiply_add(self.refs.design[j, here], slope, a) for j, a in enumerate(sums)
        )

    def _of_rows(
        self, index: Array, position: Coordinates
    ) -> tuple[Callable[[Lanes], Lanes], Lanes]:
        """Energies of some rows as a function of what they see, and what they see."""
        here, refs = self._here(index), self.refs
        place = index * self.lanes + jax.lax.broadcasted_iota(jnp.int32, (self.lanes,), 0)
        is_example = place < self.num_examples
        is_prior = ~is_example & (place < self.num_examples + len(position))
        seen, label, reference = refs.offset[here], refs.label[here], refs.reference[here]
        for j, coordinate in enumerate(position):
            spread = jnp.broadcast_to(coordinate, seen.shape)
            seen = self.multiply_add(refs.design[j, here], spread, seen)
        own = {name: ref[here] for name, ref in refs.own.items()}

        def energies(seen: Lanes) -> Lanes:
            losses = self.gamma * (self.loss.value(seen, label) - reference)
            others = jnp.zeros_like(seen)
            if self.prior.kind is not None:
                prior = self.prior.energy(seen, own) - reference
                others = jnp.where(is_prior, prior, others)
            return jnp.where(is_example, losses, others)

        return energies, seen


def rows_at_a_time(num_rows: int) -> int:
    """Return how many rows one round of the loop takes: 1 or 2 for each thread of a warp.

    More of them spend fewer loads and counts, and pad more: a row takes about 35 instructions of
    its thread, a round 17.

    >>> rows_at_a_time(20), rows_at_a_time(210)
    (32, 64)
    """

    def cost(lanes: int) -> int:
        rounds = -(-num_rows // lanes)
        return rounds * (17 + 35 * lanes // 32)

    return min((32, 64), key=cost)


def squared_norm(v: Coordinates) -> Number:
    """Sum of squares."""
    total = v[0] * v[0]
    for x in v[1:]:
        total = total + x * x
    return total
