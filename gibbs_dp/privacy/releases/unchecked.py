"""A posterior whose loss accepts any data: a complaint about private data would be a release."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from gibbs_dp._jaxlib.per_example import over_examples
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat, Prior


def without_checks(posterior: GibbsPosterior) -> GibbsPosterior:
    """Return the same posterior, whose loss does not inspect its data.

    One object for all posteriors with the same loss and prior: programs are compiled for
    posteriors by identity, and a release should compile once per shape, however its posterior was
    written down. A structured loss has no checks to leave out.

    >>> import gibbs_dp as gdp
    >>> one, other = (gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2)))
    ...               for _ in range(2))
    >>> without_checks(one) is without_checks(other)
    True
    """
    if posterior.loss is None:
        return posterior
    return _unchecked(_Same(_content(posterior), posterior))


@dataclass(frozen=True)
class _Same:
    """A posterior that equals all others of the same content."""

    content: Hashable
    posterior: GibbsPosterior = field(compare=False)


@lru_cache(maxsize=16)
def _unchecked(same: _Same) -> GibbsPosterior:
    posterior = same.posterior
    return GibbsPosterior(_Plain(posterior.loss), posterior.prior)


def _content(posterior: GibbsPosterior) -> Hashable:
    """Loss and prior, by value where they have one and else by identity."""
    found = (posterior.loss, _content_of_prior(posterior.prior))
    try:
        hash(found)
    except TypeError:  # a loss that holds arrays, say
        return id(posterior)
    return found


def _content_of_prior(prior: Prior) -> Hashable:
    if prior.is_hierarchical:  # functions of other parts
        return id(prior)
    parts = []
    for law, support in zip(prior.leaves, prior.supports, strict=True):
        arrays, structure = jax.tree.flatten(support.constraint if isinstance(law, Flat) else law)
        values = tuple(
            (np.asarray(a).dtype.str, np.shape(a), np.asarray(a).tobytes()) for a in arrays
        )
        parts.append((type(law), support.shape, support.is_flat, structure, values))
    return prior.treedef, tuple(parts)


@dataclass(frozen=True, eq=False)
class _Plain:
    """A loss without its checks of data."""

    loss: Any

    def __call__(self, theta: PyTree, z: PyTree) -> Any:
        return self.loss(theta, z)

    def batch(self, theta: PyTree, data: PyTree) -> Any:
        if hasattr(self.loss, "batch"):
            return self.loss.batch(theta, data)
        return over_examples(self.loss, theta, data)
