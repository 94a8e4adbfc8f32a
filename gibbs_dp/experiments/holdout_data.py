"""Data of the holdout experiments: attributes, drawn and redrawn a block of columns at a time."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.information import checks

# Floats per block of columns, 16 MiB in float32: this bounds the memory.
BLOCK = 4_000_000


@dataclass(frozen=True)
class ClassifierData:
    """Labels of +-1 and ``d`` attributes of unit variance.

    Parameters
    ----------
    n, d
        Rows of training set, holdout and fresh set each; attributes.
    num_signal
        Attributes that are shifted by ``shift`` times the label.
    shift
        In standard deviations.
    site
        Share ``c`` of an attribute that is a random sign times the row's site (+-1): attributes
        are then correlated among themselves (``c^2``), but not with the label.
    flip
        Probability that label (and, independently, site) change from one row to the next; 1/2 is
        independent rows.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

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
    def columns(self) -> int:
        """Columns per block."""
        return max(1, min(self.d, BLOCK // self.n))

    def signs(self, key: PRNGKeyArray) -> Float[Array, " d"]:
        """Signs with which the site shows in each attribute, the same for all sets."""
        return jax.random.rademacher(key, (self.d,), jnp.float32)

    def rows(self, key: PRNGKeyArray) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Draw labels and sites of one set."""
        label, site = jax.vmap(lambda k: _sticky(k, self.n, self.flip))(jax.random.split(key))
        return label, site

    def attributes(
        self,
        key: PRNGKeyArray,
        label: Float[Array, " n"],
        site: Float[Array, " n"],
        sign: Float[Array, " some"],
        columns: Int[Array, " some"],
    ) -> Float[Array, "n some"]:
        """Draw some columns of one set, the same ones at every call."""
        keys = jax.vmap(lambda c: jax.random.fold_in(key, c))(columns)
        own = jax.vmap(lambda k: jax.random.normal(k, (self.n,)), out_axes=1)(keys)
        found = self.site * site[:, None] * sign + (1 - self.site**2) ** 0.5 * own
        return found + self.shift * label[:, None] * (columns < self.num_signal)

    def correlations(
        self,
        key: PRNGKeyArray,
        label: Float[Array, " n"],
        site: Float[Array, " n"],
        sign: Float[Array, " d"],
    ) -> Float[Array, " d"]:
        """``(1/n) sum_j y_j x_ji`` of every attribute, a block of columns at a time."""
        count = -(-self.d // self.columns)
        padded = jnp.arange(count * self.columns)
        signs = jnp.pad(sign, (0, count * self.columns - self.d))

        def block(pair: tuple[Array, Array]) -> Float[Array, " some"]:
            columns, part = pair
            return matmul(label, self.attributes(key, label, site, part, columns)) / self.n

        shape = (count, self.columns)
        return jax.lax.map(block, (padded.reshape(shape), signs.reshape(shape))).ravel()[: self.d]


def _sticky(key: PRNGKeyArray, n: int, flip: float) -> Float[Array, " n"]:
    """Draw a stationary chain of +-1 that changes with probability ``flip``."""
    first, rest = jax.random.split(key)
    start = jax.random.rademacher(first, (1,), jnp.float32)
    change = 1.0 - 2.0 * jax.random.bernoulli(rest, flip, (n - 1,)).astype(jnp.float32)
    return jnp.cumprod(jnp.concatenate([start, change]))
