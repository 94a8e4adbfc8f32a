"""Exact checks: identities and inequalities by full enumeration of finite problems."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from gibbs_dp.exact import FiniteChannel, FiniteProblem, StructuredProblem, laws, ordered_datasets
from gibbs_dp.exact.finite_problem import TypeProblem
from gibbs_dp.information import bounds, checks, dependence
from gibbs_dp.papers import bounds as paper_bounds
from gibbs_dp.papers import channels
from gibbs_dp.papers.channels import conditional_on_average_kl
from gibbs_dp.papers.on_average_kl import counterexamples
from gibbs_dp.papers.verify.check import (
    Check,
    Record,
    equality,
    exact_checks,
    inequality,
    reaches,
    rounded,
)

WANG, DWORK, RUSSO = "Wang, Lei & Fienberg 2016", "Dwork et al. 2015", "Russo & Zou 2016"
RAKHLIN = "Rakhlin, lecture 20"
RANGE = "Dong, Durfee & Rogers 2020"
ADJACENCY: checks.Adjacency = "replace-one"

# Identities and inequalities of one problem: both sides, and whether the relation holds.


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
    """Check the equalities of any symmetric loss: Remark 1, Lemma 9, the chain rule."""
    table = problem.table(gamma, n)
    groups = problem.group_privacy(gamma, n).on_average_kl
    information = table.mutual_information()
    subset = problem.subset_information(gamma, n)
    one, whole = float(groups[0]), float(groups[-1])
    both = information + table.lautum_information()
    chain = math.fsum(
        problem.conditional_information(gamma, n, num_targets=1, num_known=k) for k in range(n)
    )
    erasure, last = table.erasure_mutual_information(), float(subset[n] - subset[n - 1])
    rule = "chain rule: I = sum_k I(W; Z_k | Z_1..Z_{k-1})"
    records = [
        equality("Lemma 9: E KL(A(Z) || A(Z~)) = I + lautum", WANG, whole, both),
        equality(rule, "Cover & Thomas", information, chain),
        equality("I^- = n (I(W; S) - I(W; S^{-i}))", RAKHLIN, erasure, n * last),
        equality("group KL of one example is eps_KL", WANG, one, table.on_average_kl()),
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
    """Check the ladder of privacy notions and the guarantees of a bounded-range loss."""
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
    """Check every bound on the generalization error, with the loss's own range."""
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


# Problems to check these on.

NUM_RANDOM_PROBLEMS = 6

# Six-digit values of the fixture, each at gamma = 0.2, 1, 3 (n = 4, beta = 0.05).
FIXTURE_GAMMAS, FIXTURE_N, FIXTURE_BETA = (0.2, 1.0, 3.0), 4, 0.05
FIXTURE_VALUES = {
    "generalization_error": (0.014073, 0.047280, 0.067664),
    "on_average_kl": (0.002815, 0.047280, 0.202991),
    "mutual_information": (0.005602, 0.087049, 0.296546),
    "lautum_information": (0.005656, 0.102070, 0.515419),
    "dp_epsilon": (0.227667, 1.461101, 4.979909),
    "kl_privacy": (0.009300, 0.168831, 0.733047),
    "tv_privacy": (0.058253, 0.238713, 0.482354),
    "max_information_bits": (0.690485, 2.528142, 4.538967),
    "approx_max_information_bits": (-0.032157, 0.425413, 1.181061),
    "erasure_mutual_information": (0.005626, 0.093068, 0.371627),
    "erasure_t_information": (0.081040, 0.318892, 0.632675),
    "t_information": (0.036554, 0.147972, 0.289494),
}


def fixture() -> FiniteProblem:
    """Five values of theta, three of z, squared distance: the reference problem."""
    theta, z = np.linspace(0.0, 1.0, 5), np.array([0.0, 0.5, 1.0])
    return FiniteProblem((theta[:, None] - z) ** 2, [0.5, 0.3, 0.2], np.full(5, 0.2))


def random_problem(seed: int) -> tuple[FiniteProblem, float, int, float]:
    """Draw a small random problem, and ``gamma``, ``n`` and ``beta`` for it."""
    rng = np.random.default_rng(seed)
    values, hypotheses = int(rng.integers(2, 4)), int(rng.integers(2, 6))
    problem = FiniteProblem(
        rng.normal(size=(hypotheses, values)) * rng.choice([0.3, 1.0, 2.0]),
        rng.dirichlet(np.ones(values)),
        rng.dirichlet(np.ones(hypotheses)),
    )
    gamma, beta = float(rng.uniform(0.05, 4.0)), float(rng.uniform(0.01, 0.5))
    return problem, gamma, int(rng.integers(2, 7)), beta


def fixture_checks() -> list[Check]:
    """Compare the fixture with its reference values, and check all identities on it."""
    problem, checks = fixture(), []
    for column, gamma in enumerate(FIXTURE_GAMMAS):
        case = f"fixture, gamma = {gamma:g}"
        found = problem.quantities(gamma, FIXTURE_N, FIXTURE_BETA)
        records = [
            # To six decimals.
            rounded(
                f"reference value of {name}", "enumeration", found[name], values[column], 5.1e-7
            )
            for name, values in FIXTURE_VALUES.items()
        ]
        records += verify_problem(problem, gamma, FIXTURE_N, FIXTURE_BETA)
        checks += exact_checks(records, case)
    return checks


def random_checks() -> list[Check]:
    """All identities and inequalities on random problems, fixed seeds."""
    checks = []
    for seed in range(NUM_RANDOM_PROBLEMS):
        problem, gamma, n, beta = random_problem(seed)
        case = f"random problem {seed}, gamma = {gamma:.3g}, n = {n}"
        checks += exact_checks(verify_problem(problem, gamma, n, beta), case)
    return checks


def structured_checks() -> list[Check]:
    """Remark 1, Lemma 9 and the order of informations for losses that are not sums."""
    grid = np.linspace(0.0, 1.0, 5)
    problems = {
        "distance to the mean": StructuredProblem(
            lambda counts: np.abs(counts[:, 1:] / counts.sum(1, keepdims=True) - grid),
            [0.6, 0.4],
            np.full(5, 0.2),
        ),
        "squared count": StructuredProblem(
            lambda counts: np.column_stack([0 * counts[:, 1], 3.0 * counts[:, 1] ** 2]),
            [0.5, 0.5],
            [0.5, 0.5],
        ),
    }
    checks = []
    for name, problem in problems.items():
        records = structured_identities(problem, 2.0, 4)
        records += dependence_inequalities(problem, 2.0, 4, 0.05)
        checks += exact_checks(records, f"structured loss: {name}")
    return checks


def channel_checks() -> list[Check]:
    """Post-processing, composition and repeated draws, on channels over ordered datasets."""
    checks = []
    for seed in range(3):
        rng = np.random.default_rng(100 + seed)
        n, probs = 3, rng.dirichlet(np.ones(2))
        loss = rng.normal(size=(3, 2))
        prior = rng.dirichlet(np.ones(3))
        first = channels.gibbs(channels.summed_loss(loss, n), n, 1.3, probs, prior)
        kernel = rng.dirichlet(np.ones(2), size=(2**n, 3))  # depends on dataset and output
        pair = first.then(kernel)
        # The second must be bounded on the law of the data given the first output.
        posterior = first.log_weight[:, None] + first.log_laws
        posterior -= logsumexp(posterior, axis=0)
        second_bits = max(
            laws.max_information_bits(posterior[:, w], np.log(kernel[:, w])) for w in range(3)
        )
        bits = first.max_information_bits() + second_bits
        eps_2 = max(FiniteChannel(kernel[:, w], probs, n).dp_epsilon() for w in range(3))
        coarse = first.post_process(rng.dirichlet(np.ones(2), size=3))
        eps_1 = first.on_average_kl([0])
        lemma_5 = first.on_average_kl()
        lemma = eps_1 + conditional_on_average_kl(first, kernel)
        total = first.dp_epsilon() + eps_2
        twice = 2 * first.on_average_kl()
        information = first.mutual_information()
        composed, found = pair.on_average_kl([0]), pair.max_information_bits()
        again = first.then(first.probabilities)
        processing, early = "data processing: I(f(W); S) <= I(W; S)", "Dwork et al. 2006"
        records = [
            inequality("Lemma 5: eps_KL(f A) <= eps_KL(A)", WANG, coarse.on_average_kl(), lemma_5),
            inequality(processing, "Cover & Thomas", coarse.mutual_information(), information),
            inequality("DP post-processing", early, coarse.dp_epsilon(), first.dp_epsilon()),
            equality("composition lemma, theta ~ A(Z) (chain rule)", WANG, composed, lemma),
            equality("two draws cost 2 eps_KL", WANG, again.on_average_kl(), twice),
            inequality("basic composition of DP, adaptive", early, pair.dp_epsilon(), total),
            inequality("max-information adds, adaptive", f"{DWORK}, Lemma 14", found, bits),
            _selection_bias(first.joint(), n),
            *(tail_record(first.joint().reshape(first.num_outputs, -1), b) for b in (0.01, 0.2)),
        ]
        checks += exact_checks(records, f"random channel {seed}")
    return checks + exact_checks(nearly_tight_tail(), "a rare dataset that gives itself away")


def tail_bits(joint: Float[np.ndarray, "outputs datasets"], beta: float) -> float:
    """Least ``k`` that the tail lemma allows: ``P[log2 ratio >= k'] <= beta`` for ``k'`` above."""
    ratio = np.log2(joint, where=joint > 0, out=np.full(joint.shape, -np.inf))
    ratio -= np.log2(np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    order = np.argsort(-ratio, axis=None)
    reached = np.cumsum(joint.flat[order]) > beta
    return float(ratio.flat[order][np.argmax(reached)])


def tail_record(joint: Float[np.ndarray, "outputs datasets"], beta: float) -> Record:
    """Bound approximate max-information by the tail of the log ratio of a joint law."""
    bits = dependence.approx_max_information_bits(joint, beta)
    name = "I_inf^beta <= quantile of the log ratio"
    return inequality(name, f"{DWORK}, Lemma 18", bits, tail_bits(joint, beta))


def nearly_tight_tail() -> list[Record]:
    """Reach the tail lemma: the tail is a dataset of probability ``beta``, told as such."""
    beta = 1e-3
    law = np.array([(1 - beta) / 2, (1 - beta) / 2, beta])
    joint = np.array([[0.75, 0.25, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]) * law
    bits = dependence.approx_max_information_bits(joint, beta)
    name = "I_inf^beta <= quantile of the log ratio"
    return [reaches(name, f"{DWORK}, Lemma 18", bits, tail_bits(joint, beta))]


def _selection_bias(joint: np.ndarray, n: int) -> Record:
    """Bias of a statistic chosen by the output: the mean of the bits, or one minus it."""
    law = joint.reshape(joint.shape[0], -1)
    mean = ordered_datasets(n, joint.shape[1]).mean(axis=1)
    statistic = np.stack([mean if w % 2 else 1 - mean for w in range(law.shape[0])])
    expected = statistic @ law.sum(axis=0)
    bias = abs(float((law * statistic).sum() - law.sum(axis=1) @ expected))
    # A mean of n numbers in [0, 1] is subgaussian with sigma = 1 / (2 sqrt n).
    limit = bounds.generalization_from_mutual_information(
        dependence.mutual_information(law), n, sigma=0.5
    )
    return inequality("selection bias <= sqrt(2 sigma^2 I)", RUSSO, bias, limit)


def counterexample_checks() -> list[Check]:
    """Collect false statements, some of them in print, each with its counterexample."""
    return exact_checks(counterexamples.all_counterexamples(), "counterexample")


def all_exact_checks() -> list[Check]:
    """Run every check of this file."""
    return [
        *fixture_checks(),
        *random_checks(),
        *structured_checks(),
        *channel_checks(),
        *counterexample_checks(),
    ]
