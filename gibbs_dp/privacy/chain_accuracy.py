"""How far the last iterate of a Langevin chain may be from the best small parameter: bounds."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import digamma

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.projection import in_theta, project
from gibbs_dp.privacy.chain import ChainConstants
from gibbs_dp.sampling.kernels import ULA
from gibbs_dp.sampling.langevin_run import theta_prior_gradient

EULER = 0.5772156649015329


class Accounts(NamedTuple):
    """What the default inaccuracy needs besides the chain's constants.

    Attributes
    ----------
    n, dim
        Examples and parameters.
    lipschitz
        Largest gradient of one example at zero.
    prior_pull
        Norm of the gradient of ``-log prior`` at zero.
    prior_precision
        Largest curvature of ``-log prior``.
    prior_offset
        Largest distance of the prior's mode from zero.
    radius
        Norm of the parameters that the run is compared with.
    """

    n: int
    dim: int
    lipschitz: float
    prior_pull: float
    prior_precision: float
    prior_offset: float
    radius: float


def excess_loss_bound(
    found: ChainConstants, kernel: ULA, gamma: float, accounts: Accounts
) -> float:
    """Bound the expected excess of the last iterate's mean loss over that of any small parameter.

    Small is a norm up to ``accounts.radius``. With ``theta*`` the mode, a gradient step is a
    contraction by ``c`` towards it, so ``E |theta_K - theta*|^2 <= c^{2K} D^2 + 2 h d (1 - c^{2K})
    / (1 - c^2)`` from a start at zero, ``D = |grad U(0)| / m``; smoothness turns that into a loss,
    and the prior's pull away from the other parameter costs ``precision (radius + offset)^2 / 2``.
    A worst case over data: rarely near the truth, but free of the data and explicit.

    Parameters
    ----------
    found, kernel, gamma
        The run, at that gamma; gradients must not be cut by the clip.
    accounts
        The rest.

    Returns
    -------
    float
        Bound on the excess loss of one example.
    """
    form = kernel.plain_form()
    h, m, a = form.step_size, found.strong_convexity, accounts
    c2 = max(abs(1 - h * m), abs(1 - h * found.smoothness)) ** 2
    decay = c2**form.num_steps
    start = (gamma * a.n * a.lipschitz + a.prior_pull) / m
    spread = decay * start**2 + 2 * h * a.dim * (1 - decay) / (1 - c2)
    prior = a.prior_precision * (a.radius + a.prior_offset) ** 2
    return (found.smoothness * spread + prior) / (2 * a.n * gamma)


def projected_excess_loss_bound(
    found: ChainConstants,
    kernel: ULA,
    gamma: float,
    *,
    n: int,
    dim: int,
    radius: float,
    prior_cost: float,
) -> float:
    """Bound the expected excess of a projected chain's mean loss over that of any small parameter.

    Small is a norm up to ``radius``, in the set. For convex ``U`` and ``h M < 1`` a step from ``x``
    to ``x'`` has ``E U(x') - U(u) <= (|x - u|^2 - E |x' - u|^2) / 2h + v``, ``v = d / (1 - h M)``,
    whatever point ``u`` of the set. Over the last ``k`` of ``K`` steps this bounds their mean
    against the iterate before them; added up with weights ``1 / k (k + 1)`` (Shamir & Zhang 2013),
    ``E U(theta_K) - U(u) <= radius^2 / (2 h K) + v (1 + 1/2 + .. + 1/K)``, of which the prior gives
    back at most ``prior_cost``.

    Parameters
    ----------
    found, kernel, gamma
        The run, at that gamma, from the point of the set nearest to zero; gradients must not be cut
        by the clip.
    n, dim
        Examples and parameters.
    radius
        Norm of the parameters that the run is compared with.
    prior_cost
        How much more of ``-log prior`` such a parameter may have than the least in the set.

    Returns
    -------
    float
        Bound on the excess loss of one example; infinite from ``h = 1 / M``.
    """
    form = kernel.plain_form()
    slack = 1 - form.step_size * found.smoothness
    if not slack > 0:
        return math.inf
    harmonic = float(digamma(form.num_steps + 1.0)) + EULER
    start = radius**2 / (2 * form.step_size * form.num_steps)
    return (start + harmonic * dim / slack + prior_cost) / (n * gamma)


def prior_cost_bound(posterior: GibbsPosterior, radius: float) -> float:
    """Bound how much more of ``-log prior`` a parameter of this norm has than the least there is.

    From the gradient at the point of the set nearest to zero, and the prior's curvature.

    >>> import gibbs_dp as gdp
    >>> prior_cost_bound(gdp.GibbsPosterior(
    ...     gdp.losses.logistic, gdp.priors.normal_in_ball(2, radius=3.0, scale=1.0)), 3.0)
    4.5
    """
    start = project(posterior.prior, jnp.zeros(in_theta(posterior).dim))
    gradient = np.asarray(theta_prior_gradient(posterior)(start), np.float64)
    pull, (low, high) = float(np.linalg.norm(gradient)), posterior.prior.curvature()
    if pull == high == 0:
        return 0.0
    wide = (pull + high * radius) * posterior.prior.diameter()
    return min(wide, high * (radius + pull / low) ** 2 / 2) if low > 0 else wide
