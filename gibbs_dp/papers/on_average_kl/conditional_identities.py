"""Identities and inequalities of membership and of conditional information, as `Record`s."""

from __future__ import annotations

import math

import numpy as np

from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.information import bounds, checks
from gibbs_dp.papers.verify.record import Record, equality, inequality

OWN = "derived here"
STEINKE = "Steinke & Zakynthinou 2020"
HAGHIFAM = "Haghifam et al. 2020"
ESPOSITO = "Esposito et al. 2021"
ORDERS = (1.0, 2.0, 8.0, math.inf)


def membership_records(problem: FiniteProblem, gamma: float, n: int) -> list[Record]:
    """Check the chain from the generalization error to the attacker, and T-information.

    Parameters
    ----------
    problem
        A finite problem.
    gamma, n
        Inverse temperature and dataset size.

    Returns
    -------
    list of Record
        One per claim, with both sides and whether it holds.

    Examples
    --------
    >>> problem = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.3, 0.7], [0.5, 0.5])
    >>> all(record.holds for record in membership_records(problem, 1.0, 3))
    True
    """
    single, attacker = problem.membership(gamma, n), problem.attacker(gamma, n)
    table = problem.table(gamma, n)
    tv, erasure = attacker.on_average_tv, table.erasure_t_information() / n
    information, advantage = single.individual_information, single.advantage
    gen = problem.generalization_error(gamma, n)
    width = max(float(np.ptp(problem.loss_matrix[problem.kept], axis=1).max()), 1e-12)
    limit = bounds.generalization_from_t_information([advantage], loss_range=width)
    low, high = (
        bounds.auc_lower_from_total_variation(advantage),
        bounds.auc_from_total_variation(advantage),
    )
    eps = np.array([0.0, 0.1, 0.5, 1.0, 2.0])
    worst = problem.privacy_curve(gamma, n, eps.tolist(), adjacency="replace-one")
    excess = float((attacker.privacy_profile(eps) - worst).max())
    return [
        inequality("gen <= range T(W; Z_i)", "Yeom et al. 2018", gen, limit),
        inequality("T(W; Z_i) <= T^- / n", OWN, advantage, erasure),
        inequality("T^- / n <= E TV", OWN, erasure, tv),
        inequality("E TV <= 2 T^- / n", OWN, tv, 2 * erasure),
        inequality(
            "T(W; Z_i) <= sqrt(I(W; Z_i) / 2)",
            "Pinsker",
            advantage,
            bounds.total_variation_from_kl(information),
        ),
        inequality("T(W; Z_i) <= T(W; S)", OWN, advantage, table.t_information()),
        equality(
            "mean of Lambda over members = I(W; Z_i)",
            OWN,
            information,
            problem.individual_information(gamma, n),
        ),
        inequality("membership: 1/2 + T/2 <= AUC", OWN, low, single.attack_auc),
        inequality("membership: AUC <= 1/2 + T - T^2/2", OWN, single.attack_auc, high),
        inequality("membership AUC <= attacker's", OWN, single.attack_auc, attacker.attack_auc),
        inequality("on-average profile <= DP delta(eps)", OWN, excess, 0.0),
    ]


def conditional_records(problem: FiniteProblem, gamma: float, n: int) -> list[Record]:
    """Check supersamples, Sibson's information, and the bounds that go with them.

    Parameters are those of `membership_records`; ``n`` is small, for ``2^n`` selections.

    Examples
    --------
    >>> problem = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.3, 0.7], [0.5, 0.5])
    >>> all(record.holds for record in conditional_records(problem, 1.0, 3))
    True
    """
    checks.count("n", n)
    found = problem.supersample_information(gamma, n)
    cmi, js = found.conditional_mutual_information, found.given_others
    table, kl = problem.table(gamma, n), problem.on_average_kl(gamma, n)
    information, gen = table.mutual_information(), problem.generalization_error(gamma, n)
    loss = problem.loss_matrix[problem.kept]
    width = max(float(np.ptp(loss)), 1e-12)
    sigma = bounds.subgaussian_parameter(0.0, max(float(np.ptp(loss, axis=1).max()), 1e-12))
    one = bounds.generalization_from_individual_cmi([found.individual], loss_range=width)
    all_bits = bounds.generalization_from_cmi(cmi, n, loss_range=width)
    pair = bounds.generalization_from_jensen_shannon(js, loss_range=width)
    loose = bounds.generalization_from_on_average_kl_bounded(kl, loss_range=width)
    ladder = [table.alpha_mutual_information(order) for order in ORDERS]
    records = [
        equality("evaluated CMI = CMI of a Gibbs posterior", OWN, found.evaluated, cmi),
        inequality("n I(W; U_i | Zt) <= CMI", STEINKE, n * found.individual, cmi),
        inequality("CMI <= n E JS", STEINKE, cmi, n * js),
        inequality("CMI <= I(W; S)", STEINKE, cmi, information),
        inequality("CMI <= n log 2", STEINKE, cmi, n * math.log(2)),
        inequality("E JS <= eps_KL / 4", OWN, js, bounds.jensen_shannon_from_kl(kl, kl)),
        inequality("gen <= range sqrt(2 I(W; U_i | Zt))", HAGHIFAM, gen, one),
        inequality("individual CMI bound <= CMI bound", HAGHIFAM, one, all_bits),
        inequality("gen <= range sqrt(2 CMI / n)", STEINKE, gen, all_bits),
        inequality("CMI bound <= range sqrt(2 E JS)", OWN, all_bits, pair),
        inequality("range sqrt(2 E JS) <= range sqrt(eps_KL / 2)", OWN, pair, loose),
    ]
    for order, lower, upper in zip(ORDERS[1:], ladder[:-1], ladder[1:], strict=True):
        limit = bounds.generalization_from_alpha_information(upper, n, sigma=sigma)
        name = f"gen <= sqrt(2 sigma^2 I_{order:g} / n)"
        records += [
            inequality(f"Sibson: I_a grows to I_{order:g}", "Verdú 2015", lower, upper),
            inequality(name, ESPOSITO, gen, limit),
        ]
        records += _tail_records(problem, gamma, n, order, upper, sigma)
    return records


def _tail_records(
    problem: FiniteProblem, gamma: float, n: int, order: float, information: float, sigma: float
) -> list[Record]:
    """Check the tail of the gap at a quarter, a half and all of its largest value."""
    table, loss = problem.table(gamma, n), problem.loss_matrix[problem.kept]
    gap = np.abs((problem.data_probs - table.counts / n) @ loss.T)
    law = np.exp(table.log_weight[:, None] + table.log_laws)
    records = []
    for t in float(gap.max()) * np.array([0.25, 0.5, 1.0]):
        if t <= 0:
            continue
        chance = float(law[gap >= t - 1e-12].sum())
        limit = bounds.generalization_tail_from_alpha_information(
            float(t), information, n, alpha=order, sigma=sigma
        )
        name = f"P(gap >= t), Sibson's order {order:g}"
        records.append(inequality(name, ESPOSITO, chance, limit))
    return records
