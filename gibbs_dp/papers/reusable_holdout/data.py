"""Data of the holdout experiments, without drawing any attribute, and simulated gates.

An analyst who chooses attributes by their correlations with the label sees, of ``n`` normal values,
one number each; given it the rest of the column is normal and independent of every choice. So the
correlations are drawn, and then votes of chosen columns, from their exact laws: ``d + n`` numbers
for ``n d``. Gates are simulated Thresholdouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray
from numpy.typing import ArrayLike

from gibbs_dp.information import checks
from gibbs_dp.papers.tables import Row

Draws = np.random.Generator


@dataclass(frozen=True)
class ClassifierData:
    """Labels of +-1 and ``d`` attributes of unit variance."""

    n: int
    d: int
    num_signal: int = 0
    shift: float = 0.0
    site: float = 0.0
    flip: float = 0.5

    def __post_init__(self) -> None:
        checks.count("n", self.n, minimum=10)
        checks.count("d", self.d)
        if not 0 <= self.num_signal <= self.d:
            raise ValueError(f"num_signal must lie in 0..{self.d}, got {self.num_signal}.")
        checks.nonnegative("shift", self.shift)
        checks.unit_interval("site", self.site)
        if not 0 < self.flip <= 0.5:
            raise ValueError(f"flip must lie in (0, 0.5], got {self.flip}; 0.5 is independent.")

    @property
    def own_share(self) -> float:
        """Standard deviation of an attribute's own noise, ``sqrt(1 - c^2)``."""
        return float((1 - self.site**2) ** 0.5)

    def signs(self, rng: Draws) -> Float[np.ndarray, " d"]:
        """Signs with which the site shows in each attribute, the same for all sets."""
        return _coins(rng, self.d)

    def sample(self, rng: Draws, sign: Float[np.ndarray, " d"]) -> Sample:
        """Draw one set: labels, sites, and what its columns have to do with the labels."""
        own = rng.standard_normal(self.d) / self.n**0.5
        return Sample(self, self._sticky(rng), self._sticky(rng), own, sign)

    def _sticky(self, rng: Draws) -> Float[np.ndarray, " n"]:
        """Draw a stationary chain of +-1 that changes with probability ``flip``."""
        change = np.where(rng.random(self.n) < self.flip, -1.0, 1.0)
        change[0] = _coins(rng, 1)[0]
        return np.asarray(np.cumprod(change))


@dataclass(frozen=True, eq=False)
class Sample:
    """Training set, holdout or fresh set."""

    data: ClassifierData
    label: Float[np.ndarray, " n"]
    site: Float[np.ndarray, " n"]
    own: Float[np.ndarray, " d"]
    sign: Float[np.ndarray, " d"]

    def correlations(self) -> Float[np.ndarray, " d"]:
        """``(1/n) sum_j y_j x_ji`` of every attribute."""
        data = self.data
        shifted = data.shift * (np.arange(data.d) < data.num_signal)
        by_site = data.site * np.mean(self.label * self.site) * self.sign
        return np.asarray(by_site + data.own_share * self.own + shifted)

    def accuracy(
        self,
        rng: Draws,
        chosen: Int[np.ndarray, " most"],
        vote: Float[np.ndarray, " most"],
        ks: Sequence[int],
    ) -> Float[np.ndarray, " ks"]:
        """Share of rows where the first ``k`` vote right, drawn exactly; a tie counts half."""
        data = self.data
        last = np.asarray(ks) - 1

        def total(weights: Float[np.ndarray, " most"]) -> Float[np.ndarray, " ks"]:
            return np.asarray(np.cumsum(vote * weights)[last])

        # A column is ``own`` times the label plus noise orthogonal to it; noises of columns that
        # vote add up, and those of the next k only add to them.
        steps = np.diff(np.cumsum(np.abs(vote))[last], prepend=0.0)
        noise = np.cumsum(rng.standard_normal((data.n, last.size)) * steps**0.5, axis=1)
        noise -= np.outer(self.label, self.label @ noise / data.n)
        on_label = data.own_share * total(self.own[chosen])
        on_label += data.shift * total((chosen < data.num_signal).astype(float))
        on_site = data.site * total(self.sign[chosen])
        votes = np.outer(self.label, on_label) + np.outer(self.site, on_site)
        agree = (votes + data.own_share * noise) * self.label[:, None]
        right = np.where(agree == 0, 0.5, agree > 0)
        return np.asarray(right.mean(axis=0))


def _coins(rng: Draws, count: int) -> Float[np.ndarray, " count"]:
    return rng.choice([-1.0, 1.0], count)


# Thresholdout with JAX's generator, many runs at once: no release, its noise is not hardened.

Setting = float | Float[Array, ""]


class ThresholdoutState(NamedTuple):
    """What a simulated holdout remembers between queries."""

    noisy_threshold: Float[Array, ""]
    left: Int[Array, ""]


def thresholdout_start(
    key: PRNGKeyArray, *, threshold: Setting, sigma: Setting, budget: int | Int[Array, ""]
) -> ThresholdoutState:
    """Draw the first noisy threshold."""
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
    """Answer one query; ``NaN`` once the budget is spent."""
    # One call for all four: the noises of the query, the answer and the next threshold.
    noise = sigma * jax.random.laplace(key, (3,))
    gap = jnp.abs(holdout_mean - train_mean)
    is_open = state.left >= 1
    is_above = is_open & (gap > state.noisy_threshold + 4 * noise[0])
    answer = jnp.where(is_above, holdout_mean + noise[1], train_mean)
    following = jnp.where(is_above, threshold + 2 * noise[2], state.noisy_threshold)
    after = ThresholdoutState(following, state.left - is_above.astype(jnp.int32))
    return after, (jnp.where(is_open, answer, jnp.nan), is_above)


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
    """Ask the first ``count`` queries of each row; their answers, and how many were corrected."""

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
    """Thresholdouts of many repetitions, asked side by side; NaN once a budget is spent."""

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
        """Answers, and how many of them the holdout gave; the state moves on unless given."""
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


# Sizes and results of a holdout experiment.


# Told the number of repetitions just done.
Advance = Callable[[int], None]


def uncounted(_: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Found:
    """Results of an experiment."""

    name: str
    rows: list[Row]
    summary: list[Row]
    notes: tuple[str, ...] = field(default=())
    more: Mapping[str, list[Row]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sizes:
    """Sizes given by the user; None stands for the experiment's own.

    Parameters
    ----------
    n, d
        Rows and attributes.
    repetitions
        Independent repetitions.
    key
        Integer seed.
    """

    n: int | None = None
    d: int | None = None
    repetitions: int | None = None
    key: int = 0

    def refuse(self, experiment: str, *names: str) -> None:
        """Raise ``ValueError`` if the experiment does not have a given size."""
        for name in names:
            if getattr(self, name):
                raise ValueError(
                    f"--{name}: experiment {experiment!r} has no such size; leave it out."
                )


def mean_and_se(name: str, values: ArrayLike) -> dict[str, float]:
    """Mean over repetitions that were answered, its standard error, and how many were not.

    >>> mean_and_se("a", np.array([1.0, 3.0]))
    {'a': 2.0, 'a_se': 1.0}
    """
    every = np.asarray(values, dtype=np.float64)
    kept = every[np.isfinite(every)]
    found: dict[str, float] = {}
    if kept.size:
        found[name] = float(kept.mean())
    if kept.size > 1:
        found[f"{name}_se"] = float(kept.std(ddof=1) / kept.size**0.5)
    if kept.size < every.size:
        found[f"{name}_unanswered"] = float(every.size - kept.size)
    return found
