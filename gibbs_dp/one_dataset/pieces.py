"""Contiguous pieces of chains, and what leaving one out at a time says of an estimate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

# Pieces that a jackknife has at least, and where their draws suffice.
FEWEST, MANY, MOST = 8, 16, 32
DRAWS_FOR_MANY = 100


class Pieces(NamedTuple):
    """Where the pieces begin in the draws of all chains, and the selections of them.

    Attributes
    ----------
    starts, sizes
        Of each piece.
    kept
        Selections: all pieces, and all but one of them each.
    """

    starts: Int[np.ndarray, " pieces"]
    sizes: Int[np.ndarray, " pieces"]
    kept: Bool[np.ndarray, "selections pieces"]

    @property
    def halfway(self) -> int:
        """Draws of the first half: whole pieces, as equal as may be."""
        ends = np.cumsum(self.sizes)
        return int(ends[np.argmin(np.abs(ends - ends[-1] / 2))])

    @property
    def num_draws(self) -> Float[np.ndarray, " selections"]:
        """Draws of each selection."""
        return np.asarray(self.kept @ self.sizes.astype(np.float64))

    @property
    def is_kept(self) -> Float[np.ndarray, "selections draws"]:
        """1 for each draw of a selection, else 0."""
        return np.repeat(self.kept.astype(np.float64), self.sizes, axis=1)

    def slices(self) -> list[slice]:
        """Draws of each piece."""
        return [slice(a, a + size) for a, size in zip(self.starts, self.sizes, strict=True)]


def whole(num_draws: int) -> Pieces:
    """Make one piece of all draws: for estimates that need no error."""
    return Pieces(np.zeros(1, int), np.array([num_draws]), np.ones((1, 1), bool))


def split(num_chains: int, num_samples: int) -> Pieces:
    """Split chains into pieces: chains alone where there are enough, else parts of chains.

    Examples
    --------
    >>> split(4, 1000).sizes.tolist() == [250] * 16, split(10, 7).sizes.tolist() == [7] * 10
    (True, True)
    """
    total = num_chains * num_samples
    if num_chains >= FEWEST:
        chains = np.array_split(np.arange(num_chains), min(num_chains, MOST))
        sizes = np.array([num_samples * part.size for part in chains])
    else:
        wanted = MANY if total >= MANY * DRAWS_FOR_MANY else FEWEST
        parts = min(-(-wanted // num_chains), num_samples)
        one = [part.size for part in np.array_split(np.arange(num_samples), parts)]
        sizes = np.array(one * num_chains)
    count = sizes.size
    kept = np.concatenate([np.ones((1, count), bool), ~np.eye(count, dtype=bool)])
    return Pieces(np.cumsum(sizes) - sizes, sizes, kept)


class Jackknifed(NamedTuple):
    """Estimates without their bias of order one over draws, and their Monte Carlo errors."""

    value: Float[np.ndarray, "*shape"]
    mcse: Float[np.ndarray, "*shape"]


def jackknife(estimates: Float[np.ndarray, "*shape selections"], pieces: Pieces) -> Jackknifed:
    """Correct estimates by leaving out pieces, which may differ in length.

    Busing, Meijer & van der Leeden (1999, *Statistics and Computing* 9).

    Examples
    --------
    >>> pieces = split(1, 800)
    >>> draws = np.random.default_rng(0).normal(size=800)
    >>> found = jackknife(pieces.is_kept @ draws / pieces.num_draws, pieces)
    >>> bool(abs(found.value - draws.mean()) < 1e-12), bool(0.01 < found.mcse < 0.08)
    (True, True)
    """
    share = pieces.sizes / pieces.sizes.sum()
    count = share.size
    full, without = estimates[..., 0], estimates[..., 1:]
    value = count * full - np.sum((1 - share) * without, axis=-1)
    pseudo = full[..., None] / share - (1 / share - 1) * without
    squares = (pseudo - value[..., None]) ** 2 / (1 / share - 1)
    return Jackknifed(value, np.sqrt(np.mean(squares, axis=-1)))
