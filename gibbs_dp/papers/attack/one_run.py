"""An audit in one run: a posterior is drawn from once, and many coins are guessed from the draw."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from gibbs_dp.model.check import as_key, check_gamma, check_posterior, positive_count
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.lower_bounds import OneRunEpsilon, epsilon_of_one_run
from gibbs_dp.sampling.sample import sample
from gibbs_dp.sampling.sampler import Sampler

# Fewest chains and draws a chain of a shadow posterior.
SHADOW_CHAINS, SHADOW_SAMPLES = 4, 250


def attack_in_one_run(
    posterior: GibbsPosterior,
    canaries: Any,
    gamma: float,
    data: PyTree | None = None,
    *,
    delta: float = 0.0,
    key: int | PRNGKeyArray = 0,
    confidence: float = 0.95,
    num_draws: int = 1,
    num_guesses: int | None = None,
    sampler: Sampler | None = None,
) -> OneRunEpsilon:
    """Guess ``m`` coins from the draws of one posterior, and bound epsilon from below.

    A fair coin for each canary says which of its two examples is trained on, beside ``data``. From
    that posterior ``num_draws`` independent draws are released, and the auditor, who does not know
    the coins, scores a canary by how much less the released draws lose on its first example than on
    its second, beyond the same of two shadow posteriors: of coins of the auditor's own, and of
    the opposite ones. What that shows of epsilon, of replace-one neighbours and all draws together,
    is `gibbs_dp.privacy.epsilon_of_one_run` (Steinke, Nasr & Jagielski 2023). It holds whatever
    draws the sampler makes: what is audited is the sampler, not the posterior.

    Parameters
    ----------
    posterior
        Loss and prior; not of a structured loss.
    canaries
        Two sets of ``m`` examples, pytrees with leading axis ``m``.
    gamma
        Inverse temperature, positive.
    data
        Other examples, which are always trained on. None: there are none.
    delta, confidence, num_guesses
        As of `gibbs_dp.privacy.epsilon_of_one_run`.
    key
        Integer seed or JAX key.
    num_draws
        Independent draws that are released together.
    sampler
        As of `gibbs_dp.sample`.

    Returns
    -------
    OneRunEpsilon
        The lower bound.

    Raises
    ------
    ValueError
        If an argument makes no sense, or the two sets do not have the same shapes.
    """
    check_posterior(posterior)
    if posterior.structured:
        raise ValueError(
            "posterior: a structured loss has no loss of one canary; score draws of your own, and "
            "give the scores to gibbs_dp.privacy.epsilon_of_one_run."
        )
    gamma, num_draws = check_gamma(gamma), positive_count("num_draws", num_draws)
    first, second = _checked(canaries)
    count = num_examples(first)
    keys = jax.random.split(as_key(key), 5)
    coins, own = (jax.random.bernoulli(k, shape=(count,)) for k in keys[:2])

    def more_lost(theta: PyTree) -> Float[np.ndarray, " canaries"]:
        """How much more draws lose on the second examples than on the first, on average."""
        both: list[Array] = [
            jax.vmap(lambda t, z=z: posterior.losses(t, z))(theta) for z in (second, first)
        ]
        return np.asarray(both[0] - both[1], np.float64).mean(axis=0)

    def draws_for(chosen: Bool[Array, " canaries"], draw_key: Any, chains: int, kept: int) -> Any:
        def choose(a: Array, b: Array) -> Array:
            return jnp.where(chosen.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

        train = jax.tree.map(choose, first, second)
        if data is not None:
            train = jax.tree.map(lambda a, b: jnp.concatenate([a, jnp.asarray(b)]), train, data)
        drawn = sample(
            posterior, train, gamma, draw_key, sampler, num_chains=chains, num_samples=kept
        )
        return drawn.theta

    chains = max(num_draws, SHADOW_CHAINS)
    released = draws_for(coins, keys[2], chains, SHADOW_SAMPLES)
    # One draw of each chain: those of one chain are not independent.
    last = jax.tree.map(lambda a: jnp.asarray(a)[:num_draws, -1], released)
    scores = more_lost(last)
    for chosen, shadow_key in ((own, keys[3]), (~own, keys[4])):
        theta = draws_for(chosen, shadow_key, SHADOW_CHAINS, SHADOW_SAMPLES)
        flat = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *a.shape[2:]), theta)
        scores = scores - 0.5 * more_lost(flat)
    return epsilon_of_one_run(
        scores, np.asarray(coins), delta, confidence=confidence, num_guesses=num_guesses
    )


def _checked(canaries: Any) -> tuple[PyTree, PyTree]:
    if not isinstance(canaries, tuple | list) or len(canaries) != 2:
        raise ValueError("canaries: give two sets of examples, (first, second).")
    first, second = (jax.tree.map(jnp.asarray, one) for one in canaries)
    shapes = [jax.tree.map(jnp.shape, one) for one in (first, second)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"canaries: both sets must have the same shapes, got {shapes[0]} and {shapes[1]}."
        )
    return first, second
