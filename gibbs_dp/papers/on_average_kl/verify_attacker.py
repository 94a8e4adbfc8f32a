"""Attackers: reference tables, identities and inequalities, exactly."""

from __future__ import annotations

import math

import numpy as np

from gibbs_dp.exact import (
    Attacker,
    FiniteChannel,
    gaussian_mean_attacker,
    gaussian_mean_membership,
    laplace_attacker,
    private_mean_attacker,
)
from gibbs_dp.papers.on_average_kl.attacker_identities import (
    attacker_records,
    conditional_records,
    membership_records,
    privacy_losses,
)
from gibbs_dp.papers.on_average_kl.verify import FIXTURE_GAMMAS, FIXTURE_N, fixture, random_problem
from gibbs_dp.papers.verify.check import Check, Record, equality, exact_checks, inequality

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
    holds = abs(found - value) <= ROUNDED
    return Record(name, "reference value", "=", float(found), value, ROUNDED, bool(holds))


def fixture_attacker_checks() -> list[Check]:
    """Compare the fixture with its reference values, and check every claim on it.

    Examples
    --------
    >>> all(check.holds for check in fixture_attacker_checks())
    True
    """
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
    """Check every claim on random problems, fixed seeds.

    Examples
    --------
    >>> all(check.holds for check in random_attacker_checks())
    True
    """
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
    """Attackers in closed form, and the kinks of their profiles.

    Examples
    --------
    >>> len(closed_attackers())
    4
    """
    return {
        "Gaussian mean, d = 1": (gaussian_mean_attacker(1.0, 30, 1, 1.0), []),
        "Gaussian mean, d = 4, 3 draws": (
            gaussian_mean_attacker(2.0, 9, 4, 0.8, 1.5, 3),
            [],
        ),
        "Laplace pair": (laplace_attacker(1.3), [1.3]),
        "private mean": (private_mean_attacker(100.0, 100), [4.0]),
    }


def closed_attacker_checks() -> list[Check]:
    """Check the closed forms against reference values, and every claim on them.

    Examples
    --------
    >>> all(check.holds for check in closed_attacker_checks())
    True
    """
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
    """Check that passing the output on, through a random map, tells an attacker no more.

    Parameters
    ----------
    channel
        From datasets to outputs.
    kernel
        From outputs to new outputs, ``[outputs, new_outputs]``.

    Returns
    -------
    list of Record
        One per figure.

    Examples
    --------
    >>> channel = FiniteChannel([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5], n=1)
    >>> records = processed_records(channel, np.array([[0.9, 0.1], [0.4, 0.6]]))
    >>> all(record.holds for record in records)
    True
    """
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
    """Check post-processing, and every claim on attackers, on random channels.

    Examples
    --------
    >>> all(check.holds for check in processed_checks())
    True
    """
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
