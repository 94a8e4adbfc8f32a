"""A release of draws that count as exact: calibrate, charge, clip, draw, check, hand out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import approximate_draw
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Target, calibrate_gamma
from gibbs_dp.privacy.chain import GENERATOR
from gibbs_dp.privacy.dependent_rows import DependentRows
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.noise import secret_key
from gibbs_dp.privacy.releases.arguments import (
    FLOAT_ARITHMETIC,
    IDEALIZATIONS,
    check_kernel,
    check_proper,
    check_run,
    finite_figures,
    has_converged,
)
from gibbs_dp.privacy.releases.steps import (
    TIMING_CAVEAT,
    Release,
    charge_and_draw,
    check_request,
)
from gibbs_dp.sampling.kernels import Kernel
from gibbs_dp.sampling.sample import sample

CHECKS_CAVEAT = (
    "that the convergence checks passed is itself a function of the data, and not covered."
)
MIN_CHAINS = 4
# Factors by which chains run longer where shorter ones did not pass the checks.
LONGER = (1, 4, 16)
FAILED = (
    "release: the chains failed or did not pass the convergence checks, run as asked and up to "
    f"{LONGER[-1]} times longer; nothing is released and the charge stands. Raise num_warmup and "
    "num_samples, or lower the target."
)


def release(
    posterior: GibbsPosterior,
    data: PyTree,
    *,
    domain: Domain,
    adjacency: Adjacency,
    ledger: Ledger,
    accept: Collection[str] = (),
    pure_epsilon: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    zcdp: float | None = None,
    gdp: float | None = None,
    bayesian_epsilon: float | None = None,
    total_variation: float | None = None,
    num_draws: int = 1,
    n: int | None = None,
    rows: DependentRows | Any | None = None,
    kernel: Kernel | Any | None = None,
    num_warmup: int = 500,
    num_samples: int = 1000,
    purpose: str = "gibbs_dp release",
) -> Release:
    """Release draws from the Gibbs posterior of private data.

    In this order: check everything that can be checked without the data's values; find the gamma
    of the target; charge the ledger; clip the data to the domain; run one chain per draw from a
    key of the operating system's entropy; check convergence, and try chains of 4 and 16 times the
    length where the check fails; hand out the last draw of each.
    Whatever fails after the charge raises one fixed sentence, and the charge stands.

    For draws whose guarantee assumes no convergence see `gibbs_dp.privacy.release_chain`.

    Parameters
    ----------
    posterior
        Loss and prior.
    data
        Private examples.
    domain
        Bounds that the data are clipped to; chosen without looking at them.
    adjacency
        Which datasets count as neighbours.
    ledger
        Budget of this dataset, charged before anything is drawn.
    accept
        The idealizations that you accept, by name: "exact-draw" (not needed with
        ``total_variation``) and "float-arithmetic".
    pure_epsilon, epsilon, delta, zcdp, gdp, bayesian_epsilon
        One target, as in `gibbs_dp.calibrate`.
    total_variation
        A distance of each chain's law from the posterior that you can vouch for, for every
        dataset; then the target must be ``epsilon`` and ``delta``, and it is met with it.
    num_draws
        Draws to release.
    n
        Under add/remove: a public upper bound on the number of examples.
    rows
        Law of examples that depend on each other, chosen without looking at them, as in
        `gibbs_dp.privacy.account`; it is for ``bayesian_epsilon``. The ledger is charged in DP.
    kernel, num_warmup, num_samples
        How each chain runs, as in `gibbs_dp.sample`. A kernel without an acceptance step (ULA,
        SGLD) needs ``total_variation``: its draws are biased and do not count as exact.
    purpose
        For the ledger's record.

    Returns
    -------
    Release
        Draws, their guarantee and the number of the charge.

    Raises
    ------
    ValueError
        For bad input, before anything is charged.
    BudgetExceededError
        If the budget does not suffice; nothing is charged.
    ReleaseError
        If the chains fail or do not pass the checks; the charge stands.

    Examples
    --------
    >>> import tempfile, pathlib, jax.numpy as jnp, gibbs_dp as gdp
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = gdp.Ledger.create(pathlib.Path(folder.name) / "ledger", epsilon=1.0,
    ...                            adjacency="replace-one")
    >>> p = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                        gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))
    >>> gdp.release(p, jnp.ones((50, 1)), domain=gdp.Domain(x_bound=1.0), ledger=ledger,
    ...             adjacency="replace-one", pure_epsilon=0.5,
    ...             accept=["exact-draw"])                              # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: accept: the guarantee is idealized, so name what you accept: 'float-arithmetic' ...
    >>> folder.cleanup()
    """
    is_exact = total_variation is None
    needed = list(IDEALIZATIONS) if is_exact else [FLOAT_ARITHMETIC]
    num_draws, size = check_request(
        posterior, data, domain, adjacency, ledger, num_draws, n, accept, needed
    )
    check_kernel(kernel, is_exact)
    num_chains = max(MIN_CHAINS, num_draws)
    num_warmup, num_samples = check_run(
        posterior.dim, num_draws, num_chains, num_warmup, num_samples
    )
    target = Target(pure_epsilon, epsilon, delta, zcdp, gdp, bayesian_epsilon)
    with finite_figures():
        check_proper(posterior, domain)
        guarantee = _guarantee(
            posterior, target, size, adjacency, domain, num_draws, total_variation, rows
        )

    def draw(unchecked: GibbsPosterior, examples: PyTree) -> PyTree | None:
        """Run chains from fresh noise until they pass the checks, each time longer."""
        for factor in LONGER:
            draws = sample(
                unchecked,
                examples,
                gamma=guarantee.gamma,
                key=secret_key(),
                sampler=kernel,
                num_chains=num_chains,
                num_warmup=factor * num_warmup,
                num_samples=factor * num_samples,
            )
            if has_converged(draws):
                return jax.tree.map(lambda leaf: np.asarray(leaf)[:num_draws, -1], draws.theta)
        return None

    return charge_and_draw(
        posterior, data, domain, ledger, guarantee, purpose, _second_derivatives, draw, FAILED
    )


def _second_derivatives(posterior: GibbsPosterior, data: PyTree) -> Any:
    """Take the derivatives that the Laplace fit needs; chains need the first."""
    target = posterior.unconstrained(data, 1.0)
    return jax.hessian(target.log_density)(jnp.zeros(posterior.dim))


def _guarantee(
    posterior: GibbsPosterior,
    target: Target,
    n: int,
    adjacency: Adjacency,
    domain: Domain,
    num_draws: int,
    total_variation: float | None,
    rows: DependentRows | Any | None,
) -> Guarantee:
    """Calibrate, so that the target is met together with a declared total variation."""
    asked = target
    if total_variation is not None:
        checks.nonnegative("total_variation", total_variation)
        if target.epsilon is None or target.delta is None:
            raise ValueError(
                "total_variation: an approximate draw has (epsilon, delta) only; give the target "
                "as epsilon and delta."
            )
        lost = approximate_draw(
            target.epsilon, 0.0, total_variation=min(1.0, num_draws * total_variation)
        ).delta
        if not lost < target.delta:
            raise ValueError(
                f"total_variation: {total_variation:g} alone costs a delta of {lost:.3g}, more "
                f"than the target's {target.delta:g}; make the chain closer or delta larger."
            )
        asked = replace(target, delta=target.delta - lost)
    found = calibrate_gamma(
        posterior,
        asked,
        n=n,
        adjacency=adjacency,
        domain=domain,
        num_draws=num_draws,
        rows=rows,
    ).guarantee
    if total_variation is not None and target.delta is not None:
        found = replace(found.within_total_variation(total_variation), delta=target.delta)
    caveats = (*found.caveats, GENERATOR, CHECKS_CAVEAT, TIMING_CAVEAT)
    return replace(found, caveats=caveats)
