"""The sampler of an ensemble of chains, for posteriors without a useful mode."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._jaxlib.devices import is_accelerator, platform, target_platform
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.recentring import Recentring
from gibbs_dp.sampling.ensemble import Adapted, Coordinates, recentring_of, run_ensemble
from gibbs_dp.sampling.kernels.base import Schedule, Traits, check_ranges
from gibbs_dp.sampling.laplace import MAX_LAPLACE_DIM
from gibbs_dp.sampling.sampler import ChainDraws, Sampler
from gibbs_dp.sampling.target import Stretch, Target, reach


def is_hierarchy(posterior: GibbsPosterior) -> bool:
    """Whether the chains of an ensemble come first: a mode says little where priors are nested."""
    prior = posterior.prior
    if posterior.dim > MAX_LAPLACE_DIM or prior.is_flat or any(prior.is_bounded_flat):
        return False
    return recentring_of(posterior) is not None


class Ensemble(NamedTuple):
    """Draws of one dataset's posterior, and what the chains have learned."""

    u: Float[Array, "chains draws dim"]
    potential: Float[Array, "chains draws"]
    accept_prob: Float[Array, " chains"]
    is_stuck: Bool[Array, " chains"]
    rounding: Float[Array, ""]
    adapted: Adapted
    theta: PyTree = None  # the draws as the prior's pytree


@dataclass(frozen=True)
class AdaptiveHMC(Sampler):
    """Hamiltonian Monte Carlo of many chains, which learn how to move from each other.

    For posteriors without a useful mode: hierarchies, heavy tails, curved ridges. The chains start
    around the origin and pool what they see: the covariance that momenta are whitened with, one
    step size (dual averaging over all chains), and the number of leapfrog steps with the largest
    squared jump per gradient in the direction where that is least. Parts of a prior with a
    location or a scale that other parts decide are moved between their centred and non-centred
    form by how much the data tell of them, in the middle of the draws. Both are changes of
    coordinates: the draws are of theta as it was given. Chains that are left where next to no mass
    is go on from where others are, while adapting.

    Parameters
    ----------
    num_parallel
        Chains that run side by side, at least 8. Those that are asked for consist of several each,
        one after another.
    target_accept
        Acceptance rate that the step size aims for, in (0, 1).
    recentre
        Whether parts of a prior are recentred.
    patience
        Times as long windows of adaptation, and as many steps from one draw to the next, at least
        1.
    heavy_tails
        Whether coordinates that have heavy tails are stretched: where a density falls as a power of
        the distance, chains come seldom; in stretched coordinates it falls exponentially.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> prior = {"mu": dist.Normal(0.0, 5.0), "tau": dist.HalfCauchy(5.0),
    ...          "theta": lambda earlier: dist.Normal(earlier["mu"], earlier["tau"]).expand([8])}
    >>> y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])   # Rubin's eight schools
    >>> sd = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    >>> def loss(theta, school):
    ...     return -dist.Normal(theta["theta"][school["at"]], school["sd"]).log_prob(school["y"])
    >>> posterior = gdp.GibbsPosterior(loss, prior)
    >>> draws = gdp.sample(posterior, {"at": jnp.arange(8), "sd": sd, "y": y},
    ...                    sampler=gdp.AdaptiveHMC())
    >>> bool(draws.to_dataframe()["r_hat"].max() < 1.01)
    True
    """

    num_parallel: int = 32
    target_accept: float = 0.85
    recentre: bool = True
    patience: int = 1
    heavy_tails: bool = False

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def traits(self) -> Traits:
        """Tuned for every dataset."""
        return Traits(is_tuned=True)

    def chains_for(self, num_chains: int) -> int:
        """Chains that run where so many are asked for."""
        return num_chains * -(-self.num_parallel // num_chains)

    def draw(
        self,
        key: PRNGKeyArray,
        target: Target,
        starts: Float[Array, "starts dim"],
        schedule: Schedule,
        num_chains: int,
        num_samples: int,
        scale: Float[Array, " dim"] | None = None,
        is_joint: bool = False,
    ) -> ChainDraws:
        """Adapt and draw; of each chain asked for, several chains' draws one after another."""
        del schedule, scale, is_joint
        found = self.run(key, target, starts, num_chains, num_samples, is_fixed=True)
        return ChainDraws.of(target, found.u, accept_prob=found.accept_prob)

    def reach(
        self, posterior: GibbsPosterior, u: Float[Array, "chains draws dim"], adapted: Adapted
    ) -> float:
        """How far the heaviest tail reaches of the coordinates that chains moved in."""
        raw = np.asarray(u)
        found, recentring = reach(raw), recentring_of(posterior) if self.recentre else None
        if found and (recentring is not None or adapted.stretch is not None):
            return reach(np.asarray(_own(recentring, adapted.share, adapted.stretch, u)))
        return found

    def run(
        self,
        key: PRNGKeyArray,
        target: Target,
        starts: Float[Array, "starts dim"],
        num_chains: int,
        num_samples: int,
        is_given: bool = False,
        is_fixed: bool = False,
    ) -> Ensemble:
        """Adapt and draw; ``is_given``: chains begin at the starts and not around the origin."""
        count = self.chains_for(num_chains)
        each = count // num_chains
        num_draws = -(-num_samples // each)
        recentring = recentring_of(target.posterior) if self.recentre else None
        ring, reference, adapted = run_ensemble(
            key,
            target,
            starts,
            count,
            num_draws,
            self.target_accept,
            self.patience,
            recentring,
            is_given,
            is_fixed,
            self.heavy_tails,
        )

        def joined(values: Float[Array, "each all ..."]) -> Float[Array, "chains draws ..."]:
            rows = jnp.swapaxes(values, 0, 1)
            return rows.reshape(num_chains, -1, *rows.shape[2:])[:, :num_samples]

        u = joined(ring.u)
        # What ran as one, of which a single draw is no sign.
        runs = jnp.swapaxes(ring.u, 0, 1) if num_draws > 1 else u
        is_still = jnp.all(runs == runs[:, :1], axis=(1, 2))
        return Ensemble(
            u=u,
            potential=joined(ring.potential),
            accept_prob=jnp.mean(joined(ring.accept_prob), axis=1),
            is_stuck=jnp.any(is_still.reshape(num_chains, -1), axis=1),
            rounding=target.rounding(u[0, -1], reference),
            adapted=adapted,
        )


def _draw_ensemble_of(
    posterior: GibbsPosterior,
    sampler: AdaptiveHMC,
    num_chains: int,
    num_samples: int,
    is_given: bool,
    data: PyTree,
    gamma: Array,
    keys: Key[Array, " datasets"],
    starts: Float[Array, "datasets chains dim"],
) -> Ensemble:
    is_fixed = is_accelerator(target_platform())

    def one(at: tuple[PyTree, PRNGKeyArray, Array]) -> Ensemble:
        data, key, starts = at
        target = Target(posterior, data, gamma)
        found = sampler.run(key, target, starts, num_chains, num_samples, is_given, is_fixed)
        return found._replace(theta=jax.vmap(jax.vmap(posterior.constrain))(found.u))

    # On CPUs the chains of one dataset fill the lanes, and none waits for another's adaptation.
    every = data, keys, starts
    return jax.vmap(one)(every) if is_fixed else jax.lax.map(one, every)


@partial(jax.jit, static_argnums=0)
def _own(
    recentring: Recentring | None,
    share: Float[Array, " dim"],
    stretch: Stretch | None,
    u: Float[Array, "chains draws dim"],
) -> Float[Array, "chains draws dim"]:
    space = Coordinates(recentring, share, stretch)
    return jax.vmap(jax.vmap(space.from_flat))(u)


def draw_ensemble(*arguments: Any) -> Ensemble:
    """Draw from every dataset's posterior (leading axis), in a program that compiles quickly."""
    return program(_draw_ensemble_of, STATIC, platform(), True)(*arguments)


STATIC = ("posterior", "sampler", "num_chains", "num_samples", "is_given")
