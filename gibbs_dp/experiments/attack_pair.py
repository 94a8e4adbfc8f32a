"""A population whose first example, and the one that may replace it, are always the same."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from gibbs_dp.model.populations import Population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.sample import sample

# Fresh examples of which the worst pair is taken, and chains and draws that judge them.
NUM_CANDIDATES, NUM_CHAINS, NUM_SAMPLES = 64, 4, 32


class FixedPair:
    """Datasets of a population with a chosen example in the first place, and a chosen fresh one.

    Parameters
    ----------
    population
        Where all other examples come from.
    pair
        The example and the one that may replace it.

    Raises
    ------
    ValueError
        Unless these are two.
    """

    is_dependent = False

    def __init__(self, population: Population, pair: Any) -> None:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError("pair: give two examples, (z, other).")
        self.population, self.is_conditional = population, population.is_conditional
        self.pair = tuple(jax.tree.map(jnp.asarray, z) for z in pair)

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw a dataset and fresh examples, and put the pair in."""
        drawn = self.population.sample(key, n, num_ghosts)
        try:
            train, fresh = (
                jax.tree.map(lambda a, value: a.at[0].set(value), examples, z)
                for examples, z in zip(drawn, self.pair, strict=True)
            )
        except ValueError as error:
            raise ValueError(
                f"pair: its examples are not like those of the population ({error})."
            ) from error
        return train, fresh


def worst_pair(
    posterior: GibbsPosterior, population: Population, n: int, gamma: float, key: PRNGKeyArray
) -> tuple[Any, Any]:
    """Find two fresh examples that are told apart best, as far as one posterior's draws say.

    ``delta = gamma (loss(theta, z') - loss(theta, z))``, up to a constant the log ratio of the two
    posteriors, varies most between them: half its variance is their KL, to leading order.

    Parameters
    ----------
    posterior, population, n
        As in `gibbs_dp.experiments.attack.attack`.
    gamma
        Inverse temperature of the posterior.
    key
        Of the examples and of the draws.

    Returns
    -------
    tuple
        The two examples.
    """
    train, fresh = population.sample(key, n, NUM_CANDIDATES)
    draws = sample(
        posterior,
        train,
        gamma,
        jax.random.fold_in(key, 1),
        num_chains=NUM_CHAINS,
        num_samples=NUM_SAMPLES,
    )
    theta = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *a.shape[2:]), draws.theta)

    def losses(point: PyTree) -> Array:
        if not posterior.structured:
            return posterior.losses(point, fresh)

        def with_first(z: PyTree) -> Array:
            return posterior.empirical_loss(
                point, jax.tree.map(lambda a, value: a.at[0].set(value), train, z)
            )

        return jax.vmap(with_first)(fresh)

    covariance = np.cov(np.asarray(jax.vmap(losses)(theta), np.float64), rowvar=False)
    own = np.diag(covariance)
    variance = own[:, None] + own - 2.0 * covariance
    places = np.unravel_index(np.argmax(variance), variance.shape)
    first, second = (jax.tree.map(lambda a, i=int(i): a[i], fresh) for i in places)
    return first, second
