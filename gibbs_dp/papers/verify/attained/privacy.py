"""Cases of differential privacy: from the range of the loss, Gaussian, composed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.information import divergences as dv
from gibbs_dp.information.divergences import batched
from gibbs_dp.information.divergences.finite import approximate_max_divergence
from gibbs_dp.papers import bounds as paper_bounds
from gibbs_dp.papers.channels import composed_privacy_curve
from gibbs_dp.papers.verify.attained.cases import (
    EXTREME,
    REPLACE,
    Case,
    Sides,
    equal,
    hidden,
    response,
    single,
    subset_mechanism,
    worst_two_point,
)

TAIL, RELEASES, EACH = 1e-200, 1_000_000, 1e-4


def composed_response(eps: float, total: float) -> float:
    """Exact delta at a total eps of many randomized responses."""
    one, zero = response(eps)
    return float(composed_privacy_curve(one, zero, RELEASES, [total])[0])


def many_releases() -> tuple[float, float]:
    """Many randomized responses at the total eps that advanced composition promises."""
    total = bounds.advanced_composition(RELEASES, EACH, delta_slack=TAIL)
    return composed_response(EACH, total.epsilon), TAIL


def many_leaks() -> tuple[float, float]:
    """Ten chances of a leak and nothing else."""
    total = bounds.advanced_composition(10, 0.0, 1e-4, delta_slack=1e-9)
    one, zero = hidden(1e-4)
    return float(composed_privacy_curve(one, zero, 10, [total.epsilon])[0]), total.delta


def spent(inverse: Callable[..., float]) -> tuple[float, float]:
    """Total delta when every response spends what an inverse bound allows it."""
    eps = inverse(RELEASES, 3.0, delta_slack=TAIL)
    return composed_response(eps, 3.0), TAIL


def langevin(
    steps: int = 7, h: float = 0.3, m: float = 0.5, s: float = 1.7, gamma: float = 0.8
) -> float:
    """Shift over deviation of the last iterate, exactly."""
    shift = variance = 0.0
    for _ in range(steps):
        shift = (1 - h * m) * shift + h * gamma * s
        variance = (1 - h * m) ** 2 * variance + 2 * h
    return shift / math.sqrt(variance)


def steep_pair(slope: float) -> float:
    """``mu`` that laws ``∝ exp(± slope theta / 2)`` on an interval of length 1 need, exactly.

    Their total variation is ``tanh(slope / 8)``.
    """
    log_miss = math.log(2) - np.logaddexp(0.0, slope / 4)
    return -2 * float(ndtri_exp(log_miss - math.log(2)))


def steep_chains(diameter: float = 1.0, deviation: float = 1.0, shift: float = 40.0) -> float:
    """``mu`` that two steps of projected chains need whose slopes press them to opposite ends.

    After one step, from the middle, each is at its end but for a chance below ``1e-80``; the second
    step is on the other half with the tail of a Gaussian, which projection does not touch.
    """
    at_end = log_ndtr((shift - diameter) / 2 / deviation)
    return -2 * float(ndtri_exp(at_end + log_ndtr(-(shift + diameter) / 2 / deviation)))


def moved_response(tau: float = 0.01) -> float:
    """Randomized response after moving mass tau towards the worse event on both sides."""
    push = np.array([tau, -tau])
    return dv.hockey_stick(response(0.5)[0] + push, response(0.5)[1] - push, math.exp(0.5))


RANGES = (0.1, 1.0, 4.0)


def given_away() -> tuple[float, float]:
    """Give away the mass of an approximate max divergence."""
    p, q, delta = [0.2, 0.3, 0.5], [0.35, 0.35, 0.3], 0.07
    return dv.hockey_stick(p, q, math.exp(approximate_max_divergence(p, q, delta))), delta


def renyi(eta: float, alpha: float) -> Sides:
    """Two-point laws with the largest divergence of an order."""
    return lambda: (
        worst_two_point(lambda p, q: batched.renyi(p, q, alpha), eta),
        bounds.renyi_from_range(eta, alpha),
    )


def kl(eta: float) -> Sides:
    """Two-point laws with the largest KL."""
    return lambda: (worst_two_point(batched.kl, eta), bounds.kl_from_range(eta))


CASES: dict[str, list[Case]] = {
    "total_variation_from_kl": single(
        lambda: (
            dv.total_variation([0.5005, 0.4995], [0.5, 0.5]),
            bounds.total_variation_from_kl(dv.kl_divergence([0.5005, 0.4995], [0.5, 0.5])),
        )
    ),
    "1 - g (1 - TV) <= E_g": single(
        lambda: (
            1 - 2.0 * (1 - dv.total_variation([1.0, 0.0], [0.2, 0.8])),
            dv.hockey_stick([1.0, 0.0], [0.2, 0.8], 2.0),
        ),
        1.001,
    ),
    "E_{e^eps} <= delta at eps = D_inf^delta": single(given_away),
    "eps <= gamma R": single(lambda: (EXTREME.dp_epsilon(1.0, 1, **REPLACE), 2.0)),
    "eps <= gamma sensitivity, normalizer free of data": single(
        lambda: (dv.laplace_renyi(0.0, 0.04, 0.1, math.inf), 10.0 * 0.04)
    ),
    "kl_from_range": [Case(kl(eta), 0.9999) for eta in RANGES],
    "total_variation_from_range": single(
        lambda: (
            worst_two_point(batched.total_variation, 2.0),
            bounds.total_variation_from_range(2.0),
        ),
        0.9999,
    ),
    "renyi_from_range": [
        Case(renyi(eta, alpha), 0.999) for eta in RANGES for alpha in (1.5, 2.0, 8.0, 64.0)
    ],
    "zcdp_from_range": single(
        lambda: (worst_two_point(batched.kl, 0.01), bounds.zcdp_from_range(0.01))
    ),
    "I^- <= n kappa(eps)": single(
        lambda: (dep.mutual_information(subset_mechanism(11, 4, 1.0)), bounds.kl_from_range(1.0)),
        0.99,
    ),
    "zcdp_from_gdp": equal(
        lambda: (dv.gaussian_renyi(0.8, 1.0, 0.0, 1.0, 3.0) / 3.0, bounds.zcdp_from_gdp(0.8))
    ),
    "delta_from_gdp": equal(
        lambda: (
            dv.gaussian_hockey_stick(0.8, 1.0, 0.0, 1.0, math.exp(0.5)),
            bounds.delta_from_gdp(0.8, 0.5),
        )
    ),
    "strongly_convex_gdp": equal(
        lambda: (
            # Potential m theta^2 / 2 + gamma G z theta: N(-gamma G z / m, 1 / m), z in {0, 1}.
            dv.gaussian_hockey_stick(-0.7 * 0.5 / 3.0, 1 / 3.0, 0.0, 1 / 3.0, math.exp(0.1)),
            bounds.delta_from_gdp(
                bounds.strongly_convex_gdp(0.7, lipschitz=0.5, strong_convexity=3.0), 0.1
            ),
        )
    ),
    "bounded_convex_gdp": single(
        lambda: (
            steep_pair(4000.0),
            bounds.bounded_convex_gdp(1.0, lipschitz=4000.0, diameter=1.0),
        ),
        0.99,
    ),
    "langevin_last_iterate_gdp": equal(
        lambda: (
            langevin(),
            bounds.langevin_last_iterate_gdp(
                7, 0.3, gradient_sensitivity=1.7, gamma=0.8, strong_convexity=0.5, smoothness=0.5
            ),
        )
    ),
    "projected_langevin_gdp": equal(
        lambda: (
            steep_chains(),
            bounds.projected_langevin_gdp(
                2,
                0.5,
                gradient_sensitivity=40.0,
                gamma=2.0,
                diameter=1.0,
                strong_convexity=0.0,
                smoothness=0.0,
            ),
        )
    ),
    "langevin_trajectory_gdp": equal(
        lambda: (
            langevin(m=0.0),  # without curvature the last iterate reveals as much as the trajectory
            bounds.langevin_trajectory_gdp(7, 0.3, gradient_sensitivity=1.7, gamma=0.8),
        )
    ),
    "advanced_composition": [Case(many_releases, 0.97, part=0), Case(many_leaks, 0.999, part=1)],
    # Spending a little more per release than the inverse allows overdraws the total. The form as
    # printed is not a guarantee (`test_the_printed_inverse_overdraws`), and right for a tiny eps.
    "advanced_composition_inverse": single(
        lambda: spent(bounds.advanced_composition_inverse), 1.03
    ),
    "advanced_composition_inverse_small_epsilon": single(
        lambda: spent(paper_bounds.advanced_composition_inverse_small_epsilon), 1.03
    ),
    "approximate_draw": [
        Case(
            lambda: (
                dv.max_divergence(*response(0.5)),
                bounds.approximate_draw(0.5, 0.0, total_variation=0.0).epsilon,
            ),
            0.999,
            part=0,
        ),
        *(
            case._replace(part=1)
            for case in equal(
                lambda: (
                    moved_response(),
                    bounds.approximate_draw(0.5, 0.0, total_variation=0.01).delta,
                )
            )
        ),
    ],
}
