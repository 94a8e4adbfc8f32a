"""Mutual information between dataset and draw, from the densities of draws under all posteriors."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy import linalg

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.estimators.average import Average, average_of_products, fitted_share, is_tame
from gibbs_dp.estimators.cross_fitting import Halves, crossed, fold_of, halves
from gibbs_dp.estimators.table_sums import (
    LARGEST_LOG_RATIO,
    ContrastParts,
    DensityTable,
    Layout,
    Normalized,
    Swaps,
    contrast_sums,
)

Rows = Float[np.ndarray, " rows"]
Columns = Float[np.ndarray, " datasets"]


class Contrast(NamedTuple):
    """Information estimates from M posteriors at each other's draws, in nats."""

    lower: Average  # contrastive lower bound of the mutual information, at most ``log M``
    upper: Halves  # leave-one-out upper bound
    symmetrized: Average  # ``I + lautum``: unbiased
    individual: Average | None  # ``I(theta; Z_1)``, if asked for


class Baseline(NamedTuple):
    """A bound on more draws than are compared, which removes the noise of those."""

    # value, control: A bound of the same kind and its control variate: per dataset, the mean
    # over all draws minus that over the compared ones, which is zero on average.
    value: Float[np.ndarray, " datasets"]
    control: Float[np.ndarray, " datasets"]
    # Whether, in each half of the datasets, the control variate's tails are light enough for
    # the other half to use it.
    is_tame: tuple[bool, bool]


class ContrastSums:
    """Accumulates the M x M comparison, a block of draws at a time: memory is one block.

    A table has ``log p_pk = log p(theta_p | Z_k)`` up to a term of ``theta_p`` alone (the prior's
    density cancels), with equally many draws per dataset. With ``m`` the dataset that draw
    ``p`` came from, per draw

    - contrastive: ``log p_pm - log q_p`` with ``q_p = mean_k p_pk``: a lower bound of the
      information in expectation (van den Oord et al. 2018; Poole et al. 2019, section 2.3);
    - leave-one-out: the same with the mean over ``k != m``: an upper bound (Poole et al. 2019);
    - symmetrized: ``log p_pm - mean_{k != m} log p_pk`` (Lemma 9 of Wang, Lei & Fienberg 2016).

    ``q`` is a normalized density either way, so ``q(theta) / p(theta | Z_m) - 1`` has mean zero
    under ``p(. | Z_m)`` and serves as a control variate: where the information ``I`` is small it
    reduces the standard deviation per draw from ``sqrt(2 I)`` to ``sqrt(2) I``. Where it has heavy
    tails it is left out. Each half of the datasets chooses for the other: coefficients fitted to
    the numbers they are used on would bias the bounds.

    Each number is an average over datasets in two roles, the draw's own and the comparison's, so
    its standard error comes from the influence of every dataset in both: the row's value plus what
    the dataset's column adds to all rows (the infinitesimal jackknife).
    """

    def __init__(self, layout: Layout, draws_per_dataset: int) -> None:
        self._layout, self._draws = layout, draws_per_dataset
        self._count = layout.position.size
        self._terms: dict[str, _Term] = {}
        self._log_ratios: dict[str, list[Rows]] = {}
        self._owners: list[Int[np.ndarray, " rows"]] = []
        self._dataset = np.zeros(layout.datasets.size, int)  # of a column, among the good ones
        self._dataset[layout.position] = np.arange(self._count)

    def add(self, table: DensityTable, swaps: Swaps | None = None) -> None:
        """Add a block of draws."""
        parts = jax.tree.map(
            lambda a: np.asarray(a).astype(np.float64), contrast_sums(table, swaps)
        )
        is_draw = np.asarray(table.is_draw)
        column = np.asarray(table.own)[is_draw]
        width = self._layout.datasets.size // 2
        block = _Block(self._dataset[column], column // width, parts, is_draw, self._layout)
        size = self._count - 1
        own = -float(table.gamma) * parts.own_loss[is_draw]
        own -= np.asarray(table.level, np.float64)[column]
        self._owners.append(block.owner)
        # Sums of log densities, from those of what they are beyond the draw's own.
        columns = block.sums[0] + own.sum() - np.bincount(block.owner, own, self._count)
        self._put("symmetrized", block.owner, -parts.row[is_draw] / size, -columns / size)
        counts = block.counts
        before = _log_sums(block.of(parts.before), counts)
        normal = np.logaddexp(*before.T)
        self._against("upper", block, normal - np.log(size), 0)
        # The draw's own density is one; others' shares shrink by what it takes.
        whole = np.logaddexp(normal, 0.0)
        self._against("lower", block, whole - np.log(self._count), 2, np.exp(-whole))
        if swaps is not None and parts.after is not None:
            after = _log_sums(block.of(parts.after), counts)
            self._individual(block, before, after)

    def _put(
        self, name: str, owner: Int[np.ndarray, " rows"], rows: Rows, columns: Columns
    ) -> None:
        term = self._terms.setdefault(name, _Term(0.0, np.zeros(self._count)))
        scaled = rows / self._draws
        self._terms[name] = _Term(
            term.total + float(scaled.sum()),
            term.influence + np.bincount(owner, scaled, self._count) + columns / self._draws,
        )

    def _against(
        self, name: str, block: _Block, log_ratio: Rows, first: int, own: Rows | float = 0.0
    ) -> None:
        """Compare a draw's own density with a mean of the table's, of which it has a share."""
        self._log_ratios.setdefault(name, []).append(log_ratio)
        ratio = np.exp(np.minimum(log_ratio, LARGEST_LOG_RATIO))
        mine = own * np.ones_like(ratio)
        columns = block.columns(first) + np.bincount(block.owner, mine, self._count)
        self._put(name, block.owner, -log_ratio, -columns)
        control = block.columns(first + 1) + np.bincount(block.owner, ratio * mine, self._count)
        self._put(f"{name} control", block.owner, _excess(log_ratio), control)

    def _individual(
        self, block: _Block, before: Float[np.ndarray, "rows 2"], after: Float[np.ndarray, "rows 2"]
    ) -> None:
        """``log p(theta | z_1) / p(theta)``, both as means over the same other datasets.

        The logarithms have a bias of one over the number of datasets that matter to a draw, few
        where the information is large; twice the value minus that of half the datasets removes it.
        The control variate's ratio, huge where hardly any dataset explains a draw after the swap,
        is cut at the root of the number of datasets (Ionides 2008, J. Comput. Graph. Stat. 17).
        """
        log_ratio = np.logaddexp(*before.T) - np.logaddexp(*after.T)
        most = 0.5 * float(np.log(self._count))
        value, control = 2.0 * log_ratio, 2.0 * _excess(log_ratio, most)
        for half in (0, 1):
            mine = before[:, half] - after[:, half]
            value -= 0.5 * mine
            control -= 0.5 * _excess(mine, most)
        self._log_ratios.setdefault("individual", []).append(log_ratio)
        columns = block.columns(4) + block.columns(6)
        self._put("individual", block.owner, -value, columns)
        columns = block.columns(5) + block.columns(7)
        self._put("individual control", block.owner, control, columns)

    def result(self, baseline: Baseline | None = None) -> Contrast:
        """Averages over datasets with their standard errors."""
        fold = fold_of(self._count)
        return Contrast(
            halves(self._values("lower", baseline), fold).average,
            halves(self._values("upper", baseline), fold),
            halves(self._values("symmetrized"), fold).average,
            average_of_products(self._values("individual"))
            if "individual" in self._terms
            else None,
        )

    def _values(
        self, name: str, baseline: Baseline | None = None
    ) -> Float[np.ndarray, " datasets"]:
        """One number per dataset: the average plus the dataset's influence on it."""
        fold, values = fold_of(self._count), self._of_datasets(name)
        if f"{name} control" not in self._terms:
            return values
        control = self._of_datasets(f"{name} control")
        log_ratio = np.concatenate(self._log_ratios[name])
        fold_of_draw = fold[np.concatenate(self._owners)]
        if baseline is None:
            return crossed(values, control, fold, log_ratio, fold_of_draw)
        out = np.empty_like(values)
        for half in (0, 1):
            mine, other = fold == half, fold != half
            share, seen = 0.0, log_ratio[fold_of_draw != half]
            # A few draws say too little about tails, and less the tamer they look.
            if baseline.is_tame[1 - half] or (seen.size >= _ENOUGH and is_tame(seen)):
                share = fitted_share(values[other], -control[other])
            known = baseline.value + share * baseline.control
            near = values + share * control
            out[mine] = (near + fitted_share(near[other], -known[other]) * known)[mine]
        return out

    def _of_datasets(self, name: str) -> Float[np.ndarray, " datasets"]:
        term = self._terms[name]
        return term.total / self._count + term.influence - term.influence.mean()


# Draws needed to judge the tails of their ratios: fifty in the largest twentieth.
_ENOUGH = 1000


class _Block:
    """A block's sums, by dataset; rows that are no draws left out."""

    def __init__(
        self,
        owner: Int[np.ndarray, " rows"],
        half: Int[np.ndarray, " rows"],
        parts: ContrastParts,
        is_draw: Bool[np.ndarray, " all"],
        layout: Layout,
    ) -> None:
        self.owner, self._is_draw, self._layout = owner, is_draw, layout
        self.counts = layout.sizes - (half[:, None] == np.arange(2))
        self.sums = np.asarray(parts.columns).sum(axis=0)[:, layout.position]
        self._weight = np.asarray(parts.weight)[is_draw]
        width = layout.datasets.size // 2
        self._half = layout.position // width

    def of(self, found: Normalized) -> Normalized:
        """Keep the draws' rows."""
        return Normalized(*(np.asarray(a)[self._is_draw] for a in found))

    def columns(self, k: int) -> Columns:
        """Weighted sum over draws of other datasets' exponentials, which are one and an excess."""
        weight = self._weight[:, :, k]
        mine = weight[np.arange(self.owner.size), self._half[self.owner]]
        ones = weight.sum(axis=0)[self._half] - np.bincount(self.owner, mine, self._half.size)
        return np.asarray(ones + self.sums[1 + k])


def _log_sums(means: Normalized, counts: Int[np.ndarray, "rows 2"]) -> Float[np.ndarray, "rows 2"]:
    return np.asarray(np.asarray(means.top) + np.log1p(np.asarray(means.excess)) + np.log(counts))


def _excess(log_ratio: Rows, most: float = LARGEST_LOG_RATIO) -> Rows:
    """Return the ratio less one, bounded."""
    return np.expm1(np.minimum(log_ratio, most))


class _Term(NamedTuple):
    total: float  # of the rows
    influence: Float[np.ndarray, " datasets"]  # of every dataset, as owner and as comparison


# Variational upper bounds of mutual information: any fixed density in place of the marginal.


Points = Float[np.ndarray, "points dim"]

MIXTURE_STEPS = 200
# Draws that a mixture is fitted to: more take time and change it little.
MAX_FITTED = 4096
MAX_COMPONENTS = 8


class Gaussian(NamedTuple):
    """Mean and lower Cholesky factor of a Gaussian fitted to draws."""

    mean: Float[np.ndarray, " dim"]
    factor: Float[np.ndarray, "dim dim"]

    def whiten(self, points: Points) -> Points:
        """Map to coordinates in which the Gaussian is standard."""
        # One small solution and a product: a third of the time of a solution for every point.
        inverse = linalg.solve_triangular(self.factor, np.eye(self.mean.size), lower=True)
        return (points - self.mean) @ inverse.T

    @property
    def log_volume(self) -> float:
        """Logarithm of the factor's determinant."""
        return float(np.log(np.diag(self.factor)).sum())

    def log_density(self, points: Points) -> Float[np.ndarray, " points"]:
        """Log density at points."""
        white = self.whiten(points)
        squares = np.einsum("pd,pd->p", white, white)
        dim = points.shape[1]
        return -0.5 * squares - self.log_volume - 0.5 * dim * np.log(2 * np.pi)


def fit_gaussian(points: Points) -> Gaussian:
    """Match mean and covariance: the closest Gaussian in KL from the points' law."""
    centred = points - points.mean(axis=0)
    covariance = centred.T @ centred / (points.shape[0] - 1)
    # A relative 1e-9, so that a coordinate that hardly varies does not stop the factorization.
    jitter = 1e-9 * np.diag(np.diag(covariance)) + np.finfo(float).tiny * np.eye(points.shape[1])
    return Gaussian(points.mean(axis=0), np.linalg.cholesky(covariance + jitter))


def cross_fitted_gaussian(
    points: Float[np.ndarray, "datasets draws dim"],
) -> Float[np.ndarray, "datasets draws"]:
    """Log density of every draw under the Gaussian fitted to the *other* fold's draws.

    The mean of ``log p(theta | Z) - log r(theta)`` is at least the mutual information for any
    fixed density ``r`` (Barber & Agakov 2003; Poole et al. 2019, section 2.1). Fitted on other
    datasets, ``r`` is fixed with respect to a dataset's own draws.
    """
    fold = fold_of(points.shape[0])
    out = np.empty(points.shape[:2])
    for f in (0, 1):
        fitted = fit_gaussian(points[fold != f].reshape(-1, points.shape[2]))
        mine = points[fold == f]
        out[fold == f] = fitted.log_density(mine.reshape(-1, points.shape[2])).reshape(
            mine.shape[:2]
        )
    return out


# Fewer datasets do not tell; draws of each that are looked at, which are alike.
LEAST_TOLD, LOOKED_AT = 256, 8
# Directions that are searched from random ones, and steps of the search.
NUM_DIRECTIONS, DIRECTION_STEPS = 16, 8
# How far above its noise the largest of some dozens of directions is that are all Gaussian.
LARGEST_NOISE = 4.0


def looks_gaussian(points: Float[np.ndarray, "datasets draws dim"]) -> bool:
    """Whether no direction is seen in which the pooled draws are not Gaussian.

    Negentropies by skewness and excess kurtosis, ``s^2 / 12 + k^2 / 48`` (Jones & Sibson 1987), in
    directions that fixed points of the kurtosis find (Hyvarinen 1999), in that of the skewness of
    norms, and of the coordinates. Half of the datasets say which, the other half how large.
    """
    count, _, dim = points.shape
    if count < LEAST_TOLD:
        return False
    fold, points = fold_of(count), points[:, :: max(1, points.shape[1] // LOOKED_AT)]
    start = np.random.default_rng(0).normal(size=(NUM_DIRECTIONS, dim))
    for f in (0, 1):
        train, other = (points[fold == half].reshape(-1, dim) for half in (f, 1 - f))
        fitted = fit_gaussian(train)
        here, there = fitted.whiten(train), fitted.whiten(other)
        directions = start / np.linalg.norm(start, axis=1, keepdims=True)
        for _ in range(DIRECTION_STEPS):
            seen = here @ directions.T
            directions = (seen * seen * seen).T @ here / len(here) - 3.0 * directions
            directions /= np.linalg.norm(directions, axis=1, keepdims=True) + 1e-300
        skewed = np.mean(here * np.sum(here * here, axis=1, keepdims=True), axis=0)
        skewed /= np.linalg.norm(skewed) + 1e-300
        seen = there @ np.concatenate([directions, skewed[None], np.eye(dim)]).T
        seen = (seen - seen.mean(axis=0)) / (seen.std(axis=0) + 1e-300)
        square = seen * seen
        skewness, kurtosis = np.mean(square * seen, axis=0), np.mean(square * square, axis=0) - 3.0
        # Of a Gaussian either is one over as many datasets: draws of one are hardly more than one.
        noise = 2.0 / np.count_nonzero(fold != f)
        if np.max(skewness**2 / 12.0 + kurtosis**2 / 48.0) > LARGEST_NOISE * noise:
            return False
    return True


class _Mixture(NamedTuple):
    logits: Float[Array, " components"]
    means: Float[Array, "components dim"]
    log_scales: Float[Array, "components dim"]


def _mixture_log_density(
    mixture: _Mixture, points: Float[Array, "points dim"]
) -> Float[Array, " points"]:
    scaled = (points[:, None] - mixture.means) * jnp.exp(-mixture.log_scales)
    parts = -0.5 * jnp.sum(scaled**2, axis=-1) - jnp.sum(mixture.log_scales, axis=-1)
    dim = points.shape[1]
    weights = jax.nn.log_softmax(mixture.logits)
    return jax.scipy.special.logsumexp(parts + weights, axis=1) - 0.5 * dim * jnp.log(2 * jnp.pi)


@on_default_backend
def _fitted_log_density(
    points: Float[Array, "points dim"],
    centers: Float[Array, "components dim"],
    at: Float[Array, "others dim"],
) -> Float[Array, " others"]:
    """Log density of other points under the mixture fitted to ``points`` from these centers."""
    import optax  # slow to import

    start = _Mixture(jnp.zeros_like(centers[:, 0]), centers, jnp.full_like(centers, -0.3))
    optimizer = optax.adam(0.05)

    def loss(mixture: _Mixture) -> Float[Array, ""]:
        return -jnp.mean(_mixture_log_density(mixture, points))

    def update(_: Array, carry: tuple[_Mixture, Any]) -> tuple[_Mixture, Any]:
        mixture, state = carry
        change, state = optimizer.update(jax.grad(loss)(mixture), state)
        return optax.apply_updates(mixture, change), state

    fitted, _ = jax.lax.fori_loop(0, MIXTURE_STEPS, update, (start, optimizer.init(start)))
    return _mixture_log_density(fitted, at)


def cross_fitted_mixture(
    points: Float[np.ndarray, "datasets draws dim"], seed: int = 0
) -> Float[np.ndarray, "datasets draws"]:
    """Log density of every draw under a mixture of Gaussians fitted to the other fold's draws.

    Components are axis-parallel in the coordinates that whiten the pooled draws, start at random
    draws and are fitted by Adam on the likelihood.
    """
    fold, dim = fold_of(points.shape[0]), points.shape[2]
    out = np.empty(points.shape[:2])
    rng = np.random.default_rng(seed)
    for f in (0, 1):
        train = points[fold != f].reshape(-1, dim)
        whitening = fit_gaussian(train)
        white = whitening.whiten(train)
        centers = white[rng.choice(white.shape[0], MAX_COMPONENTS, replace=False)]
        chosen = white[rng.permutation(white.shape[0])[:MAX_FITTED]]
        mine = points[fold == f]
        at = whitening.whiten(mine.reshape(-1, dim))
        arguments = (a.astype(jnp.result_type(float)) for a in (chosen, centers, at))
        values = np.asarray(_fitted_log_density(*arguments), np.float64) - whitening.log_volume
        out[fold == f] = values.reshape(mine.shape[:2])
    return out
