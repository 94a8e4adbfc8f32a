"""Draws whose distance from the posterior is proven: rejection with a fixed number of tries.

A route to a guarantee that assumes no convergence, for strongly convex and smooth potentials. At
any point ``t`` with gradient ``g``, the quadratic with curvature ``m`` lies below the potential
and the one with curvature ``M`` above it, so proposals from ``N(t - g/m, I/m)`` are accepted with
probability at least ``a = (m/M)^{d/2} exp(-|g|^2 (1/m - 1/M) / 2)``. The first accepted of ``T``
proposals is an exact draw but for an event of probability ``(1 - a)^T``, which bounds the total
variation. Every constant is explicit and free of the data; the cost grows like ``(M/m)^{d/2}``.

Random numbers are discrete, which matters for rare proposals. Let ``q`` be the law of proposals,
``A = E_q[alpha] >= a`` their true rate, and suppose that the sampler accepts ``theta`` with
probability ``beta(theta)`` instead, ``|beta - alpha| <= r``, rate ``B = E_q[beta]``. The accepted
laws ``q alpha / A`` and ``q beta / B`` are then within total variation

    1/2 int q |alpha/A - beta/B| <= 1/2 int q |alpha - beta| / A + 1/2 |1 - B/A|
                                 <= r / A <= r / a,

and ``B >= a - r``. Where proposals themselves are wrong on an event of probability ``s``, an
accepted one is wrong with probability at most ``s / a``. Exponentials of 96 random bits
(`gibbs_dp.privacy.releases.rejection.exponentials`) have ``r = 2^-96`` in the acceptance, and
``s = ceil(d/2) 2^-96`` for the last cells of Box and Muller's radii. In all

    (1 - a + r)^T + (1 + ceil(d/2)) 2^-96 / a,

beyond which there is the rounding of floating-point numbers, which a release has to accept by
name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.precision import traced_exactly
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Target, calibrate_gamma
from gibbs_dp.privacy.constants import derive_constants, gradients_at_zero
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.routes import meaningful_epsilon
from gibbs_dp.sampling.kernels.gradients import example_gradients, prior_gradient

# Proposals that may be made for one draw; beyond that another method is better.
MAX_TRIES = 2_000_000
# Gradient left at the proposal's centre, in units of sqrt(m): it costs little acceptance.
CENTRING = 0.1


@dataclass(frozen=True)
class RejectionPlan:
    """How many steps and tries prove a total variation; free of the data."""

    strong_convexity: float
    smoothness: float
    num_steps: int
    acceptance: float
    num_tries: int
    total_variation: float


def plan_rejection(
    *,
    strong_convexity: float,
    smoothness: float,
    first_gradient: float,
    dim: int,
    total_variation: float,
) -> RejectionPlan:
    """Choose steps and tries for a total variation.

    Gradient descent with step ``2 / (m + M)`` shrinks the distance to the mode by
    ``(M - m) / (M + m)``, so after ``k`` steps from zero ``|g| <= (M/m) |g_0| q^k``.

    >>> plan = plan_rejection(strong_convexity=1.0, smoothness=4.0, first_gradient=10.0, dim=2,
    ...                       total_variation=1e-9)
    >>> plan.num_tries, plan.total_variation <= 1e-9
    (73, True)
    """
    m = checks.positive("strong_convexity", strong_convexity)
    big = max(checks.positive("smoothness", smoothness), m)
    tau = checks.unit_interval("total_variation", total_variation, open_left=True)
    q = (big - m) / (big + m)
    goal = CENTRING * math.sqrt(m)
    start = big / m * first_gradient
    num_steps = 1
    if q > 0 and start > goal:
        num_steps = 1 + math.ceil(math.log(start / goal) / -math.log(q))
    gradient = start * q**num_steps
    log_rate = 0.5 * checks.count("dim", dim) * math.log(m / big)
    rate = math.exp(log_rate - 0.5 * gradient**2 * (1 / m - 1 / big)) * (1 - 1e-6)
    log_miss = math.log1p(RESOLUTION - rate)
    if not -math.log(tau) <= -log_miss * MAX_TRIES:
        raise ValueError(
            f"epsilon: a proven draw would take {-math.log(tau) / max(rate, 1e-300):.2g} "
            f"proposals, as M/m = {big / m:.3g} in {dim} dimensions; lower epsilon, raise the "
            "prior's precision, or release a chain."
        )
    coarse = (1 + (dim + 1) // 2) * RESOLUTION / rate
    if coarse > 0.5 * tau:
        raise ValueError(
            f"delta: the resolution of the noise alone is a total variation of {coarse:.2g}, and "
            f"{tau:.2g} is asked for; raise delta or lower epsilon."
        )
    tries = math.ceil(math.log(tau - coarse) / log_miss)
    bound = math.exp(tries * log_miss) + coarse
    return RejectionPlan(m, big, num_steps, rate, tries, min(bound, tau))


# Share of delta that the proven total variation may take.
TAIL_SHARE = 0.01


def plan_by_rejection(
    posterior: GibbsPosterior,
    *,
    epsilon: float,
    delta: float,
    n: int,
    adjacency: Adjacency,
    domain: Domain,
    num_draws: int,
) -> tuple[Guarantee, RejectionPlan]:
    """Split ``delta``, calibrate gamma to the larger part and the tries to the smaller."""
    target = Target(epsilon=epsilon, delta=delta)
    checks.count("num_draws", num_draws)
    meaningful_epsilon(epsilon)
    tau = TAIL_SHARE * delta / ((1 + np.exp(epsilon)) * num_draws)
    found = calibrate_gamma(
        posterior,
        replace(target, delta=(1 - TAIL_SHARE) * delta),
        n=n,
        adjacency=adjacency,
        domain=domain,
        num_draws=num_draws,
    )
    constants = derive_constants(posterior, n=n, adjacency=adjacency, domain=domain)
    m, big = constants.strong_convexity(found.gamma), constants.smoothness(found.gamma)
    lipschitz, pull = gradients_at_zero(posterior, domain)
    if not (m > 0 and np.isfinite(big) and np.isfinite(lipschitz)):
        raise ValueError(
            "posterior: a proven draw needs a strongly convex and smooth potential; use a convex "
            "loss with finite smoothness on the domain and a Gaussian prior."
        )
    plan = plan_rejection(
        strong_convexity=m,
        smoothness=big,
        first_gradient=found.gamma * n * lipschitz + pull,
        dim=posterior.dim,
        total_variation=float(tau),
    )
    inner = found.guarantee.within_total_variation(plan.total_variation)
    text = (
        f"proven: {plan.num_tries} proposals, each accepted with probability at least "
        f"{plan.acceptance:.4g}, are within total variation {plan.total_variation:.3g}"
    )
    guarantee = replace(
        inner, mechanism="proven draw", delta=delta, assumptions=(*inner.assumptions[:-1], text)
    )
    return guarantee, plan


CHUNK = 512
# Of the uniform numbers behind exponentials: 96 random bits, and never 0.
RESOLUTION = 2.0**-96


def exponentials(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any = None
) -> Float[Array, "*shape"]:
    """Draw standard exponentials ``-log u``, with ``u`` the middle of one of ``2^96`` equal cells.

    They reach 67, and are those of a continuous ``u`` but for rounding and for the last cell:
    ``P[u < a]`` differs from ``a`` by at most `RESOLUTION`.
    """
    words = jax.random.bits(key, (3, *shape), jnp.uint32).astype(jnp.zeros((), dtype).dtype)
    low = (words[2] + 0.5) * 2.0**-32
    return -jnp.log((words[0] + (words[1] + low) * 2.0**-32) * 2.0**-32)


def normals(key: PRNGKeyArray, shape: tuple[int, int], dtype: Any = None) -> Float[Array, "n d"]:
    """Draw normals to 11.6 by Box & Muller (1958); JAX's end at 5.4 in single precision."""
    count, dim = shape
    half = (dim + 1) // 2
    radius_key, angle_key = jax.random.split(key)
    radius = jnp.sqrt(2.0 * exponentials(radius_key, (count, half), dtype))
    angle = 2.0 * jnp.pi * jax.random.uniform(angle_key, (count, half), radius.dtype)
    pairs = jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1)
    return pairs[:, :dim]


@partial(jax.jit, static_argnames=("posterior", "num_steps", "num_tries"))
@traced_exactly
def draw_by_rejection(
    posterior: GibbsPosterior,
    data: PyTree,
    gamma: Float[Array, ""],
    convexity: Float[Array, ""],
    smoothness: Float[Array, ""],
    key: PRNGKeyArray,
    *,
    num_steps: int,
    num_tries: int,
) -> Float[Array, " dim"]:
    """Make one draw, the first accepted of proposals that are all made whatever was accepted."""
    m = convexity

    def gradient(theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
        total = jnp.sum(example_gradients(posterior, theta, data, None), axis=0)
        return gamma * total + prior_gradient(posterior, theta)

    def descend(_: Array, theta: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return theta - 2.0 / (m + smoothness) * gradient(theta)

    centre = jax.lax.fori_loop(0, num_steps, descend, jnp.zeros(posterior.dim))
    slope = gradient(centre)
    reference = posterior.losses(posterior.constrain(centre), data)
    prior = posterior.log_prior_unconstrained(centre)

    def excess(theta: Float[Array, " dim"]) -> Float[Array, ""]:
        """Potential above the quadratic below it, at least 0 up to rounding."""
        losses = posterior.losses(posterior.constrain(theta), data)
        here = gamma * jnp.sum(losses - reference) - (
            posterior.log_prior_unconstrained(theta) - prior
        )
        move = theta - centre
        return here - jnp.sum(slope * move) - 0.5 * m * jnp.sum(move**2)

    def chunk(
        index: Array, carry: tuple[Float[Array, " dim"], Array]
    ) -> tuple[Float[Array, " dim"], Array]:
        kept, is_done = carry
        noise_key, uniform_key = jax.random.split(jax.random.fold_in(key, index))
        noise = normals(noise_key, (CHUNK, posterior.dim))
        proposals = centre - slope / m + noise / jnp.sqrt(m)
        accepted = jax.vmap(excess)(proposals) <= exponentials(uniform_key, (CHUNK,))
        first = jnp.argmax(accepted)  # the first proposal of all where none was accepted
        chosen = jnp.where(is_done, kept, proposals[first])
        return chosen, is_done | accepted.any()

    count = -(-num_tries // CHUNK)
    begin = (centre, jnp.zeros((), bool))
    return jax.lax.fori_loop(0, count, chunk, begin)[0]
