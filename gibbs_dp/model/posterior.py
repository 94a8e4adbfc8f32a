"""The Gibbs posterior: exp(-gamma loss) times a prior, with the two kept apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.per_example import over_examples
from gibbs_dp.model.losses.base import Loss
from gibbs_dp.model.prior import Prior

Scalar = Float[Array, ""]


class UnconstrainedTarget(NamedTuple):
    """A posterior on flat Euclidean space, for use in any sampler.

    Attributes
    ----------
    log_density
        Unnormalized log density of the flat vector ``u [dim]``, Jacobian included.
    constrain
        Maps ``u [dim]`` to theta.
    unconstrain
        Maps theta to ``u [dim]``.
    dim
        Length of ``u``.
    """

    log_density: Callable[[Float[Array, " dim"]], Scalar]
    constrain: Callable[[Float[Array, " dim"]], PyTree]
    unconstrain: Callable[[PyTree], Float[Array, " dim"]]
    dim: int


@dataclass(frozen=True, eq=False)
class GibbsPosterior:
    """``p(theta | Z) ∝ exp(-gamma L(theta, Z)) prior(theta)``.

    ``gamma`` multiplies the **total** loss and never the prior; ``gamma = 1`` with a negative
    log-likelihood is the Bayesian posterior. Lecture notes that write ``exp(-beta mean loss)``
    have ``beta = gamma n``.

    Parameters
    ----------
    loss
        ``loss(theta, z) -> scalar`` for one example ``z``; the total is the sum over examples.
        A loss with a method ``batch(theta, data) -> [n]`` is evaluated through it.
    prior
        A NumPyro distribution, a dict (pytree) of them, or :class:`gibbs_dp.Flat`.
    total_loss
        Instead of ``loss``: a structured loss ``L(theta, data) -> scalar`` of the whole dataset.
    sensitivity
        Only with ``total_loss``: ``sensitivity(n)`` is the supremum of
        ``|L(theta, Z) - L(theta, Z')|`` over theta and replace-one pairs, on the domain that the
        data are promised to stay in.
    location_family
        Only with ``total_loss``: a promise that the normalizer does not depend on the data,
        because the loss is ``f(theta - t(Z))`` of a statistic ``t`` (a translation family) and the
        prior is flat on all of Euclidean space; any other prior is refused. The pure-DP epsilon is
        then ``gamma * sensitivity(n)`` rather than twice that (Dwork et al. 2006, the Laplace
        mechanism).

    Raises
    ------
    ValueError
        Unless exactly one of ``loss`` and ``total_loss`` is given, and for priors that cannot be
        used.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist
    >>> import gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(lambda theta, z: (theta - z) ** 2, dist.Normal(0.0, 1.0))
    >>> data = jnp.array([0.0, 1.0])
    >>> cold = posterior.log_density(jnp.array(0.5), data, gamma=2.0)
    >>> round(float(cold - dist.Normal(0.0, 1.0).log_prob(0.5)), 6)  # -2 * (0.25 + 0.25)
    -1.0
    """

    loss: Callable[[Any, Any], Any] | None = None
    prior: Any = None
    total_loss: Callable[[Any, Any], Any] | None = None
    sensitivity: Callable[[int], float] | None = None
    location_family: bool = False

    def __post_init__(self) -> None:
        if (self.loss is None) == (self.total_loss is None):
            raise ValueError("GibbsPosterior: give exactly one of `loss` and `total_loss`.")
        if self.prior is None:
            raise ValueError(
                "GibbsPosterior: `prior` is missing; give a NumPyro distribution, a dict of them, "
                "or gibbs_dp.Flat(support) for a flat one."
            )
        if self.total_loss is None and (self.sensitivity is not None or self.location_family):
            raise ValueError(
                "GibbsPosterior: `sensitivity` and `location_family` describe a `total_loss`; "
                "per-example losses carry their constants on a Domain."
            )
        object.__setattr__(self, "prior", Prior(self.prior))
        if self.location_family and not self.prior.is_translation_invariant:
            raise ValueError(
                "location_family: with a bounded or proper prior the normalizer depends on the "
                "data; use Flat(supports.real(...)), or leave location_family out."
            )

    @property
    def structured(self) -> bool:
        """Whether the loss is a function of the whole dataset."""
        return self.loss is None

    @property
    def is_quadratic(self) -> bool:
        """Whether the loss declares itself a quadratic function of theta."""
        return isinstance(self.loss, Loss) and self.loss.is_quadratic

    # -- losses ---------------------------------------------------------------------------

    def losses(self, theta: PyTree, data: PyTree) -> Float[Array, " n"]:
        """Per-example losses at one theta; needs a per-example loss."""
        if self.loss is None:
            raise ValueError("losses: a structured posterior has no per-example losses.")
        batch = getattr(self.loss, "batch", None)
        if batch is not None:
            return batch(theta, data)
        return over_examples(self.loss, theta, data)

    def empirical_loss(self, theta: PyTree, data: PyTree) -> Scalar:
        """Total loss ``L(theta, Z)``: the sum over examples, or the structured loss itself."""
        if self.total_loss is not None:
            return self.total_loss(theta, data)
        return jnp.sum(self.losses(theta, data))

    # -- densities ------------------------------------------------------------------------

    def log_density(self, theta: PyTree, data: PyTree, gamma: float | Array) -> Scalar:
        """Unnormalized log density on the support; ``-inf`` outside it.

        Parameters
        ----------
        theta
            A parameter with the prior's structure.
        data
            Examples, a pytree whose leaves have leading axis ``n``.
        gamma
            Inverse temperature, ``>= 0``; multiplies the total loss only.

        Returns
        -------
        scalar
            Log density of theta, up to a constant.

        Raises
        ------
        ValueError
            If theta's structure or shapes differ from the prior's.
        """
        self.prior.check(theta)
        theta = jax.tree.map(_as_float, theta)
        # Traced under vmap: NumPyro warns of concrete values outside the support, handled below.
        log_prior = jax.vmap(self.prior.log_prob)(jax.tree.map(lambda a: a[None], theta))[0]
        value = -gamma * self.empirical_loss(theta, data) + log_prior
        return jnp.where(self.prior.contains(theta), value, -jnp.inf)

    def unconstrained(self, data: PyTree, gamma: float | Array) -> UnconstrainedTarget:
        """Return the same posterior on flat Euclidean space, for use in any other sampler."""

        def log_density(u: Float[Array, " dim"]) -> Scalar:
            theta = self.constrain(u)
            return -gamma * self.empirical_loss(theta, data) + self.log_prior_unconstrained(u)

        return UnconstrainedTarget(log_density, self.constrain, self.unconstrain, self.dim)

    # -- flat coordinates -----------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Number of unconstrained coordinates."""
        return sum(prod(s.unconstrained_shape) for s in self.prior.supports)

    def _split(self, u: Float[Array, " dim"]) -> list[Array]:
        parts, start = [], 0
        for s in self.prior.supports:
            size = prod(s.unconstrained_shape)
            parts.append(u[start : start + size].reshape(s.unconstrained_shape))
            start += size
        return parts

    def constrain(self, u: Float[Array, " dim"]) -> PyTree:
        """Map flat unconstrained coordinates to theta."""
        parts = zip(self.prior.supports, self._split(u), strict=True)
        return self.prior.treedef.unflatten([s.constrain(x) for s, x in parts])

    def unconstrain(self, theta: PyTree) -> Float[Array, " dim"]:
        """Map theta (inside the support) to flat unconstrained coordinates."""
        values = self.prior.treedef.flatten_up_to(theta)
        pairs = zip(self.prior.supports, values, strict=True)
        return ravel_pytree([s.unconstrain(jnp.asarray(x)) for s, x in pairs])[0]

    def log_prior_unconstrained(self, u: Float[Array, " dim"]) -> Scalar:
        """Log prior density of the flat coordinates: log prior plus log Jacobian."""
        parts = zip(self.prior.supports, self._split(u), strict=True)
        log_det = jnp.sum(jnp.stack([s.log_det(x) for s, x in parts]))
        return self.prior.log_prob(self.constrain(u)) + log_det

    def initial(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """Draw an overdispersed start in flat coordinates."""
        return self.unconstrain(self.prior.initial(key))


def _as_float(x: Any) -> Array:
    array = jnp.asarray(x)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)
