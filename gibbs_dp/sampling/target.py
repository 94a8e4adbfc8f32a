"""One dataset's posterior on flat coordinates, with energies that survive float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from gibbs_dp._jaxlib.elementary import total
from gibbs_dp.model.posterior import GibbsPosterior

Potential = Callable[[Float[Array, " dim"]], Float[Array, ""]]


class Terms(NamedTuple):
    """The additive parts of a potential energy at one point."""

    losses: Float[Array, " terms"]  # per example, or one entry for a structured loss
    log_prior: Float[Array, ""]


class Target(NamedTuple):
    """``U(u) = gamma L(theta(u), Z) - log prior(u)`` for one dataset and one gamma."""

    posterior: GibbsPosterior
    data: PyTree
    gamma: Float[Array, ""]

    def terms(self, u: Float[Array, " dim"]) -> Terms:
        """Losses and log prior at ``u``."""
        theta = self.posterior.constrain(u)
        if self.posterior.structured:
            losses = self.posterior.empirical_loss(theta, self.data)[None]
        else:
            losses = self.posterior.losses(theta, self.data)
        return Terms(losses, self.posterior.log_prior_unconstrained(u))

    def relative_to(self, reference: Terms) -> Potential:
        """Potential minus its value at a reference point, subtracted term by term.

        ``U`` itself grows with ``n gamma``; at 1e8 a float32 cannot resolve the energy
        differences that an acceptance step decides on. Differences per example keep them exact.
        """

        def potential(u: Float[Array, " dim"]) -> Float[Array, ""]:
            here = self.terms(u)
            change = total(here.losses - reference.losses)
            return self.gamma * change - (here.log_prior - reference.log_prior)

        return potential

    def around(self, u: Float[Array, " dim"], reference: Terms) -> Potential:
        """Potential relative to ``reference``, the terms at ``u``, in the cheapest exact form.

        A quadratic loss is known from its gradient and Hessian at ``u``: with more examples than
        parameters these say in ``d^2`` operations what takes ``n d`` over the examples.
        """
        theta, unravel = ravel_pytree(self.posterior.constrain(u))
        num_examples = jax.tree.leaves(self.data)[0].shape[0]
        if not self.posterior.is_quadratic or theta.size > num_examples:
            return self.relative_to(reference)

        def whole(flat: Float[Array, " size"]) -> Float[Array, ""]:
            return self.posterior.empirical_loss(unravel(flat), self.data)

        slope, curvature = jax.grad(whole)(theta), jax.hessian(whole)(theta)

        def potential(u: Float[Array, " dim"]) -> Float[Array, ""]:
            shift = ravel_pytree(self.posterior.constrain(u))[0] - theta
            bend = jnp.einsum("d,ed->e", shift, curvature, precision="highest")
            change = jnp.sum(shift * (slope + 0.5 * bend))
            log_prior = self.posterior.log_prior_unconstrained(u)
            return self.gamma * change - (log_prior - reference.log_prior)

        return potential
