"""``gdp.certify``: what the risk of a posterior is at most, from the data it was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from gibbs_dp._cautions import Warned, warns
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.auditing.certificate import BOUNDS, NOISY_NORMALIZER, VACUOUS, Certificate
from gibbs_dp.auditing.summary import kind_of
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import generalization
from gibbs_dp.model.check import (
    as_key,
    check_posterior,
    examples_for,
    names_keywords,
    positive_count,
)
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.constants import declared_range
from gibbs_dp.sampling.grid import Grid, lattice_on_interval
from gibbs_dp.sampling.sample import LEAST_PILOTS
from gibbs_dp.sampling.smc import SMC
from gibbs_dp.sampling.smc_particles import Segment

# Losses that are on a device at a time.
AT_ONCE = 2**22
# Of the lattice on an interval where no sampler is given.
LATTICE_POINTS = 1024

PerGamma = Float[np.ndarray, " gammas"]


class Evidence(NamedTuple):
    """Normalizers and empirical risks of one dataset's posteriors, a number a gamma."""

    # log_normalizer, log_normalizer_se: log of the prior mean of ``exp(-gamma L)``, and its Monte
    # Carlo error; nats. Where it is sampled, its exponential is unbiased.
    log_normalizer: PerGamma
    log_normalizer_se: PerGamma
    # empirical_risk, empirical_risk_se: mean loss on the data, of the posterior or of weighted
    # particles, and how far off the posterior's the latter may be
    empirical_risk: PerGamma
    empirical_risk_se: PerGamma
    # kl, kl_se: divergence from the prior, and its Monte Carlo error; nats
    kl: PerGamma
    kl_se: PerGamma
    # lowest, highest: of all losses that were met, at all gammas
    lowest: float
    highest: float


def from_sums(
    gammas: PerGamma,
    total_loss: Float[np.ndarray, " points"],
    log_prior: Float[np.ndarray, " points"],
    n: int,
    ends: tuple[float, float],
) -> Evidence:
    """Sum over a finite class."""
    prior = log_prior - logsumexp(log_prior)
    height = prior - np.multiply.outer(gammas, total_loss)
    log_normalizer = logsumexp(height, axis=1)
    risk = np.exp(height - log_normalizer[:, None]) @ total_loss / n
    none = np.zeros_like(gammas)
    kl = np.maximum(0.0, -gammas * n * risk - log_normalizer)
    return Evidence(log_normalizer, none, risk, none, kl, none, *ends)


def from_islands(
    gammas: PerGamma,
    log_normalizer: Float[np.ndarray, "gammas islands"],
    mean_loss: Float[np.ndarray, "gammas islands"],
    n: int,
    ends: tuple[float, float],
) -> Evidence:
    """Pool independent islands, each with an unbiased normalizer; errors by leaving out each.

    No bias is taken off: the mean of the islands' normalizers is unbiased as it is, which is what
    bounds rest on.
    """
    count = log_normalizer.shape[1]
    others = ~np.eye(count, dtype=bool)
    # Last axis: who is in; first all islands, then all but one.
    groups = np.concatenate([np.ones((1, count), bool), others])
    level = np.where(groups, log_normalizer[:, None, :], -np.inf)
    log_c = logsumexp(level, axis=-1) - np.log(groups.sum(axis=1))
    share = np.exp(level - logsumexp(level, axis=-1, keepdims=True))
    risk = (share * mean_loss[:, None, :]).sum(axis=-1)
    kl = -gammas[:, None] * n * risk - log_c

    def error(values: Float[np.ndarray, "gammas groups"]) -> PerGamma:
        without = values[:, 1:]
        spread = ((without - without.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        return np.asarray(np.sqrt((count - 1) / count * spread))

    return Evidence(
        log_c[:, 0],
        error(log_c),
        risk[:, 0],
        error(risk),
        np.maximum(0.0, kl[:, 0]),
        error(kl),
        *ends,
    )


# Exact sums over a finite class of parameters.


def _losses_of(
    posterior: GibbsPosterior, values: Float[Array, "points ..."], data: PyTree
) -> tuple[Float[Array, "points n"], Float[Array, " points"]]:
    rebuild = posterior.prior.treedef.unflatten
    losses = jax.vmap(lambda x: posterior.losses(rebuild([x]), data))(values)
    return losses, jax.vmap(lambda x: posterior.prior.log_prob(rebuild([x])))(values)


_losses = on_default_backend(_losses_of, "posterior")


def sum_over(posterior: GibbsPosterior, data: PyTree, gammas: PerGamma, grid: Grid) -> Evidence:
    """Sum over a grid's points, in double precision."""
    grid.check(posterior)
    values = grid.points_of_shape(posterior.prior.supports[0].shape)
    n, dtype = num_examples(data), jnp.result_type(float)
    step = min(len(values), max(1, AT_ONCE // n))
    total, log_prior, ends = [], [], []
    for first in range(0, len(values), step):
        block = values[first : first + step]
        # One shape, one compilation: the last block repeats a point, which is cut off again.
        padded = np.concatenate([block, np.repeat(block[-1:], step - len(block), axis=0)])
        found = _losses(posterior, jnp.asarray(padded, dtype), data)
        losses, prior = (np.asarray(a, np.float64)[: len(block)] for a in found)
        total.append(losses.sum(axis=1))
        log_prior.append(prior)
        ends.append((losses.min(), losses.max()))
    lows, highs = zip(*ends, strict=True)
    whole = np.concatenate(total), np.concatenate(log_prior)
    return from_sums(gammas, *whole, n, (float(min(lows)), float(max(highs))))


# Share of the loss range by which rounding may carry a loss out of it.
MARGIN = 1e-5
NUM_CHAINS, NUM_SAMPLES = 8, 64


def check_gammas(gamma: ArrayLike | float | Sequence[float]) -> PerGamma:
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


def check_losses(loss_range: tuple[float, float], lowest: float, highest: float) -> None:
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
        lattice = lattice_on_interval(posterior, LATTICE_POINTS)
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


# Normalizers and empirical risks from particles along a path.


class Islands(NamedTuple):
    """What leaves the device of each dataset."""

    log_normalizer: Float[Array, "*b gammas islands"]
    mean_loss: Float[Array, "*b gammas islands"]
    lowest: Float[Array, "*b"]
    highest: Float[Array, "*b"]
    reference_losses: Float[Array, "*b gammas n"]
    reference_log_prior: Float[Array, "*b gammas"]


def _run_of(
    posterior: GibbsPosterior,
    sampler: SMC,
    keys: Key[Array, " datasets"],
    batch: PyTree,
    segments: Segment,
) -> Islands:
    def one(pair: tuple[PRNGKeyArray, PyTree]) -> Islands:
        key, data = pair
        draws = sampler.draw_path(key, posterior, data, segments)

        def of_particles(u: Float[Array, "each dim"]) -> tuple[Array, Array, Array]:
            losses = jax.vmap(lambda x: posterior.losses(posterior.constrain(x), data))(u)
            return jnp.mean(losses), jnp.min(losses), jnp.max(losses)

        islands = draws.u.reshape(-1, *draws.u.shape[2:])
        mean, low, high = jax.lax.map(of_particles, islands)
        assert draws.island_log_normalizer is not None
        return Islands(
            draws.island_log_normalizer,
            mean.reshape(draws.u.shape[:2]),
            jnp.min(low),
            jnp.max(high),
            draws.reference.losses,
            draws.reference.log_prior,
        )

    return jax.lax.map(one, (keys, batch))


_run = on_default_backend(_run_of, "posterior", "sampler")


def follow_path(
    posterior: GibbsPosterior, data: PyTree, gammas: PerGamma, sampler: SMC, key: PRNGKeyArray
) -> Evidence:
    """Find a path with particles that enter nothing else, and run others along it."""
    pilot_key, run_key = jax.random.split(key)
    pilots = jax.tree.map(lambda a: jnp.stack([a] * LEAST_PILOTS), data)
    segments = sampler.find_path(pilot_key, posterior, pilots, [float(g) for g in gammas])
    batch = jax.tree.map(lambda a: a[None], data)
    return run_frozen(posterior, batch, gammas, sampler, segments, run_key[None])[0]


def run_frozen(
    posterior: GibbsPosterior,
    batch: PyTree,
    gammas: PerGamma,
    sampler: SMC,
    segments: Segment,
    keys: Key[Array, " datasets"],
) -> list[Evidence]:
    """Run particles along a path that was found before, for each dataset of a batch."""
    found = jax.tree.map(lambda a: np.asarray(a, np.float64), _run(
        posterior, sampler, keys, batch, segments
    ))  # fmt: skip
    log_mass = float(posterior.prior.log_mass)
    # Islands' normalizers are of the law over its density at the reference.
    height = found.reference_log_prior - gammas * found.reference_losses.sum(axis=-1) - log_mass
    level = found.log_normalizer + height[..., None]
    n = num_examples(jax.tree.map(lambda a: a[0], batch))
    ends = np.stack([found.lowest, found.highest], axis=1)
    return [
        from_islands(gammas, level[i], found.mean_loss[i], n, (float(low), float(high)))
        for i, (low, high) in enumerate(ends)
    ]


# A certificate that far up the loss range is called vacuous.
VACUOUS_SHARE = 0.95
# Standard error of a log normalizer, of all islands, above which it is called noisy.
NOISY = 0.5


@names_keywords
@warns(kind_of)
def certify(
    posterior: GibbsPosterior,
    data: PyTree,
    gamma: ArrayLike | float | Sequence[float],
    delta: float = 0.05,
    *,
    domain: Domain | None = None,
    loss_range: tuple[float, float] | None = None,
    bound: str = "catoni",
    key: int | PRNGKeyArray = 0,
    sampler: Grid | SMC | Any | None = None,
    num_chains: int | None = None,
    num_samples: int | None = None,
) -> Certificate:
    """Bound the population risk of a Gibbs posterior by PAC-Bayes, with its own data.

    The bounds of Catoni (2007, Thm 1.2.6) and Maurer (2004, Thm 5) need the posterior's normalizer:
    exact sums give it, or particles that come from the prior give an unbiased estimate of it. With
    such an estimate the bounds hold as they are, with probability ``1 - delta`` over data and
    particles, and nothing has to be allowed for its error: each rests on Markov's inequality for a
    nonnegative number whose mean is at most 1 (Catoni) or ``2 sqrt n`` (Maurer), and that number is
    linear in the estimate. By the convexity of the bounds they then hold for a draw from the
    weighted particles, whose empirical risk is known; those of Catoni also for the posterior
    itself.

    Parameters
    ----------
    posterior
        A per-example loss, and a proper prior that was chosen without the data.
    data
        Independent examples, a pytree whose leaves have leading axis ``n``.
    gamma
        Inverse temperature, > 0, or a grid of ``K`` of them fixed before the data: the table holds
        at all of them at once (``delta / K`` each), so that the best may be used.
    delta
        Probability that a bound may fail, in (0, 1).
    domain
        Declared bounds on the examples, from which a built-in loss knows its range.
    loss_range
        Instead: the smallest and the largest loss ``(low, high)`` of any example at any parameter.
        Losses of the data are checked.
    bound
        Which bound is the certificate: "catoni" or "maurer", chosen before the data. Both
        are shown.
    key
        Integer seed or JAX key, of the particles.
    sampler
        ``gibbs_dp.Grid(...)``: exact sums over candidates or a lattice, of which the certificate
        is then. ``gibbs_dp.SMC(...)``: particles, moved by a kernel that is the same wherever the
        others are (MALA, or HMC with ``integrator="leapfrog"``). None: a lattice of 1,024 points
        where theta is one number in an interval, else SMC.
    num_chains, num_samples
        Without a sampler: islands (8) and particles in each (64) of SMC.

    Returns
    -------
    Certificate
        A row a gamma, and the least certificate.

    Raises
    ------
    ValueError
        If the loss has no declared finite range or leaves it, the prior is improper, examples
        share one structured loss, or the sampler gives no normalizer.

    Examples
    --------
    >>> import jax.numpy as jnp, gibbs_dp as gdp
    >>> def is_above(theta, z):
    ...     return (z > theta).astype(float)
    >>> posterior = gdp.GibbsPosterior(is_above, gdp.Flat(gdp.supports.box(0.0, 1.0, ())))
    >>> data = jnp.linspace(0.0, 0.5, 200)
    >>> found = gdp.certify(posterior, data, [0.1, 1.0], loss_range=(0.0, 1.0))
    >>> found.gamma, round(found.bound, 3), found.is_exact
    (1.0, 0.034, True)
    """
    check_posterior(posterior, sampler)
    if posterior.structured:
        raise ValueError(
            "posterior: a total_loss has no losses of independent examples, which certificates are "
            "about; use a per-example loss."
        )
    gammas = check_gammas(gamma)
    checks.unit_interval("delta", delta, open_left=True)
    if bound not in BOUNDS:
        raise ValueError(f"bound: {bound!r} is none of {', '.join(BOUNDS)}; give one of them.")
    examples = examples_for(posterior, data)
    ends = find_range(posterior, data, domain, loss_range)
    sampler = find_sampler(posterior, sampler, num_chains, num_samples)
    n = num_examples(examples)
    is_exact = isinstance(sampler, Grid)
    if isinstance(sampler, Grid):
        evidence = sum_over(posterior, examples, gammas, sampler)
        kind = "lattice points" if sampler.is_lattice else "candidates"
        of = f"{len(sampler.points_of_shape(posterior.prior.supports[0].shape)):,} {kind}"
    else:
        evidence = follow_path(posterior, examples, gammas, sampler, as_key(key))
        of = f"{sampler.num_particles:,} weighted particles"
    check_losses(ends, evidence.lowest, evidence.highest)
    rows = bound_rows(gammas, evidence, n, delta, ends, is_exact)
    settings = {
        "n": n,
        "delta": float(delta),
        "bound": bound,
        "loss_range": ends,
        "num_gammas": len(rows),
        "kernel": sampler.identity if is_exact else repr(sampler),
        "of": of,
    }
    return Certificate(rows, settings, is_exact, _warnings(rows, bound, ends))


def bound_rows(
    gammas: PerGamma,
    evidence: Evidence,
    n: int,
    delta: float,
    loss_range: tuple[float, float],
    is_exact: bool,
) -> tuple[dict[str, float], ...]:
    """Compute all bounds at every gamma, and pay for the grid."""
    each = delta / len(gammas)
    rows = []
    for i, gamma in enumerate(gammas):
        row = {"gamma": float(gamma)}
        for name in ("empirical_risk", "kl", "log_normalizer"):
            row[name] = float(getattr(evidence, name)[i])
            row[f"{name}_se"] = float(getattr(evidence, f"{name}_se")[i])
        low, high = loss_range
        risk = min(high, max(low, row["empirical_risk"]))
        log_c, kl = row["log_normalizer"], row["kl"]
        by_c: dict[str, Any] = {"gamma": float(gamma), "delta": each, "loss_range": loss_range}
        by_kl: dict[str, Any] = {"delta": delta if is_exact else each, "loss_range": loss_range}
        row["catoni"] = generalization.catoni_bound(log_c, n, **by_c)
        row["maurer"] = generalization.maurer_bound(risk, kl, n, **by_kl)
        rows.append(row)
    return tuple(rows)


def _warnings(
    rows: Sequence[dict[str, float]], bound: str, loss_range: tuple[float, float]
) -> tuple[Warned, ...]:
    found = []
    least = min(row[bound] for row in rows)
    share = (least - loss_range[0]) / (loss_range[1] - loss_range[0])
    if share >= VACUOUS_SHARE:
        found.append(VACUOUS(bound=bound, value=least, share=share))
    for row in rows:
        error = row["log_normalizer_se"]
        if not error <= NOISY:
            found.append(NOISY_NORMALIZER(gamma=row["gamma"], error=error))
    return tuple(found)
