"""Symmetries of a posterior: exchanges and signs of parameters that no loss and no prior sees.

Centers of k-means, means of a mixture and hidden units may change places: a posterior then has
modes that are one mode under other names. Everything that is a function of losses is the same in
all of them, and chains in any of them are right. What is taken for a symmetry here was tried: the
losses of examples and the prior's density were the same, before and after, to rounding.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import platform
from gibbs_dp.engine.datasets import Stream, draw_dataset, keys_of, roots
from gibbs_dp.engine.executor import in_room
from gibbs_dp.engine.view import Summary
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.target import Target

# Candidates that are tried at most, and datasets and places that each is tried at.
MAX_TRIED, NUM_DATASETS, NUM_PLACES = 128, 2, 4
# Of the largest loss: differences of that size are rounding, of sums in another order.
SAME = {np.dtype("float32"): 2e-5, np.dtype("float64"): 1e-10}

Places = Int[np.ndarray, "labels size"]


class Candidates(NamedTuple):
    """What may be a symmetry."""

    # Coordinates of things that may change places, a row each, and the two that do.
    exchanges: list[tuple[int, Places, tuple[int, int]]]
    signs: list[Int[np.ndarray, " size"]]  # coordinates that may change their sign together


class Symmetry(NamedTuple):
    """What is one."""

    blocks: tuple[Places, ...] = ()  # rows of coordinates that may be in any order
    # Coordinates that may change their sign together.
    signs: tuple[Int[np.ndarray, " size"], ...] = ()

    @property
    def is_trivial(self) -> bool:
        """Whether there is none."""
        return not self.blocks and not self.signs


def candidates(shapes: list[tuple[int, ...]]) -> Candidates:
    """Return exchanges of entries along an axis, of one or all arrays of a length, and signs."""
    begins = np.cumsum([0, *map(prod, shapes)])
    places = [
        np.arange(begin, begin + prod(shape)).reshape(shape)
        for begin, shape in zip(begins[:-1], shapes, strict=True)
    ]
    axes = [
        (size, np.moveaxis(place, axis, 0).reshape(size, -1))
        for place in places
        for axis, size in enumerate(place.shape)
        if size > 1
    ]
    rows = [one for _, one in axes]
    for size in sorted({size for size, _ in axes}):
        alike = [one for length, one in axes if length == size]
        if len(alike) > 1 and len(np.unique(np.concatenate(alike, axis=1))) == sum(
            one.size for one in alike
        ):
            rows.insert(0, np.concatenate(alike, axis=1))
    exchanges = [
        (number, one, pair)
        for number, one in enumerate(rows)
        for pair in itertools.combinations(range(len(one)), 2)
    ]
    signs = [place.ravel() for place in places] + [row for one in rows for row in one]
    if begins[-1] > 1:
        signs.insert(0, np.arange(begins[-1]))
    unique = {tuple(sorted(one)): np.sort(one) for one in signs}
    return Candidates(exchanges[:MAX_TRIED], list(unique.values())[:MAX_TRIED])


def symmetry_of(
    posterior: GibbsPosterior,
    population: Any,
    n: int,
    num_ghosts: int,
    key: PRNGKeyArray,
    mean: Float[np.ndarray, "pilots dim"],
    variance: Float[np.ndarray, "pilots dim"],
) -> Symmetry:
    """Find the symmetries of a posterior."""
    tried = candidates([s.unconstrained_shape for s in posterior.prior.supports])
    identity = np.arange(posterior.dim)
    maps = [(identity, np.ones(posterior.dim))]
    for _, rows, (i, j) in tried.exchanges:
        order = identity.copy()
        order[rows[i]], order[rows[j]] = rows[j], rows[i]
        maps.append((order, np.ones(posterior.dim)))
    for where in tried.signs:
        sign = np.ones(posterior.dim)
        sign[where] = -1.0
        maps.append((identity, sign))
    rng = np.random.default_rng(0)
    good = np.isfinite(mean).all(axis=1) & np.isfinite(variance).all(axis=1)
    if not good.any():
        return Symmetry()
    chosen = np.resize(np.flatnonzero(good), NUM_PLACES)
    spread = np.sqrt(variance[chosen]) + 0.1 * np.abs(mean[chosen]) + 0.1
    points = mean[chosen] + spread * rng.standard_normal((NUM_PLACES, posterior.dim))
    moved = np.stack([points[:, order] * sign for order, sign in maps])
    numbers = np.tile(np.arange(NUM_DATASETS, dtype=np.int32), (2, 1))
    run = program(_terms, ("posterior", "n", "num_ghosts"), platform())
    places = jnp.asarray(moved, jnp.result_type(float))
    traced = (population, roots(key, Stream.PILOTS), numbers, places)
    losses, priors = in_room(
        lambda: jax.tree.map(np.asarray, run(posterior, n, num_ghosts, *traced))
    )
    same = _is_same(losses) & _is_same(priors)
    is_exchange = dict(zip(range(len(tried.exchanges)), same[1:], strict=False))
    is_sign = same[1 + len(tried.exchanges) :]
    blocks: list[Places] = []
    for number in dict.fromkeys(number for number, *_ in tried.exchanges):
        mine = [i for i, one in enumerate(tried.exchanges) if one[0] == number and is_exchange[i]]
        pairs = [tried.exchanges[i][2] for i in mine]
        rows = next(rows for other, rows, _ in tried.exchanges if other == number)
        blocks += [rows[sorted(group)] for group in _groups(pairs)]
    signs = tuple(where for where, is_so in zip(tried.signs, is_sign, strict=True) if is_so)
    return Symmetry(tuple(blocks), signs)


def _groups(pairs: list[tuple[int, int]]) -> list[set[int]]:
    """Labels that pairs connect: where two may change places, and one of them with a third, all."""
    found: list[set[int]] = []
    for pair in pairs:
        touched = [group for group in found if group & set(pair)]
        found = [group for group in found if group not in touched]
        found.append(set(pair).union(*touched))
    return found


def _is_same(values: Float[np.ndarray, maps * rest]) -> Any:
    """Whether each map leaves every number as the first of them, the identity, has it."""
    flat = values.reshape(values.shape[0], -1).astype(np.float64)
    # Of numbers that are all infinite or the like, nothing is learnt.
    scale = np.max(np.abs(flat[0])) if np.isfinite(flat[0]).all() else np.nan
    limit = SAME[np.dtype(values.dtype)] * (scale + 1e-30)
    with np.errstate(invalid="ignore"):
        return np.max(np.abs(flat - flat[0]), axis=1) <= limit


def _terms(
    posterior: GibbsPosterior,
    n: int,
    num_ghosts: int,
    population: Any,
    roots: Key[Array, 2],
    numbers: Int[Array, "2 datasets"],
    points: Float[Array, "maps places dim"],
) -> tuple[Float[Array, "maps places datasets terms"], Float[Array, "maps places"]]:
    def of_dataset(key: Array, u: Array) -> Array:
        data = draw_dataset(posterior, population, key, n, num_ghosts)[0]
        return Target(posterior, data, jnp.ones(())).terms(u).losses

    keys = keys_of(roots, numbers)[0]
    each = jax.vmap(lambda u: jax.lax.map(lambda key: of_dataset(key, u), keys))
    losses = jax.lax.map(each, points)
    return losses, jax.lax.map(jax.vmap(posterior.log_prior_unconstrained), points)


def laid_on(symmetry: Symmetry, run: Summary, other: Summary) -> Summary:
    """Give a run the names of another one, where that brings it nearer."""
    here, there = run.health, other.health
    given = (here.mean_u, here.var_u, there.mean_u, there.var_u)
    mean, variance = renamed(symmetry, *(np.array(a, np.float64) for a in given))
    dtype = np.asarray(here.mean_u).dtype
    names: dict[str, Any] = {"mean_u": mean.astype(dtype), "var_u": variance.astype(dtype)}
    return run._replace(health=here._replace(**names))


def renamed(
    symmetry: Symmetry,
    mean: Float[np.ndarray, "posteriors dim"],
    variance: Float[np.ndarray, "posteriors dim"],
    goal: Float[np.ndarray, "posteriors dim"],
    goal_variance: Float[np.ndarray, "posteriors dim"],
) -> tuple[Float[np.ndarray, "posteriors dim"], Float[np.ndarray, "posteriors dim"]]:
    """Return means and variances under the names that bring them nearest to others."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    mean, variance = mean.copy(), variance.copy()
    width = variance + goal_variance + np.finfo(np.float32).tiny
    for i in np.flatnonzero(np.isfinite(mean).all(axis=1) & np.isfinite(goal).all(axis=1)):
        here, near, wide = mean[i], goal[i], variance[i]  # views: the arrays are changed
        for _ in range(2):
            for where in symmetry.signs:
                plus, minus = ((here + near) ** 2 / width[i], (here - near) ** 2 / width[i])
                if plus[where].sum() < minus[where].sum():
                    here[where] *= -1.0
            for rows in symmetry.blocks:
                gap = here[rows][None] - near[rows][:, None]
                order = linear_sum_assignment(np.sum(gap**2, axis=-1))[1]
                here[rows], wide[rows] = here[rows[order]], wide[rows[order]]
    return mean, variance
