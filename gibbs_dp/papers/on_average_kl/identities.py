"""Every exact theorem, identity and inequality, evaluated on a finite problem.

Each function turns a problem into `Record`s: both sides, the relation and whether it holds. A
command that verifies the library prints them; the tests ask that all of them hold.
"""

from __future__ import annotations

import math

import numpy as np

from gibbs_dp.exact.finite_problem import FiniteProblem, TypeProblem
from gibbs_dp.information import bounds, checks
from gibbs_dp.papers import bounds as paper_bounds
from gibbs_dp.papers.verify.check import Record, equality, inequality

WANG = "Wang, Lei & Fienberg 2016"
RAKHLIN = "Rakhlin, lecture 20"
DWORK = "Dwork et al. 2015"
RANGE = "Dong, Durfee & Rogers 2020"
ADJACENCY: checks.Adjacency = "replace-one"


def gibbs_identities(problem: FiniteProblem, gamma: float, n: int) -> list[Record]:
    """Check the equalities of Gibbs posteriors with a sum loss: Theorem 4 and the lemmas."""
    checks.positive("gamma", gamma)
    q = problem.quantities(gamma, n, 0.0)
    kl, gen = q["on_average_kl"], q["generalization_error"]
    records = [
        equality("Theorem 4: eps_KL = gamma gen", WANG, kl, gamma * gen),
        equality(
            "Corollary 10: gen = (I + lautum) / (n gamma)",
            f"{WANG}; Aminian et al. 2021",
            gen,
            (q["mutual_information"] + q["lautum_information"]) / (n * gamma),
        ),
    ]
    groups = problem.group_privacy(gamma, n)
    for k, group_kl in zip(groups.group_size, groups.on_average_kl, strict=True):
        name = f"Lemma 6: {k} ghosts cost {k} eps_KL"
        records.append(equality(name, WANG, float(group_kl), float(k) * kl))
    return records


def structured_identities(problem: TypeProblem, gamma: float, n: int) -> list[Record]:
    """Check the equalities of any symmetric loss: Remark 1, Lemma 9, the chain rule.

    Parameters are those of `gibbs_identities`, with any `TypeProblem`.
    """
    table = problem.table(gamma, n)
    groups = problem.group_privacy(gamma, n).on_average_kl
    information = table.mutual_information()
    subset = problem.subset_information(gamma, n)
    records = [
        equality(
            "Lemma 9: E KL(A(Z) || A(Z~)) = I + lautum",
            WANG,
            float(groups[-1]),
            information + table.lautum_information(),
        ),
        equality(
            "chain rule: I = sum_k I(W; Z_k | Z_1..Z_{k-1})",
            "Cover & Thomas",
            information,
            math.fsum(
                problem.conditional_information(gamma, n, num_targets=1, num_known=k)
                for k in range(n)
            ),
        ),
        equality(
            "I^- = n (I(W; S) - I(W; S^{-i}))",
            RAKHLIN,
            table.erasure_mutual_information(),
            n * float(subset[n] - subset[n - 1]),
        ),
        equality(
            "group KL of one example is eps_KL", WANG, float(groups[0]), table.on_average_kl()
        ),
    ]
    for k in range(1, n + 1):
        name = f"Remark 1: {k} ghosts cost gamma E[L(Z~) - L(Z)]"
        gap = problem.expected_loss_gap(gamma, n, k)
        records.append(equality(name, WANG, float(groups[k - 1]), gamma * gap))
    return records


def dependence_inequalities(
    problem: TypeProblem, gamma: float, n: int, beta: float
) -> list[Record]:
    """Check the order of the measures of dependence, and max-information against DP."""
    q = problem.quantities(gamma, n, beta)
    eps, information = q["dp_epsilon"], q["mutual_information"]
    individual = problem.individual_information(gamma, n)
    bits, approximate = q["max_information_bits"], q["approx_max_information_bits"]
    erasure = q["erasure_mutual_information"]
    removal = problem.average_removal_kl(gamma, n)
    nats = bits * math.log(2)
    published = paper_bounds.dp_max_information_bits_published(n, eps, beta=beta)
    sharper = paper_bounds.dp_max_information_bits_eighth(n, eps, beta=beta)
    kappa = bounds.max_information_bits(n, eps, beta=beta)
    pure = bounds.max_information_bits(n, eps)
    t, kl_t = q["t_information"], bounds.total_variation_from_kl(information)
    return [
        inequality("sum_i I(W; Z_i) <= I(W; S)", "Bu et al. 2020", n * individual, information),
        inequality("I(W; S) <= I^-(W; S)", RAKHLIN, information, erasure),
        inequality("I^- <= n eps_KL", RAKHLIN, erasure, n * q["on_average_kl"]),
        inequality("I^- <= n E KL(P_s || P_{s^-i})", RAKHLIN, erasure, n * removal),
        inequality("I^- <= n sup KL", RAKHLIN, erasure, n * q["kl_privacy"]),
        inequality("T^- <= n sup TV", RAKHLIN, q["erasure_t_information"], n * q["tv_privacy"]),
        inequality("T(W; S) <= sqrt(I / 2)", "Pinsker", t, kl_t),
        inequality("I <= I_inf", DWORK, information, nats),
        inequality("I^- <= n kappa(eps)", RANGE, erasure, n * bounds.kl_from_range(eps)),
        inequality("I_inf <= log2(e) eps n", DWORK, bits, pure),
        inequality("I_inf^beta, published constants", f"{DWORK}, Thm 20", approximate, published),
        inequality("I_inf^beta, sharper constants", DWORK, approximate, sharper),
        inequality("I_inf^beta, kappa(eps)", DWORK, approximate, kappa),
    ]


def privacy_inequalities(problem: FiniteProblem, gamma: float, n: int) -> list[Record]:
    """Check the ladder of privacy notions and the guarantees of a bounded-range loss.

    Parameters are those of `gibbs_identities`.
    """
    kl = problem.kl_privacy(gamma, n, adjacency=ADJACENCY)
    tv = problem.tv_privacy(gamma, n, adjacency=ADJACENCY)
    eps = problem.dp_epsilon(gamma, n, adjacency=ADJACENCY)
    rho = problem.zcdp(gamma, n, adjacency=ADJACENCY)
    mean_kl = problem.on_average_kl(gamma, n)
    eta = gamma * loss_range(problem)
    person = float(problem.personalized_dp(gamma, n, adjacency=ADJACENCY).max())
    random = problem.random_dp_epsilon(gamma, n, 0.05)
    removal = problem.dp_epsilon(gamma, n, adjacency="add-remove")
    groups = problem.group_privacy(gamma, n).dp_epsilon
    records = [
        inequality("on-average KL <= KL-privacy", WANG, mean_kl, kl),
        inequality("KL-privacy <= zCDP", "Bun & Steinke 2016", kl, rho),
        inequality("KL-privacy <= DP eps", RAKHLIN, kl, eps),
        inequality("TV-privacy <= sqrt(KL-privacy / 2)", "Pinsker", tv, math.sqrt(kl / 2)),
        equality("largest personalized eps is DP eps", WANG, person, eps),
        inequality("random DP eps <= DP eps", "Hall et al. 2013", random, eps),
        inequality("replace-one eps <= 2 add/remove eps", RAKHLIN, eps, 2 * removal),
        inequality("group of n: eps <= n eps", WANG, float(groups[-1]), n * eps),
        inequality("DP eps <= eta", "McSherry & Talwar 2007", eps, eta),
        inequality("KL-privacy <= kappa(eta)", RANGE, kl, bounds.kl_from_range(eta)),
        inequality("TV <= tanh(eta / 4)", RANGE, tv, bounds.total_variation_from_range(eta)),
        inequality("zCDP <= eta^2 / 8", "Cesar & Rogers 2021", rho, bounds.zcdp_from_range(eta)),
    ]
    orders = [2.0, 8.0]
    curve = problem.renyi_curve(gamma, n, orders, adjacency=ADJACENCY)
    for alpha, value in zip(orders, curve, strict=True):
        limit = bounds.renyi_from_range(eta, alpha)
        records.append(inequality(f"Renyi({alpha:g}) <= range bound", RANGE, float(value), limit))
    return records


def generalization_inequalities(problem: FiniteProblem, gamma: float, n: int) -> list[Record]:
    """Check every bound on the generalization error, with the loss's own range.

    Parameters are those of `gibbs_identities`; ``gamma`` is positive.
    """
    checks.positive("gamma", gamma)
    q = problem.quantities(gamma, n, 0.0)
    gen, information = q["generalization_error"], q["mutual_information"]
    loss = problem.loss_matrix[problem.kept]
    # Subgaussianity is in z for every theta, so the widest row counts; a constant row is 0.
    width = max(float(np.ptp(loss, axis=1).max()), 1e-12)
    total_range = max(float(np.ptp(loss)), 1e-12)
    sigma = bounds.subgaussian_parameter(0.0, width)
    lower = bounds.generalization_lower_from_mutual_information(information, n, gamma)
    upper = bounds.generalization_from_mutual_information(information, n, sigma=sigma)
    each = np.full(n, problem.individual_information(gamma, n))
    individual = bounds.generalization_from_individual_information(each, sigma=sigma)
    erasure_t = width * q["erasure_t_information"] / n
    dp = paper_bounds.generalization_from_dp(q["dp_epsilon"], loss_range=total_range)
    two_sided = bounds.gibbs_generalization_subgaussian(gamma, sigma=sigma)
    ceiling = bounds.gibbs_mutual_information(n, gamma, sigma=sigma)
    stability = (gamma * total_range) ** 2 / 2
    russo, xu = "Russo & Zou 2016", "Xu & Raginsky 2017"
    return [
        inequality("Corollary 10: I / (n gamma) <= gen", WANG, lower, gen),
        inequality("Corollary 10: gen <= sqrt(2 sigma^2 I / n)", xu, gen, upper),
        inequality("gen <= mean sqrt(2 sigma^2 I(W; Z_i))", "Bu et al. 2020", gen, individual),
        inequality("individual bound <= information bound", "Bu et al. 2020", individual, upper),
        inequality("gen <= range T^- / n", RAKHLIN, gen, erasure_t),
        inequality("gen <= range (e^eps - 1)", RAKHLIN, gen, dp),
        inequality("gen <= 2 gamma sigma^2", f"{WANG}; {russo}", gen, two_sided),
        inequality("I <= 2 n gamma^2 sigma^2", f"{WANG}; {russo}", information, ceiling),
        inequality("gen <= gamma Delta^2 / 2", RAKHLIN, gen, stability / gamma),
        inequality("sup KL <= gamma^2 Delta^2 / 2", RAKHLIN, q["kl_privacy"], stability),
        inequality(
            "I^- <= n gamma^2 Delta^2 / 2", RAKHLIN, q["erasure_mutual_information"], n * stability
        ),
    ]


def loss_range(problem: FiniteProblem) -> float:
    """``R = max_{z,z'} [max - min]_theta (loss(theta, z) - loss(theta, z'))`` of a problem.

    >>> loss_range(FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.3, 0.7], [0.5, 0.5]))
    2.0
    """
    loss = problem.loss_matrix[problem.kept]
    difference = loss[:, :, None] - loss[:, None, :]
    return float(np.ptp(difference, axis=0).max())


def verify_problem(problem: FiniteProblem, gamma: float, n: int, beta: float) -> list[Record]:
    """Check everything in this file on one problem."""
    return [
        *gibbs_identities(problem, gamma, n),
        *structured_identities(problem, gamma, n),
        *dependence_inequalities(problem, gamma, n, beta),
        *privacy_inequalities(problem, gamma, n),
        *generalization_inequalities(problem, gamma, n),
    ]
