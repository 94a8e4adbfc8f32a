"""Mixing of one dataset's chains, and chains that are copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpyro import diagnostics
from scipy import special

from gibbs_dp.sampling.sampler import ChainDraws


class Spread(NamedTuple):
    """Variances of one dataset's draws, per whitened coordinate and (last) the potential."""

    # Variance within a chain, once what all chains do at the same draw is taken out: chains may
    # share their noise. For independent chains that is the variance within a chain.
    within: Float[Array, "*batch coordinates"]
    between: Float[Array, "*batch coordinates"]  # variance of the chains' means
    # Mean of the first half of the draws minus the second, of: potential energy, squared radius in
    # whitened coordinates.
    drift: Float[Array, "*batch 2"]
    drift_scale: Float[Array, "*batch 2"]  # standard deviations of the same two


def spread(draws: ChainDraws) -> Spread:
    """Reduce one dataset's draws to what pooled R-hat, ESS and the drift test need."""
    x = jnp.concatenate([draws.v, draws.potential[..., None]], axis=-1)
    num_samples = x.shape[1]
    radius = jnp.sum(draws.v**2, axis=-1)
    moving = jnp.stack([draws.potential, radius], axis=-1)
    half = num_samples // 2
    first = jnp.mean(moving[:, :half], axis=(0, 1))
    second = jnp.mean(moving[:, num_samples - half :], axis=(0, 1))
    return Spread(
        within=_within(x),
        between=jnp.var(jnp.mean(x, axis=1), axis=0, ddof=1),
        drift=first - second,
        drift_scale=jnp.std(moving, axis=(0, 1)),
    )


def _within(x: Float[Array, "chains draws coordinates"]) -> Float[Array, " coordinates"]:
    if x.shape[0] == 1:
        return jnp.var(x[0], axis=0, ddof=1)
    rest = x - jnp.mean(x, axis=0)
    rest -= jnp.mean(rest, axis=1, keepdims=True)
    return jnp.sum(rest**2, axis=(0, 1)) / ((x.shape[0] - 1) * (x.shape[1] - 1))


class Pooled(NamedTuple):
    """Convergence diagnostics over all datasets of one gamma."""

    # Largest over coordinates of R-hat with variances averaged over datasets. Pooling makes it
    # sharp: for chains that agree it is 1 within about ``1 / sqrt(datasets)`` of a percent.
    r_hat: float
    # Fraction of (dataset, coordinate) cells whose own between/within ratio lies beyond the 99%
    # quantile for independent draws, after scaling by the pooled ratio: about 0.01 when all
    # datasets mix alike.
    r_hat_exceed: float
    ess_min: float  # effective draws per dataset in the worst coordinate
    drift_z: float  # largest absolute z-score of first-half minus second-half means
    drift_size: float  # the same drift in posterior standard deviations
    num_datasets: int = 1  # pooled: of few, a drift is clear from more standard errors on


def pool(values: Spread, num_chains: int, num_samples: int) -> Pooled:
    """Pool :class:`Spread` of many datasets (leading axis) into diagnostics."""
    # Summed in double precision, and not turned into it: of 100,000 datasets that is most memory.
    within, between = np.asarray(values.within), np.asarray(values.between)
    mean_within = within.mean(axis=0, dtype=np.float64)
    mean_between = between.mean(axis=0, dtype=np.float64)
    tiny = np.finfo(np.float32).tiny
    r_hat = np.sqrt((num_samples - 1) / num_samples + mean_between / (mean_within + tiny))
    # A chain's mean of independent draws has variance within / num_samples.
    ratio = num_samples * mean_between / (mean_within + tiny)
    ess = num_chains * num_samples / np.maximum(ratio, tiny)
    with np.errstate(over="ignore"):  # of chains that never moved
        cells = between / (within + tiny)
    cells *= (num_samples / np.maximum(ratio, tiny)).astype(cells.dtype)
    cut = special.fdtri(num_chains - 1, num_chains * (num_samples - 1), 0.99)
    drift = np.asarray(values.drift, np.float64)
    scale = np.asarray(values.drift_scale, np.float64).mean(axis=0) + tiny
    error = drift.std(axis=0, ddof=1) / np.sqrt(drift.shape[0]) + tiny
    return Pooled(
        r_hat=float(r_hat.max()),
        r_hat_exceed=float((cells > cut).mean()),
        ess_min=float(min(ess.min(), num_chains * num_samples)),
        drift_z=float(np.abs(drift.mean(axis=0) / error).max()),
        drift_size=float(np.abs(drift.mean(axis=0) / scale).max()),
        num_datasets=drift.shape[0],
    )


# Whether chains are copies of each other, which would count draws twice.

# Columns that are looked at, evenly spaced, beside the sum of all.
LOOKED_AT = 50
# Draws are the same if they differ by less than this share of a column's spread, or of the gaps
# between so many draws; chains are, if by this share of their own spread all along.
SAME_DRAW, OF_GAP, SAME_CHAIN = 1e-5, 1e-2, 0.05
# Of a chain's draws, that another one may share, beside a multiple of those that are met again by
# chance in their own chain, and so many standard errors of that.
SHARED, BY_CHANCE = 0.05, 4.0
# Chains of which every pair is compared with a lag.
MOST_CHAINS = 64
# Fewest draws that chains with a lag between them are compared on (half of the draws at least),
# and moves in them; without a lag there is but one place where moves may coincide.
LEAST_OVERLAP, LEAST_MOVES, FEWEST_MOVES = 20, 20, 3


def refuse_copies(argument: str, values: Float[np.ndarray, "chain draw column"]) -> None:
    """Refuse chains that are the same draws: in order, with a lag, in another order, in part."""
    what = _copies(values)
    if what is not None:
        raise ValueError(
            f"{argument}: {what}, which would count twice; leave one of them out, or run it again "
            "with another seed."
        )


def _copies(values: Float[np.ndarray, "chain draw column"]) -> str | None:
    columns = values.shape[2]
    if not (values.size and np.isfinite(values).all()):
        return None
    places = np.unique(np.linspace(0, columns - 1, LOOKED_AT).round().astype(int))
    some = np.asarray(values[:, :, places], np.float64)
    total = values.sum(axis=2, dtype=np.float64)[:, :, None]
    x = np.concatenate([some, total], axis=2)
    x = x[:, :, np.ptp(x, axis=(0, 1)) > 0]
    if not x.shape[2]:
        return None
    scale = x.std(axis=(0, 1))
    x = (x - x.mean(axis=(0, 1))) / np.where(scale > 0, scale, 1.0)
    moving = np.flatnonzero((np.ptp(x, axis=1) > 0).any(axis=1)).tolist()
    # A direction of no column's own; fixed, as the check must not be a matter of luck.
    line = x @ np.random.default_rng(0).normal(size=x.shape[2])
    return _in_order(x, line, moving[:MOST_CHAINS]) or _shared(x, line, moving)


def _in_order(
    x: Float[np.ndarray, "chain draw column"],
    line: Float[np.ndarray, "chain draw"],
    moving: list[int],
) -> str | None:
    """Find chains that are one path, up to a lag and a little noise, and paths that repeat."""
    draws = x.shape[1]
    size = 2 * draws
    waves = np.fft.rfft(line - line.mean(axis=1, keepdims=True), size, axis=1)
    for place, i in enumerate(moving):
        products = np.fft.irfft(waves[moving[place:]] * waves[i].conj(), size, axis=1)
        for row, j in zip(products, moving[place:], strict=True):
            lags = {0} if i != j else set()
            found = _likely_lag(row, draws, is_own=i == j)
            lags |= set() if found is None else {found}
            for lag in sorted(lags):
                a = x[i, : draws - lag] if lag >= 0 else x[i, -lag:]
                b = x[j, lag:] if lag >= 0 else x[j, : draws + lag]
                if not _is_one_path(a, b, LEAST_MOVES if lag else FEWEST_MOVES):
                    continue
                if i == j:
                    return f"chain {i} repeats its draws after {lag}"
                behind = f" with a lag of {abs(lag)}" if lag else ""
                return f"chains {i} and {j} are the same draws{behind}"
    return None


def _likely_lag(product: Float[np.ndarray, " lags"], draws: int, is_own: bool) -> int | None:
    """Return the lag at which two chains are most alike; a chain with itself, once it forgot."""
    most = draws - max(draws // 2, min(draws, LEAST_OVERLAP))
    if most < 1:
        return None
    overlap = np.concatenate(
        [np.arange(draws, draws - most - 1, -1), np.arange(draws - most, draws)]
    )
    ahead, behind = product[: most + 1], product[-most:]
    alike = np.concatenate([ahead, behind]) / overlap
    if is_own:
        alike = alike[: most + 1]
        low = np.flatnonzero(alike < 0.5 * alike[0])
        if not low.size:
            return None
        return int(low[0] + np.argmax(alike[low[0] :]))
    best = int(np.argmax(alike))
    return best if best <= most else best - 2 * most - 1


def _is_one_path(
    a: Float[np.ndarray, "draw column"], b: Float[np.ndarray, "draw column"], least_moves: int
) -> bool:
    num_moves = int((np.diff(a, axis=0) != 0).any(axis=1).sum())
    if num_moves < min(least_moves, len(a) - 1):
        return False  # so few may coincide
    spread = np.minimum(a.std(axis=0), b.std(axis=0))
    moves = spread > 0
    gap = np.sqrt(np.mean((a - b) ** 2, axis=0))
    still = gap[~moves]
    return bool(moves.any() and (gap <= SAME_CHAIN * spread)[moves].all() and not still.any())


def _shared(
    x: Float[np.ndarray, "chain draw column"],
    line: Float[np.ndarray, "chain draw"],
    moving: list[int],
) -> str | None:
    """Find chains that share draws, in whatever order."""
    tolerance = min(SAME_DRAW, OF_GAP / line.size)
    rows, owner, again = [], [], {}
    for i in moving:
        # A chain that rejects stays where it is: that is no second visit.
        stays = np.concatenate([[False], (np.abs(np.diff(x[i], axis=0)) <= tolerance).all(axis=1)])
        path, place = x[i][~stays], line[i][~stays]
        path = path[np.argsort(place, kind="stable")]
        same = (np.abs(np.diff(path, axis=0)) <= tolerance).all(axis=1)
        rows.append(path[np.concatenate([[True], ~same])])
        owner.append(np.full(len(rows[-1]), i))
        again[i] = (0.5 + same.sum()) / len(path)
    if len(rows) < 2:
        return None
    every, whose = np.concatenate(rows), np.concatenate(owner)
    order = np.argsort(every @ np.random.default_rng(0).normal(size=x.shape[2]), kind="stable")
    every, whose = every[order], whose[order]
    counts: dict[tuple[int, int], int] = {}
    for step in (1, 2):
        a, b = whose[:-step], whose[step:]
        near = (np.abs(every[step:] - every[:-step]) <= tolerance).all(axis=1) & (a != b)
        for i, j in zip(a[near].tolist(), b[near].tolist(), strict=True):
            pair = (min(i, j), max(i, j))
            counts[pair] = counts.get(pair, 0) + 1
    lengths = {i: len(own) for i, own in zip(moving, owner, strict=True)}
    for (i, j), count in sorted(counts.items()):
        fewest = min(lengths[i], lengths[j])
        by_chance = min(again[i], again[j]) * fewest
        limit = SHARED * fewest + BY_CHANCE * (by_chance + np.sqrt(2 * by_chance))
        if count > limit:
            return f"chains {i} and {j} share {min(count, fewest)} of their {fewest} draws"
    return None


# The single numbers of a pytree of draws: their names, and what describes them.


def named_leaves(theta: PyTree) -> list[tuple[str, Any]]:
    """Name every leaf of a tree by its path, and a single array ``theta``."""
    pairs = jax.tree_util.tree_flatten_with_path(theta)[0]
    around = Counter(path[:-1] for path, _ in pairs)
    return [(_name(path, around) or "theta", leaf) for path, leaf in pairs]


def _name(path: tuple[Any, ...], around: Counter[tuple[Any, ...]]) -> str:
    # Flax NNX wraps every array in a variable, whose only part is its value.
    if len(path) > 1 and getattr(path[-1], "name", None) == "value" and around[path[:-1]] == 1:
        path = path[:-1]
    return ".".join(map(_part, path))


def _part(key: Any) -> str:
    """Say where a step of a path leads: dicts have keys, sequences an index, classes names."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def label(name: str, index: tuple[int, ...]) -> str:
    """Name one number of a leaf.

    >>> label("theta", (0, 2)), label("scale", ())
    ('theta[0,2]', 'scale')
    """
    return f"{name}[{','.join(map(str, index))}]" if index else name


def coordinates(tree: Mapping[str, np.ndarray], num_axes: int) -> Iterator[str]:
    """Names of all numbers of a tree, behind so many axes of datasets, chains and draws."""
    for name, leaf in tree.items():
        for index in np.ndindex(leaf.shape[num_axes:]):
            yield label(name, index)


def describe(
    values: Float[np.ndarray, "chain draw *batch"], is_path: bool = False
) -> dict[str, Float[np.ndarray, " *batch"]]:
    """Moments, quantiles and diagnostics; particles are worth what their islands' means say."""
    values = np.asarray(values, np.float64)
    low, high = np.quantile(values, [0.05, 0.95], axis=(0, 1))
    sd = values.std(axis=(0, 1), ddof=1)
    moving = values.std(axis=(0, 1)) > 0
    worth = _island_worth if is_path else effective_draws
    with np.errstate(invalid="ignore", divide="ignore"):
        ess, r_hat = worth(values), diagnostics.split_gelman_rubin(values)
    return {
        "mean": values.mean(axis=(0, 1)),
        "sd": sd,
        "5%": low,
        "95%": high,
        "ess": np.where(moving, ess, np.nan),
        "r_hat": np.where(moving, r_hat, np.nan),
    }


def effective_draws(
    values: Float[np.ndarray, "chain draw *batch"],
) -> Float[np.ndarray, " *batch"]:
    """Effective draws; of ``N``, no more than ``N log10(N)``, as Stan and ArviZ have it."""
    count = values.shape[0] * values.shape[1]
    found = np.asarray(diagnostics.effective_sample_size(values), np.float64)
    most = count * np.log10(count)
    # Of draws that alternate, whose correlations sum to less than nothing.
    return np.where(found < 0, most, np.minimum(found, most))


def _island_worth(
    values: Float[np.ndarray, "island particle *batch"],
) -> Float[np.ndarray, " *batch"]:
    """Independent draws whose mean is as noisy as the islands' means are; at most all particles."""
    within = values.var(axis=1, ddof=1).mean(axis=0)
    between = values.mean(axis=1).var(axis=0, ddof=1)
    count = values.shape[0] * values.shape[1]
    least = np.maximum(values.shape[1] * between, np.finfo(float).tiny)
    return count * np.minimum(1.0, within / least)
