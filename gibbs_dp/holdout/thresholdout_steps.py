"""Thresholdout as pure JAX functions, for simulating thousands of runs at once."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Setting = float | Float[Array, ""]


class ThresholdoutState(NamedTuple):
    """What a simulated holdout remembers between queries.

    Parameters
    ----------
    noisy_threshold
        ``T + Lap(2 sigma)`` of the current round.
    left
        Rounds that are left, the current one included.
    """

    noisy_threshold: Float[Array, ""]
    left: Int[Array, ""]


class ThresholdoutAnswers(NamedTuple):
    """Simulated answers, all leaves ``[queries]``.

    Parameters
    ----------
    values
        Answers; NaN once the budget is spent.
    from_holdout
        Whether train and holdout were found to differ, which spends a unit of the budget.
    left
        Units left after each query.
    """

    values: Float[Array, " queries"]
    from_holdout: Bool[Array, " queries"]
    left: Int[Array, " queries"]


def thresholdout_start(
    key: PRNGKeyArray, *, threshold: Setting, sigma: Setting, budget: int | Int[Array, ""]
) -> ThresholdoutState:
    """Draw the first noisy threshold.

    Parameters
    ----------
    key
        JAX key.
    threshold, sigma, budget
        ``T``, the noise rate, and ``B``, as in `Thresholdout`; may be traced.

    Returns
    -------
    ThresholdoutState
        State before the first query.
    """
    noisy = threshold + 2 * sigma * jax.random.laplace(key)
    return ThresholdoutState(noisy, jnp.asarray(budget, jnp.int32))


def thresholdout_step(
    state: ThresholdoutState,
    key: PRNGKeyArray,
    train_mean: Float[Array, ""],
    holdout_mean: Float[Array, ""],
    *,
    threshold: Setting,
    sigma: Setting,
) -> tuple[ThresholdoutState, tuple[Float[Array, ""], Bool[Array, ""]]]:
    """Answer one query; ``NaN`` once the budget is spent.

    Parameters
    ----------
    state
        Of `thresholdout_start` or the step before.
    key
        Fresh for each query.
    train_mean, holdout_mean
        Means of the query.
    threshold, sigma
        As at the start; may be traced.

    Returns
    -------
    state, (answer, from_holdout)
        State for the next query, and what the analyst sees.
    """
    # One call for all four: the noises of the query, the answer and the next threshold.
    noise = sigma * jax.random.laplace(key, (3,))
    gap = jnp.abs(holdout_mean - train_mean)
    is_open = state.left >= 1
    is_above = is_open & (gap > state.noisy_threshold + 4 * noise[0])
    answer = jnp.where(is_above, holdout_mean + noise[1], train_mean)
    following = jnp.where(is_above, threshold + 2 * noise[2], state.noisy_threshold)
    after = ThresholdoutState(following, state.left - is_above.astype(jnp.int32))
    return after, (jnp.where(is_open, answer, jnp.nan), is_above)


def thresholdout_scan(
    state: ThresholdoutState,
    key: PRNGKeyArray,
    train_means: Float[Array, " queries"],
    holdout_means: Float[Array, " queries"],
    *,
    threshold: Setting,
    sigma: Setting,
) -> tuple[ThresholdoutState, ThresholdoutAnswers]:
    """Answer a list of queries from a given state, so that later lists may depend on the answers.

    Parameters
    ----------
    state
        Of `thresholdout_start`, or of the list before.
    key
        Fresh for each list.
    train_means, holdout_means
        Means of each query on the two sets.
    threshold, sigma
        As at the start; may be traced.

    Returns
    -------
    state, answers
        State for the next list, and the answers to this one.
    """

    def step(
        current: ThresholdoutState, query: tuple[PRNGKeyArray, Array, Array]
    ) -> tuple[ThresholdoutState, tuple[Array, Array, Array]]:
        after, (answer, is_above) = thresholdout_step(
            current, *query, threshold=threshold, sigma=sigma
        )
        return after, (answer, is_above, after.left)

    keys = jax.random.split(key, train_means.shape[0])
    end, found = jax.lax.scan(step, state, (keys, train_means, holdout_means))
    return end, ThresholdoutAnswers(*found)


def simulate_thresholdout(
    key: PRNGKeyArray,
    train_means: Float[Array, " queries"],
    holdout_means: Float[Array, " queries"],
    *,
    threshold: float,
    sigma: float,
    budget: int,
) -> ThresholdoutAnswers:
    """Answer a fixed list of queries with JAX's generator; `jax.vmap` runs many at once.

    No release: noise of a floating-point generator is not hardened.

    Parameters
    ----------
    key
        JAX key.
    train_means, holdout_means
        Means of each query on the two sets.
    threshold, sigma, budget
        As in `Thresholdout`.

    Returns
    -------
    ThresholdoutAnswers
        Answers, one per query.

    Examples
    --------
    >>> answers = simulate_thresholdout(
    ...     jax.random.key(0), jnp.array([0.5, 0.9, 0.9]), jnp.array([0.5, 0.5, 0.5]),
    ...     threshold=0.2, sigma=1e-4, budget=1)
    >>> answers.values.round(2), answers.left
    (Array([0.5, 0.5, nan], dtype=float32), Array([1, 0, 0], dtype=int32))
    """
    first, rest = jax.random.split(key)
    start = thresholdout_start(first, threshold=threshold, sigma=sigma, budget=budget)
    return thresholdout_scan(
        start, rest, train_means, holdout_means, threshold=threshold, sigma=sigma
    )[1]
