"""Mutual information of a sweep, from kept draws and normalizers."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.engine.plan import Asked
from gibbs_dp.engine.view import Explored, Result, is_believed
from gibbs_dp.estimators import (
    Average,
    Baseline,
    Contrast,
    ContrastSums,
    Halves,
    average,
    crossed,
    fold_of,
    halves,
    integrate_mean_loss,
    is_tame,
)
from gibbs_dp.quantities.mutual_information.comparison import Comparison, Shared, compared
from gibbs_dp.quantities.mutual_information.kept import Kept

# Fewest datasets that say anything.
MIN_INFORMATION = 32


class Information(NamedTuple):
    """Information estimates of one gamma, over the datasets that did not fail.

    Attributes
    ----------
    contrast
        What the posteriors say about each other's draws.
    gaussian
        Variational upper bound with a Gaussian marginal; None on a grid.
    mixture
        The same with a mixture of Gaussians; None where it was not worth fitting.
    normalizer_gap
        Thermodynamic integration minus bridge sampling, mean over datasets; None at the gamma
        that anchors the integration.
    normalizer_gap_limit
        Difference that the spacing of the grid of gammas may cause.
    normalizer_se
        Root mean square standard error of a dataset's bridge sampling.
    poor_overlap
        Share of datasets on which proposal and posterior hardly overlap.
    largest_spread
        Largest standard deviation over examples of the loss at a draw; where it was asked for.
    """

    contrast: Contrast
    gaussian: Halves | None
    mixture: Halves | None
    normalizer_gap: Average | None
    normalizer_gap_limit: float
    normalizer_se: float
    poor_overlap: float
    largest_spread: float | None


POOR_OVERLAP = 0.1


def compare_all(sweep: Explored, count: int, with_spread: bool) -> list[Information | None]:
    """Estimate the information of every gamma; None where draws are missing or too few.

    With an archive, estimates are kept in it, and each process makes those of its own gammas.

    Parameters
    ----------
    sweep
        What was sampled.
    count
        Datasets to compare with each other.
    with_spread
        Whether to look for the largest standard deviation of a draw's loss.

    Returns
    -------
    list[Information | None]
        For every gamma.

    Raises
    ------
    AuditIncomplete
        If those of other processes are missing.
    """
    settings, results = sweep.settings, sweep.results
    draws = [None if r.kept is None else r.kept.mutual_information for r in results]
    present = [d for d in draws if d is not None and d.u.shape[0] == count]
    if len(present) < len(results) or count < MIN_INFORMATION:
        return [None] * len(results)
    good = np.stack([usable(r, d) for r, d in zip(results, present, strict=True)])
    gaps = _normalizer_gaps([r.gamma for r in results], present, good)
    shared = Shared(settings, jnp.asarray(results[0].tuned.inputs.anchor), count)
    found = sweep.find(
        Information,
        _stored_name(settings, count, with_spread),
        [bool(g.sum() >= MIN_INFORMATION) for g in good],
        lambda i: _information(settings, results[i], present[i], good[i], shared, with_spread),
    )
    pairs = zip(found, gaps, strict=True)
    return [
        None if f is None else f._replace(normalizer_gap=gap, normalizer_gap_limit=limit)
        for f, (gap, limit) in pairs
    ]


def _stored_name(settings: Asked, count: int, with_spread: bool) -> str:
    """Name of a finding in a store: another one for estimates that are made in another way."""
    route = "-exact-swaps" if settings.is_exact else ""
    return f"information-in-halves-{count}{route}{'-with-spread' if with_spread else ''}"


def usable(result: Result, kept: Kept) -> Bool[np.ndarray, " datasets"]:
    """Datasets that did not fail and whose normalizer is known."""
    good = is_believed(result.summary)[: kept.u.shape[0]]
    return good & np.isfinite(kept.log_normalizer) & np.isfinite(kept.u).all(axis=(1, 2, 3))


def _information(
    settings: Asked,
    result: Result,
    kept: Kept,
    good: Bool[np.ndarray, " datasets"],
    shared: Shared,
    with_spread: bool,
) -> Information:
    """Estimate all but what takes several gammas."""
    comparison = Comparison(settings, result, kept, good, shared)
    sums, correction = comparison.run()
    if settings.is_exact:
        contrast, gaussian, mixture = sums.result(), None, None
    else:
        contrast, gaussian, mixture = _variational(kept, good, correction, sums)
    return Information(
        contrast=contrast,
        gaussian=gaussian,
        mixture=mixture,
        normalizer_gap=None,
        normalizer_gap_limit=0.0,
        normalizer_se=float(np.sqrt(np.mean(kept.log_normalizer_se[good].astype(float) ** 2))),
        poor_overlap=float(np.mean(kept.overlap[good] < POOR_OVERLAP)),
        largest_spread=comparison.largest_spread() if with_spread else None,
    )


class _Above(NamedTuple):
    """``log p(theta | Z) / r(theta)`` at all draws, for a density ``r`` from other datasets."""

    log_ratio: Float[np.ndarray, "datasets chains draws"]

    def bound(self) -> Halves:
        """Mean, less noisy by its control variate ``r / p - 1``."""
        values, control = self._means(self.log_ratio)
        fold = fold_of(values.shape[0])
        draws = self.log_ratio[0].size
        used = crossed(values, control, fold, -self.log_ratio.ravel(), np.repeat(fold, draws))
        return halves(used, fold)

    def baseline(self) -> Baseline:
        """Return what all draws say beyond the few that datasets are compared on."""
        fold = fold_of(self.log_ratio.shape[0])
        value, control = self._means(self.log_ratio)
        few, few_control = self._means(compared(self.log_ratio))
        tame = [is_tame(-self.log_ratio[fold == half].ravel()) for half in (0, 1)]
        return Baseline(value - few, control - few_control, (tame[0], tame[1]))

    def _means(
        self, log_ratio: Float[np.ndarray, "datasets ..."]
    ) -> tuple[Float[np.ndarray, " datasets"], Float[np.ndarray, " datasets"]]:
        flat = log_ratio.reshape(log_ratio.shape[0], -1)
        return flat.mean(axis=1), np.expm1(np.minimum(-flat, 50.0)).mean(axis=1)


# A mixture is fitted where the other bounds leave this much of the information open.
_WORTH_NATS, _WORTH_SHARE = 0.01, 0.05


def _variational(
    kept: Kept,
    good: Bool[np.ndarray, " datasets"],
    correction: Float[np.ndarray, " datasets"],
    sums: ContrastSums,
) -> tuple[Contrast, Halves, Halves | None]:
    from gibbs_dp.estimators.variational import cross_fitted_gaussian, cross_fitted_mixture

    u = np.asarray(kept.u, np.float64)[good]
    points = u.reshape(u.shape[0], -1, u.shape[-1])
    own = np.asarray(kept.log_density, np.float64)[good] - correction[good][:, None, None]
    above = _Above(own - cross_fitted_gaussian(points).reshape(own.shape))
    contrast, gaussian = sums.result(above.baseline()), above.bound()
    best = min(gaussian.value, contrast.upper.value)
    if best - contrast.lower.value <= max(_WORTH_NATS, _WORTH_SHARE * best):
        return contrast, gaussian, None
    mixture = _Above(own - cross_fitted_mixture(points).reshape(own.shape))
    return contrast, gaussian, mixture.bound()


def _normalizer_gaps(
    grid: list[float], kept: list[Kept], good: Bool[np.ndarray, "gammas datasets"]
) -> list[tuple[Average | None, float]]:
    """Compare bridge sampling with integration from the smallest gamma up."""
    all_good = good.all(axis=0)
    gaps: list[tuple[Average | None, float]] = [(None, 0.0)] * len(grid)
    if len(grid) < 2 or all_good.sum() < MIN_INFORMATION:
        return gaps

    def stack(name: str) -> Float[np.ndarray, "datasets gammas"]:
        return np.stack([getattr(k, name)[all_good] for k in kept], axis=1).astype(np.float64)

    integral = integrate_mean_loss(np.array(grid), stack("mean_loss"), stack("loss_variance"))
    bridged = stack("log_normalizer")
    integrated = bridged[:, :1] + np.cumsum(integral.value, axis=1)
    limits = np.cumsum(integral.quadrature_error.mean(axis=0))
    for j in range(1, len(grid)):
        gaps[j] = average(integrated[:, j - 1] - bridged[:, j]), float(limits[j - 1])
    return gaps
