"""The Gibbs posterior: exp(-gamma loss) times a prior, with the two kept apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from gibbs_dp._jaxlib.per_example import over_examples
from gibbs_dp.information.checks import refuse_masked
from gibbs_dp.model.charts import FlatCoordinates, UnconstrainedTarget
from gibbs_dp.model.check import check_gamma, examples_for
from gibbs_dp.model.examples import as_examples, num_examples
from gibbs_dp.model.losses.base import Loss
from gibbs_dp.model.prior import Prior

# Minus a log-likelihood.


@dataclass(frozen=True)
class NegativeLogLikelihood:
    """The loss ``-log_likelihood(theta, z)``, in nats."""

    log_likelihood: Callable[[Any, Any], Any]

    @property
    def __name__(self) -> str:
        name = getattr(self.log_likelihood, "__name__", type(self.log_likelihood).__name__)
        return f"-{name}"

    def __call__(self, theta: PyTree, z: PyTree) -> Float[Array, ""]:
        """Loss of one example, or of a dataset where the log-likelihood is that of one."""
        return -self.log_likelihood(theta, z)


Scalar = Float[Array, ""]


@dataclass(frozen=True, eq=False)
class GibbsPosterior(FlatCoordinates):
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
    data: PyTree | None = field(default=None, init=False, repr=False)

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
        is_prior = isinstance(self.prior, Prior)
        object.__setattr__(self, "prior", self.prior if is_prior else Prior(self.prior))
        if self.location_family and not self.prior.is_translation_invariant:
            raise ValueError(
                "location_family: with a bounded or proper prior the normalizer depends on the "
                "data; use Flat(supports.real(...)), or leave location_family out."
            )

    # -- models of other libraries --------------------------------------------------------

    @classmethod
    def from_numpyro(
        cls,
        model: Callable[..., Any],
        observed: str | Sequence[str] = ("y",),
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: str | None = None,
        structured: bool = False,
        examples: Sequence[str] | Mapping[str, int] | None = None,
    ) -> GibbsPosterior:
        """Take a NumPyro model: its latent sites are the prior, its observed ones the loss.

        The loss of an example is minus the log-likelihood of the observed sites, and gamma
        multiplies nothing else. theta is a dict of latent sites, with the values they have in the
        model; reparametrized sites (``handlers.reparam``) are those of the new model. An example is
        a dict of the arguments that have a row for every example; other arguments stay as given.

        Parameters
        ----------
        model
            A model with data as arguments. Where its arguments hold the number of examples as an
            integer, that follows the data.
        observed
            Observed sites whose likelihoods gamma tempers. Others must not depend on the examples;
            they belong to the prior.
        args, kwargs
            One call of the model, with data: they show which arguments are examples, and are
            kept as ``posterior.data``.
        group
            Replace whole groups: the plate whose members are the examples, or the argument that
            holds the number of each row's group (0, 1, ...; its rows are then packed together, and
            ``is_row`` tells them from padding).
        structured
            The loss is that of the whole dataset, and an example is replaced in its place: needed
            where examples have latent sites of their own (eight schools), or have no likelihood by
            themselves (a Gaussian process). Slower.
        examples
            Arguments that hold examples (or their axes, by name), where that is not clear from
            their shapes.

        Returns
        -------
        GibbsPosterior
            With ``data``, the examples among the arguments.

        Raises
        ------
        ValueError
            In one sentence, for models that are no Gibbs posterior: no likelihood for each example,
            subsampled plates, factors, discrete latent sites, priors that depend on the examples.

        Examples
        --------
        >>> import jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> import gibbs_dp as gdp
        >>> def model(x, y=None):
        ...     slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        ...     with numpyro.plate("rows", x.shape[0]):
        ...         numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)
        >>> x, y = jnp.array([0.0, 1.0, 2.0]), jnp.array([0.1, 0.9, 2.1])
        >>> posterior = gdp.GibbsPosterior.from_numpyro(model, args=(x, y))
        >>> cold = posterior.log_density({"slope": 1.0}, posterior.data, gamma=2.0)
        >>> by_hand = dist.Normal().log_prob(1.0) + 2.0 * jnp.sum(dist.Normal(x).log_prob(y))
        >>> bool(jnp.isclose(cold, by_hand))
        True
        """
        from gibbs_dp.model.numpyro_models.build import build  # audits need none of it

        built = build(model, observed, args, kwargs, group, structured, examples)
        new = cls(built.loss, built.prior, built.total_loss)
        object.__setattr__(new, "data", built.data)
        return new

    @classmethod
    def from_log_density(
        cls, log_likelihood: Callable[[Any, Any], Any], prior: Any, structured: bool = False
    ) -> GibbsPosterior:
        """Take a log-likelihood, as other samplers do.

        Parameters
        ----------
        log_likelihood
            ``log_likelihood(theta, z) -> scalar`` of one example; gamma multiplies it.
        prior
            A NumPyro distribution, a pytree of them with theta's structure, or
            :class:`gibbs_dp.Flat`; ``gibbs_dp.priors.normal_like(params, scale)`` makes one for the
            parameters of a network.
        structured
            It is ``log_likelihood(theta, data) -> scalar`` of the whole dataset instead.

        Returns
        -------
        GibbsPosterior
            Whose loss is minus the log-likelihood.

        Raises
        ------
        ValueError
            As for the class.

        Examples
        --------
        >>> import jax.numpy as jnp, numpyro.distributions as dist
        >>> import gibbs_dp as gdp
        >>> posterior = gdp.GibbsPosterior.from_log_density(
        ...     lambda theta, z: -((theta - z) ** 2), dist.Normal(0.0, 1.0))
        >>> float(posterior.empirical_loss(jnp.array(0.5), jnp.array([0.0, 1.0])))
        0.5
        """
        if not callable(log_likelihood):
            raise ValueError(
                f"log_likelihood: give a function (theta, z) -> scalar, got "
                f"{type(log_likelihood).__name__}."
            )
        loss = NegativeLogLikelihood(log_likelihood)
        return cls(total_loss=loss, prior=prior) if structured else cls(loss, prior)

    @property
    def structured(self) -> bool:
        """Whether the loss is a function of the whole dataset."""
        return self.loss is None

    @property
    def is_quadratic(self) -> bool:
        """Whether the loss declares itself a quadratic function of theta."""
        return isinstance(self.loss, Loss) and self.loss.is_quadratic

    @property
    def is_gaussian(self) -> bool:
        """Whether it is a Gaussian, of examples that each move it along one direction."""
        loss, prior = self.loss, self.prior
        has_directions = isinstance(loss, Loss) and type(loss).rank_one is not Loss.rank_one
        is_alone = len(prior.leaves) == 1
        return has_directions and self.is_quadratic and is_alone and prior.is_gaussian

    @property
    def has_convex_loss(self) -> bool:
        """Whether the loss declares itself convex."""
        return getattr(self.loss, "is_convex", False) is True

    @property
    def is_log_concave(self) -> bool:
        """Whether loss and prior are declared convex on all of Euclidean space.

        Then the density has one mode in flat coordinates, whatever the data.
        """
        return self.has_convex_loss and self.prior.is_euclidean and self.prior.curvature()[0] >= 0

    @property
    def has_example_losses(self) -> bool:
        """Whether every example has a loss of its own, be it in its place."""
        return self.loss is not None or getattr(self.total_loss, "has_examples", False)

    # -- losses ---------------------------------------------------------------------------

    def losses(self, theta: PyTree, data: PyTree) -> Float[Array, " n"]:
        """Per-example losses at one theta; needs a per-example loss.

        Of a structured one from a model whose examples have losses in their places, it is those.
        """
        if not self.has_example_losses:
            raise ValueError("losses: a structured posterior has no per-example losses.")
        batch = getattr(self.total_loss if self.loss is None else self.loss, "batch", None)
        if batch is not None:
            found = batch(theta, data)
        else:
            assert self.loss is not None
            found = over_examples(self.loss, theta, data)
        n = num_examples(data)
        if jnp.shape(found) != (n,):
            raise ValueError(
                f"loss: it must return a scalar for each of {n} examples, got shape "
                f"{jnp.shape(found)}; look for an axis too many in the data, as in y of shape [n, "
                "1] for [n], or sum inside it."
            )
        return found

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
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((theta, data))):
            data = as_examples(data)
            if isinstance(self.loss, Loss):
                self.loss.check_examples(data)
        theta = jax.tree.map(_as_float, theta)
        # Traced under vmap: NumPyro warns of concrete values outside the support, handled below.
        log_prior = jax.vmap(self.prior.log_prob)(jax.tree.map(lambda a: a[None], theta))[0]
        value = -gamma * self.empirical_loss(theta, data) + log_prior
        return jnp.where(self.prior.contains(theta), value, -jnp.inf)

    def unconstrained(self, data: PyTree, gamma: float | Array) -> UnconstrainedTarget:
        """Return the same posterior on flat Euclidean space, for use in any other sampler.

        Parameters
        ----------
        data
            Examples, checked as :func:`gibbs_dp.sample` checks them.
        gamma
            Inverse temperature, finite and >= 0.

        Returns
        -------
        UnconstrainedTarget
            Log density of a vector, and the maps between vectors and theta.

        Raises
        ------
        ValueError
            If the data do not suit the loss.
        """
        data = examples_for(self, data)
        gamma = gamma if isinstance(gamma, jax.Array) else check_gamma(gamma)

        def log_density(u: Float[Array, " dim"]) -> Scalar:
            theta = self.constrain(u)
            return -gamma * self.empirical_loss(theta, data) + self.log_prior_unconstrained(u)

        return UnconstrainedTarget(log_density, self.constrain, self.unconstrain, self.dim)


def _as_float(x: Any) -> Array:
    array = jnp.asarray(x)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)


# Datasets of different lengths in one shape: padded, with a mask on the loss.


@dataclass(frozen=True)
class MaskedLoss:
    """A loss of ``(example, keep)``: zero where ``keep`` is false."""

    loss: Callable[[Any, Any], Any]

    def __call__(self, theta: PyTree, z: tuple[PyTree, Bool[Array, ""]]) -> Float[Array, ""]:
        """Loss of one example."""
        example, keep = z
        return jnp.where(keep, self.loss(theta, example), 0.0)

    def batch(self, theta: PyTree, data: tuple[PyTree, Bool[Array, " n"]]) -> Float[Array, " n"]:
        """Losses of ``n`` examples."""
        examples, keep = data
        batch = getattr(self.loss, "batch", None)
        if batch is None:
            return over_examples(self, theta, data)
        return jnp.where(keep, batch(theta, examples), 0.0)


@lru_cache(maxsize=32)
def masked(posterior: GibbsPosterior) -> GibbsPosterior:
    """Return the posterior of data ``(examples, keep)``, the same object at every call."""
    if posterior.loss is None:
        raise ValueError(
            "mask: a total_loss is not a sum over examples that could be masked; give a "
            "per-example loss, or let the total_loss read a mask from the data."
        )
    return GibbsPosterior(MaskedLoss(posterior.loss), posterior.prior)


def check_mask(mask: Any, data: PyTree, is_batch: bool) -> Bool[np.ndarray, "*b n"]:
    """Turn a mask into booleans of the data's leading axes; it must leave examples everywhere."""
    axes = jnp.shape(jax.tree.leaves(data)[0])[: 2 if is_batch else 1]
    refuse_masked("mask", mask)
    found = np.asarray(mask)
    if found.shape != axes:
        raise ValueError(f"mask: shape {found.shape} for examples of shape {axes}; give one each.")
    if not np.isin(found, (0, 1)).all():
        raise ValueError("mask: its values must be 0 and 1 (or False and True).")
    if not found.any(axis=-1).all():
        raise ValueError("mask: a dataset has no example left; leave it out.")
    return found.astype(bool)
