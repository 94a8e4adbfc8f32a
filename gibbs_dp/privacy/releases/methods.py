"""Releases of draws that count as exact: chains that are checked, and tried longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from gibbs_dp._cautions import told_elsewhere
from gibbs_dp.information import checks
from gibbs_dp.information.bounds import approximate_draw
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Target
from gibbs_dp.privacy.chain import chain_guarantee
from gibbs_dp.privacy.chain_calibration import (
    ChainCalibration,
    calibrate_chain,
    calibrate_minibatch_chain,
    has_last_iterate_theorem,
)
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.releases.arguments import (
    MOST,
    check_fits,
    check_kernel,
    check_proper,
    check_run,
    has_converged,
)
from gibbs_dp.privacy.releases.method import (
    IDEALIZATIONS,
    TIMING_CAVEAT,
    ReleaseMethod,
    ReleasePlan,
    ReleaseRequest,
)
from gibbs_dp.sampling.kernels import HMC, SGLD, ULA, Kernel
from gibbs_dp.sampling.sample import sample
from gibbs_dp.sampling.unadjusted import (
    in_theta,
    require_langevin,
    run_langevin,
    walk_plainly,
)

CHECKS_CAVEAT = (
    "that the convergence checks passed is itself a function of the data, and not covered."
)
MIN_CHAINS = 4
# Factors by which chains run longer where shorter ones did not pass the checks.
LONGER = (1, 4, 16)


@dataclass(frozen=True)
class ExactDraw(ReleaseMethod):
    """Draws that count as exact: the last state of one Markov chain each, once all of them agree.

    Chains that do not pass the convergence checks are run anew, 4 and 16 times as long. A guarantee
    that assumes no convergence is that of `ChainDraw` and `ProvenDraw`.

    Parameters
    ----------
    total_variation
        Distance of each chain's law from the posterior that you vouch for, for every dataset; then
        the target must be ``epsilon`` and ``delta``, it is met with it, and "exact-draw" need not
        be accepted.
    kernel
        What moves the chains, as ``sampler`` of `gibbs_dp.sample`; None: ``gibbs_dp.HMC()``, and no
        other in its place, whatever the record. One without an acceptance step
        (ULA, SGLD) needs ``total_variation``: its draws are biased and do not count as exact.
    num_warmup
        Steps of each chain before those that count.
    num_samples
        Steps of each chain that are checked.

    Examples
    --------
    >>> list(ExactDraw().idealizations), list(ExactDraw(total_variation=1e-9).idealizations)
    (['exact-draw', 'float-arithmetic'], ['float-arithmetic'])
    """

    total_variation: float | None = None
    kernel: Kernel | Any | None = None
    num_warmup: int = 500
    num_samples: int = 1000

    mechanism: ClassVar[str] = "exact draw"
    failed: ClassVar[str] = (
        "release: the chains failed or did not pass the convergence checks, run as asked and up to "
        f"{LONGER[-1]} times longer; nothing is released and the charge stands. Raise num_warmup "
        "and num_samples, or lower the target."
    )

    @property
    def idealizations(self) -> Mapping[str, str]:
        """Exact draws, unless a total variation is declared, and floats for reals."""
        return IDEALIZATIONS if self.total_variation is None else super().idealizations

    def plan(self, request: ReleaseRequest) -> ReleasePlan:
        """Calibrate gamma; chains are traced before the charge, not run."""
        check_kernel(self.kernel, request.posterior, self.total_variation is None)
        num_draws = request.num_draws
        num_chains = max(MIN_CHAINS, num_draws)
        num_warmup, num_samples = check_run(
            request.posterior.dim, num_draws, num_chains, self.num_warmup, self.num_samples
        )
        target = request.target
        check_proper(request.posterior, request.domain)
        gamma, guarantee = self._promise(request, target)

        def draw(unchecked: GibbsPosterior, examples: PyTree, key: Any) -> PyTree | None:
            """Run chains from fresh noise until they pass the checks, each time longer."""
            for factor, fresh in zip(LONGER, jax.random.split(key, len(LONGER)), strict=True):
                with told_elsewhere():  # what is wrong with them depends on private rows
                    draws = sample(
                        unchecked,
                        examples,
                        gamma=gamma,
                        key=fresh,
                        sampler=HMC() if self.kernel is None else self.kernel,
                        num_chains=num_chains,
                        num_warmup=factor * num_warmup,
                        num_samples=factor * num_samples,
                        progress=False,  # how long it takes depends on private rows
                    )
                if has_converged(draws):
                    return jax.tree.map(lambda leaf: leaf[:num_draws, -1], draws.theta)
            return None

        return ReleasePlan(guarantee, draw, _second_derivatives)

    def _promise(self, request: ReleaseRequest, target: Target) -> tuple[float, Guarantee]:
        """Calibrate, so that the target is met together with a declared total variation."""
        tau, asked = self.total_variation, target
        if tau is not None:
            checks.nonnegative("total_variation", tau)
            if target.epsilon is None or target.delta is None:
                raise ValueError(
                    "total_variation: an approximate draw has (epsilon, delta) only; give the "
                    "target as epsilon and delta."
                )
            lost = approximate_draw(
                target.epsilon, 0.0, total_variation=min(1.0, request.num_draws * tau)
            ).delta
            if not lost < target.delta:
                raise ValueError(
                    f"total_variation: {tau:g} alone costs a delta of {lost:.3g}, more than the "
                    f"target's {target.delta:g}; make the chain closer or delta larger."
                )
            asked = replace(target, delta=target.delta - lost)
        found = request.calibrate(asked)
        guarantee = found.guarantee
        if tau is not None and target.delta is not None:
            guarantee = replace(guarantee.within_total_variation(tau), delta=target.delta)
        caveats = (*guarantee.caveats, CHECKS_CAVEAT, TIMING_CAVEAT)
        return found.gamma, replace(guarantee, caveats=caveats)


def _second_derivatives(posterior: GibbsPosterior, data: PyTree) -> Any:
    """Take the derivatives that the Laplace fit needs; chains need the first."""
    target = posterior.unconstrained(data, 1.0)
    return jax.hessian(target.log_density)(jnp.zeros(posterior.dim))


# Releases whose guarantee holds for the chain that is run, converged or not.


@dataclass(frozen=True)
class ChainDraw(ReleaseMethod):
    """The last iterates of Langevin chains, or of one; no draw is assumed to be exact.

    By default `calibrate_chain` finds a single ULA run that meets the target, ``epsilon`` and
    ``delta``; with ``thinning``, or where no theorem covers the last iterate (networks),
    `calibrate_minibatch_chain` an SGLD run. Otherwise the chain to run, and ``delta`` alone, at
    which its guarantee is stated.
    Start at zero, full batch (or Poisson minibatches), no preconditioner, each step projected where
    the prior is on a box or a ball: the form that the theorems cover.

    Parameters
    ----------
    kernel
        The chain to run, chosen without looking at the data.
    gamma
        Its inverse temperature.
    thinning
        Of ``num_draws`` draws, the steps from one to the next: they are the last states of **one**
        chain, and cost what its whole run costs, by composition, however many they are. None: each
        draw is the last state of a chain of its own, and all chains are paid for.
    progress
        A bar of the steps in terminals and notebooks, whose number is public. How fast it moves
        is running time, which is not protected.

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
    thinning: int | None = None
    progress: bool = True

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
        kernel, gamma, guarantee = self.kernel, self.gamma, None
        if kernel is None or gamma is None:
            if num_draws != 1 and self.thinning is None:
                raise ValueError(
                    "num_draws: epsilon calibrates one run; give ChainDraw thinning, for several "
                    "of its states, or kernel and gamma."
                )
            found = self._calibrated(request)
            kernel, gamma = found.kernel, found.gamma
            guarantee = found.guarantee if num_draws == 1 else None
        if guarantee is None:
            guarantee = chain_guarantee(
                posterior,
                kernel,
                gamma=gamma,
                n=request.n,
                adjacency=request.adjacency,
                domain=request.domain,
                delta=request.asked["delta"],
                num_draws=num_draws,
                thinning=self.thinning,
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
        keys, starts = jax.random.split(jax.random.key(0), 1), jnp.zeros((1, flat.dim))

        def program(unchecked: GibbsPosterior, examples: PyTree) -> Any:
            return walk_plainly(unchecked, form, examples, gamma, starts, keys, 0, 1)

        def draw(unchecked: GibbsPosterior, examples: PyTree, key: Any) -> PyTree:
            last = run_langevin(
                unchecked,
                examples,
                gamma=gamma,
                kernel=kernel,
                num_draws=num_draws,
                thinning=self.thinning,
                key=key,
                progress=self.progress,
            )
            return jax.vmap(flat.constrain)(last)

        promised = replace(guarantee, caveats=(*guarantee.caveats, TIMING_CAVEAT))
        return ReleasePlan(promised, draw, program)

    def _calibrated(self, request: ReleaseRequest) -> ChainCalibration:
        """Find the run that meets the target, by public facts alone."""
        posterior, domain = request.posterior, request.domain
        asked: Any = dict(request.asked)
        facts: Any = {"n": request.n, "adjacency": request.adjacency}
        if self.thinning is None and has_last_iterate_theorem(posterior, domain=domain, **facts):
            return calibrate_chain(posterior, domain=domain, **facts, **asked)
        return calibrate_minibatch_chain(posterior, **facts, **asked)
