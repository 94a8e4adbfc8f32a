"""Leaving out chains, steps, and both at once: what of an estimate's bias each of them causes."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

# Groups of one kind at most.
MOST_GROUPS = 4


class LeavingOut(NamedTuple):
    """Selections of draws, and coefficients that make estimates from them a correction.

    Draws of a chain depend on each other, and chains may share the noise of their steps. In such a
    two-way layout the variance of a mean is that of chains' means, plus that of steps' means, less
    that of independent draws; a bias of order one over draws is made of the same three. Groups of
    whole chains show the first, groups of whole steps the second, and groups that run diagonally,
    with an equal part of every chain and of every step, the third.

    The corrected estimate is ``f(all) + whole f(all) + sum_k parts_k f(kept_k)``.

    Attributes
    ----------
    kept
        Of each selection, 1 for draws in it and else 0; chains first, flat.
    parts
        Coefficient of each selection.
    whole
        That of all draws.
    """

    kept: Float[Array, "selections draws"]
    parts: Float[Array, " selections"]
    whole: float

    @classmethod
    def of(cls, num_chains: int, num_draws: int) -> LeavingOut:
        """Make the selections; none where there is one chain, whose draws are an exact sum."""
        groups, coefficients, whole = _layout(num_chains, num_draws)
        return cls(jnp.asarray(groups), jnp.asarray(coefficients), whole)


def groups(
    num_chains: int, num_draws: int, most: int
) -> list[tuple[Int[np.ndarray, " draws"], int]]:
    """Group draws by chains, by steps, and diagonally; only by chains where there is one step.

    Parameters
    ----------
    num_chains, num_draws
        Chains, and draws of each.
    most
        Groups of one kind at most.

    Returns
    -------
    list
        Of each kind, the group of every draw, chains first, and how many groups there are.

    Examples
    --------
    >>> [(group.tolist(), count) for group, count in groups(2, 2, 8)]
    [([0, 0, 1, 1], 2), ([0, 1, 0, 1], 2), ([0, 1, 1, 0], 2)]
    """
    chain, step = np.divmod(np.arange(num_chains * num_draws), num_draws)
    rows, columns = min(num_chains, most), min(num_draws, most)
    row, column, few = chain * rows // num_chains, step * columns // num_draws, min(rows, columns)
    if columns == 1:
        return [(row, rows)]
    return [(row, rows), (column, columns), ((row + column) % few, few)]


@cache
def _layout(num_chains: int, num_draws: int) -> tuple[np.ndarray, np.ndarray, float]:
    if num_chains == 1:
        return np.zeros((0, num_draws), np.float32), np.zeros(0, np.float32), 0.0
    kept, parts, whole = [], [], 0.0
    signs = (1.0, 1.0, -1.0)
    for (group, count), sign in zip(
        groups(num_chains, num_draws, MOST_GROUPS), signs, strict=False
    ):
        kept += [group != g for g in range(count)]
        parts += [-sign * (count - 1) / count] * count
        whole += sign * (count - 1)
    return np.stack(kept).astype(np.float32), np.array(parts, np.float32), whole
