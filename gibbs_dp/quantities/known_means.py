"""Control variates of known means: what a dataset tells of its KL before it is sampled.

To second order the KL of a pair is ``gamma^2 / 2 (g' - g)^T S (g' - g)``: slopes ``g`` of the
losses of its examples at one parameter, the posterior's covariance ``S`` there. Sums of such
products over a dataset's examples and ghosts cost less than a tenth of its chains, and tell most
of how its KL differs from another's. Their means are those of several times as many datasets, drawn
in the same way and never sampled (double sampling: Cochran 1977, *Sampling Techniques*, chapter
12), so that nothing is assumed of the population. Every dataset is compared with partners of its
own, whose error is thereby part of its value, and of the standard error over datasets.

A structured loss has no slopes of its examples. There the numbers of which examples consist stand
in for them: how far a replaced one is from the new one tells how far the posterior moves.
"""

from __future__ import annotations

import math
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend, program
from gibbs_dp._jaxlib.devices import is_accelerator, platform, target_platform
from gibbs_dp._jaxlib.jaxprs import equations
from gibbs_dp.engine.datasets import Stream, draw_dataset, keys_of, remembered, roots
from gibbs_dp.engine.executor import run_jobs
from gibbs_dp.engine.plan import AuditSpec, power_of_two, whole_power_of_two
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.quantities.kl_estimators import has_closed_form

# Datasets from where it is worth a program; parameters up to which Hessians are cheap. Examples of
# a dataset, and parameter: with fewer, its own Hessian has little to do with others'.
LEAST_DATASETS, MOST_DIM, LEAST_EXAMPLES = 256, 64, 2
# Partners of a dataset, the same whatever other gammas there are. Of a KL from chains about half
# the variance is left, and four partners cost a quarter of chains; of one that is a sum hardly
# anything is but the partners' own, and short audits have more of them.
PARTNERS, MOST_PARTNERS, LEAST_PARTNERS_IN_ALL = 4, 16, 8192
# Datasets of a call, and on a core at once, where their slopes are no more numbers than these; a
# GPU waits for its host between calls, and takes as many calls' datasets as keep it busy together.
HEIGHT, AT_ONCE, MOST_NUMBERS = 128, 32, 2**23
MOST_CALLS, MOST_NUMBERS_OF_A_GPU = 64, 2**26
# Smallest over largest curvature of a posterior, in flat coordinates, that is inverted.
LEAST_CURVED = 1e-6
# Least difference of a feature between datasets, as a share of it: sums of single precision are
# rounded to a tenth of that, and rounding depends on the data, so that its mean is not zero.
LEAST_DIFFERENCE = 1e-5
# What makes datasets dear to draw.
LOOPS = frozenset({"while", "scan", "pure_callback", "io_callback"})


def is_worthwhile(spec: AuditSpec) -> bool:
    """Whether they tell much of a KL, and datasets cost little beside their posteriors."""
    is_short = spec.n < LEAST_EXAMPLES * spec.posterior.dim
    is_drawn = not spec.is_exact and not has_closed_form(spec.posterior, spec.group_size)
    if is_short and is_drawn and not spec.posterior.structured:
        return False

    def find() -> bool:
        program = jax.make_jaxpr(partial(_drawn, spec))(spec.key)
        return LOOPS.isdisjoint(equation.primitive.name for equation in equations(program))

    sizes = spec.n, spec.num_ghosts
    return remembered(find, "loops", spec.posterior, spec.population, *sizes)


def _drawn(spec: AuditSpec, key: Array) -> PyTree:
    return draw_dataset(spec.posterior, spec.population, key, spec.n, spec.num_ghosts)


def num_directions(spec: AuditSpec) -> int:
    """Coordinates of slopes; of a structured loss numbers of an example, 0 if not all are real."""
    if not spec.posterior.structured:
        return spec.posterior.dim

    def count() -> int:
        leaves = jax.tree.leaves(jax.eval_shape(partial(_drawn, spec), spec.key)[0])
        is_real = all(
            any(jnp.issubdtype(leaf.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))
            for leaf in leaves
        )
        return is_real * sum(math.prod(leaf.shape[1:]) for leaf in leaves)

    sizes = spec.n, spec.num_ghosts
    return remembered(count, "numbers of an example", spec.posterior, spec.population, *sizes)


class Moments(NamedTuple):
    """Of the slopes at one parameter, of one dataset or (leading axis) several."""

    # Mean products of the slopes of examples, and of ghosts; Hessian of the examples' mean loss.
    # Of a structured loss: of examples and of ghosts about their means; of what is replaced and
    # what replaces it, of the difference.
    products: Float[Any, "*b 3 dim dim"]
    # Mean slopes of examples and of ghosts; or mean examples, and squares of those differences.
    means: Float[Any, "*b 2 dim"]


def _moments(
    posterior: GibbsPosterior,
    n: int,
    num_ghosts: int,
    group_size: int,
    population: Any,
    roots: Key[Array, 2],
    numbers: Int[Array, "2 some"],
    u: Float[Array, " dim"],
) -> tuple[Moments, Float[Array, "dim dim"]]:
    """Moments of some datasets, and the Hessian of minus the log prior."""

    def losses(data: PyTree, point: Float[Array, " dim"]) -> Float[Array, " groups"]:
        each = posterior.losses(posterior.constrain(point), data)
        whole = each[: each.shape[0] // group_size * group_size]
        return jnp.sum(whole.reshape(-1, group_size), axis=1)

    def one(key: Array) -> Moments:
        train, ghosts = draw_dataset(posterior, population, key, n, num_ghosts)
        if posterior.structured:
            old, new = (_numbers(part, group_size) for part in (train, ghosts))
            return _of_pairs(old, new[: num_ghosts // group_size])
        g, h = (jax.jacfwd(partial(losses, data))(u) for data in (train, ghosts))
        hessian = jax.hessian(lambda v: jnp.mean(losses(train, v)) / group_size)(u)
        a, b = jnp.mean(g, axis=0), jnp.mean(h, axis=0)
        squares = [slopes.T @ slopes / slopes.shape[0] for slopes in (g, h)]
        return Moments(jnp.stack([*squares, hessian]), jnp.stack([a, b]))

    keys = keys_of(roots, numbers)[0]
    is_gpu = is_accelerator(target_platform())
    at_once, most = (len(keys), MOST_NUMBERS_OF_A_GPU) if is_gpu else (AT_ONCE, MOST_NUMBERS)
    while at_once > 1 and at_once * (n + num_ghosts) * u.size > most:
        at_once //= 2
    found = jax.lax.map(one, keys, batch_size=at_once)
    if posterior.structured:
        return found, jnp.zeros((u.size, u.size), u.dtype)
    return found, jax.hessian(lambda v: -posterior.log_prior_unconstrained(v))(u)


def _of_pairs(old: Float[Array, "groups numbers"], new: Float[Array, "ghosts numbers"]) -> Moments:
    """Moments of the numbers of which examples consist, replaced as by a structured loss."""
    change = new - old[np.arange(len(new)) % len(old)]
    parts = old - jnp.mean(old, axis=0), new - jnp.mean(new, axis=0), change
    products = jnp.stack([part.T @ part / part.shape[0] for part in parts])
    return Moments(products, jnp.stack([jnp.mean(old, axis=0), jnp.mean(change**2, axis=0)]))


def _numbers(data: PyTree, group_size: int) -> Float[Array, "groups numbers"]:
    """Add the numbers of a group's examples."""
    rows = [jnp.reshape(leaf, (leaf.shape[0], -1)) for leaf in jax.tree.leaves(data)]
    each = jnp.concatenate([row.astype(jnp.result_type(float)) for row in rows], axis=1)
    whole = each[: each.shape[0] // group_size * group_size]
    return jnp.sum(whole.reshape(-1, group_size, each.shape[1]), axis=1)


class _Matrices(NamedTuple):
    """What moments are multiplied by at a gamma."""

    covariance: Float[np.ndarray, "dim dim"]
    # How the trace of covariance and products moves with the Hessian, up to its sign.
    curved: Float[np.ndarray, "dim dim"]
    root: Float[np.ndarray, "dim dim"]  # of the covariance: root root^T


# In NumPy on CPUs, which compiles nothing; jitted on GPUs, where moments stay.


def _features_of(moments: Moments, at: _Matrices) -> Float[Any, "some features"]:
    """Six numbers of every dataset, and its mean slopes in the posterior's own scale."""
    xp = moments.products.__array_namespace__()
    traces = xp.einsum("bkij,ij->bk", moments.products[:, :2], at.covariance)
    curved = xp.einsum("bij,ij->b", moments.products[:, 2], at.curved)
    means = moments.means @ at.root
    a, b = means[:, 0], means[:, 1]
    of_means = [xp.sum(x * y, axis=1) for x, y in ((a, b), (a, a), (b, b))]
    return xp.column_stack([traces, *of_means, curved, a, b])


_features_on_gpu = on_default_backend(_features_of, is_quick=True)


class KnownMeans:
    """Features of the datasets at ``u``, less the means of their partners."""

    def __init__(self, spec: AuditSpec, u: Float[Array, " dim"]) -> None:
        self._spec, self._u = spec, u
        self._roots = {s: roots(spec.key, s) for s in (Stream.MAIN, Stream.UNSAMPLED)}
        wanted = math.ceil(LEAST_PARTNERS_IN_ALL / spec.num_datasets) if spec.is_exact else 0
        if spec.posterior.structured:  # nothing is differentiated
            wanted = MOST_PARTNERS
        self.num_partners = min(MOST_PARTNERS, max(PARTNERS, wanted))
        # Calls whose datasets are taken together.
        calls = math.ceil(spec.num_datasets / HEIGHT)
        most = min(
            MOST_CALLS, whole_power_of_two(MOST_NUMBERS_OF_A_GPU // (8 * HEIGHT * u.size**2))
        )
        self._is_gpu = is_accelerator(platform())
        self._at_once = min(most, power_of_two(calls)) if self._is_gpu else 1
        self._times = _features_on_gpu if self._is_gpu else _features_of
        # At every gamma: what moments are multiplied by, how large features are before a difference
        # is taken, and features, part by part.
        self._matrices: list[_Matrices | None] = []
        self._sizes: list[Float[np.ndarray, " features"] | None] = []
        self._features: list[list[Float[np.ndarray, "height features"] | None]] = []

    @property
    def _height(self) -> int:
        return HEIGHT * self._at_once

    def make(self, count: int) -> None:
        """Make them for the first datasets, where they are not made yet."""
        if count < LEAST_DATASETS:
            return
        first: Moments | None = None
        if not self._matrices:
            # Of partners: what features are must not depend on the datasets themselves.
            first, of_prior = self._run(Stream.UNSAMPLED, 0, self.num_partners)
            middle = np.asarray(first.products[:HEIGHT]).mean(axis=0)
            prior = np.asarray(of_prior)
            gammas = self._spec.gammas
            if self._spec.posterior.structured:
                self._matrices = [_of_numbers(middle[0])] * len(gammas)
            else:
                self._matrices = [self._at(gamma, middle, prior) for gamma in gammas]
            sizes = jax.tree.map(abs, first)
            self._sizes = [m and self._size(sizes, m) for m in self._matrices]
        if all(at is None for at in self._matrices):
            return
        wanted = range(len(self._features), -(-count // self._height))
        with closing(
            run_jobs(wanted, lambda part, _: self._compared(part, None if part else first))
        ) as done:
            found = dict(done)
        self._features += [found[part] for part in wanted]

    def of(self, gamma: float, count: int) -> Float[np.ndarray, "count features"] | None:
        """Return those of the first datasets at a gamma; None where they are not made.

        What differs by rounding alone, as a Hessian that no example changes, is zero.
        """
        place = self._spec.gammas.index(gamma)
        if len(self._features) * self._height < count:
            return None
        size = self._sizes[place]
        if size is None:
            return None
        found = np.concatenate([features[place] for features in self._features])[:count]
        spread = np.sqrt(np.mean(np.square(found, dtype=np.float64), axis=0))
        found[:, spread < LEAST_DIFFERENCE * size] = 0.0
        return found

    def _size(self, sizes: Moments, at: _Matrices) -> Float[np.ndarray, " features"]:
        """Root mean square of features, of which no term cancels another."""
        found = self._times(sizes, _Matrices(*map(np.abs, at)))
        return np.sqrt(np.mean(np.square(np.asarray(found), dtype=np.float64), axis=0))

    def rehearse(self) -> None:
        """Compile the programs, which are the same at any parameter."""
        own, _ = self._run(Stream.UNSAMPLED, 0)
        eye = np.eye(self._u.size, dtype=self._u.dtype)
        self._times(own, _Matrices(eye, eye, eye))

    def _compared(
        self, part: int, first: Moments | None
    ) -> list[Float[np.ndarray, "height features"] | None]:
        """Features of some reported datasets less those of their partners, at every gamma.

        ``first`` are moments of the first partners, where they are known.
        """
        count = self.num_partners
        own = self._multiplied(self._run(Stream.MAIN, part)[0])
        for i in range(count):
            others = first if i == 0 else None
            others = others or self._run(Stream.UNSAMPLED, part, count, i)[0]
            pairs = zip(own, self._multiplied(others), strict=True)
            own = [None if a is None or b is None else a - b / count for a, b in pairs]
        return [a if a is None else a.astype(np.float32) for a in own]

    def _multiplied(self, moments: Moments) -> list[Float[np.ndarray, "height features"] | None]:
        return [None if m is None else np.asarray(self._times(moments, m)) for m in self._matrices]

    def _run(
        self, stream: Stream, part: int, each: int = 1, number: int = 0
    ) -> tuple[Moments, Float[Any, "dim dim"]]:
        """Moments of a part's datasets, or of one partner of each, of which there are so many."""
        s, root = self._spec, self._roots[stream]
        calls = (part * self._at_once + np.arange(self._at_once)) * each + number
        first = (calls * HEIGHT).astype(np.int32)
        numbers = np.tile((first[:, None] + np.arange(HEIGHT, dtype=np.int32)).ravel(), (2, 1))
        static = s.posterior, s.n, s.num_ghosts, s.group_size
        names = ("posterior", "n", "num_ghosts", "group_size")
        # Sums have many partners: a program that takes longer to compile is several times as fast.
        run = program(_moments, names, platform(), is_quick=not s.is_exact)
        found = run(*static, s.population, root, numbers, self._u)
        return found if self._is_gpu else jax.tree.map(np.asarray, found)

    def _at(
        self,
        gamma: float,
        products: Float[np.ndarray, "3 dim dim"],
        of_prior: Float[np.ndarray, "dim dim"],
    ) -> _Matrices | None:
        """Laplace fit of posteriors at a gamma; None where there is none."""
        scale = gamma * self._spec.n
        precision = scale * np.asarray(products[2], np.float64) + of_prior
        if not np.isfinite(precision).all():
            return None
        height, axes = np.linalg.eigh(0.5 * (precision + precision.T))
        if not height[0] > LEAST_CURVED * height[-1]:
            return None
        covariance = (axes / height) @ axes.T
        curved, root = scale * covariance @ products[0] @ covariance, axes / np.sqrt(height)
        return _Matrices(*(a.astype(products.dtype) for a in (covariance, curved, root)))


def _of_numbers(spread: Float[np.ndarray, "dim dim"]) -> _Matrices | None:
    """Examples' own scale, for a structured loss at any gamma; None where they do not vary."""
    if not np.isfinite(spread).all():
        return None
    height, axes = np.linalg.eigh(0.5 * (spread + spread.T).astype(np.float64))
    # Numbers may be tied to each other, as those of one class in k are.
    height = np.maximum(height, 2 * LEAST_CURVED * height[-1])
    if not height[0] > 0:
        return None
    inverse, root = (axes / height) @ axes.T, axes / np.sqrt(height)
    return _Matrices(*(a.astype(spread.dtype) for a in (inverse, inverse, root)))


# Datasets to a coefficient at least: six numbers first, then means in all directions.
NUM_SCALARS, DATASETS_PER_COEFFICIENT = 6, 10
# Of the variance, up to which a fit is used; what shrinks it, in datasets; rows at a time.
WORTH, RIDGE, CHUNK = 0.95, 1.0, 8192


def refined(
    values: Float[np.ndarray, " datasets"], features: Float[np.ndarray, "datasets features"]
) -> Float[np.ndarray, " datasets"]:
    """Subtract what features of mean zero tell of the values.

    The coefficients of each dataset are fitted by least squares to all others, so that they leave
    its mean alone. The values themselves where the fit does not make them less variable, and where
    few datasets did not fail.
    """
    count, num = features.shape
    if count < NUM_SCALARS * DATASETS_PER_COEFFICIENT:
        return values
    if num * DATASETS_PER_COEFFICIENT > count:
        num = NUM_SCALARS
    scale = np.sqrt(np.mean(np.square(features[:, :num], dtype=np.float64), axis=0))
    if not np.isfinite(scale).all():
        return values
    scale = np.where(scale > 0, scale, 1.0)
    parts = [slice(i, i + CHUNK) for i in range(0, count, CHUNK)]

    def design(part: slice) -> Float[np.ndarray, "some columns"]:
        x = features[part, :num] / scale
        return np.column_stack([np.ones(len(x)), x])

    square, product = np.diag([0.0] + [RIDGE] * num), np.zeros(num + 1)
    for part in parts:
        a = design(part)
        square += a.T @ a
        product += a.T @ values[part]
    inverse = np.linalg.inv(square)
    fit, found = inverse @ product, values.copy()
    for part in parts:
        a = design(part)
        predicted, influence = a @ fit, a @ inverse
        leverage = np.einsum("ij,ij->i", influence, a)
        gap = (values[part] - predicted) / (1.0 - leverage)
        # What the coefficients without this dataset tell, their constant aside.
        found[part] -= predicted - fit[0] - gap * (leverage - influence[:, 0])
    return found if found.var() < WORTH * values.var() else values
