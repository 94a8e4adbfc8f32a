"""A private Langevin run: clip to the domain, run the chain, hand over draws and guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.projection import in_theta
from gibbs_dp.privacy.chain import chain_guarantee
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.noise import secret_key
from gibbs_dp.privacy.shown import draws_as_html, draws_in_words
from gibbs_dp.privacy.table import clip_data, dataset_size, num_rows, unobserved
from gibbs_dp.results.table import block, remarks
from gibbs_dp.sampling.kernels import SGLD, ULA
from gibbs_dp.sampling.langevin_run import run_langevin


@dataclass(frozen=True, eq=False)
class PrivateChainDraws:
    """Last iterates of Langevin chains, with what they promise.

    Parameters
    ----------
    theta
        Leaves ``[draws, ...]``.
    guarantee
        None for a run outside the form that the theorems cover.
    reason
        Why there is no guarantee; empty where there is one.
    """

    theta: Any
    guarantee: Guarantee | None
    reason: str = ""

    def __repr__(self) -> str:
        promise = f"no guarantee: {self.reason}" if self.guarantee is None else repr(self.guarantee)
        return f"PrivateChainDraws({draws_in_words(self.theta)}, {promise})"

    def _repr_html_(self) -> str:
        none = remarks([("NO GUARANTEE", self.reason)])
        promise = none if self.guarantee is None else self.guarantee._repr_html_()
        return block(draws_in_words(self.theta), draws_as_html(self.theta), promise)


def private_chain(
    posterior: GibbsPosterior,
    data: PyTree,
    *,
    gamma: float,
    kernel: ULA | SGLD,
    domain: Domain,
    adjacency: Adjacency,
    delta: float,
    settings_are_data_free: bool,
    n: int | None = None,
    start: PyTree | None = None,
    num_draws: int = 1,
    key: int | PRNGKeyArray | None = None,
) -> PrivateChainDraws:
    """Run Langevin chains on clipped data; the guarantee holds converged or not.

    Parameters
    ----------
    posterior, gamma, kernel, adjacency, delta, num_draws
        As in `gibbs_dp.privacy.chain_guarantee`.
    data
        Private examples; clipped to the domain first.
    domain
        Bounds that the data are clipped to.
    settings_are_data_free
        Your promise that gamma, step size, number of steps, clip, domain and start were chosen
        without looking at these data. Without it the run has no guarantee.
    n
        Under add/remove, the public upper bound on the number of examples; needed there.
    start
        Where all chains begin; zeros by default, or the nearest point of the support.
    key
        A fixed key, which voids the guarantee since anyone can repeat the noise; by default the
        operating system's entropy.

    Returns
    -------
    PrivateChainDraws
        Draws with their guarantee, or with the reason why they have none.

    Raises
    ------
    ValueError
        For settings that no theorem covers, and data that do not fit the posterior.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 1.0))
    >>> run = private_chain(p, jnp.ones((20, 1)), gamma=0.1, kernel=gdp.ULA(0.1, 50),
    ...                     domain=gdp.Domain(x_bound=1.0), adjacency="replace-one", delta=1e-6,
    ...                     settings_are_data_free=True)
    >>> run.theta.shape, run.guarantee.mechanism
    ((1, 1), 'chain')
    """
    rows = num_rows(data)
    if adjacency == "replace-one" and n not in (None, rows):
        raise ValueError(f"n: under replace-one it is the number of rows, {rows}; leave it out.")
    n = dataset_size(rows, adjacency, n)
    reason = ""
    if not settings_are_data_free:
        reason = "settings_are_data_free was not promised"
    elif key is not None:
        reason = "the key was given, so the noise can be repeated"
    guarantee = chain_guarantee(
        posterior,
        kernel,
        gamma=gamma,
        n=n,
        adjacency=adjacency,
        domain=domain,
        delta=delta,
        num_draws=num_draws,
    )
    with unobserved():
        flat = run_langevin(
            posterior,
            clip_data(posterior, data, domain),
            gamma=gamma,
            kernel=kernel,
            start=start,
            num_draws=num_draws,
            key=secret_key() if key is None else key,
        )
    theta = jax.vmap(in_theta(posterior).constrain)(flat)
    return PrivateChainDraws(theta, None if reason else guarantee, reason)
