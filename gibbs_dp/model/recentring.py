"""Parts of a hierarchical prior with a location and a scale: centred, not centred, or between."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float, PyTree
from numpyro.distributions import constraints, transforms

from gibbs_dp._jaxlib.per_example import reached
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat, Prior
from gibbs_dp.model.supports import Support

_WRAPPERS = (dist.Independent, dist.ExpandedDistribution)
_LOCATION_SCALE = (
    dist.Normal,
    dist.StudentT,
    dist.Cauchy,
    dist.Laplace,
    dist.Logistic,
    dist.Gumbel,
    dist.SoftLaplace,
)
_MULTIVARIATE = (dist.MultivariateNormal, dist.MultivariateStudentT)
# Laws of positive numbers, and what they are multiples of.
_SCALE: dict[type[Any], Any] = {
    dist.HalfNormal: lambda law: law.scale,
    dist.HalfCauchy: lambda law: law.scale,
    dist.Exponential: lambda law: 1.0 / law.rate,
    dist.Gamma: lambda law: law.concentration / law.rate,
    dist.InverseGamma: lambda law: law.rate / law.concentration,
    dist.Weibull: lambda law: law.scale,
}


class Place(NamedTuple):
    """Location of flat coordinates and the logarithm of their scale."""

    location: Float[Array, "*shape"]
    log_scale: Float[Array, "*shape"]


def place_of(law: Any, support: Support) -> Place | None:
    """Location and scale of a law in flat coordinates; None for laws of other families.

    Of a law of positive numbers these are those of the logarithm, of shares those of the log-odds.

    >>> positive = Support(constraints.positive, is_flat=False)
    >>> place_of(dist.LogNormal(1.0, 2.0), positive)[0].item()
    1.0
    """
    while isinstance(law, _WRAPPERS):
        law = law.base_dist
    if support.is_real:
        found = _on_the_line(law)
    elif _is_of(support, constraints.positive, constraints.nonnegative):
        found = _of_logarithms(law)
    elif _is_of(support, constraints.unit_interval):
        found = _of_log_odds(law)
    else:
        return None
    if found is None:
        return None
    try:
        return Place(*(jnp.broadcast_to(x, support.unconstrained_shape) for x in found))
    except ValueError:  # a law whose shape is not its support's: no harm in leaving it
        return None


def _is_of(support: Support, *kinds: Any) -> bool:
    """Whether flat coordinates are those that numbers of a kind have: logarithms or log-odds."""
    constraint = support.constraint
    while hasattr(constraint, "base_constraint"):
        constraint = constraint.base_constraint
    return not support.is_flat and constraint in kinds


def _on_the_line(law: Any) -> tuple[Any, Any] | None:
    if isinstance(law, _LOCATION_SCALE):
        return law.loc, jnp.log(law.scale)
    if isinstance(law, _MULTIVARIATE):
        return law.loc, 0.5 * jnp.log(jnp.sum(law.scale_tril**2, axis=-1))
    if isinstance(law, dist.GaussianRandomWalk):
        return 0.0, jnp.log(law.scale)[..., None]
    if isinstance(law, dist.TransformedDistribution) and len(law.transforms) == 1:
        (change,) = law.transforms
        below = _on_the_line(law.base_dist)
        if below is not None and isinstance(change, transforms.AffineTransform):
            scale = below[1] + jnp.log(jnp.abs(change.scale))
            return change.loc + change.scale * below[0], scale
    return None


def _of_logarithms(law: Any) -> tuple[Any, Any] | None:
    if isinstance(law, dist.LogNormal):
        return law.loc, jnp.log(law.scale)
    scale = _SCALE.get(type(law))
    return None if scale is None else (jnp.log(scale(law)), 0.0)


def _of_log_odds(law: Any) -> tuple[Any, Any] | None:
    if not isinstance(law, dist.Beta):
        return None
    one, zero = law.concentration1, law.concentration0
    # Those of many successes and failures; for few, the share of centring makes up for it.
    return jnp.log(one / zero), 0.5 * jnp.log(1.0 / one + 1.0 / zero)


@dataclass(frozen=True, eq=False)
class Recentring:
    """Coordinates in which parts of a prior depend on the parts before them as the data ask for.

    A coordinate ``u`` with location ``m`` and scale ``s``, which other parts decide, is
    ``u = m + s^(1 - c) (w - c m)``: with the share ``c = 1`` it is ``w`` itself, as the model is
    written (centred), with ``c = 0`` it is ``m + s w`` (not centred). Data that tell ``u`` want
    the first, data that do not the second (Papaspiliopoulos, Roberts & Sköld 2007; the share
    between, Gorinova, Moore & Hoffman 2020). Any share is a bijection: draws are draws of the
    same posterior.
    """

    posterior: GibbsPosterior  # whose prior has such parts
    # Coordinates of every part whose location or scale depends on others, by the part's name.
    places: dict[str, slice]
    depth: int  # parts that depend on each other in a row

    @property
    def is_free(self) -> Bool[np.ndarray, " dim"]:
        """Coordinates that can be moved."""
        found = np.zeros(self.posterior.dim, bool)
        for at in self.places.values():
            found[at] = True
        return found

    def place(self, u: Float[Array, " dim"]) -> Place:
        """Location and log scale of every coordinate; zeros where these depend on nothing."""
        prior = self.posterior.prior
        found: list[Place] = []
        for place, support in zip(
            _places(prior, self.posterior.constrain(u)), prior.supports, strict=True
        ):
            blank = jnp.zeros(prod(support.unconstrained_shape), u.dtype)
            found.append(Place(blank, blank) if place is None else Place(*map(jnp.ravel, place)))
        free = jnp.asarray(self.is_free)
        return Place(*(jnp.where(free, jnp.concatenate(x), 0.0) for x in zip(*found, strict=True)))

    def to_flat(
        self, w: Float[Array, " dim"], share: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Flat coordinates, and the log determinant of the way to them."""
        u, log_det = w, jnp.zeros((), w.dtype)
        for _ in range(self.depth):  # each pass sets one more generation right
            location, log_scale = self.place(u)
            growth = (1.0 - share) * log_scale
            u, log_det = location + jnp.exp(growth) * (w - share * location), jnp.sum(growth)
        return u, log_det

    def from_flat(
        self, u: Float[Array, " dim"], share: Float[Array, " dim"]
    ) -> Float[Array, " dim"]:
        """Invert :meth:`to_flat`."""
        location, log_scale = self.place(u)
        return jnp.exp((share - 1.0) * log_scale) * (u - location) + share * location


def _places(prior: Prior, theta: PyTree) -> list[Place | None]:
    pairs = zip(prior._laws(theta), prior.supports, strict=True)
    return [None if isinstance(law, Flat) else place_of(law, s) for law, s in pairs]


def find_recentring(posterior: GibbsPosterior) -> Recentring | None:
    """Find the parts of a prior whose location or scale depends on others; None: there are none."""
    prior = posterior.prior
    if not (prior.is_hierarchical or type(prior) is not Prior):
        return None
    theta = jax.eval_shape(posterior.constrain, jnp.zeros(posterior.dim))
    named, _ = jax.tree_util.tree_flatten_with_path(theta)
    program = jax.make_jaxpr(lambda theta: _places(prior, theta))(theta)
    shown = jax.eval_shape(lambda theta: _places(prior, theta), theta)
    # The outputs in turn: two for each part that has a place.
    owners = [i for i, place in enumerate(shown) if place is not None for _ in range(2)]
    count = len(named)
    parents: list[set[int]] = [set() for _ in range(count)]
    for j in range(count):
        marks = reached(program.jaxpr, [i == j for i in range(count)])
        for owner, is_marked in zip(owners, marks, strict=True):
            if is_marked and owner != j:
                parents[owner].add(j)
    free = {i for i in owners if parents[i]}
    if not free:
        return None
    levels: dict[int, int] = {}
    for _ in range(len(free)):
        levels = {i: 1 + max((levels.get(j, 0) for j in parents[i]), default=0) for i in free}
    ends = np.cumsum([prod(s.unconstrained_shape) for s in prior.supports])
    places = {
        jax.tree_util.keystr(path, simple=True, separator="."): slice(int(begin), int(end))
        for i, ((path, _), begin, end) in enumerate(zip(named, [0, *ends], ends, strict=False))
        if i in free
    }
    return Recentring(posterior, places, max(levels.values()))
