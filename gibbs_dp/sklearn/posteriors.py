"""Plans that draw from the posterior of a loss on a ball or under a Gaussian prior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from gibbs_dp.model import losses, priors, supports
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat
from gibbs_dp.privacy.chain_calibration import calibrate_chain
from gibbs_dp.privacy.noise import Noise, SecretNoise, secret_key
from gibbs_dp.privacy.releases.arguments import without_checks
from gibbs_dp.privacy.releases.proven_draws import plan_proven
from gibbs_dp.sampling.langevin_run import run_langevin
from gibbs_dp.sampling.rejection import draw_by_rejection
from gibbs_dp.sklearn.chains import Target as Potential
from gibbs_dp.sklearn.chains import draw_posterior
from gibbs_dp.sklearn.charts import BallChart, Chart, GaussianChart
from gibbs_dp.sklearn.plan import SECRET, UNPROTECTED, Facts, Plan
from gibbs_dp.sklearn.potentials import TotalLoss

# Draws are rounded to multiples of its inverse.
COARSENESS = 2.0**24

Thetas = Float[np.ndarray, "draws dim"]


class FlatSoftmax(losses.SoftmaxCrossEntropy):
    """Softmax cross-entropy whose matrix of parameters is one vector, for a ball around all.

    >>> loss = FlatSoftmax(3)
    >>> round(float(loss.batch(jnp.zeros(6), (jnp.ones((1, 2)), jnp.zeros(1)))[0]), 6)    # log 3
    1.098612
    """

    def batch(self, theta: Float[Array, " dim"], data: Any) -> Float[Array, " n"]:
        """Losses of ``(x [n, d], y [n])``."""
        return super().batch(theta.reshape(-1, self.num_classes), data)


def prior_on(dim: int, radius: float | None, scale: float | None) -> tuple[Any, Chart, str]:
    """Make a prior, the coordinates that fit it, and its name in words.

    Parameters
    ----------
    dim
        Number of parameters.
    radius
        Of the ball that it is confined to; None for all of space.
    scale
        Standard deviation of a Gaussian; None for a flat law.

    Returns
    -------
    tuple
        For `gibbs_dp.GibbsPosterior`, for chains, and for people.

    Examples
    --------
    >>> prior_on(2, 3.0, None)[2]
    'flat prior on a ball of radius 3'
    """
    if radius is None:
        assert scale is not None
        normal = dist.Normal(jnp.zeros(dim), scale).to_event(1)
        return normal, GaussianChart(scale), f"Gaussian prior of standard deviation {scale:.4g}"
    on = f"on a ball of radius {radius:.4g}"
    if scale is None:
        return Flat(supports.l2_ball(dim, radius)), BallChart(radius), f"flat prior {on}"
    return (
        priors.normal_in_ball(dim, radius=radius, scale=scale),
        BallChart(radius, precision=scale**-2),
        f"Gaussian prior of standard deviation {scale:.4g} {on}",
    )


def plan_posterior(
    facts: Facts, loss: Loss, domain: Domain, radius: float | None, scale: float | None
) -> Plan:
    """Draw from the posterior by chains that count as exact.

    Parameters
    ----------
    facts
        What is public.
    loss, domain
        Of the model, with features of norm at most 1.
    radius, scale
        The prior, as in `prior_on`.

    Returns
    -------
    Plan
        For any number of rows and features; its draws are a Markov chain's.
    """
    prior, chart, words = prior_on(facts.dim, radius, scale)
    posterior = GibbsPosterior(loss, prior)
    found = facts.calibrate(posterior, domain)

    def draw(x: np.ndarray, y: np.ndarray, noise: Noise) -> Thetas | None:
        total = TotalLoss(loss, found.gamma, x, y)
        drawn = draw_posterior(Potential(total, chart), facts.num_draws, noise)
        # The last bits of a draw would tell of its arithmetic.
        return None if drawn is None else np.rint(drawn * COARSENESS) / COARSENESS

    caveats = (*found.guarantee.caveats, SECRET, UNPROTECTED)
    return Plan(
        "posterior",
        f"{type(loss).__name__.lower()} loss, {words}; drawn by Hamiltonian Monte Carlo",
        posterior,
        domain,
        replace(found.guarantee, caveats=caveats),
        draw,
    )


def plan_chain(facts: Facts, loss: Loss, domain: Domain, scale: float) -> Plan:
    """Run one Langevin chain whose own guarantee holds, converged or not.

    Parameters
    ----------
    facts, loss, domain
        As in `plan_posterior`; one draw, and ``delta`` above 0.
    scale
        Standard deviation of the Gaussian prior.

    Returns
    -------
    Plan
        With nothing idealized but the arithmetic.
    """
    prior, _, words = prior_on(facts.dim, None, scale)
    posterior = GibbsPosterior(loss, prior)
    found = calibrate_chain(
        posterior,
        epsilon=facts.epsilon,
        delta=facts.delta,
        n=facts.n,
        adjacency=facts.adjacency,
        domain=domain,
    )

    def draw(x: np.ndarray, y: np.ndarray, noise: Noise) -> Thetas | None:
        flat = run_langevin(
            without_checks(posterior),
            (jnp.asarray(x), jnp.asarray(y)),
            gamma=found.gamma,
            kernel=found.kernel,
            key=_key(noise),
        )
        return np.asarray(flat, np.float64)

    return Plan(
        "chain",
        f"{type(loss).__name__.lower()} loss, {words}; the last of "
        f"{found.kernel.plain_form().num_steps} Langevin steps",
        posterior,
        domain,
        found.guarantee,
        draw,
    )


def plan_rejection(facts: Facts, loss: Loss, domain: Domain, scale: float) -> Plan:
    """Draw by rejection, within a proven total variation of the posterior.

    Parameters are those of `plan_chain`; several draws are possible.

    Returns
    -------
    Plan
        With nothing idealized but the arithmetic.

    Raises
    ------
    ValueError
        If it would take too many tries: for few parameters and moderate epsilon only.
    """
    prior, _, words = prior_on(facts.dim, None, scale)
    posterior = GibbsPosterior(loss, prior)
    guarantee, plan = plan_proven(
        posterior,
        epsilon=facts.epsilon,
        delta=facts.delta,
        n=facts.n,
        adjacency=facts.adjacency,
        domain=domain,
        num_draws=facts.num_draws,
    )

    def draw(x: np.ndarray, y: np.ndarray, noise: Noise) -> Thetas | None:
        data = (jnp.asarray(x, jnp.zeros(()).dtype), jnp.asarray(y, jnp.zeros(()).dtype))
        found = [
            draw_by_rejection(
                without_checks(posterior),
                data,
                jnp.asarray(guarantee.gamma),
                jnp.asarray(plan.strong_convexity),
                jnp.asarray(plan.smoothness),
                key,
                num_steps=plan.num_steps,
                num_tries=plan.num_tries,
            )
            for key in jax.random.split(_key(noise), facts.num_draws)
        ]
        return np.asarray(jnp.stack(found), np.float64)

    return Plan(
        "rejection",
        f"{type(loss).__name__.lower()} loss, {words}; drawn by rejection, {plan.num_tries} tries",
        posterior,
        domain,
        guarantee,
        draw,
    )


def _key(noise: Noise) -> Any:
    if isinstance(noise, SecretNoise):
        return secret_key()
    return jax.random.key(int(noise.random(1)[0] * 2**31))
