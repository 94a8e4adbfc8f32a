"""A release of draws whose distance from the posterior is proven rather than assumed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Target, calibrate_gamma
from gibbs_dp.privacy.chain import GENERATOR
from gibbs_dp.privacy.constants import derive_constants, gradients_at_zero
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.inverse import meaningful_epsilon
from gibbs_dp.privacy.ledger import Ledger
from gibbs_dp.privacy.noise import secret_key
from gibbs_dp.privacy.releases.arguments import check_fits, finite_figures
from gibbs_dp.privacy.releases.checks import FLOAT_ARITHMETIC
from gibbs_dp.privacy.releases.rejection import RejectionPlan, plan_rejection
from gibbs_dp.privacy.releases.steps import Release, charge_and_draw, check_request, finite_draws
from gibbs_dp.sampling.langevin_run import require_langevin
from gibbs_dp.sampling.rejection import draw_by_rejection

# Share of delta that the proven total variation may take.
TAIL_SHARE = 0.01
FAILED = (
    "release: the draws left the floating-point numbers; nothing is released, the charge stands."
)


def release_proven(
    posterior: GibbsPosterior,
    data: PyTree,
    *,
    domain: Domain,
    adjacency: Adjacency,
    ledger: Ledger,
    epsilon: float,
    delta: float,
    accept: Collection[str] = (),
    num_draws: int = 1,
    n: int | None = None,
    purpose: str = "gibbs_dp proven release",
) -> Release:
    """Release draws made by rejection, within a proven total variation of the posterior.

    No convergence is assumed and nothing is declared about a chain: see
    `gibbs_dp.privacy.releases.rejection`. For strongly convex and smooth potentials in few
    dimensions.

    Parameters
    ----------
    posterior
        A convex, smooth, Lipschitz loss and a Gaussian prior.
    data, domain, adjacency, ledger, num_draws, n, purpose
        As in `gibbs_dp.release`.
    epsilon, delta
        Target; a hundredth of ``delta`` pays for the event that all tries are rejected.
    accept
        Must name "float-arithmetic".

    Returns
    -------
    Release
        Draws, their guarantee and the number of the charge.

    Raises
    ------
    ValueError
        For bad input or a problem that would take too many tries, before anything is charged.
    BudgetExceededError
        If the budget does not suffice; nothing is charged.

    Examples
    --------
    >>> import tempfile, pathlib, jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = gdp.Ledger.create(pathlib.Path(folder.name) / "ledger", epsilon=1.0, delta=1e-5,
    ...                            adjacency="replace-one")
    >>> p = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0))
    >>> data = (jnp.ones((30, 2)), jnp.arange(30) % 2)
    >>> out = release_proven(p, data, domain=gdp.Domain(x_bound=1.0), adjacency="replace-one",
    ...                      ledger=ledger, epsilon=1.0, delta=1e-5, accept=["float-arithmetic"])
    >>> out.guarantee.mechanism, out.theta.shape
    ('approximate draw', (1, 2))
    >>> folder.cleanup()
    """
    num_draws, size = check_request(
        posterior, data, domain, adjacency, ledger, num_draws, n, accept, [FLOAT_ARITHMETIC]
    )
    require_langevin(posterior)
    if not posterior.prior.is_euclidean:
        raise ValueError(
            "posterior: proven draws are proposed on all of Euclidean space; use a prior there, "
            "such as a Gaussian one."
        )
    with finite_figures():
        guarantee, plan = plan_proven(
            posterior,
            epsilon=epsilon,
            delta=delta,
            n=size,
            adjacency=adjacency,
            domain=domain,
            num_draws=num_draws,
        )
    for name, number in (
        ("gamma", guarantee.gamma),
        ("strong_convexity", plan.strong_convexity),
        ("smoothness", plan.smoothness),
    ):
        check_fits(name, number)

    def one(unchecked: GibbsPosterior, examples: PyTree, key: PRNGKeyArray) -> Float[Array, " dim"]:
        return draw_by_rejection(
            unchecked,
            examples,
            jnp.asarray(guarantee.gamma),
            jnp.asarray(plan.strong_convexity),
            jnp.asarray(plan.smoothness),
            key,
            num_steps=plan.num_steps,
            num_tries=plan.num_tries,
        )

    def draw(unchecked: GibbsPosterior, examples: PyTree) -> PyTree | None:
        examples = jax.tree.map(lambda a: jnp.asarray(a, jnp.zeros(()).dtype), examples)
        keys = jax.random.split(secret_key(), num_draws)
        return finite_draws(posterior, jnp.stack([one(unchecked, examples, k) for k in keys]))

    program = partial(one, key=jax.random.key(0))
    return charge_and_draw(
        posterior, data, domain, ledger, guarantee, purpose, program, draw, FAILED
    )


def plan_proven(
    posterior: GibbsPosterior,
    *,
    epsilon: float,
    delta: float,
    n: int,
    adjacency: Adjacency,
    domain: Domain,
    num_draws: int,
) -> tuple[Guarantee, RejectionPlan]:
    """Split ``delta``, calibrate gamma to the larger part and the tries to the smaller.

    Parameters are those of `release_proven`.

    Raises
    ------
    ValueError
        If a constant is missing, or too many tries would be needed.
    """
    target = Target(epsilon=epsilon, delta=delta)
    checks.count("num_draws", num_draws)
    meaningful_epsilon(epsilon)
    tau = TAIL_SHARE * delta / ((1 + np.exp(epsilon)) * num_draws)
    found = calibrate_gamma(
        posterior,
        replace(target, delta=(1 - TAIL_SHARE) * delta),
        n=n,
        adjacency=adjacency,
        domain=domain,
        num_draws=num_draws,
    )
    constants = derive_constants(posterior, n=n, adjacency=adjacency, domain=domain)
    m, big = constants.strong_convexity(found.gamma), constants.smoothness(found.gamma)
    lipschitz, pull = gradients_at_zero(posterior, domain)
    if not (m > 0 and np.isfinite(big) and np.isfinite(lipschitz)):
        raise ValueError(
            "posterior: a proven draw needs a strongly convex and smooth potential; use a convex "
            "loss with finite smoothness on the domain and a Gaussian prior."
        )
    plan = plan_rejection(
        strong_convexity=m,
        smoothness=big,
        first_gradient=found.gamma * n * lipschitz + pull,
        dim=posterior.dim,
        total_variation=float(tau),
    )
    inner = found.guarantee.within_total_variation(plan.total_variation)
    text = (
        f"proven: {plan.num_tries} proposals, each accepted with probability at least "
        f"{plan.acceptance:.4g}, are within total variation {plan.total_variation:.3g}"
    )
    guarantee = replace(
        inner,
        delta=delta,
        assumptions=(*inner.assumptions[:-1], text),
        caveats=(*inner.caveats, GENERATOR),
    )
    return guarantee, plan
