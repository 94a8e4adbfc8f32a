"""Simulated Thresholdouts of the holdout experiments."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from gibbs_dp.holdout import ThresholdoutState, thresholdout_start, thresholdout_step

WIDTHS = (64, 16_384)  # queries are padded, so that many sizes share a compiled program


class Gate(NamedTuple):
    """Settings of a Thresholdout, in the unit of the correlations."""

    threshold: float
    sigma: float
    budget: int


@jax.jit
def _answered(
    keys: Key[Array, " many"],
    state: ThresholdoutState,
    train: Float[Array, "many width"],
    holdout: Float[Array, "many width"],
    count: int | Int[Array, ""],
    threshold: float | Float[Array, ""],
    sigma: float | Float[Array, ""],
) -> tuple[ThresholdoutState, Float[Array, "many width"], Int[Array, " many"]]:
    """Ask the first ``count`` queries of each row; their answers, and how many were corrected.

    `thresholdout_scan` for many analysts and any number of queries, compiled once for all.
    """

    def each(
        key: PRNGKeyArray, own: ThresholdoutState, on_train: Array, on_holdout: Array
    ) -> tuple[ThresholdoutState, Array, Array]:
        def ask(
            i: Int[Array, ""], carry: tuple[ThresholdoutState, Array, Array]
        ) -> tuple[ThresholdoutState, Array, Array]:
            current, values, corrected = carry
            after, (answer, is_above) = thresholdout_step(
                current,
                jax.random.fold_in(key, i),
                on_train[i],
                on_holdout[i],
                threshold=threshold,
                sigma=sigma,
            )
            return after, values.at[i].set(answer), corrected + is_above

        begin = (own, jnp.full_like(on_train, jnp.nan), jnp.zeros((), jnp.int32))
        return jax.lax.fori_loop(0, count, ask, begin)

    return jax.vmap(each)(keys, state, train, holdout)


class Gates:
    """Thresholdouts of many repetitions, asked side by side; NaN once a budget is spent.

    Parameters
    ----------
    key
        JAX key.
    gate
        Settings of all.
    repetitions
        How many.
    """

    def __init__(self, key: PRNGKeyArray, gate: Gate, repetitions: int) -> None:
        self.gate = gate
        self.key = key
        keys = self._keys(repetitions)
        self.state = jax.vmap(
            lambda k: thresholdout_start(
                k, threshold=gate.threshold, sigma=gate.sigma, budget=gate.budget
            )
        )(keys)

    def _keys(self, count: int) -> Key[Array, " count"]:
        self.key, key = jax.random.split(self.key)
        return jax.random.split(key, count)

    def ask(
        self,
        train: Float[np.ndarray, "many queries"],
        holdout: Float[np.ndarray, "many queries"],
        state: ThresholdoutState | None = None,
    ) -> tuple[Float[np.ndarray, "many queries"], Int[np.ndarray, " many"]]:
        """Answers, and how many of them the holdout gave; from the present state, which moves on.

        From another ``state``, where one is given, nothing moves on.
        """
        many, count = train.shape
        width = next(w for w in (*WIDTHS, count) if w >= count)
        pad = ((0, 0), (0, width - count))
        sets = (jnp.asarray(np.pad(one, pad), jnp.float32) for one in (train, holdout))
        begin = self.state if state is None else state
        end, values, corrected = _answered(
            self._keys(many), begin, *sets, count, self.gate.threshold, self.gate.sigma
        )
        if state is None:
            self.state = end
        return np.asarray(values[:, :count], dtype=np.float64), np.asarray(corrected)
