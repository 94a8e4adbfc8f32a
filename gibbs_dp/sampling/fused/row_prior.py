"""Priors of independent coordinates, as rows of the design matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from gibbs_dp.model.prior import Flat, Prior

_WRAPPERS = (dist.Independent, dist.ExpandedDistribution)


def _normal(z: Array) -> Array:
    return 0.5 * z * z


def _cauchy(z: Array) -> Array:
    return jnp.log1p(z * z)


# Minus the log density of a standardized coordinate, but for constants: the potential is relative,
# and what a GPU kernel may hold is arithmetic, exponentials and logarithms.
KINDS: dict[Any, Callable[[Array], Array]] = {
    dist.Normal: _normal,
    dist.Laplace: jnp.abs,
    dist.Cauchy: _cauchy,
}


@dataclass(frozen=True)
class RowPrior:
    """A law of independent coordinates.

    Attributes
    ----------
    kind
        One of ``KINDS``; None: flat.
    shared
        ``loc`` and ``rate``, one over the scale, where all coordinates have them in common.
    own
        Those of each coordinate where they do not, ``[dim]``.
    """

    kind: Any
    shared: dict[str, float]
    own: dict[str, Float[np.ndarray, " dim"]]

    def energy(
        self, u: Float[Array, " rows"], own: dict[str, Float[Array, " rows"]]
    ) -> Float[Array, " rows"]:
        """Minus the log density of each coordinate ``u``, given the parameters of its own."""
        if self.kind is None:
            return jnp.zeros_like(u)
        of: dict[str, Any] = {**self.shared, **own}
        return KINDS[self.kind]((u - of["loc"]) * of["rate"])


def row_prior(prior: Prior) -> RowPrior | None:
    """Return the prior as rows; None where its coordinates are not independent laws on the line.

    >>> row_prior(Prior(dist.Normal(jnp.zeros(3), 2.0))).shared
    {'loc': 0.0, 'rate': 0.5}
    """
    (law, *others), (support, *_) = prior.leaves, prior.supports
    is_vector = prior.tree is law and not others and len(support.shape) == 1
    if prior.is_hierarchical or not is_vector or not support.is_real:
        return None
    if isinstance(law, Flat):
        return RowPrior(None, {}, {})
    while isinstance(law, _WRAPPERS):
        law = law.base_dist
    if type(law) not in KINDS:
        return None
    shared, own = {}, {}
    for name, given in (("loc", law.loc), ("rate", 1.0 / np.asarray(law.scale, np.float64))):
        values = np.broadcast_to(np.asarray(given, np.float64), support.shape)
        if (values == values[0]).all():
            shared[name] = float(values[0])
        else:
            own[name] = values
    return RowPrior(type(law), shared, own)
