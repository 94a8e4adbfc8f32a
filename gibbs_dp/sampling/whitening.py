"""Affine changes of coordinates that make a posterior look like a standard Gaussian."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpyro import diagnostics

from gibbs_dp._jaxlib.linalg import cholesky, solve_lower
from gibbs_dp._jaxlib.precision import matmul
from gibbs_dp.sampling.kernels.base import Potential


class Whitening(NamedTuple):
    """Affine map from whitened coordinates ``v`` to flat ones: ``u = center + scale v``.

    ``scale`` is a lower-triangular matrix, or a vector of standard deviations in high dimension.
    """

    center: Float[Array, " dim"]
    scale: Float[Array, "*shape"]

    def color(self, v: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Whitened to flat."""
        return self.center + (self.scale * v if self.scale.ndim == 1 else matmul(self.scale, v))

    @property
    def log_volume(self) -> Float[Array, ""]:
        """Log determinant of ``scale``: what a density gains on the way to whitened coordinates."""
        diagonal = self.scale if self.scale.ndim == 1 else jnp.diagonal(self.scale)
        return jnp.sum(jnp.log(jnp.abs(diagonal)))

    def whiten(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Flat to whitened."""
        if self.scale.ndim == 1:
            return (u - self.center) / self.scale
        return solve_lower(self.scale, u - self.center)

    @property
    def inverse(self) -> Float[Array, "dim dim"]:
        """Matrix that takes differences of flat coordinates to those of whitened ones."""
        if self.scale.ndim == 1:
            return jnp.diag(1.0 / self.scale)
        return solve_lower(self.scale, jnp.eye(self.scale.shape[0], dtype=self.scale.dtype))

    def pull_back(self, potential: Potential) -> Potential:
        """Express the potential as a function of whitened coordinates."""
        return lambda v: potential(self.color(v))


def fit_whitening(draws: Float[Array, "draws dim"], like: Whitening) -> Whitening:
    """Whitening of pooled draws, as rich as ``like``; ``like`` itself where the fit fails.

    The correlation matrix is shrunk to the identity when draws are few: chains decorrelate
    within a few steps, so about a third of the draws count as independent.
    """
    count, dim = draws.shape
    center = jnp.mean(draws, axis=0)
    centered = draws - center
    tiny = jnp.finfo(draws.dtype).tiny * 1e6
    deviation = jnp.sqrt(jnp.sum(centered**2, axis=0) / (count - 1) + tiny)
    if like.scale.ndim == 1:
        scale = deviation
    else:
        standard = centered / deviation
        correlation = count / (count + 3.0 * dim) * matmul(standard.T, standard) / (count - 1)
        correlation = correlation.at[jnp.diag_indices(dim)].set(1.0)
        scale = deviation[:, None] * cholesky(correlation)
    usable = jnp.all(jnp.isfinite(scale)) & jnp.all(jnp.isfinite(center))
    return Whitening(jnp.where(usable, center, like.center), jnp.where(usable, scale, like.scale))


# The single numbers of a pytree of draws: their names, and what describes them.


def named_leaves(theta: PyTree) -> list[tuple[str, Any]]:
    """Name every leaf of a tree by its path, and a single array ``theta``.

    >>> named_leaves({"layers": [{"bias": 0.0, "weight": 1.0}]})
    [('layers.0.bias', 0.0), ('layers.0.weight', 1.0)]
    """
    pairs = jax.tree_util.tree_flatten_with_path(theta)[0]
    around = Counter(path[:-1] for path, _ in pairs)
    return [(_name(path, around) or "theta", leaf) for path, leaf in pairs]


def _name(path: tuple[Any, ...], around: Counter[tuple[Any, ...]]) -> str:
    # Flax NNX wraps every array in a variable, whose only part is its value.
    if len(path) > 1 and getattr(path[-1], "name", None) == "value" and around[path[:-1]] == 1:
        path = path[:-1]
    return ".".join(map(_part, path))


def _part(key: Any) -> str:
    """Say where a step of a path leads: dicts have keys, sequences an index, classes names."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def label(name: str, index: tuple[int, ...]) -> str:
    """Name one number of a leaf.

    >>> label("theta", (0, 2)), label("scale", ())
    ('theta[0,2]', 'scale')
    """
    return f"{name}[{','.join(map(str, index))}]" if index else name


def coordinates(
    tree: dict[str, np.ndarray],
) -> Iterator[tuple[str, Float[np.ndarray, "chain draw"]]]:
    """Go through all numbers of a tree, ``[chain, draw]`` each."""
    for name, leaf in tree.items():
        for index in np.ndindex(leaf.shape[2:]):
            yield (
                label(name, index),
                np.asarray(leaf[(slice(None), slice(None), *index)], np.float64),
            )


def describe(values: Float[np.ndarray, "chain draw"], is_path: bool = False) -> dict[str, float]:
    """Moments, quantiles and diagnostics of one coordinate.

    Particles of SMC (``is_path``) have no order in time: how many draws they are worth is what
    their islands' means say.
    """
    low, high = np.quantile(values, [0.05, 0.95])
    moving = values.std() > 0
    worth = _island_worth if is_path else diagnostics.effective_sample_size
    return {
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)),
        "5%": float(low),
        "95%": float(high),
        "ess": float(worth(values)) if moving else float("nan"),
        "r_hat": float(diagnostics.split_gelman_rubin(values)) if moving else float("nan"),
    }


def _island_worth(values: Float[np.ndarray, "island particle"]) -> float:
    """Independent draws whose mean is as noisy as the islands' means are; at most all particles."""
    within = values.var(axis=1, ddof=1).mean()
    between = values.mean(axis=1).var(ddof=1)
    return values.size * min(1.0, within / max(values.shape[1] * between, np.finfo(float).tiny))
