"""Zhao (2019), Bayesian DP of dependent rows: lemmas and theorems by enumeration."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from gibbs_dp._extras import require
from gibbs_dp.information import dependence
from gibbs_dp.papers.bayesian_dp import (
    BayesianNetwork,
    DiscreteSum,
    GaussianField,
    MarkovChain,
    MarkovQuiltMechanism,
    bdp_epsilon,
    copied_rows_tail,
    printed_fixed_tail,
    quilt_profile,
    two_state_tail,
)
from gibbs_dp.papers.bayesian_dp.bdp import ChainInfluence
from gibbs_dp.papers.bayesian_dp.markov_chain import (
    chain_tail,
    dependent_event_tail,
    independent_tail,
)
from gibbs_dp.papers.bayesian_dp.row_law import (
    RowLaw,
    adversaries,
    exact_bdp_leakage,
    max_influence,
)
from gibbs_dp.papers.bounds import dp_max_information_bits_eighth
from gibbs_dp.papers.verify.check import (
    Check,
    Record,
    counterexample,
    equality,
    exact_checks,
    inequality,
)

ZHAO = "Zhao 2019"
Table = Float[np.ndarray, "*datasets outputs"]


def threshold_mechanism(
    shape: tuple[int, ...], weights: Float[np.ndarray, " rows"], shift: float, epsilon: float
) -> tuple[Table, float]:
    """Tell the sign of a weighted sum, with Laplace noise, and its DP, replace-one."""
    index = np.indices(shape)
    score = sum(w * (x - (s - 1) / 2) for w, x, s in zip(weights, index, shape, strict=True))
    score = np.asarray(score) + shift
    tail = 0.5 * np.exp(-epsilon * np.abs(score))
    p = np.where(score > 0, 1 - tail, tail)
    table = np.stack([p, 1 - p], axis=-1)
    logs = np.log(table)
    return table, max(float(np.ptp(logs, axis=i).max()) for i in range(len(shape)))


def chains() -> dict[str, RowLaw]:
    """List the Markov chains that are enumerated."""
    three = [[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [0.4, 0.4, 0.2]]
    return {
        "chain of two states": MarkovChain([[0.8, 0.2], [0.4, 0.6]], 5),
        "chain of three states": MarkovChain(three, 4, [0.5, 0.3, 0.2]),
    }


def networks() -> dict[str, RowLaw]:
    """List the networks with colliders that are enumerated; needs networkx."""
    nx = require("networkx")
    rng = np.random.default_rng(4)
    found: dict[str, RowLaw] = {}
    for name, arrows in (
        ("collider", [(0, 2), (1, 2)]),
        ("network", [(0, 2), (1, 2), (2, 3), (1, 4)]),
    ):
        graph = nx.DiGraph(arrows)
        tables = {
            v: rng.dirichlet([1.0, 1.0], [2] * len(list(graph.predecessors(v)))) for v in graph
        }
        found[name] = BayesianNetwork(graph, tables)
    return found


def lemma_records(model: RowLaw) -> list[Record]:
    """Lemmas 2 to 4 and Theorem 3 for mechanisms on one model, against every adversary."""
    joint, n = model.joint(), model.length
    rng = np.random.default_rng(1)
    numbers = [2, 3, 4] if isinstance(model, MarkovChain) else [2, 3]
    profiles = {k: quilt_profile(model, lemma=k) for k in numbers}  # type: ignore[arg-type]
    product = np.ones_like(joint)
    for axis in range(n):
        own = joint.sum(axis=tuple(i for i in range(n) if i != axis))
        product = product * own.reshape([-1 if i == axis else 1 for i in range(n)])
    records = []
    few, other = np.ones(n), rng.uniform(-1, 1, n)
    for epsilon, weights in ((0.01, few), (0.05, few), (3.0, few), (0.1, other), (1.0, other)):
        table, dp = threshold_mechanism(joint.shape, weights, 0.1, epsilon)
        leakage = exact_bdp_leakage(table, joint)
        found = {k: profile.bdp_epsilon(dp) for k, profile in profiles.items()}
        records += [
            equality("independent rows: BDP = DP", ZHAO, exact_bdp_leakage(table, product), dp),
            inequality("Lemma 2: BDP <= n epsilon, tightest", ZHAO, found[2], n * dp),
            *(
                inequality(f"Lemma {k}: leakage <= quilts", ZHAO, leakage, bound)
                for k, bound in found.items()
            ),
            *(
                inequality(f"Lemma 2 <= Lemma {k}", ZHAO, found[2], bound)
                for k, bound in found.items()
                if k > 2
            ),
        ]
        law = (joint[..., None] * table).reshape(-1, 2).T
        for beta in (1e-6, 0.05):
            bits = dependence.approx_max_information_bits(law, beta)
            limit = dp_max_information_bits_eighth(n, leakage, beta=beta)
            records.append(inequality("Theorem 3: max-information of BDP", ZHAO, bits, limit))
        # A bad event: the output says on which side the rows are extreme, and is right.
        extreme = np.abs(
            np.indices(joint.shape).sum(axis=0) - (np.array(joint.shape) - 1).sum() / 2
        )
        far = extreme >= extreme.max() - 0.5
        upper = np.indices(joint.shape).sum(axis=0) * 2 > (np.array(joint.shape) - 1).sum()
        events = np.stack([far & upper, far & ~upper], axis=-1)
        fixed = max(float(joint[events[..., y]].sum()) for y in (0, 1))
        bound = dependent_event_tail(n, fixed_tail=fixed, bdp_epsilon=leakage)
        if bound == 1.0:  # which no probability exceeds
            continue
        happened = float((joint[..., None] * table)[events].sum())
        name = "Lemma 1, Theorem 1: P[bad event] <= 2^k fixed tail + beta"
        records.append(inequality(name, ZHAO, happened, bound))
    return records


def influence_records() -> list[Record]:
    """Lemma 4's influence, its spectral form, and what breaks the lemmas."""
    chain = MarkovChain([[0.7, 0.3], [0.2, 0.8]], 5, [0.6, 0.4])
    joint, both = chain.joint(), ChainInfluence(chain, 3).two_sided(2)
    records = []
    for a, b in np.ndindex(both.shape):
        quilt = {1 - a, 3 + b}
        known = [k for row, k in adversaries(5) if row == 2 and not k & quilt]
        best = max(max_influence(joint, 2, quilt, k) for k in known)
        records.append(equality("Lemma 4: influence = enumeration", ZHAO, float(both[a, b]), best))
    slow = MarkovChain([[0.8, 0.2], [0.3, 0.7]], 120)
    for eps in (0.001, 0.1):
        exact, spectral = (bdp_epsilon(eps, slow, form=form) for form in ("exact", "spectral"))
        records.append(inequality("Lemma 4: exact <= spectral form", ZHAO, exact, spectral))
    sticky = MarkovChain([[0.9, 0.1], [0.1, 0.9]], 4)
    blind = quilt_profile(sticky, lemma=2, knows_others=False).bdp_epsilon(4.0)
    # Nearly all rows are ones, or not: the worst of weighted sums, found by search.
    table, dp = threshold_mechanism((2,) * 4, np.ones(4), -1.0, 4.0)
    leakage = exact_bdp_leakage(table, sticky.joint())
    full = bdp_epsilon(dp, sticky, lemma=2)
    records += [
        equality("unconditional influence: 4 + 2 ln 9", "n = 4", blind, 4 + 2 * math.log(9)),
        counterexample("Lemma 2 with unconditional influence", ZHAO, leakage, blind),
        inequality("Lemma 2 with the supremum over K", ZHAO, leakage, full),
    ]
    heads = np.array([[0.9, 0.5], [0.5, 0.1]])  # P(third | both), two fair bits
    collider = np.stack([heads, 1 - heads], axis=-1) / 4
    told = max_influence(collider, 0, [1], [2])
    alone = max_influence(collider, 0, [1], [])
    name = "parents of a collider stay independent when it is known (no moral graph)"
    return [
        *records,
        equality("parents of a collider are independent", "d-separation", alone, 0.0),
        counterexample(name, "wrong quilt", told, 0.0),
    ]


def concentration_records() -> list[Record]:
    """Theorems 1 and 2 on dependent rows: fixed queries do not concentrate as printed."""
    records = []
    name = "Theorems 1, 2: Hoeffding's tail of a fixed query"
    for flip, n, tau in ((0.05, 200, 0.1), (0.1, 400, 0.08)):
        exact, printed = two_state_tail(flip, n, tau), printed_fixed_tail(n, tau)
        records.append(counterexample(f"{name}, dependent rows", ZHAO, exact, printed))
        # A constant algorithm has BDP 0: the theorems then say no more than the tail.
        whole = dependent_event_tail(n, fixed_tail=printed, bdp_epsilon=0.0)
        records.append(counterexample("Theorem 1, BDP 0, Hoeffding's tail", ZHAO, exact, whole))
        right = dependent_event_tail(n, fixed_tail=exact, bdp_epsilon=0.0)
        records.append(inequality("Theorem 1, BDP 0, the rows' own tail", ZHAO, exact, right))
    copied = copied_rows_tail(0.4)
    records.append(counterexample(f"{name}, copies", ZHAO, copied, printed_fixed_tail(200, 0.4)))
    for n in (60, 200):
        exact = independent_tail(n, 0.1)
        limit = printed_fixed_tail(n, 0.1)
        records.append(inequality(f"{name}, independent rows", "Hoeffding", exact, limit))
        fair = two_state_tail(0.5, n, 0.1)
        records.append(equality("flips of 1/2 are independent rows", "binomial", fair, exact))
    for flip, n, tau in ((0.05, 2000, 0.1), (0.3, 500, 0.08), (0.6, 300, 0.05)):
        chain = MarkovChain([[1 - flip, flip], [flip, 1 - flip]], n)
        exact = two_state_tail(flip, n, tau)
        name_right = "chain: 2 exp(-2 n tau^2 (1-l)/(1+l))"
        records.append(
            inequality(name_right, "Fan, Jiang & Sun 2021", exact, chain_tail(chain, tau))
        )
    return records


def quilt_mechanism_records() -> list[Record]:
    """Compute the loss of every row to a Markov quilt mechanism, and to one with less noise."""
    epsilon, chain = 2.0, MarkovChain([[0.7, 0.3], [0.4, 0.6]], 9)
    joint = chain.joint()
    totals = np.indices(joint.shape).sum(axis=0)
    y = np.linspace(-30, 40, 1401)

    def loss(scale: float) -> float:
        kernel = np.exp(-np.abs(y[:, None] - np.arange(10)) / scale)
        worst = 0.0
        for i in range(9):
            laws = []
            for value in (0, 1):
                part, total = joint.take(value, axis=i), totals.take(value, axis=i)
                counts = np.bincount(total.ravel(), weights=part.ravel(), minlength=10)
                laws.append(kernel @ counts / counts.sum())
            worst = max(worst, float(np.abs(np.log(laws[0] / laws[1])).max()))
        return worst

    scale = MarkovQuiltMechanism(chain, epsilon).scale
    source, name = "Song, Wang & Chaudhuri 2017", "Markov quilt mechanism"
    return [
        inequality(f"{name}: loss <= epsilon", source, loss(scale), epsilon),
        inequality(f"{name}: no more noise than for all rows as one", source, scale, 9 / epsilon),
        counterexample(
            f"{name} with noise for independent rows", source, loss(1 / epsilon), epsilon
        ),
    ]


def bayesian_checks(has_networks: bool = True) -> list[Check]:
    """Run every check of this file, those on networks of rows only if told to."""
    checks = []
    for name, model in (chains() | (networks() if has_networks else {})).items():
        checks += exact_checks(lemma_records(model), name)
    checks += exact_checks(influence_records(), "chains and a collider")
    checks += exact_checks(concentration_records(), "two-state chains")
    return checks + exact_checks(quilt_mechanism_records(), "9 rows of a chain")


YANG = "Yang, Sato & Nakagawa 2015"

# Precisions of four rows, a ring: all attract, or one pair repels.
ATTRACTIVE = np.array(
    [[2.0, -0.7, 0.0, -0.2], [-0.7, 1.5, -0.5, 0.0], [0.0, -0.5, 1.2, -0.3], [-0.2, 0.0, -0.3, 1.0]]
)


def field_records() -> list[Record]:
    """Find who learns most of sums of Gaussian rows."""
    ones = np.ones(4)
    attract = GaussianField(ATTRACTIVE)
    signs = np.ones((4, 4))
    signs[0, 1] = signs[1, 0] = -1.0
    mixed = GaussianField(ATTRACTIVE * signs)
    covariance = np.linalg.inv(ATTRACTIVE)
    least = float(np.max(covariance @ ones / np.diag(covariance)))
    without = max(abs(mixed.response(ones, i, [])) for i in range(4))
    tried = attract.every_adversary(ones)
    poorest = "privacy is poorest for who knows least"
    return [
        equality(f"{poorest}, rows that attract", YANG, tried.value, least),
        equality("the same, by the rule", YANG, attract.worst_response(ones).value, least),
        counterexample(f"{poorest}, any signs", YANG, mixed.worst_response(ones).value, without),
    ]


def sum_records() -> list[Record]:
    """Find who learns most of sums of two-valued rows, a chain of five."""
    fair = DiscreteSum(MarkovChain([[0.8, 0.2], [0.2, 0.8]], 5))
    rare = DiscreteSum(MarkovChain([[0.2, 0.8], [0.01, 0.99]], 5))
    apart = DiscreteSum(MarkovChain([[0.3, 0.7], [0.7, 0.3]], 5))

    def least(total: DiscreteSum, scale: float) -> float:
        return max(total.leakage_to(scale, row, ()) for row in range(total.model.length))

    # One who knows nothing, by hand: the ratio of two densities at many outputs.
    joint, y = fair.model.joint(), np.linspace(-3, 8, 1101)
    kernel = np.exp(-np.abs(y[:, None] - np.arange(6)) / 2.0)
    totals = np.indices(joint.shape).sum(axis=0)
    laws = [
        np.bincount(totals[:, :, x].ravel(), weights=joint[:, :, x].ravel(), minlength=6)
        for x in (0, 1)
    ]
    logs = [np.log(kernel @ law / law.sum()) for law in laws]
    by_hand = float(np.abs(logs[0] - logs[1]).max())
    name = "privacy is poorest for who knows least, two-valued rows"
    records = [
        equality("noisy sum, all outputs", YANG, fair.leakage_to(2.0, 2, ()), by_hand),
        equality(f"{name}, wide noise", YANG, fair.leakage(2.0).value, least(fair, 2.0)),
        counterexample(f"{name}, little noise", YANG, fair.leakage(0.5).value, least(fair, 0.5)),
        counterexample(f"{name}, a rare value", YANG, rare.leakage(2.0).value, least(rare, 2.0)),
        counterexample(f"{name} that repel", YANG, apart.leakage(2.0).value, least(apart, 2.0)),
    ]
    for scale in (0.5, 2.0):
        bound = bdp_epsilon(1 / scale, fair.model, lemma=2)
        name = "noisy sum of a chain: leakage <= Lemma 2"
        records.append(inequality(name, f"{YANG}; {ZHAO}", fair.leakage(scale).value, bound))
    return records


def field_checks() -> list[Check]:
    """List the checks of sums of rows."""
    checks = exact_checks(field_records(), "sum of 4 Gaussian rows")
    return checks + exact_checks(sum_records(), "sum of 5 rows of a chain")
