"""Identities and inequalities of attackers and of conditional information, both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from gibbs_dp.exact import Attacker, FiniteChannel
from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.information import bounds, checks
from gibbs_dp.papers.on_average_kl.attackers import (
    gaussian_mean_attacker,
    gaussian_mean_membership,
    laplace_attacker,
    private_mean_attacker,
)
from gibbs_dp.papers.on_average_kl.verify import FIXTURE_GAMMAS, FIXTURE_N, fixture, random_problem
from gibbs_dp.papers.verify.check import Check, Record, equality, exact_checks, inequality, rounded

OWN = "derived here"
SASON = "Sason & Verdú 2016, Prop. 3"
ERVEN = "van Erven & Harremoës 2014"
NEYMAN = "Neyman & Pearson 1933"
RATES = (0.001, 0.01, 0.1, 0.4, 0.8)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def profile_integral(attacker: Attacker, turns: Sequence[float] = ()) -> float:
    """``int d(eps) (1 + e^-eps)``, nats: ``eps_KL`` of exchangeable pairs (Sason & Verdú 2016)."""
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
    """Check what holds for every attacker of replace-one pairs."""
    kl, tv = attacker.on_average_kl, attacker.on_average_tv
    low, high = 0.5 + tv / 2, 0.5 + tv - tv**2 / 2
    pooled, each = attacker.attack_auc, attacker.attack_auc_per_pair
    second, integral = attacker.on_average_renyi_2, profile_integral(attacker, turns)
    huber = math.sqrt(-math.expm1(-kl))
    records = [
        equality("eps_KL = int d(eps) (1 + e^-eps) deps", SASON, integral, kl, tolerance),
        inequality("E TV <= sqrt(eps_KL / 2)", "Pinsker", tv, bounds.total_variation_from_kl(kl)),
        inequality("E TV <= sqrt(1 - e^-eps_KL)", "Bretagnolle & Huber 1979", tv, huber),
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
    above = float((profile[1:-1] - chord).max())
    records.append(inequality("d is convex in e^eps", OWN, above, 0.0))
    mirrored = 1 - c + c * mirror  # where pairs are exchangeable
    return records + [
        equality("E H_c = 1 - c + c E H_{1/c}", OWN, float(left), float(right))
        for left, right in zip(profile, mirrored, strict=True)
    ]


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
    """Every privacy loss of a problem, where its profile has kinks, in nats."""
    pairs = problem.table(gamma, n).replacements()
    return np.unique(np.concatenate([(p.log_p - p.log_q).ravel() for p in pairs]).round(12))


STEINKE = "Steinke & Zakynthinou 2020"
HAGHIFAM = "Haghifam et al. 2020"
ESPOSITO = "Esposito et al. 2021"
ORDERS = (1.0, 2.0, 8.0, math.inf)


def membership_records(problem: FiniteProblem, gamma: float, n: int) -> list[Record]:
    """Check the chain from the generalization error to the attacker, and T-information."""
    single, attacker = problem.membership(gamma, n), problem.attacker(gamma, n)
    table = problem.table(gamma, n)
    tv, erasure = attacker.on_average_tv, table.erasure_t_information() / n
    information, advantage = single.individual_information, single.advantage
    gen = problem.generalization_error(gamma, n)
    width = max(float(np.ptp(problem.loss_matrix[problem.kept], axis=1).max()), 1e-12)
    limit = bounds.generalization_from_t_information([advantage], loss_range=width)
    low, high = 0.5 + advantage / 2, 0.5 + advantage - advantage**2 / 2
    eps = np.array([0.0, 0.1, 0.5, 1.0, 2.0])
    worst = problem.privacy_curve(gamma, n, eps.tolist(), adjacency="replace-one")
    excess = float((attacker.privacy_profile(eps) - worst).max())
    pinsker = bounds.total_variation_from_kl(information)
    individual = problem.individual_information(gamma, n)
    return [
        inequality("gen <= range T(W; Z_i)", "Yeom et al. 2018", gen, limit),
        inequality("T(W; Z_i) <= T^- / n", OWN, advantage, erasure),
        inequality("T^- / n <= E TV", OWN, erasure, tv),
        inequality("E TV <= 2 T^- / n", OWN, tv, 2 * erasure),
        inequality("T(W; Z_i) <= sqrt(I(W; Z_i) / 2)", "Pinsker", advantage, pinsker),
        inequality("T(W; Z_i) <= T(W; S)", OWN, advantage, table.t_information()),
        equality("mean of Lambda over members = I(W; Z_i)", OWN, information, individual),
        inequality("membership: 1/2 + T/2 <= AUC", OWN, low, single.attack_auc),
        inequality("membership: AUC <= 1/2 + T - T^2/2", OWN, single.attack_auc, high),
        inequality("membership AUC <= attacker's", OWN, single.attack_auc, attacker.attack_auc),
        inequality("on-average profile <= DP delta(eps)", OWN, excess, 0.0),
    ]


def conditional_records(problem: FiniteProblem, gamma: float, n: int) -> list[Record]:
    """Check supersamples, Sibson's information and their bounds; ``n`` small for ``2^n``."""
    checks.count("n", n)
    found = problem.supersample_information(gamma, n)
    cmi, js = found.conditional_mutual_information, found.given_others
    table, kl = problem.table(gamma, n), problem.on_average_kl(gamma, n)
    information, gen = table.mutual_information(), problem.generalization_error(gamma, n)
    loss = problem.loss_matrix[problem.kept]
    width = max(float(np.ptp(loss)), 1e-12)
    sigma = bounds.subgaussian_parameter(0.0, max(float(np.ptp(loss, axis=1).max()), 1e-12))
    one = width * math.sqrt(2 * found.individual)
    all_bits = bounds.generalization_from_cmi(cmi, n, loss_range=width)
    pair = width * math.sqrt(2 * js)
    loose = width * math.sqrt(kl / 2)
    ladder = [table.alpha_mutual_information(order) for order in ORDERS]
    records = [
        equality("evaluated CMI = CMI of a Gibbs posterior", OWN, found.evaluated, cmi),
        inequality("n I(W; U_i | Zt) <= CMI", STEINKE, n * found.individual, cmi),
        inequality("CMI <= n E JS", STEINKE, cmi, n * js),
        inequality("CMI <= I(W; S)", STEINKE, cmi, information),
        inequality("CMI <= n log 2", STEINKE, cmi, n * math.log(2)),
        inequality("E JS <= eps_KL / 4", OWN, js, min(math.log(2), kl / 4)),
        inequality("gen <= range sqrt(2 I(W; U_i | Zt))", HAGHIFAM, gen, one),
        inequality("individual CMI bound <= CMI bound", HAGHIFAM, one, all_bits),
        inequality("gen <= range sqrt(2 CMI / n)", STEINKE, gen, all_bits),
        inequality("CMI bound <= range sqrt(2 E JS)", OWN, all_bits, pair),
        inequality("range sqrt(2 E JS) <= range sqrt(eps_KL / 2)", OWN, pair, loose),
    ]
    for order, lower, upper in zip(ORDERS[1:], ladder[:-1], ladder[1:], strict=True):
        limit = bounds.generalization_from_mutual_information(upper, n, sigma=sigma)
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


# Attackers: reference tables, identities and inequalities, exactly.


# gamma of the fixture (n = 4): E TV, E AUC, pooled AUC, d(0.1), d(1), E D_2, pooled D_2.
FIXTURE_ATTACKER = (
    (0.023722, 0.515703, 0.519348, 0.004185, 0.0, 0.005614, 0.005637),
    (0.093571, 0.561922, 0.576724, 0.069592, 0.001324, 0.092251, 0.098696),
    (0.184430, 0.617264, 0.650414, 0.162468, 0.042882, 0.391688, 0.526000),
)
# T(W; Z_i) and AUC of membership, CMI, I(W; U_i | Zt), E JS, I_2, I_8 and leakage.
FIXTURE_INFORMATION = (
    (0.020127, 0.514592, 0.002806, 0.000700, 0.000703, 0.011113, 0.041642, 0.208701),
    (0.076633, 0.554309, 0.044720, 0.010812, 0.011559, 0.155986, 0.369277, 0.630805),
    (0.128835, 0.590521, 0.163150, 0.036348, 0.045658, 0.455580, 0.778106, 1.031130),
)
# d, gamma (n = 30, v = 1, flat prior): E TV, E AUC, d(0.1), d(1), pooled TPR at 1%.
GAUSSIAN_ATTACKER = {
    (1, 1.0): (0.081735, 0.557482, 0.050126, 0.001401, 0.024437),
    (1, 20.0): (0.333333, 0.717953, 0.303958, 0.155035, 0.152273),
    (4, 1.0): (0.191006, 0.633256, 0.153376, 0.014507, 0.040936),
    (4, 20.0): (0.687500, 0.911096, 0.671806, 0.530714, 0.452765),
}
# How far a number may be from one that is rounded to six decimals.
ROUNDED = 1.1e-6


def _printed(name: str, found: float, value: float) -> Record:
    """Compare with a reference value of six decimals."""
    return rounded(name, "reference value", found, value, ROUNDED)


def fixture_attacker_checks() -> list[Check]:
    """Compare the fixture with its reference values, and check every claim on it."""
    problem, checks = fixture(), []
    for k, gamma in enumerate(FIXTURE_GAMMAS):
        attacker = problem.attacker(gamma, FIXTURE_N)
        single = problem.membership(gamma, FIXTURE_N)
        chosen = problem.supersample_information(gamma, FIXTURE_N)
        table = problem.table(gamma, FIXTURE_N)
        near, far = attacker.privacy_profile([0.1, 1.0])
        found = {
            "E TV": attacker.on_average_tv,
            "E AUC": attacker.attack_auc_per_pair,
            "pooled AUC": attacker.attack_auc,
            "d(0.1)": float(near),
            "d(1)": float(far),
            "E D_2": attacker.on_average_renyi_2,
            "pooled D_2": attacker.pooled_renyi(2.0),
            "T(W; Z_i)": single.advantage,
            "AUC of membership": single.attack_auc,
            "CMI": chosen.conditional_mutual_information,
            "I(W; U_i | Zt)": chosen.individual,
            "E JS": chosen.given_others,
            "I_2(S; W)": table.alpha_mutual_information(2.0),
            "I_8(S; W)": table.alpha_mutual_information(8.0),
            "maximal leakage": table.maximal_leakage(),
        }
        values = (*FIXTURE_ATTACKER[k], *FIXTURE_INFORMATION[k])
        records = [
            _printed(f"reference value of {name}", number, value)
            for (name, number), value in zip(found.items(), values, strict=True)
        ]
        losses = privacy_losses(problem, gamma, FIXTURE_N)
        records += attacker_records(attacker, turns=losses.tolist())
        records += membership_records(problem, gamma, FIXTURE_N)
        records += conditional_records(problem, gamma, FIXTURE_N)
        checks += exact_checks(records, f"fixture, gamma = {gamma:g}")
    return checks


def random_attacker_checks() -> list[Check]:
    """Check every claim on random problems, fixed seeds."""
    checks = []
    for seed in range(3):
        problem, gamma, n, _ = random_problem(seed)
        n = min(n, 4)
        losses = privacy_losses(problem, gamma, n)
        records = attacker_records(problem.attacker(gamma, n), turns=losses.tolist())
        records += membership_records(problem, gamma, n)
        records += conditional_records(problem, gamma, n)
        checks += exact_checks(records, f"random problem {seed}, gamma = {gamma:.3g}, n = {n}")
    return checks


def closed_attackers() -> dict[str, tuple[Attacker, list[float]]]:
    """Attackers in closed form, and the kinks of their profiles."""
    return {
        "Gaussian mean, d = 1": (gaussian_mean_attacker(1.0, 30, 1, 1.0), []),
        "Gaussian mean, d = 4, 3 draws": (gaussian_mean_attacker(2.0, 9, 4, 0.8, 1.5, 3), []),
        "Laplace pair": (laplace_attacker(1.3), [1.3]),
        "private mean": (private_mean_attacker(100.0, 100), [4.0]),
    }


def closed_attacker_checks() -> list[Check]:
    """Check the closed forms against reference values, and every claim on them."""
    records = []
    for (dim, gamma), values in GAUSSIAN_ATTACKER.items():
        attacker = gaussian_mean_attacker(gamma, 30, dim, 1.0)
        near, far = attacker.privacy_profile([0.1, 1.0])
        found = (attacker.on_average_tv, attacker.attack_auc_per_pair, near, far)
        names = ("E TV", "E AUC", "d(0.1)", "d(1)", "pooled TPR at 1%")
        for name, number, value in zip(
            names, (*found, attacker.attack_tpr_1pct), values, strict=True
        ):
            title = f"Gaussian mean, d = {dim}, gamma = {gamma:g}: {name}"
            records.append(_printed(title, float(number), value))
    s = math.sqrt(2.0 / 30)
    arc = 2 / math.pi * math.atan(s / 2)
    first = gaussian_mean_attacker(1.0, 30, 1, 1.0).on_average_tv
    records.append(equality("Gaussian mean: E TV = (2/pi) arctan(s/2)", "Student's t", first, arc))
    single = gaussian_mean_membership(1.0, 30, 1, 1.0)
    records += [
        _printed("Gaussian mean: I(W; Z_i)", single.individual_information, 0.008404),
        _printed("Gaussian mean: T(W; Z_i)", single.advantage, 0.041586),
    ]
    checks = exact_checks(records, "closed form")
    for case, (attacker, turns) in closed_attackers().items():
        checks += exact_checks(attacker_records(attacker, turns=turns, tolerance=1e-6), case)
    return checks


def processed_records(channel: FiniteChannel, kernel: np.ndarray) -> list[Record]:
    """Check that passing the output on, through a random map, tells an attacker no more."""
    coarse = channel.post_process(kernel)
    before, after = channel.attacker(), coarse.attacker()
    names = (
        *("on_average_kl", "on_average_tv", "attack_auc", "attack_auc_per_pair"),
        *("attack_tpr_1pct", "on_average_renyi_2", "on_average_renyi_8"),
    )
    pairs = [(name, getattr(after, name), getattr(before, name)) for name in names]
    eps = np.array([-0.5, 0.0, 0.1, 0.5, 1.5])
    excess = after.privacy_profile(eps) - before.privacy_profile(eps)
    pairs += [("privacy profile", float(excess.max()), 0.0)]
    single = coarse.membership(0).advantage, channel.membership(0).advantage
    pairs += [("advantage of membership", *single)]
    for order in (2.0, 8.0, math.inf):
        values = coarse.alpha_mutual_information(order), channel.alpha_mutual_information(order)
        pairs.append((f"Sibson's information of order {order:g}", *values))
    loss = np.zeros((channel.num_outputs, channel.data_probs.size))
    whole = channel.supersample_information(loss).conditional_mutual_information
    loss = np.zeros((coarse.num_outputs, channel.data_probs.size))
    part = coarse.supersample_information(loss).conditional_mutual_information
    pairs.append(("CMI", part, whole))
    return [
        inequality(f"post-processing lowers {name.replace('_', ' ')}", "data processing", *sides)
        for name, *sides in pairs
    ]


def processed_checks() -> list[Check]:
    """Check post-processing, and every claim on attackers, on random channels."""
    checks = []
    for seed in range(3):
        rng = np.random.default_rng(200 + seed)
        table = rng.dirichlet(np.ones(3), size=8)
        channel = FiniteChannel(table, rng.dirichlet(np.ones(2)), 3)
        pairs = [pair for i in range(3) for pair in channel.replacements([i])]
        losses = np.unique(np.concatenate([(p.log_p - p.log_q).ravel() for p in pairs]).round(12))
        records = attacker_records(channel.attacker(), turns=losses.tolist())
        records += processed_records(channel, rng.dirichlet(np.ones(2), size=3))
        checks += exact_checks(records, f"random channel {200 + seed}")
    return checks


def attacker_checks() -> list[Check]:
    """Run every check of this file."""
    return [
        *fixture_attacker_checks(),
        *random_attacker_checks(),
        *closed_attacker_checks(),
        *processed_checks(),
    ]
