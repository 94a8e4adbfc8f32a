"""The mechanisms of linear models: from public facts to a plan that draws."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int

from gibbs_dp.model import losses, supports
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat, normal_in_ball
from gibbs_dp.privacy.chain_calibration import calibrate_chain
from gibbs_dp.privacy.noise import (
    FINENESS,
    ROOM,
    Noise,
    SecretNoise,
    euclidean_noise,
    gaussian_release,
    on_lattice,
    secret_key,
)
from gibbs_dp.privacy.releases.arguments import without_checks
from gibbs_dp.privacy.releases.method import ReleaseRequest
from gibbs_dp.privacy.releases.proven import MAX_WORK, ProvenDraw
from gibbs_dp.privacy.releases.rejection import draw_by_rejection, plan_by_rejection
from gibbs_dp.sampling.unadjusted import run_langevin
from gibbs_dp.sklearn.chains import (
    BallChart,
    Chart,
    GaussianChart,
    Target,
    TotalLoss,
    draw_posterior,
)
from gibbs_dp.sklearn.plan import SECRET, UNPROTECTED, Choice, Facts, Plan, direct, repeated

# Of a model whose parameters are one vector.
ModelLoss = losses.LinearLoss | losses.SoftmaxCrossEntropy

# Linear losses: the sum of label times features, with exact noise.
#
# The posterior of ``-y x·theta`` under a Gaussian prior is a Gaussian around that sum, and that of
# ``|theta - sum of y x|`` under a flat one is the sum plus noise whose length has a Gamma law. Both
# are drawn exactly; no chain runs. Where rows are few for their privacy, they are the most
# accurate.

Features = Float[np.ndarray, "rows features"]
Labels = Float[np.ndarray, " rows"]

# Standard deviation of the Gaussian prior; features have norm at most 1.
SCALE = 1.0


def coded_sum(x: Features, y: Labels, num_outputs: int) -> Int[np.ndarray, " dim"]:
    """Sum of features times coded label, one column an output, flattened, in lattice steps."""
    if num_outputs == 1:
        return on_lattice(y[:, None] * x).sum(axis=0)
    code = (np.arange(num_outputs) == y[:, None]) - 1 / num_outputs
    columns = [on_lattice(c[:, None] * x).sum(axis=0) for c in code.T]
    return np.stack(columns, axis=1).reshape(-1)


def norm_of_a_row(num_outputs: int, y_bound: float) -> float:
    """Largest norm of one row's part of the sum.

    >>> norm_of_a_row(1, 0.5), norm_of_a_row(4, 0.5)
    (0.5, 0.8660254037844386)
    """
    return y_bound if num_outputs == 1 else float(np.sqrt(1 - 1 / num_outputs))


def plan_gaussian(facts: Facts, y_range: tuple[float, float]) -> Plan:
    """Gaussian noise on the sum: ``(epsilon, delta)``, exactly drawn."""
    middle, y_bound = 0.5 * (y_range[0] + y_range[1]), 0.5 * (y_range[1] - y_range[0])
    reach = norm_of_a_row(facts.num_outputs, y_bound)
    prior = dist.Normal(jnp.zeros(facts.dim), SCALE).to_event(1)
    num_outputs = facts.num_outputs
    loss: losses.Loss = losses.linear
    domain = Domain(x_bound=1.0, y_range=(-y_bound, y_bound))
    if num_outputs > 1:
        domain = Domain(x_bound=1.0, y_range=(0.0, num_outputs - 1.0))

        def coded(theta: Float[Array, " dim"], z: Any) -> Array:
            code = (jnp.arange(num_outputs) == z[1]) - 1 / num_outputs
            return -(z[0] @ theta.reshape(len(z[0]), -1)) @ code

        loss = losses.Declared(coded, lipschitz=reach, smoothness=0.0, strong_convexity=0.0)
    posterior = GibbsPosterior(loss, prior)
    found = facts.calibrate(posterior, domain)
    gamma = found.gamma

    def one(x: Features, y: Labels, noise: Noise) -> Float[np.ndarray, " dim"]:
        total = coded_sum(x, y if num_outputs > 1 else y - middle, num_outputs)
        deviation = 1 / (gamma * SCALE)  # of the sum, so that theta has SCALE
        exact = [Fraction(int(t), FINENESS) for t in total]
        noisy = gaussian_release(exact, deviation, noise)
        return np.asarray(gamma * SCALE**2 * noisy)

    return Plan(
        "gaussian",
        f"linear loss, Gaussian prior of standard deviation {SCALE:g}; the posterior is a Gaussian "
        "around gamma times the sum of label times features, and drawn exactly",
        posterior,
        domain,
        direct(found.guarantee),
        repeated(one, facts.num_draws),
        noise_square=facts.dim * SCALE**2,
    )


def plan_direction(facts: Facts, y_range: tuple[float, float]) -> Plan:
    """Noise of uniform direction on the sum: pure DP, exactly drawn.

    The density is proportional to ``exp(-gamma |theta - sum|)`` (Hardt & Talwar 2010 with the
    Euclidean norm; Chaudhuri, Monteleoni & Sarwate 2011 perturb outputs by it).
    """
    middle, y_bound = 0.5 * (y_range[0] + y_range[1]), 0.5 * (y_range[1] - y_range[0])
    reach, num_outputs = norm_of_a_row(facts.num_outputs, y_bound), facts.num_outputs

    def distance(theta: Float[Array, " dim"], data: Any) -> Array:
        x, y = data
        if num_outputs > 1:
            code = (jnp.arange(num_outputs) == y[:, None]) - 1 / num_outputs
            return jnp.linalg.norm(theta - (x.T @ code).reshape(-1))
        return jnp.linalg.norm(theta - y @ x)

    posterior = GibbsPosterior(
        total_loss=distance,
        prior=Flat(supports.real(facts.dim)),
        sensitivity=lambda n: 2 * reach,
        location_family=True,
    )
    ends = (-y_bound, y_bound) if num_outputs == 1 else (0.0, num_outputs - 1.0)
    domain = Domain(x_bound=1.0, y_range=ends)
    found = facts.calibrate(posterior, domain)
    gamma, dim = found.gamma, facts.dim

    def one(x: Features, y: Labels, noise: Noise) -> Float[np.ndarray, " dim"]:
        total = coded_sum(x, y if num_outputs > 1 else y - middle, num_outputs)
        added = euclidean_noise(dim, FINENESS * ROOM / Fraction(gamma), noise)
        return np.array([(int(t) + e) / FINENESS for t, e in zip(total, added, strict=True)])

    return Plan(
        "direction",
        "distance from the sum of label times features as loss, flat prior; the sum plus noise of "
        "uniform direction and Gamma length, drawn exactly",
        posterior,
        domain,
        direct(found.guarantee),
        repeated(one, facts.num_draws),
        noise_square=dim * (dim + 1) / gamma**2,
    )


# The posterior of a loss on a ball or under a Gaussian prior.

# Work of proven draws that chains are left for, as `ProvenDraw.max_work`: some three seconds.
QUICK_WORK = 5e9
# Draws of chains are rounded to multiples of its inverse.
COARSENESS = 2.0**24

Thetas = Float[np.ndarray, "draws dim"]


def prior_on(dim: int, radius: float | None, scale: float | None) -> tuple[Any, Chart, str]:
    """Make a prior, the coordinates that fit it, and its name in words.

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
        normal_in_ball(dim, radius=radius, scale=scale),
        BallChart(radius, precision=scale**-2),
        f"Gaussian prior of standard deviation {scale:.4g} {on}",
    )


def plan_posterior(
    facts: Facts, loss: ModelLoss, domain: Domain, radius: float | None, scale: float | None
) -> Plan:
    """Draw by the proximal sampler if fast, else by chains, or raise if these are not accepted."""
    prior, chart, words = prior_on(facts.dim, radius, scale)
    posterior = GibbsPosterior(loss, prior)
    proven = _proven(facts, posterior, domain, f"{loss.name} loss, {words}")
    if proven is not None:
        return proven
    if facts.needs_proof:
        raise NotProvenError(
            "accept: here mechanism 'posterior' takes a chain's draws for exact ones; accept "
            "'exact-draw' (under pure DP, of few rows, 'float-arithmetic' is enough), ask for less "
            "epsilon, or use 'gaussian', 'direction', 'chain' or 'rejection'."
        )
    found = facts.calibrate(posterior, domain)

    def draw(x: np.ndarray, y: np.ndarray, noise: Noise) -> Thetas | None:
        total = TotalLoss(loss, found.gamma, x, y)
        drawn = draw_posterior(Target(total, chart), facts.num_draws, noise)
        # The last bits of a draw would tell of its arithmetic.
        return None if drawn is None else np.rint(drawn * COARSENESS) / COARSENESS

    caveats = (*found.guarantee.caveats, SECRET, UNPROTECTED)
    return Plan(
        "posterior",
        f"{loss.name} loss, {words}; drawn by Hamiltonian Monte Carlo",
        posterior,
        domain,
        replace(found.guarantee, caveats=caveats),
        draw,
    )


class NotProvenError(ValueError):
    """Draws of this posterior are taken for exact ones, and that is not accepted."""


def _proven(facts: Facts, posterior: GibbsPosterior, domain: Domain, words: str) -> Plan | None:
    """Plan draws of the proximal sampler; None where it does not apply, or would take long."""
    if facts.delta == 0 and not facts.needs_proof:
        return None
    asked = {"epsilon": facts.epsilon, "delta": facts.delta}
    request = ReleaseRequest(
        posterior,
        facts.n,
        domain,
        facts.adjacency,
        facts.num_draws,
        asked if facts.delta > 0 else {"pure_epsilon": facts.epsilon},
    )
    try:
        plan = ProvenDraw(MAX_WORK if facts.needs_proof else QUICK_WORK).plan_proximal(request)
    except ValueError:
        return None
    if plan.idealizations and facts.needs_rounding:
        return None
    how = "within a proven total variation" if facts.delta > 0 else "whose density is proven"

    def draw(x: np.ndarray, y: np.ndarray, noise: Noise) -> Thetas | None:
        return np.asarray(plan.draw(posterior, (x, y), noise))

    return Plan(
        "posterior",
        f"{words}; drawn by the proximal sampler, {how}",
        posterior,
        domain,
        plan.guarantee,
        draw,
    )


def plan_chain(facts: Facts, loss: ModelLoss, domain: Domain, scale: float) -> Plan:
    """Run one Langevin chain whose own guarantee holds, converged or not."""
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
        f"{loss.name} loss, {words}; the last of "
        f"{found.kernel.plain_form().num_steps} Langevin steps",
        posterior,
        domain,
        found.guarantee,
        draw,
    )


def plan_rejection(facts: Facts, loss: ModelLoss, domain: Domain, scale: float) -> Plan:
    """Draw by rejection, several times if asked, within a proven total variation."""
    prior, _, words = prior_on(facts.dim, None, scale)
    posterior = GibbsPosterior(loss, prior)
    guarantee, plan = plan_by_rejection(
        posterior,
        epsilon=facts.epsilon,
        delta=facts.delta,
        n=facts.n,
        adjacency=facts.adjacency,
        domain=domain,
        num_draws=facts.num_draws,
    )

    def draw(x: np.ndarray, y: np.ndarray, noise: Noise) -> Thetas | None:
        data = (jnp.asarray(x, jnp.result_type(float)), jnp.asarray(y, jnp.result_type(float)))
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
        f"{loss.name} loss, {words}; drawn by rejection, {plan.num_tries} tries",
        posterior,
        domain,
        guarantee,
        draw,
    )


def _key(noise: Noise) -> Any:
    if isinstance(noise, SecretNoise):
        return secret_key()
    return jax.random.key(int(noise.random(1)[0] * 2**31))


@lru_cache(maxsize=64)
def make_plan(facts: Facts, choice: Choice, loss: ModelLoss, y_range: tuple[float, float]) -> Plan:
    """Make the plan of a choice; plans of equal facts are one."""
    _check_choice(facts, choice)
    domain = Domain(x_bound=1.0, y_range=y_range)
    if choice.mechanism in ("gaussian", "direction"):
        plan = plan_gaussian if choice.mechanism == "gaussian" else plan_direction
        return plan(facts, y_range)
    _check_constants(facts, choice, loss, domain)
    if choice.mechanism == "posterior":
        return plan_posterior(facts, loss, domain, choice.radius, choice.scale)
    assert choice.scale is not None
    make = plan_chain if choice.mechanism == "chain" else plan_rejection
    return make(facts, loss, domain, choice.scale)


def _check_constants(facts: Facts, choice: Choice, loss: ModelLoss, domain: Domain) -> None:
    """Refuse a loss without the constants that a mechanism's proof is made of, in one sentence."""
    reach = math.inf if choice.radius is None else choice.radius
    found = loss.constants(replace(domain, theta_bound=reach))
    is_replaced = facts.adjacency == "replace-one"
    is_bounded = math.isfinite(found.exchange_range if is_replaced else found.oscillation)
    is_steep = math.isinf(found.lipschitz) or not found.strong_convexity >= 0
    if choice.mechanism == "posterior":
        is_proven = is_bounded or (facts.delta > 0 and not is_steep)
        needed = "a finite oscillation"
        if facts.delta > 0:
            needed += ", or a finite lipschitz with a strong_convexity of at least 0"
    else:
        is_proven = not is_steep and math.isfinite(found.smoothness)
        needed = "a finite lipschitz and smoothness with a strong_convexity of at least 0"
    if not is_proven:
        where = "where theta is unbounded"
        if choice.radius is not None:
            where = f"where predictions are at most {choice.radius:.4g}"
        raise ValueError(
            f"loss: mechanism {choice.mechanism!r} is proven by {needed}, and the {loss.name} loss "
            f"declares none {where}; return it from constants(domain), or use another loss."
        )


def _check_choice(facts: Facts, choice: Choice) -> None:
    """Refuse mechanisms that have no such guarantee, in one sentence."""
    name = choice.mechanism
    if facts.delta == 0 and name in ("gaussian", "chain", "rejection"):
        raise ValueError(f"delta: mechanism {name!r} needs one above 0; give delta=1e-5, say.")
    if name == "direction" and facts.adjacency != "replace-one":
        raise ValueError("mechanism: 'direction' is for replace-one neighbours; use 'posterior'.")
    if name == "chain" and facts.num_draws != 1:
        raise ValueError("num_draws: mechanism 'chain' makes one draw; use another for more.")
