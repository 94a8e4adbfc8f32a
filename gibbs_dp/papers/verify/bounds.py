"""Bounds out of reach of finite problems, each against the exact value of a hard case.

Where theory says that a bound is attained, the check is an equality, so that too large a bound
fails as well as too small a one.
"""

from __future__ import annotations

import math

import numpy as np

from gibbs_dp.exact import FiniteChannel, FiniteProblem
from gibbs_dp.exact.channels import composed_privacy_curve
from gibbs_dp.information import bounds, dependence
from gibbs_dp.information import divergences as dv
from gibbs_dp.information.divergences import batched
from gibbs_dp.information.divergences.finite import approximate_max_divergence
from gibbs_dp.information.divergences.laplace import laplace_max_divergence
from gibbs_dp.papers.verify.attained.cases import (
    AGREE,
    matched_guess,
    response,
    response_bits,
    worst_two_point,
)
from gibbs_dp.papers.verify.attained.composition import (
    langevin,
    moved_response,
    steep_chains,
    steep_pair,
)
from gibbs_dp.papers.verify.check import Check, Record, equality, exact_checks, inequality

RANGE, DWORK = "Dong, Durfee & Rogers 2020", "Dwork et al. 2015"
GDP = "Dong, Roth & Su 2022"
NUM_POINTS = 4000


def _renyi(alpha: float) -> batched.Divergence:
    return lambda log_p, log_q: batched.renyi(log_p, log_q, alpha)


def range_records() -> list[Record]:
    """Divergences of bounded-range pairs, attained by two-point laws.

    Examples
    --------
    >>> all(record.holds for record in range_records())
    True
    """
    records = []
    for eta in (0.5, 2.0):
        kl = worst_two_point(batched.kl, eta, NUM_POINTS)
        tv = worst_two_point(batched.total_variation, eta, NUM_POINTS)
        records += [
            equality("kappa(eta) is attained", RANGE, kl, bounds.kl_from_range(eta), 1e-5),
            inequality("kappa(eta) <= eta^2 / 8", RANGE, kl, bounds.zcdp_from_range(eta)),
            equality(
                "tanh(eta / 4) is attained", RANGE, tv, bounds.total_variation_from_range(eta), 1e-5
            ),
        ]
        for alpha in (2.0, 8.0):
            worst = worst_two_point(_renyi(alpha), eta, NUM_POINTS)
            name = f"Renyi({alpha:g}) range bound is attained"
            records.append(equality(name, RANGE, worst, bounds.renyi_from_range(eta, alpha), 1e-5))
    extreme = FiniteProblem([[-0.5, 0.5], [0.5, -0.5]], [0.5, 0.5], [1 - 1e-7, 1e-7])
    eps = extreme.dp_epsilon(1.0, 1, adjacency="replace-one")
    eta = bounds.loss_difference_range(1.0, adjacency="replace-one")
    fixed = bounds.pure_dp_fixed_normalizer(10.0, sensitivity=0.04)
    shifted = laplace_max_divergence(0.0, 0.04, scale=0.1)
    log_bound = bounds.pure_dp_from_log_density(1.0, log_density_bound=0.5)
    wang = "Wang, Fienberg & Smola 2015"
    laplace = "Dwork et al. 2006"
    return [
        *records,
        equality("2 gamma Delta is attained", "McSherry & Talwar 2007", eps, eta, 1e-5),
        equality("4 gamma B for |log p| <= B is attained", wang, eps, log_bound, 1e-5),
        equality("normalizer free of data: the Laplace mechanism", laplace, shifted, fixed),
    ]


def gaussian_records() -> list[Record]:
    """Gaussian DP, zCDP and the noisy chains, against Gaussians and their recursions.

    Examples
    --------
    >>> all(record.holds for record in gaussian_records())
    True
    """
    mu, eps = 0.8, 0.5
    truth = dv.gaussian_hockey_stick(mu, 1.0, 0.0, 1.0, math.exp(eps))
    tail = dv.gaussian_hockey_stick(mu, 1.0, 0.0, 1.0, math.exp(2.0))
    rho, delta = bounds.zcdp_from_gdp(mu), bounds.delta_from_gdp(mu, eps)
    pair = dv.gaussian_hockey_stick([0.3, 0.4], np.eye(2), [0.0, 0.0], np.eye(2), math.exp(eps))
    both = bounds.delta_from_gdp(bounds.gdp_composition([0.3, 0.4]), eps)
    # Potential m theta^2 / 2 + gamma G z theta: N(-gamma G z / m, 1 / m), z in {0, 1}.
    convex = dv.gaussian_hockey_stick(-0.7 * 0.5 / 3, 1 / 3, 0.0, 1 / 3, math.exp(eps))
    convex_mu = bounds.strongly_convex_gdp(0.7, lipschitz=0.5, strong_convexity=3.0)
    renyi = dv.gaussian_renyi(mu, 1.0, 0.0, 1.0, 3.0) / 3
    steps, h, m, s, gamma = 7, 0.3, 0.5, 1.7, 0.8
    last = langevin(steps, h, m, s, gamma)
    chain = bounds.langevin_last_iterate_gdp(
        steps, h, gradient_sensitivity=s, gamma=gamma, strong_convexity=m, smoothness=m
    )
    whole = bounds.langevin_trajectory_gdp(steps, h, gradient_sensitivity=s, gamma=gamma)
    flat = steps * h * gamma * s / math.sqrt(2 * h * steps)
    convex_delta = bounds.delta_from_gdp(convex_mu, eps)
    steep_mu = bounds.bounded_convex_gdp(1.0, lipschitz=40.0, diameter=1.0)
    projected = bounds.projected_langevin_gdp(
        2,
        0.5,
        gradient_sensitivity=20.0,
        gamma=4.0,
        diameter=1.0,
        strong_convexity=0.0,
        smoothness=0.0,
    )
    gopi, bok = "Gopi, Lee & Liu 2022, Thm 4", "Bok, Su & Altschuler 2024"
    bun = "Bun & Steinke 2016"
    return [
        equality("delta(eps) of mu-GDP", "Balle & Wang 2018", truth, delta),
        equality("GDP composes as sqrt(sum mu^2)", GDP, pair, both),
        equality("mu-GDP is mu^2/2-zCDP", GDP, renyi, rho),
        inequality("delta(eps) of rho-zCDP", bun, tail, bounds.delta_from_zcdp(rho, 2.0)),
        equality("strongly convex: mu = gamma G / sqrt m", gopi, convex, convex_delta),
        inequality(
            "convex on a bounded set: mu = sqrt(2 gamma G D)", bok, steep_pair(40.0), steep_mu
        ),
        equality("noisy gradient descent, last iterate", bok, last, chain),
        equality("projected on an interval, last iterate", bok, steep_chains(), projected),
        inequality("last iterate <= whole trajectory", bok, chain, whole),
        equality("whole trajectory: sqrt(K) Gaussian steps", "composition", flat, whole),
    ]


def relation_records() -> list[Record]:
    """Relations of divergences, and generalization beyond bounded losses.

    Examples
    --------
    >>> all(record.holds for record in relation_records())
    True
    """
    rng = np.random.default_rng(7)
    p, q = rng.dirichlet(np.ones(4), size=2)
    kl, tv = dv.kl_divergence(p, q), dv.total_variation(p, q)
    worst = bounds.kl_from_max_divergence(dv.max_divergence(p, q))
    lower = bounds.hockey_stick_lower_from_total_variation(tv, 1.5)
    delta = 0.05
    eps = bounds.epsilon_from_approximate_max_divergence(
        approximate_max_divergence(p, q, delta), approximate_max_divergence(q, p, delta)
    )
    stick = max(dv.hockey_stick(p, q, math.exp(eps)), dv.hockey_stick(q, p, math.exp(eps)))
    gen = FiniteChannel(response(0.3), [0.5, 0.5], 1).generalization_error(AGREE)
    information = dependence.mutual_information(response(0.3) / 2)
    heavy = bounds.generalization_subexponential(information, 1, sigma=0.5, b=4.0)
    rakhlin = "Rakhlin, lecture 20"
    return [
        inequality("TV <= sqrt(KL / 2)", "Pinsker", tv, bounds.total_variation_from_kl(kl)),
        inequality("KL <= D_inf", rakhlin, kl, worst),
        inequality("1 - g (1 - TV) <= E_g", rakhlin, lower, dv.hockey_stick(p, q, 1.5)),
        equality("E_{e^eps} = delta at eps = D_inf^delta", rakhlin, stick, delta),
        inequality("gen, subexponential loss", "Russo & Zou 2016, Prop. 3", gen, heavy),
    ]


def selection_records() -> list[Record]:
    """Max-information, what it buys, and composition, on randomized response of fair bits.

    Examples
    --------
    >>> all(record.holds for record in selection_records())
    True
    """
    n, eps, beta = 2000, 0.3, 1e-6
    bits = response_bits(n, eps, beta)
    published = bounds.dp_approx_max_information_bits_published(n, eps, beta=beta)
    approximate = bounds.approximate_dp_max_information_bits(n, eps, 1e-12, beta=beta)
    joint = np.array([[0.4, 0.1], [0.1, 0.4]])
    k_bits = dependence.approx_max_information_bits(joint, 0.1)
    root = math.sqrt(0.25 - math.log(2) / 14) * (1 - 1e-12)
    event = math.sqrt(math.log(2) / 2) * (1 - 1e-12)
    far = math.sqrt(1e4)
    query = matched_guess(3, 0.25, lambda k: np.abs(k / 3 - 0.5) >= 0.5)
    rooted = matched_guess(7, root, lambda k: np.abs(k / 7 - 0.5) >= 0.5)
    low = matched_guess(1000, 0.1 * (1 - 1e-12), lambda k: np.abs(k - 500) >= far)
    agreed = matched_guess(4, event, lambda k: k == 4)
    low_limit = bounds.low_sensitivity_tail(1000, far, sensitivity=1.0, epsilon=0.1 * (1 - 1e-12))
    total = bounds.advanced_composition(200, 0.1, delta_slack=1e-9)
    inverse = bounds.advanced_composition_inverse(200, total.epsilon, delta_slack=1e-9)
    one, zero = response(0.1)
    curve = composed_privacy_curve(one, zero, 200, [total.epsilon])
    moved = moved_response(0.01)
    draw = bounds.approximate_draw(0.5, 0.0, total_variation=0.01).delta
    adaptive = bounds.adaptive_event_tail(4, fixed_tail=2.0**-4, epsilon=event)
    general = bounds.general_event_tail(4, fixed_tail=2.0**-4, epsilon=event)
    event_limit = bounds.event_probability(0.5, bits=k_bits, beta=0.1)
    root_limit = bounds.statistical_query_tail_root(7, 0.5, epsilon=root)
    return [
        inequality("I_inf^beta of eps-DP, n = 2000", f"{DWORK}, Thm 20", bits, published),
        inequality("I_inf^beta of (eps, delta)-DP", "after Rogers et al. 2016", bits, approximate),
        equality("P[event] = 2^k P_product[event] + beta, attained", DWORK, 0.8, event_limit),
        inequality(
            "statistical query, tau^2-DP",
            DWORK,
            query,
            bounds.statistical_query_tail(3, 0.5, epsilon=0.25),
        ),
        inequality("statistical query, root form", DWORK, rooted, root_limit),
        inequality("low-sensitivity query", DWORK, low, low_limit),
        inequality("general event <= 3 sqrt(beta)", DWORK, agreed, general),
        inequality("general event, best beta", DWORK, agreed, adaptive),
        inequality("advanced composition", "Dwork et al. 2010", float(curve[0]), total.delta),
        equality("advanced composition, solved for eps", "Dwork et al. 2010", inverse, 0.1),
        equality("draw within TV tau: delta + (1 + e^eps) tau, attained", "triangle", moved, draw),
    ]


def implication_records() -> list[Record]:
    """Evaluate one function per theorem on the reference problem at gamma = 1, n = 4.

    Examples
    --------
    >>> all(record.holds for record in implication_records())
    True
    """
    from gibbs_dp.papers.on_average_kl.verify import fixture

    n, gamma = 4, 1.0
    problem = fixture()
    q = problem.quantities(gamma, n, 0.05)
    kl, gen, erasure = (
        q["on_average_kl"],
        q["generalization_error"],
        q["erasure_mutual_information"],
    )
    removal = problem.average_removal_kl(gamma, n)
    total = bounds.mutual_information_from_on_average_kl(n, kl)
    groups = problem.group_privacy(gamma, n).on_average_kl
    uniform = bounds.erasure_information_from_uniform_kl_stability(n, q["kl_privacy"])
    average = bounds.erasure_information_from_average_kl_stability(n, removal)
    on_average = bounds.erasure_information_from_on_average_kl(n, kl)
    by_tv = bounds.erasure_t_information_from_tv_stability(n, q["tv_privacy"])
    both = q["mutual_information"] + q["lautum_information"]
    wang, rakhlin = "Wang, Lei & Fienberg 2016", "Rakhlin, lecture 20"
    theorem_4 = bounds.on_average_kl_from_generalization(gamma, gen)
    inverse = bounds.generalization_from_on_average_kl(gamma, kl)
    return [
        equality("Theorem 4: eps_KL from gen", wang, kl, theorem_4),
        equality("Theorem 4: gen from eps_KL", wang, gen, inverse),
        equality("Lemma 9: n eps_KL = I + lautum", wang, both, total),
        equality(
            "Corollary 7: n ghosts", wang, float(groups[-1]), bounds.group_on_average_kl(kl, n)
        ),
        inequality("I^- by uniform KL stability", rakhlin, erasure, uniform),
        inequality("I^- by average KL stability", rakhlin, erasure, average),
        inequality("I^- by on-average KL", rakhlin, erasure, on_average),
        inequality("T^- by TV stability", rakhlin, q["erasure_t_information"], by_tv),
    ]


def bound_checks() -> list[Check]:
    """Run every check of this file."""
    return [
        *exact_checks(implication_records(), "fixture, gamma = 1"),
        *exact_checks(range_records(), "two-point laws"),
        *exact_checks(gaussian_records(), "Gaussians"),
        *exact_checks(relation_records(), "random laws"),
        *exact_checks(selection_records(), "randomized response"),
    ]
