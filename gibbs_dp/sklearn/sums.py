"""Linear losses: the sum of label times features, with exact noise.

The posterior of ``-y x·theta`` under a Gaussian prior is a Gaussian around that sum, and that of
``|theta - sum of y x|`` under a flat one is the sum plus noise whose length has a Gamma law. Both
are drawn exactly; no chain runs. Where rows are few for their privacy, they are the most accurate.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int

from gibbs_dp.model import losses, supports
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat
from gibbs_dp.privacy.exact_samplers import euclidean_noise
from gibbs_dp.privacy.noise import FINENESS, ROOM, Noise, gaussian_release, on_lattice
from gibbs_dp.sklearn.plan import Facts, Plan, direct, repeated

Features = Float[np.ndarray, "rows features"]
Labels = Float[np.ndarray, " rows"]

# Standard deviation of the Gaussian prior; features have norm at most 1.
SCALE = 1.0


def coded_sum(x: Features, y: Labels, num_outputs: int) -> Int[np.ndarray, " dim"]:
    """Sum of features times coded label, one column an output, flattened, in lattice steps.

    Two classes are coded as -1/2 and 1/2, more as indicators around their mean, and numbers as
    they are: a row then has a Frobenius norm of at most ``norm_of_a_row``. What a row adds is cut
    off to the lattice (`gibbs_dp.privacy.noise`) towards zero, which makes no norm larger.

    >>> (coded_sum(np.ones((3, 1)), np.array([0.0, 0.0, 1.0]), 2) / 2**30).tolist()
    [0.5, -0.5]
    """
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


class _CodedLinear(losses.Linear):
    """The linear loss of several classes, on flat parameters."""

    num_outputs: int

    def __init__(self, num_outputs: int) -> None:
        object.__setattr__(self, "num_outputs", num_outputs)

    def batch(self, theta: Float[Array, " dim"], data: Any) -> Float[Array, " n"]:
        x, y = data
        code = (jnp.arange(self.num_outputs) == y[:, None]) - 1 / self.num_outputs
        return -jnp.sum((x @ theta.reshape(x.shape[1], -1)) * code, axis=1)


def plan_gaussian(facts: Facts, y_range: tuple[float, float]) -> Plan:
    """Gaussian noise on the sum: ``(epsilon, delta)``, exactly drawn.

    Parameters
    ----------
    facts
        What is public.
    y_range
        Smallest and largest label; the middle is subtracted where there is one output.

    Returns
    -------
    Plan
        The Gaussian mechanism as a Gibbs posterior.
    """
    middle, y_bound = 0.5 * (y_range[0] + y_range[1]), 0.5 * (y_range[1] - y_range[0])
    reach = norm_of_a_row(facts.num_outputs, y_bound)
    prior = dist.Normal(jnp.zeros(facts.dim), SCALE).to_event(1)
    if facts.num_outputs == 1:
        domain, loss = Domain(x_bound=1.0, y_range=(-y_bound, y_bound)), losses.linear
    else:
        domain = Domain(x_bound=1.0, y_range=(0.0, facts.num_outputs - 1.0))
        coded = _CodedLinear(facts.num_outputs)
        loss = losses.Declared(  # type: ignore[assignment]
            coded, lipschitz=reach, smoothness=0.0, strong_convexity=0.0
        )
    posterior = GibbsPosterior(loss, prior)
    found = facts.calibrate(posterior, domain)
    gamma, num_outputs = found.gamma, facts.num_outputs

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

    Parameters
    ----------
    facts, y_range
        As in `plan_gaussian`; replace-one only.

    Returns
    -------
    Plan
        The location family as a Gibbs posterior of a structured loss.
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
