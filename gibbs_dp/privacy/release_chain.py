"""A release whose guarantee holds for the chain that is run, converged or not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate_chain import calibrate_chain
from gibbs_dp.privacy.chain import chain_guarantee
from gibbs_dp.privacy.charge import charge_guarantee
from gibbs_dp.privacy.entropy import secret_key
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.private_chain import clip_data
from gibbs_dp.privacy.release import TIMING_CAVEAT, Release, ReleaseError
from gibbs_dp.privacy.release_arguments import (
    MOST,
    check_fits,
    check_kinds,
    check_program,
    finite_figures,
)
from gibbs_dp.privacy.release_checks import (
    FLOAT_ARITHMETIC,
    blank_data,
    check_shapes,
    check_structure,
    dataset_size,
    require_accepted,
)
from gibbs_dp.sampling.kernels import SGLD, ULA
from gibbs_dp.sampling.langevin_run import require_langevin, run_form, run_langevin

FAILED = (
    "release: the chain left the floating-point numbers; nothing is released and the charge "
    "stands. Lower step_size or gamma, or set a clip."
)


def release_chain(
    posterior: GibbsPosterior,
    data: PyTree,
    *,
    domain: Domain,
    adjacency: Adjacency,
    ledger: Ledger,
    epsilon: float | None = None,
    delta: float,
    kernel: ULA | SGLD | Any | None = None,
    gamma: float | None = None,
    accept: Collection[str] = (),
    num_draws: int = 1,
    n: int | None = None,
    purpose: str = "gibbs_dp release of a chain",
) -> Release:
    """Release the last iterates of Langevin chains; no draw is assumed to be exact.

    Either ``epsilon``, for which `calibrate_chain` finds a single ULA run, or the ``kernel`` and
    ``gamma`` to run, all free of the data. Start at zero, full batch (or Poisson minibatches), no
    preconditioner: the form that the theorems cover.

    Parameters
    ----------
    posterior, data, domain, adjacency, ledger, n, purpose
        As in `gibbs_dp.release`.
    epsilon, delta
        Target; ``delta`` also states the guarantee of a given kernel.
    kernel, gamma
        Instead of ``epsilon``: the run.
    accept
        Must name "float-arithmetic".
    num_draws
        Independent chains; 1 with ``epsilon``.

    Raises
    ------
    ValueError
        For bad input, before anything is charged.
    BudgetExceededError
        If the budget does not suffice; nothing is charged.
    ReleaseError
        If the chain overflows; the charge stands.

    Examples
    --------
    >>> import tempfile, pathlib, jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = gdp.Ledger.create(pathlib.Path(folder.name) / "ledger", zcdp=0.5,
    ...                            adjacency="replace-one")
    >>> p = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0))
    >>> data = (jnp.ones((30, 2)), jnp.arange(30) % 2)
    >>> out = release_chain(p, data, domain=gdp.Domain(x_bound=1.0), adjacency="replace-one",
    ...                     ledger=ledger, kernel=gdp.ULA(0.05, 100), gamma=0.3, delta=1e-6,
    ...                     accept=["float-arithmetic"])
    >>> out.guarantee.mechanism, out.theta.shape
    ('chain', (1, 2))
    >>> folder.cleanup()
    """
    require_accepted(accept, [FLOAT_ARITHMETIC])
    check_kinds(posterior, domain, ledger)
    require_langevin(posterior)
    num_draws = checks.count("num_draws", num_draws)
    size = dataset_size(check_shapes(data), adjacency, n)
    if (epsilon is None) == (kernel is None) or (kernel is None) != (gamma is None):
        raise ValueError("kernel: give either epsilon, or kernel and gamma together.")
    if epsilon is not None:
        if num_draws != 1:
            raise ValueError(
                "num_draws: epsilon calibrates one run; give kernel and gamma for more."
            )
        with finite_figures():
            found = calibrate_chain(
                posterior, epsilon=epsilon, delta=delta, n=size, adjacency=adjacency, domain=domain
            )
        kernel, gamma, guarantee = found.kernel, found.gamma, found.guarantee
    else:
        assert kernel is not None
        assert gamma is not None
        with finite_figures():
            guarantee = chain_guarantee(
                posterior,
                kernel,
                gamma=gamma,
                n=size,
                adjacency=adjacency,
                domain=domain,
                delta=delta,
                num_draws=num_draws,
            )
    form = kernel.plain_form()
    check_fits("gamma", gamma)
    check_fits("step_size", form.step_size)
    if form.clip is not None:
        check_fits("clip", form.clip)
    if form.num_steps > MOST:
        raise ValueError(f"num_steps: {form.num_steps} are more than one loop counts; lower it.")
    unchecked = check_structure(posterior, data, domain)
    start, keys = jnp.zeros(posterior.dim), jax.random.split(jax.random.key(0), num_draws)
    check_program(
        lambda examples: run_form(unchecked, form, examples, jnp.asarray(gamma), start, keys),
        blank_data(posterior, data, domain),
    )
    guarantee = replace(guarantee, caveats=(*guarantee.caveats, TIMING_CAVEAT))
    charge = charge_guarantee(ledger, guarantee, purpose=purpose)
    try:
        flat = run_langevin(
            unchecked,
            clip_data(posterior, data, domain),
            gamma=gamma,
            kernel=kernel,
            num_draws=num_draws,
            key=secret_key(),
        )
        is_good = bool(np.isfinite(flat).all())
    except Exception:
        raise ReleaseError(FAILED) from None  # its message may quote the data
    if not is_good:
        raise ReleaseError(FAILED)
    theta = jax.tree.map(np.asarray, jax.vmap(posterior.constrain)(flat))
    return Release(theta, guarantee, charge)
