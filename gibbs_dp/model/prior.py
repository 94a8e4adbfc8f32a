"""Priors: NumPyro distributions or flat measures, arranged in any pytree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpyro.distributions import constraints

from gibbs_dp.model.supports import Support, as_shape


@dataclass(frozen=True, eq=False)
class Flat:
    """Constant (Lebesgue) prior density on a declared support, proper or not.

    Parameters
    ----------
    support
        A :class:`~gibbs_dp.model.supports.Support` (see ``gibbs_dp.supports``) or a NumPyro
        constraint.
    shape
        Shape of the parameter; only with a NumPyro constraint.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> gdp.Flat(gdp.supports.real(3)).support.shape
    (3,)
    """

    support: Any
    shape: tuple[int, ...] | int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.support, Support):
            if self.shape is not None:
                raise ValueError("Flat(support, shape): the support has a shape; drop `shape`.")
        elif isinstance(self.support, constraints.Constraint):
            shape = as_shape(() if self.shape is None else self.shape)
            object.__setattr__(self, "support", Support(self.support, shape))
        else:
            raise ValueError(
                "Flat(support) takes one of gibbs_dp.supports.* or a NumPyro constraint, "
                f"got {type(self.support).__name__}."
            )

    def log_prob(self, theta: Float[Array, ...]) -> Float[Array, ""]:
        """Zero: the density is constant on its support."""
        return jnp.zeros_like(theta, shape=())


def _is_leaf(x: Any) -> bool:
    return isinstance(x, (dist.Distribution, Flat))


def _support_of(leaf: Any) -> Support:
    if isinstance(leaf, Flat):
        support = leaf.support
    elif isinstance(leaf, dist.Distribution):
        support = Support(leaf.support, tuple(leaf.batch_shape + leaf.event_shape))
    else:
        raise ValueError(
            "prior: every leaf must be a NumPyro distribution or gibbs_dp.Flat(support), "
            f"got {type(leaf).__name__}."
        )
    if support.constraint.is_discrete or isinstance(leaf, dist.Delta):
        raise ValueError(
            "prior: discrete distributions have no gradients to sample with; "
            "put finitely many hypotheses on a Grid instead."
        )
    try:
        support.unconstrained_shape  # noqa: B018  (asks NumPyro for the bijection)
    except (NotImplementedError, ValueError) as error:
        raise ValueError(
            f"prior: no bijection from Euclidean space onto {support.constraint} of shape "
            f"{support.shape}; use a support of gibbs_dp.supports."
        ) from error
    return support


def leaf_curvature(leaf: Any) -> tuple[float, float]:
    """Smallest and largest eigenvalue of the Hessian of ``-log density`` of one part of a prior.

    >>> leaf_curvature(dist.Normal(0.0, 2.0).expand([3]))
    (0.25, 0.25)
    """
    if isinstance(leaf, (Flat, dist.Uniform)):
        return 0.0, 0.0
    if isinstance(leaf, (dist.Independent, dist.ExpandedDistribution)):
        return leaf_curvature(leaf.base_dist)
    if isinstance(
        leaf,
        (
            dist.TwoSidedTruncatedDistribution,
            dist.LeftTruncatedDistribution,
            dist.RightTruncatedDistribution,
        ),
    ):
        return leaf_curvature(leaf.base_dist)
    if isinstance(leaf, dist.Normal):
        precision = np.asarray(leaf.scale, np.float64) ** -2.0
    elif isinstance(leaf, dist.MultivariateNormal):
        precision = np.linalg.eigvalsh(np.asarray(leaf.precision_matrix, np.float64))
    else:
        return -np.inf, np.inf
    return float(precision.min()), float(precision.max())


@dataclass(frozen=True, eq=False)
class Prior:
    """A pytree of independent priors with the bijections of their supports.

    Parameters
    ----------
    tree
        A NumPyro distribution, a :class:`Flat`, or a dict (any pytree) of them.

    Raises
    ------
    ValueError
        If a leaf is neither, or is discrete.
    """

    tree: Any

    def __post_init__(self) -> None:
        leaves, treedef = jax.tree.flatten(self.tree, is_leaf=_is_leaf)
        if not leaves:
            raise ValueError("prior: it is empty; give a NumPyro distribution or gibbs_dp.Flat.")
        object.__setattr__(self, "leaves", tuple(leaves))
        object.__setattr__(self, "supports", tuple(_support_of(leaf) for leaf in leaves))
        object.__setattr__(self, "treedef", treedef)

    leaves: tuple[Any, ...] = ()
    supports: tuple[Support, ...] = ()
    treedef: Any = None

    @property
    def is_flat(self) -> bool:
        """Whether any part of the prior is a flat measure on an unbounded support."""
        return any(
            isinstance(leaf, Flat) and not np.isfinite(s.l2_bound())
            for leaf, s in zip(self.leaves, self.supports, strict=True)
        )

    def l2_bound(self) -> float:
        """Largest Euclidean norm of the whole parameter on the support."""
        return float(sum(s.l2_bound() ** 2 for s in self.supports) ** 0.5)

    def curvature(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue of the Hessian of ``-log prior`` on the support.

        ``(-inf, inf)`` where they are not known: anything but flat, uniform, Gaussian and
        truncated Gaussian parts. The supports are convex.
        """
        parts = [leaf_curvature(leaf) for leaf in self.leaves]
        return min(low for low, _ in parts), max(high for _, high in parts)

    @property
    def is_euclidean(self) -> bool:
        """Whether the support is all of Euclidean space, so that flat coordinates are theta."""
        return all(s.is_real for s in self.supports)

    def log_prob(self, theta: PyTree) -> Float[Array, ""]:
        """Log prior density (up to a constant for flat parts); ``theta`` must be on the support."""
        values = self.treedef.flatten_up_to(theta)
        parts = [jnp.sum(leaf.log_prob(x)) for leaf, x in zip(self.leaves, values, strict=True)]
        return jnp.sum(jnp.stack(parts))

    def contains(self, theta: PyTree) -> Array:
        """Whether ``theta`` lies on the support."""
        values = self.treedef.flatten_up_to(theta)
        inside = [s.contains(x) for s, x in zip(self.supports, values, strict=True)]
        return jnp.all(jnp.stack(inside))

    def initial(self, key: PRNGKeyArray) -> PyTree:
        """Draw an overdispersed start: a prior draw, or uniform on (-2, 2) unconstrained."""
        out = []
        for i, (leaf, s) in enumerate(zip(self.leaves, self.supports, strict=True)):
            k = jax.random.fold_in(key, i)
            if isinstance(leaf, Flat):
                u = jax.random.uniform(k, s.unconstrained_shape, minval=-2.0, maxval=2.0)
                out.append(s.constrain(u))
            else:
                out.append(leaf.sample(k))
        return self.treedef.unflatten(out)

    def check(self, theta: PyTree) -> None:
        """Raise a ValueError unless ``theta`` has this prior's structure and shapes."""
        try:
            values = self.treedef.flatten_up_to(theta)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"theta: its structure differs from the prior's ({self.treedef}); "
                "give every named part of the prior a value."
            ) from error
        for x, s in zip(values, self.supports, strict=True):
            if not isinstance(x, (jax.Array, np.ndarray, np.generic, float, int)):
                raise ValueError(
                    f"theta: got {type(x).__name__} where the prior has an array of shape "
                    f"{s.shape}."
                )
            if jnp.shape(x) != s.shape:
                raise ValueError(
                    f"theta: got an array of shape {jnp.shape(x)} where the prior has {s.shape}."
                )
