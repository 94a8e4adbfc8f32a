"""Step size, steps and gamma of a private Langevin run at a privacy target, from public facts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import digamma

from gibbs_dp._extras import require
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.chain import (
    ChainConstants,
    chain_constants,
    chain_guarantee,
    last_iterate_gdp,
    set_of,
    subsampled_epsilon,
)
from gibbs_dp.privacy.constants import gradients_at_zero
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.routes import GaussianDP, epsilon_at, gdp_at, meaningful_epsilon
from gibbs_dp.results.table import block
from gibbs_dp.sampling.kernels import SGLD, ULA
from gibbs_dp.sampling.kernels.gradients import ClipBy
from gibbs_dp.sampling.unadjusted import in_theta, project, require_langevin, theta_prior_gradient

# How far the last iterate of a Langevin chain may be from the best small parameter: bounds.

EULER = 0.5772156649015329


class Accounts(NamedTuple):
    """What the default inaccuracy needs besides the chain's constants."""

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


Accuracy = Callable[[ULA, float], float]


@dataclass(frozen=True)
class ChainCalibration:
    """Settings of a private run; ``inaccuracy`` is None where nothing is known of it."""

    kernel: ULA | SGLD
    gamma: float
    inaccuracy: float | None
    guarantee: Guarantee

    def __repr__(self) -> str:
        return f"ChainCalibration({self._head()}, {self.guarantee!r})"

    def _repr_html_(self) -> str:
        return block(self._head(), self.guarantee._repr_html_())

    def _head(self) -> str:
        known = "" if self.inaccuracy is None else f", inaccuracy {self.inaccuracy:.4g}"
        return f"gamma={self.gamma:.10g}, {self.kernel!r}{known}"


def calibrate_chain(
    posterior: GibbsPosterior,
    *,
    epsilon: float,
    delta: float,
    n: int,
    adjacency: Adjacency,
    domain: Domain,
    clip: float | None = None,
    max_steps: int = 1000,
    radius: float | None = None,
    accuracy: Accuracy | None = None,
) -> ChainCalibration:
    """Find the most accurate ULA run among those that are ``(epsilon, delta)``-DP.

    For every number of steps (powers of two) and step size, the largest gamma that the last
    iterate's Gaussian DP allows; then the settings of least inaccuracy. On a box or a ball steps
    are projected, and a loss that is only convex will do.

    Parameters
    ----------
    posterior, n, adjacency, domain
        As in `gibbs_dp.privacy.chain_guarantee`.
    epsilon, delta
        Target, ``epsilon > 0`` and ``delta`` in ``(0, 1)``.
    clip
        Per-example clip. The default inaccuracy is a bound for gradients that it never cuts.
    max_steps
        Most steps.
    radius
        Norm of the parameters that the bound compares with; by default 1, or that of all
        parameters where the prior is on a box or a ball.
    accuracy
        ``(kernel, gamma) -> number``, smaller is better: measured on public data or a simulated
        population, never on the private data. By default a bound on the excess loss, for a worst
        case of data: `excess_loss_bound`, `projected_excess_loss_bound`.

    Returns
    -------
    ChainCalibration
        Kernel, gamma and the guarantee of one run.

    Raises
    ------
    ValueError
        If the problem is not strongly convex and smooth (convex and smooth, on a box or a ball),
        naming the constant that is missing.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), 1.0))
    >>> found = calibrate_chain(p, epsilon=1.0, delta=1e-6, n=100, adjacency="replace-one",
    ...                         domain=gdp.Domain(x_bound=1.0))
    >>> round(found.guarantee.epsilon, 6)
    1.0
    """
    meaningful_epsilon(epsilon)
    checks.unit_interval("delta", delta, open_left=True)
    checks.count("max_steps", max_steps)
    if radius is not None:
        checks.positive("radius", radius)
    require_langevin(posterior)
    diameter = set_of(posterior)
    mu = _largest_mu(epsilon, delta)

    def constants(gamma: float) -> ChainConstants:
        return chain_constants(
            posterior, gamma=gamma, clip=clip, n=n, adjacency=adjacency, domain=domain
        )

    _require_theorem(constants(1.0), diameter)
    radius = _radius(posterior, radius)
    measure = _default_accuracy(posterior, constants, n, domain, clip, radius)
    if accuracy is not None:
        measure = accuracy
    # Steps are a share of 1 / M. On a set, none above its own size squared is of use, and what
    # is known of the excess ends at 1; elsewhere the contraction gets worse again beyond 1.
    floor = 0.0 if diameter is None else radius**-2
    highest = 1.9 if diameter is None else 0.99

    def settings(num_steps: int, log_reach: float) -> tuple[float, ULA, float]:
        reach = math.exp(log_reach)
        gamma, step_size = _largest_gamma(constants, mu, num_steps, reach, diameter, floor)
        kernel = ULA(step_size, num_steps, clip)
        return measure(kernel, gamma), kernel, gamma

    best: tuple[float, ULA, float] | None = None
    num_steps = 1
    while num_steps <= max_steps:
        found = minimize_scalar(
            lambda x, k=num_steps: settings(k, x)[0],
            bounds=(math.log(1e-4), math.log(highest)),
            method="bounded",
            options={"xatol": 1e-3},
        )
        candidate = settings(num_steps, float(found.x))
        if best is None or candidate[0] < best[0]:
            best = candidate
        num_steps *= 2
    assert best is not None
    inaccuracy, kernel, gamma = best
    guarantee = chain_guarantee(
        posterior, kernel, gamma=gamma, n=n, adjacency=adjacency, domain=domain, delta=delta
    )
    if guarantee.epsilon <= epsilon:  # below by rounding; the target itself holds too
        guarantee = replace(guarantee, epsilon=epsilon)
    return ChainCalibration(kernel, gamma, inaccuracy, guarantee)


def _largest_mu(epsilon: float, delta: float) -> float:
    """``mu`` of Gaussian DP that is exactly ``(epsilon, delta)``-DP, from below."""
    mu = gdp_at(epsilon, delta)
    while epsilon_at(GaussianDP(mu), delta, 1) > epsilon:
        mu *= 1 - 1e-12
    return mu


def has_last_iterate_theorem(
    posterior: GibbsPosterior, *, n: int, adjacency: Adjacency, domain: Domain
) -> bool:
    """Tell whether the potential of a chain without a clip is one that `calibrate_chain` covers."""
    found = chain_constants(
        posterior, gamma=1.0, clip=None, n=n, adjacency=adjacency, domain=domain
    )
    return _lacking(found, set_of(posterior)) is None


def _lacking(found: ChainConstants, diameter: float | None) -> str | None:
    """Say what a potential lacks; None where a theorem covers it."""
    is_smooth, convexity = math.isfinite(found.smoothness), found.strong_convexity
    if diameter is not None and math.isfinite(diameter):
        if convexity >= 0 and is_smooth:
            return None
        return (
            "posterior: the chain's potential is not known to be convex and smooth; use a convex "
            "loss with a finite smoothness constant on the domain, and a flat, uniform, Gaussian "
            "or truncated Gaussian prior, or calibrate_minibatch_chain."
        )
    if convexity > 0 and is_smooth:
        return None
    return (
        "posterior: the chain's potential is not known to be strongly convex and smooth; use a "
        "Gaussian prior and a convex loss with a finite smoothness constant on the domain, or "
        "calibrate_minibatch_chain."
    )


def _require_theorem(found: ChainConstants, diameter: float | None) -> None:
    lacking = _lacking(found, diameter)
    if lacking is not None:
        raise ValueError(lacking)
    if math.isinf(found.gradient_sensitivity):
        raise ValueError(
            "clip: the gradients of the loss are not bounded on the domain; give clip=... or a "
            "domain on which the loss is Lipschitz."
        )


def _largest_gamma(
    constants: Callable[[float], ChainConstants],
    mu: float,
    num_steps: int,
    reach: float,
    diameter: float | None,
    floor: float,
) -> tuple[float, float]:
    """Gamma, and the step size ``reach / max(M, floor)``, of a last iterate with this ``mu``."""

    def excess(log_gamma: float) -> float:
        gamma = math.exp(log_gamma)
        found = constants(gamma)
        step_size = reach / max(found.smoothness, floor)
        return math.log(last_iterate_gdp(found, num_steps, step_size, gamma, diameter) / mu)

    low, high = math.log(1e-9), math.log(1e9)
    if excess(high) < 0:
        raise ValueError("epsilon: every gamma meets it; lower it.")
    log_gamma = float(brentq(excess, low, high, xtol=1e-13, rtol=1e-13))
    while excess(log_gamma) > 0:
        log_gamma -= 1e-12
    gamma = math.exp(log_gamma)
    return gamma, reach / max(constants(gamma).smoothness, floor)


def _radius(posterior: GibbsPosterior, radius: float | None) -> float:
    """Norm of the parameters to compare with: no more than the prior's support has."""
    farthest = posterior.prior.l2_bound()
    if radius is None:
        return farthest if math.isfinite(farthest) else 1.0
    return radius if posterior.prior.is_euclidean else min(radius, farthest)


def _default_accuracy(
    posterior: GibbsPosterior,
    constants: Callable[[float], ChainConstants],
    n: int,
    domain: Domain,
    clip: float | None,
    radius: float,
) -> Accuracy:
    if not posterior.prior.is_euclidean:
        cost = prior_cost_bound(posterior, radius)
        return lambda kernel, gamma: projected_excess_loss_bound(
            constants(gamma),
            kernel,
            gamma,
            n=n,
            dim=in_theta(posterior).dim,
            radius=radius,
            prior_cost=cost,
        )
    reach, pull = gradients_at_zero(posterior, domain)
    low, high = posterior.prior.curvature()
    accounts = Accounts(
        n=n,
        dim=posterior.dim,
        lipschitz=reach if clip is None else min(reach, clip),
        prior_pull=pull,
        prior_precision=high,
        prior_offset=pull / low if pull > 0 else 0.0,
        radius=radius,
    )
    return lambda kernel, gamma: excess_loss_bound(constants(gamma), kernel, gamma, accounts)


# A chain on minibatches, for networks: the accountant asks for no more than a clip.

MOST_ROWS, LARGEST_RATE, NUM_EPOCHS = 256, 0.1, 30
# Of the prior's scale: what the noise of a whole run, without any data, moves a parameter by.
SHARE_OF_SCALE = 0.5
# Noise multipliers, of which no run has less; the step between their logarithms, to which what a
# budget needs is found; and the largest, beyond which no budget has any use.
LEAST_NOISE, LOG_NOISE_STEP, MOST_LOG_NOISE = 0.3, 1e-4, 20.0


def calibrate_minibatch_chain(
    posterior: GibbsPosterior,
    *,
    epsilon: float,
    delta: float,
    n: int,
    adjacency: Adjacency,
    sampling_rate: float | None = None,
    num_steps: int | None = None,
    clip: float = 1.0,
    clip_by: ClipBy = "example",
    step_size: float | None = None,
) -> ChainCalibration:
    """Choose an SGLD run that is ``(epsilon, delta)``-DP, by a rule that asks for no data.

    For networks, and for any other loss: nothing but the clip bounds what an example does. With
    ``K`` steps at rate ``q`` the accountant gives the noise multiplier ``sigma`` that spends the
    budget (0.3 where less would do); the step size is ``h = s^2 / 8K`` with ``s`` the prior's
    (smallest) scale, so that the noise of the whole run, ``sqrt(2 h K)`` a parameter, is half of
    what the prior allows; and ``gamma = q sqrt(2 / h) / (clip sigma)`` makes the chain's own noise
    that of the accountant. As DP-SGD that is a learning rate of ``h gamma n`` on the mean gradient.

    The rule is no theorem; the page of benchmarks has it beside DP-SGD and steps that are chosen in
    hindsight. Choose settings of your own on public data, never on the private ones.

    Parameters
    ----------
    posterior
        A per-example loss and a prior on all of Euclidean space, a box or a ball.
    epsilon, delta
        Target, ``epsilon > 0`` and ``delta`` in ``(0, 1)``, of all states of the run together.
    n
        Number of examples; under add/remove, the most that there may be.
    adjacency
        Which datasets count as neighbours.
    sampling_rate
        Probability of an example to be in a step's minibatch. By default 0.1, or less, so that
        some 256 of ``n`` are.
    num_steps
        Steps of the run. By default as many as look at every example 30 times.
    clip, clip_by
        As in `gibbs_dp.SGLD`; 1 as in De et al. (2022). Gradients that are all longer make a chain
        in which the clip cancels.
    step_size
        ``h``, in place of the rule's.

    Returns
    -------
    ChainCalibration
        Kernel, gamma and the guarantee of one run, for ``ChainDraw(kernel, gamma, thinning)``.

    Raises
    ------
    ValueError
        If a setting is out of range, or the prior has no scale and ``step_size`` is not given.

    Examples
    --------
    >>> import numpyro.distributions as dist, gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(lambda w, z: jnp.tanh(w) * z, dist.Normal(0.0, 1.0))
    >>> found = calibrate_minibatch_chain(p, epsilon=3.0, delta=1e-5, n=1000,
    ...                                   adjacency="add-remove")
    >>> found.kernel.sampling_rate, found.kernel.num_steps, found.kernel.step_size
    (0.1, 300, 0.0004166666666666667)
    >>> 2.99 < found.guarantee.epsilon <= 3.0
    True
    """
    meaningful_epsilon(epsilon)
    checks.unit_interval("delta", delta, open_left=True)
    checks.count("n", n)
    checks.positive("clip", clip)
    require_langevin(posterior)
    checks.adjacency(adjacency)
    rate = min(LARGEST_RATE, MOST_ROWS / n) if sampling_rate is None else sampling_rate
    checks.positive("sampling_rate", rate)
    steps = math.ceil(NUM_EPOCHS / rate) if num_steps is None else num_steps
    size = _step_by_scale(posterior, steps) if step_size is None else step_size
    kernel = SGLD(size, steps, clip, sampling_rate=rate, clip_by=clip_by)
    noise = _least_noise(rate, kernel.plain_form().num_steps, epsilon, delta, adjacency)
    gamma = rate * math.sqrt(2 / size) / (clip * noise)
    guarantee = chain_guarantee(
        posterior, kernel, gamma=gamma, n=n, adjacency=adjacency, domain=None, delta=delta
    )
    return ChainCalibration(kernel, gamma, None, guarantee)


def _step_by_scale(posterior: GibbsPosterior, num_steps: int) -> float:
    """Return the rule's step size for a run of this length."""
    precision = posterior.prior.curvature()[1]
    if not 0 < precision < math.inf:
        raise ValueError(
            "step_size: the rule takes it from the scale of a Gaussian prior, and this prior has "
            "none; give step_size, or a prior such as gibbs_dp.priors.normal_like(params)."
        )
    return SHARE_OF_SCALE**2 / (2 * precision * checks.count("num_steps", num_steps))


def _least_noise(
    rate: float, num_steps: int, epsilon: float, delta: float, adjacency: Adjacency
) -> float:
    """Smallest noise multiplier that spends no more than ``epsilon``, to a ten-thousandth."""
    require("dp_accounting")

    def excess(log_noise: float) -> float:
        try:
            spent = subsampled_epsilon(
                math.exp(log_noise), rate, num_steps=num_steps, delta=delta, adjacency=adjacency
            )
        except ValueError:  # more than the accountant counts
            return MOST_LOG_NOISE
        return math.log(max(spent, 1e-300) / epsilon)

    # Where a Gaussian mechanism of this total, without its rare steps, would be.
    high = math.log(max(rate * math.sqrt(2 * num_steps * math.log(1 / delta)) / epsilon, 0.5))
    while excess(high) > 0:
        high += 0.5
        if high > MOST_LOG_NOISE:
            raise ValueError(
                f"epsilon: no noise spends as little as {epsilon:g} in {num_steps:,} steps, as far "
                "as the accountant can tell; raise epsilon or lower num_steps."
            )
    least = math.log(LEAST_NOISE)
    low = max(high - 0.25, least)
    while excess(low) <= 0:
        if low == least:
            return LEAST_NOISE
        low, high = max(low - 0.25, least), low
    found = float(brentq(excess, low, high, xtol=LOG_NOISE_STEP, rtol=1e-12))
    while excess(found) > 0:
        found += LOG_NOISE_STEP
    return math.exp(found)
