"""A release whose guarantee holds for the chain that is run, converged or not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.projection import in_theta
from gibbs_dp.privacy.chain import chain_guarantee
from gibbs_dp.privacy.chain_calibration import calibrate_chain
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.noise import secret_key
from gibbs_dp.privacy.releases.arguments import FLOAT_ARITHMETIC, MOST, check_fits, finite_figures
from gibbs_dp.privacy.releases.steps import (
    TIMING_CAVEAT,
    Release,
    charge_and_draw,
    check_request,
    finite_draws,
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
    preconditioner, each step projected where the prior is on a box or a ball: the form that the
    theorems cover.

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
    num_draws, size = check_request(
        posterior, data, domain, adjacency, ledger, num_draws, n, accept, [FLOAT_ARITHMETIC]
    )
    require_langevin(posterior)
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
    start, keys = jnp.zeros(in_theta(posterior).dim), jax.random.split(jax.random.key(0), num_draws)

    def program(unchecked: GibbsPosterior, examples: PyTree) -> Any:
        return run_form(unchecked, form, examples, jnp.asarray(gamma), start, keys)

    def draw(unchecked: GibbsPosterior, examples: PyTree) -> PyTree | None:
        flat = run_langevin(
            unchecked,
            examples,
            gamma=gamma,
            kernel=kernel,
            num_draws=num_draws,
            key=secret_key(),
        )
        return finite_draws(in_theta(posterior), flat)

    guarantee = replace(guarantee, caveats=(*guarantee.caveats, TIMING_CAVEAT))
    return charge_and_draw(
        posterior, data, domain, ledger, guarantee, purpose, program, draw, FAILED
    )
