"""Checks of what a certificate needs: gammas, a bounded loss, a proper prior, a sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from gibbs_dp.certificates.certificate import BOUNDS
from gibbs_dp.certificates.evidence import Column, lattice_on_interval
from gibbs_dp.information import checks
from gibbs_dp.model.check import positive_count
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.constants import declared_range
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.smc import SMC

# Share of the loss range by which rounding may carry a loss out of it.
MARGIN = 1e-5
NUM_CHAINS, NUM_SAMPLES = 8, 64


def check_gammas(gamma: ArrayLike | float | Sequence[float]) -> Column:
    """Return the grid, increasing."""
    given = np.asarray(gamma)
    if given.dtype.kind not in "fiu" or given.ndim > 1 or given.size == 0:
        raise ValueError(f"gamma: give one number or a list of them, got {checks.shown(gamma)}.")
    values = np.sort(np.atleast_1d(given).astype(np.float64))
    if not (np.isfinite(values) & (values > 0)).all():
        bad = values[~(np.isfinite(values) & (values > 0))][0]
        raise ValueError(f"gamma: {bad:g} is not positive and finite; bounds divide by it.")
    if (np.diff(values) == 0).any():
        raise ValueError("gamma: a value is there twice; each costs part of delta, give it once.")
    return values


def check_posterior(posterior: GibbsPosterior) -> None:
    """Refuse a structured loss."""
    if posterior.structured:
        raise ValueError(
            "posterior: a total_loss has no losses of independent examples, which certificates are "
            "about; use a per-example loss."
        )


def check_bound(bound: str) -> str:
    """Return the name of a bound."""
    if bound not in BOUNDS:
        raise ValueError(f"bound: {bound!r} is none of {', '.join(BOUNDS)}; give one of them.")
    return bound


def find_range(
    posterior: GibbsPosterior,
    data: PyTree,
    domain: Domain | None,
    loss_range: tuple[float, float] | None,
) -> tuple[float, float]:
    """Return the declared range of the loss."""
    if (domain is None) == (loss_range is None):
        raise ValueError(
            "loss_range: declare the loss's range in one way, by loss_range=(low, high) or, for a "
            "built-in loss, by domain=gibbs_dp.Domain(...)."
        )
    if domain is None:
        assert loss_range is not None
        if np.shape(loss_range) != (2,) or np.asarray(loss_range).dtype.kind not in "fiu":
            raise ValueError(f"loss_range: must be two numbers, (low, high), got {loss_range!r}.")
        low, high = float(loss_range[0]), float(loss_range[1])
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(
                f"loss_range: must be finite with low < high, got ({low:g}, {high:g}); clip the "
                "loss."
            )
        return low, high
    found = declared_range(posterior, domain)
    if found is None:
        raise ValueError(
            "domain: the loss is a plain function, of which a Domain says nothing; give "
            "loss_range=(low, high)."
        )
    if not np.isfinite(found).all() or not found[0] < found[1]:
        raise ValueError(
            f"domain: the loss ranges over ({found[0]:g}, {found[1]:g}) on it, and certificates "
            "are for bounded losses; bound features, labels and the prior's support, or clip the "
            "loss and give loss_range."
        )
    outside = int(domain.is_outside(data).sum())
    if outside:
        raise ValueError(
            f"data: {outside} examples lie outside the declared domain; widen it, or move them "
            "into it with Domain.clip before anything else."
        )
    return found


def check_met(loss_range: tuple[float, float], lowest: float, highest: float) -> None:
    """Refuse a range that losses of the data left."""
    low, high = loss_range
    margin = MARGIN * (high - low)
    worst = highest if not highest <= high + margin else lowest
    if not (low - margin <= lowest and highest <= high + margin):
        raise ValueError(
            f"loss_range: a loss of the data is {worst:.6g}, outside ({low:g}, {high:g}); declare "
            "a range that holds every loss, or clip the loss."
        )


def find_sampler(
    posterior: GibbsPosterior, sampler: Any, num_chains: int | None, num_samples: int | None
) -> Grid | SMC:
    """Return what finds normalizers: sums where they do, else particles."""
    if sampler is not None and not isinstance(sampler, (Grid, SMC)):
        raise ValueError(
            f"sampler: {checks.shown(sampler)} gives no normalizer, which a certificate needs; "
            "give gibbs_dp.Grid(...) or gibbs_dp.SMC(...)."
        )
    if sampler is None:
        lattice = lattice_on_interval(posterior)
        if lattice is None:
            chains = NUM_CHAINS if num_chains is None else num_chains
            samples = NUM_SAMPLES if num_samples is None else num_samples
            chains = positive_count("num_chains", chains, least=2)
            samples = positive_count("num_samples", samples, least=4)
            sampler = SMC(num_particles=chains * samples, num_islands=chains)
        else:
            sampler = lattice
            _refuse_counts(num_chains, num_samples, "sums over a lattice have no chains")
    else:
        _refuse_counts(num_chains, num_samples, "the sampler has its own counts")
    if isinstance(sampler, SMC) and not posterior.prior.has_draws:
        raise ValueError(
            "posterior: its prior is flat without bounds, or cannot be drawn from, and a "
            "certificate needs a proper one; give a distribution, or Flat on a box, a ball or a "
            "simplex."
        )
    if isinstance(sampler, SMC) and getattr(sampler.mover, "integrator", None) == "split":
        # Its rotations are around the particle of largest density: no fixed kernel.
        raise ValueError(
            "sampler: the 'split' integrator of HMC moves particles around the best of them, and "
            "their normalizer is then not exactly unbiased, which a certificate needs; give "
            "gibbs_dp.SMC(kernel=gibbs_dp.HMC(integrator='leapfrog')) or leave SMC's kernel out."
        )
    if isinstance(sampler, Grid) and sampler.is_lattice and not posterior.prior.has_draws:
        raise ValueError(
            "posterior: its prior is flat without bounds, so that a lattice is no prior of it; "
            "give Flat on a box, or candidates."
        )
    return sampler


def _refuse_counts(num_chains: int | None, num_samples: int | None, why: str) -> None:
    for name, value in (("num_chains", num_chains), ("num_samples", num_samples)):
        if value is not None:
            raise ValueError(f"{name}: {why}; leave it out.")
