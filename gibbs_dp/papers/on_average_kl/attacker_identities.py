"""Identities and inequalities of attackers and of conditional information, both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from gibbs_dp.exact.attacker import Attacker
from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.information import bounds, checks
from gibbs_dp.papers.verify.check import Record, equality, inequality

OWN = "derived here"
SASON = "Sason & Verdú 2016, Prop. 3"
ERVEN = "van Erven & Harremoës 2014"
NEYMAN = "Neyman & Pearson 1933"
RATES = (0.001, 0.01, 0.1, 0.4, 0.8)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def profile_integral(attacker: Attacker, turns: Sequence[float] = ()) -> float:
    """``int_0^inf d(eps) (1 + e^-eps) deps`` of the on-average profile ``d``, in nats.

    It is ``eps_KL`` where the pair of datasets is exchangeable (Sason & Verdú 2016).

    Parameters
    ----------
    attacker
        Its profile must vanish fast.
    turns
        Where the profile has kinks, such as the privacy losses of a finite problem.

    Returns
    -------
    float
        By quadrature between the kinks.

    Examples
    --------
    >>> from gibbs_dp.exact.laplace_pairs import laplace_attacker
    >>> attacker = laplace_attacker(1.0)
    >>> integral = profile_integral(attacker, [1.0])
    >>> bool(np.isclose(integral, attacker.on_average_kl, rtol=1e-6))
    True
    """
    last = 1.0
    while float(attacker.privacy_profile(last)) > 1e-14 and last < 1e9:
        last *= 2
    ends = [x for x in turns if 0 < x < last]
    edges = np.unique([*ends, *np.linspace(0, last, 33), *(last * 2.0 ** np.arange(-12, -5))])
    half = np.diff(edges)[:, None] / 2
    eps = (edges[:-1, None] + half * (1 + _NODES)).ravel()
    values = attacker.privacy_profile(eps) * (1 + np.exp(-eps))
    return float((half * _WEIGHTS).ravel() @ values)


def attacker_records(
    attacker: Attacker, *, turns: Sequence[float] = (), tolerance: float = 1e-8
) -> list[Record]:
    """Check what holds for every attacker of replace-one pairs.

    Parameters
    ----------
    attacker
        The figures.
    turns
        As in `profile_integral`.
    tolerance
        Relative, of the equalities that take quadrature.

    Returns
    -------
    list of Record
        One per claim, with both sides and whether it holds.

    Examples
    --------
    >>> from gibbs_dp.exact.laplace_pairs import laplace_attacker
    >>> all(record.holds for record in attacker_records(laplace_attacker(1.0), turns=[1.0]))
    True
    """
    kl, tv = attacker.on_average_kl, attacker.on_average_tv
    low, high = bounds.auc_lower_from_total_variation(tv), bounds.auc_from_total_variation(tv)
    pooled, each = attacker.attack_auc, attacker.attack_auc_per_pair
    second = attacker.on_average_renyi_2
    records = [
        equality(
            "eps_KL = int d(eps) (1 + e^-eps) deps",
            SASON,
            profile_integral(attacker, turns),
            kl,
            tolerance,
        ),
        inequality("E TV <= sqrt(eps_KL / 2)", "Pinsker", tv, bounds.total_variation_from_kl(kl)),
        inequality(
            "E TV <= sqrt(1 - e^-eps_KL)",
            "Bretagnolle & Huber 1979",
            tv,
            bounds.total_variation_from_kl_large(kl),
        ),
        inequality("1/2 + TV/2 <= pooled AUC", OWN, low, pooled),
        inequality("pooled AUC <= 1/2 + TV - TV^2/2", OWN, pooled, high),
        inequality("1/2 + TV/2 <= E AUC", OWN, low, each),
        inequality("E AUC <= 1/2 + TV - TV^2/2", OWN, each, high),
        inequality("E AUC <= pooled AUC", OWN, each, pooled),
        inequality("E D_2 <= pooled D_2", "Jensen", second, attacker.pooled_renyi(2.0)),
        inequality("eps_KL <= E D_2", ERVEN, kl, second),
        inequality("E D_2 <= E D_8", ERVEN, second, attacker.on_average_renyi_8),
    ]
    return [*records, *_profile_records(attacker), *_roc_records(attacker)]


def _profile_records(attacker: Attacker) -> list[Record]:
    """Check the shape of the profile, and its symmetry."""
    eps = np.array([0.02, 0.1, 0.3, 0.7, 1.5, 3.0])
    c, profile, mirror = np.exp(eps), *(attacker.privacy_profile(s * eps) for s in (1, -1))
    start = float(attacker.privacy_profile(0.0))
    records = [
        equality("d(0) = E TV", NEYMAN, start, attacker.on_average_tv),
        inequality("d(eps) falls", OWN, float(np.diff(profile).max()), 0.0),
    ]
    # Convex in c = e^eps: the chord lies above.
    share = (c[1:-1] - c[:-2]) / (c[2:] - c[:-2])
    chord = (1 - share) * profile[:-2] + share * profile[2:]
    records.append(
        inequality("d is convex in e^eps", OWN, float((profile[1:-1] - chord).max()), 0.0)
    )
    for factor, right, left in zip(c, mirror, profile, strict=True):
        # E H_c = 1 - c + c E H_{1/c}, where pairs are exchangeable.
        records.append(
            equality(
                "E H_c = 1 - c + c E H_{1/c}", OWN, float(left), float(1 - factor + factor * right)
            )
        )
    return records


def _roc_records(attacker: Attacker) -> list[Record]:
    """Check the pooled ROC against the profile and the vertical one."""
    rates = np.array(RATES)
    pooled, vertical = attacker.roc(rates), attacker.vertical_roc(rates)
    records = []
    eps = np.array([-2.0, -0.5, 0.0, 0.05, 0.2, 1.0, 2.5])
    lines = np.exp(eps) * rates[:, None] + attacker.privacy_profile(eps)
    for a, high, low, line in zip(rates, pooled, vertical, lines.min(axis=1), strict=True):
        records += [
            inequality(f"vertical({a:g}) <= pooled({a:g})", OWN, float(low), float(high)),
            inequality("pooled(a) <= e^eps a + d(eps)", NEYMAN, float(high), float(line)),
        ]
    return [*records, equality("max (pooled(a) - a) = E TV", NEYMAN, *_advantage(attacker))]


def _advantage(attacker: Attacker) -> tuple[float, float]:
    """Largest rise of the pooled ROC over the diagonal, by a search, and ``E TV``."""
    low, high = 0.0, 1.0
    ratio = (math.sqrt(5) - 1) / 2

    def rise(rate: float) -> float:
        return float(attacker.roc(rate)) - rate

    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = rise(left), rise(right)
    for _ in range(44):  # concave: golden sections
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = rise(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = rise(left)
    return max(at_left, at_right), attacker.on_average_tv


def privacy_losses(problem: FiniteProblem, gamma: float, n: int) -> Float[np.ndarray, " losses"]:
    """Every privacy loss of a problem, where its profile has kinks, in nats.

    Examples
    --------
    >>> problem = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.3, 0.7], [0.5, 0.5])
    >>> privacy_losses(problem, 1.0, 1).round(6)
    array([-1.,  1.])
    """
    pairs = problem.table(gamma, n).replacements()
    return np.unique(np.concatenate([(p.log_p - p.log_q).ravel() for p in pairs]).round(12))


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
