"""Releases whose guarantee holds for the chain that is run, converged or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.projection import in_theta
from gibbs_dp.privacy.chain import chain_guarantee
from gibbs_dp.privacy.chain_calibration import calibrate_chain
from gibbs_dp.privacy.releases.arguments import MOST, check_fits
from gibbs_dp.privacy.releases.method import (
    TIMING_CAVEAT,
    ReleaseMethod,
    ReleasePlan,
    ReleaseRequest,
)
from gibbs_dp.sampling.kernels import SGLD, ULA
from gibbs_dp.sampling.unadjusted import require_langevin, run_form, run_langevin


@dataclass(frozen=True)
class ChainDraw(ReleaseMethod):
    """The last iterates of Langevin chains; no draw is assumed to be exact.

    By default `calibrate_chain` finds a single ULA run that meets the target, ``epsilon`` and
    ``delta``. Otherwise the chain to run, and ``delta`` alone, at which its guarantee is stated.
    Start at zero, full batch (or Poisson minibatches), no preconditioner, each step projected where
    the prior is on a box or a ball: the form that the theorems cover.

    Parameters
    ----------
    kernel
        The chain to run, chosen without looking at the data.
    gamma
        Its inverse temperature.

    Examples
    --------
    >>> import tempfile, pathlib, numpyro.distributions as dist, gibbs_dp as gdp
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = gdp.Ledger.create(pathlib.Path(folder.name) / "ledger", zcdp=0.5,
    ...                            adjacency="replace-one")
    >>> p = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0))
    >>> data = (jnp.ones((30, 2)), jnp.arange(30) % 2)
    >>> out = gdp.release(p, data, domain=gdp.Domain(x_bound=1.0), adjacency="replace-one",
    ...                   ledger=ledger, delta=1e-6, accept=["float-arithmetic"],
    ...                   method=ChainDraw(gdp.ULA(0.05, 100), gamma=0.3))
    >>> out.guarantee.mechanism, out.theta.shape
    ('chain', (1, 2))
    >>> folder.cleanup()
    """

    kernel: ULA | SGLD | Any | None = None
    gamma: float | None = None

    mechanism: ClassVar[str] = "chain"
    failed: ClassVar[str] = (
        "release: the chain left the floating-point numbers; nothing is released and the charge "
        "stands. Lower step_size or gamma, or set a clip."
    )

    def plan(self, request: ReleaseRequest) -> ReleasePlan:
        """Calibrate a chain, or account for the one that is given."""
        posterior, num_draws = request.posterior, request.num_draws
        require_langevin(posterior)
        if (self.kernel is None) != (self.gamma is None):
            raise ValueError(
                "kernel: give kernel and gamma together, or neither, and epsilon with delta."
            )
        figures = {"delta"} if self.kernel is not None else {"epsilon", "delta"}
        if set(request.asked) != figures:
            raise ValueError(
                "target: a chain has (epsilon, delta)-DP; give epsilon and delta, or ChainDraw its "
                "kernel and gamma, and delta alone."
            )
        shared: Any = {
            "n": request.n,
            "adjacency": request.adjacency,
            "domain": request.domain,
            "delta": request.asked["delta"],
        }
        kernel, gamma = self.kernel, self.gamma
        if kernel is None or gamma is None:
            if num_draws != 1:
                raise ValueError(
                    "num_draws: epsilon calibrates one run; give ChainDraw kernel and gamma for "
                    "more."
                )
            found = calibrate_chain(posterior, epsilon=request.asked["epsilon"], **shared)
            kernel, gamma, guarantee = found.kernel, found.gamma, found.guarantee
        else:
            guarantee = chain_guarantee(
                posterior, kernel, gamma=gamma, num_draws=num_draws, **shared
            )
        form = kernel.plain_form()
        check_fits("gamma", gamma)
        check_fits("step_size", form.step_size)
        if form.clip is not None:
            check_fits("clip", form.clip)
        if form.num_steps > MOST:
            raise ValueError(
                f"num_steps: {form.num_steps} are more than one loop counts; lower it."
            )
        flat = in_theta(posterior)
        start, keys = jnp.zeros(flat.dim), jax.random.split(jax.random.key(0), num_draws)

        def program(unchecked: GibbsPosterior, examples: PyTree) -> Any:
            return run_form(unchecked, form, examples, jnp.asarray(gamma), start, keys)

        def draw(unchecked: GibbsPosterior, examples: PyTree, key: Any) -> PyTree:
            last = run_langevin(
                unchecked, examples, gamma=gamma, kernel=kernel, num_draws=num_draws, key=key
            )
            return jax.vmap(flat.constrain)(last)

        promised = replace(guarantee, caveats=(*guarantee.caveats, TIMING_CAVEAT))
        return ReleasePlan(promised, draw, program)
