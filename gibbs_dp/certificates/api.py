"""``gdp.certify``: what the risk of a posterior is at most, from the data it was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from gibbs_dp._cautions import Warned
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.certificates.certificate import NOISY_NORMALIZER, VACUOUS, Certificate
from gibbs_dp.certificates.checks import (
    check_bound,
    check_gammas,
    check_met,
    check_posterior,
    find_range,
    find_sampler,
)
from gibbs_dp.certificates.evidence import Column, Evidence, from_islands, sum_over
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import pac_bayes
from gibbs_dp.model.check import as_key, examples_for, names_keywords
from gibbs_dp.model.check import check_posterior as check_is_posterior
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.sample import LEAST_PILOTS
from gibbs_dp.sampling.smc import SMC
from gibbs_dp.sampling.smc_particles import Segment

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
    posterior: GibbsPosterior, data: PyTree, gammas: Column, sampler: SMC, key: PRNGKeyArray
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
    gammas: Column,
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

    The bounds of Catoni (2007, Thm 1.2.6), its linear form (Alquier 2024, Thm 2.1), Maurer (2004,
    Thm 5) and McAllester (2003) need the posterior's normalizer: exact sums give it, or particles
    that come from the prior give an unbiased estimate of it. With such an estimate the bounds hold
    as they are, with probability ``1 - delta`` over data and particles, and nothing has to be
    allowed for its error: each rests on Markov's inequality for a nonnegative number whose mean is
    at most 1 (Catoni) or ``2 sqrt n`` (Maurer), and that number is linear in the estimate. By the
    convexity of the bounds they then hold for a draw from the weighted particles, whose empirical
    risk is known; those of Catoni also for the posterior itself.

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
        Which bound is the certificate: "catoni", "linear", "maurer" or "mcallester", chosen
        before the data. All are shown.
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
    check_is_posterior(posterior)
    check_posterior(posterior)
    gammas = check_gammas(gamma)
    checks.unit_interval("delta", delta, open_left=True)
    check_bound(bound)
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
    check_met(ends, evidence.lowest, evidence.highest)
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
    gammas: Column,
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
        row["catoni"] = pac_bayes.catoni_bound(log_c, n, **by_c)
        row["linear"] = pac_bayes.linear_bound(log_c, n, **by_c)
        row["maurer"] = pac_bayes.maurer_bound(risk, kl, n, **by_kl)
        row["mcallester"] = pac_bayes.mcallester_bound(risk, kl, n, **by_kl)
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
