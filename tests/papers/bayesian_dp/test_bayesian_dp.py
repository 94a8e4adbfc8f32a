"""Bayesian DP of dependent rows against enumeration: every adversary, every dataset."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy.special import expit

from gibbs_dp.information import dependence
from gibbs_dp.papers import bayesian_dp
from gibbs_dp.papers.bayesian_dp import BayesianNetwork, MarkovChain, MarkovQuiltMechanism
from gibbs_dp.papers.bayesian_dp.bdp import ChainInfluence, quilt_profile, spectral_side
from gibbs_dp.papers.bayesian_dp.markov_chain import (
    ReversibleChainRows,
    chain_tail,
    independent_tail,
    printed_fixed_tail,
)
from gibbs_dp.papers.bayesian_dp.row_law import adversaries, exact_bdp_leakage, max_influence
from gibbs_dp.papers.bounds import dp_max_information_bits_eighth

ROUND = 1e-9


def random_chain(rng, states, length, is_stationary):
    transition = rng.dirichlet(np.ones(states), states)
    start = None if is_stationary else rng.dirichlet(np.ones(states))
    return MarkovChain(transition, length, start)


def random_network(rng, arrows, sizes):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(sizes)))
    graph.add_edges_from(arrows)
    tables = {
        v: rng.dirichlet(np.ones(sizes[v]), [sizes[p] for p in graph.predecessors(v)])
        for v in graph
    }
    return BayesianNetwork(graph, tables)


COLLIDERS = (
    [(0, 2), (1, 2)],
    [(0, 2), (1, 2), (2, 3), (1, 4)],
    [(0, 1), (2, 1), (2, 3), (4, 3)],
    [(0, 3), (1, 3), (2, 3), (3, 4)],
)


def binary_mechanism(rng, shape, eps):
    """``P(Y | x)`` of a random binary ``eps``-DP mechanism: a noisy threshold of a random score."""
    index = np.indices(shape)
    score = sum(rng.uniform(-1, 1, size)[index[i]] for i, size in enumerate(shape))
    score = rng.choice([0.3, 1.0, 4.0]) * eps * (score - rng.uniform(-1, 1))
    table = np.stack([expit(score), expit(-score)], axis=-1)
    return table, dp_epsilon(table)


def dp_epsilon(table):
    logs = np.log(table)
    return max(float(np.ptp(logs, axis=i).max()) for i in range(table.ndim - 1))


def adversarial_mechanism(rng, joint, eps):
    """Tell whether most rows are 0, ``eps`` at a time: correlation adds up."""
    index = np.indices(joint.shape)
    score = sum((index[i] == 0) * 1.0 for i in range(joint.ndim)) - joint.ndim / 2
    p = np.where(
        score > 0, 1 - 0.5 * np.exp(-eps * np.abs(score)), 0.5 * np.exp(-eps * np.abs(score))
    )
    table = np.stack([p, 1 - p], axis=-1)
    return table, dp_epsilon(table)


def check(model, rng, lemmas):
    joint = model.joint()
    profiles = {lemma: bayesian_dp.quilt_profile(model, lemma=lemma) for lemma in lemmas}
    ratios = []
    for make in (binary_mechanism, adversarial_mechanism):
        for eps in (0.05, 0.5, 3.0):
            table, dp = make(rng, joint.shape if make is binary_mechanism else joint, eps)
            exact = exact_bdp_leakage(table, joint)
            found = {lemma: profile.bdp_epsilon(dp) for lemma, profile in profiles.items()}
            for bound in found.values():
                assert exact <= bound * (1 + ROUND) + 1e-12
            assert found[2] <= min([*found.values(), model.length * dp]) * (1 + ROUND)
            ratios.append(exact / found[2])
            # Max-information of the same problem, in bits, from the exact leakage.
            law = (joint[..., None] * table).reshape(-1, 2).T
            for beta in (1e-6, 0.05, 0.4):
                bits = dependence.approx_max_information_bits(law, beta)
                limit = dp_max_information_bits_eighth(model.length, exact, beta=beta)
                assert bits <= limit + 1e-9
    return ratios


@pytest.mark.parametrize(("states", "length"), [(2, 3), (2, 5), (2, 6), (3, 3), (3, 4)])
def test_leakage_in_chains_is_within_lemmas_2_3_and_4(states, length):
    rng = np.random.default_rng(10 * states + length)
    ratios = []
    for is_stationary in (True, False):
        ratios += check(random_chain(rng, states, length, is_stationary), rng, (2, 3, 4))
    assert max(ratios) > 0.3  # bounds of the right size, not of the right sign alone


@pytest.mark.parametrize("arrows", COLLIDERS)
def test_leakage_in_networks_with_colliders_is_within_lemmas_2_and_3(arrows):
    rng = np.random.default_rng(len(arrows))
    size = max(max(a) for a in arrows) + 1
    for _ in range(2):
        check(random_network(rng, arrows, rng.integers(2, 4, size)), rng, (2, 3))


def test_lemma_4_influence_is_what_enumeration_finds():
    rng = np.random.default_rng(5)
    for states, is_stationary in ((2, True), (3, False)):
        chain = random_chain(rng, states, 4, is_stationary)
        joint = chain.joint()
        for knows in (True, False):
            influence = ChainInfluence(chain, 3, knows_others=knows)
            for i in (1, 2):
                both = influence.two_sided(i)
                for a, b in np.ndindex(both.shape):
                    quilt = {i - a - 1, i + b + 1}
                    known = [k for r, k in adversaries(4) if r == i and not k & quilt]
                    best = max(
                        max_influence(joint, i, quilt, k) for k in (known if knows else [()])
                    )
                    assert both[a, b] == pytest.approx(best, abs=1e-12)


def test_unconditional_influence_is_not_enough():
    """n = 4, flip 0.1, eps = 4: a real leakage is above the bound that leaves ``K`` out."""
    chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]], 4)
    joint = chain.joint()
    known_nothing = bayesian_dp.quilt_profile(chain, lemma=2, knows_others=False).bdp_epsilon(4.0)
    # Searched among thresholds of weighted sums.
    best = 0.0
    index = np.indices(joint.shape) * 2 - 1
    for weights in np.ndindex(3, 3, 3, 3):
        for shift in (-1.0, -0.5, 0.0, 0.5, 1.0):
            score = sum((w - 1) * index[i] / 2 for i, w in enumerate(weights)) + shift
            tail = 0.5 * np.exp(-4.0 * np.abs(score))
            p = np.where(score > 0, 1 - tail, tail)
            table = np.stack([p, 1 - p], axis=-1)
            if dp_epsilon(table) <= 4.0 + 1e-12:
                best = max(best, exact_bdp_leakage(table, joint))
    assert known_nothing == pytest.approx(4 + 2 * math.log(9))  # the blanket's two sides
    assert best > known_nothing
    assert best <= bayesian_dp.bdp_epsilon(4.0, chain, lemma=2)


def test_separation_without_the_moral_graph_would_be_wrong():
    """A collider: its parents are independent, and its value makes them tell on each other."""
    rng = np.random.default_rng(8)
    network = random_network(rng, COLLIDERS[0], [2, 2, 2])
    joint = network.joint()
    assert max_influence(joint, 0, [1], []) == pytest.approx(0, abs=1e-12)
    assert max_influence(joint, 0, [1], [2]) > 0.1
    assert network.nearby(0, []) == {1, 2}
    assert network.nearby(0, [2]) == {1}
    assert network.blanket(0) == {1, 2}
    for quilt, near in network.quilts(0).items():
        remote = set(range(3)) - quilt - near - {0}
        if remote:
            assert max_influence(joint, 0, remote, quilt) == pytest.approx(0, abs=1e-12)


def test_spectral_forms_are_above_exact_ones():
    slow = MarkovChain([[0.8, 0.2], [0.3, 0.7]], 120)
    for eps in (0.001, 0.1):
        exact, spectral = (
            bayesian_dp.bdp_epsilon(eps, slow, form=f) for f in ("exact", "spectral")
        )
        assert exact <= spectral <= 120 * eps
    started = MarkovChain([[0.8, 0.2], [0.3, 0.7]], 40, [0.9, 0.1])
    for chain in (MarkovChain(slow.transition, 40), started):
        influence = {
            knows: ChainInfluence(chain, 12, knows_others=knows) for knows in (True, False)
        }
        for knows, found in influence.items():
            for is_past, sides in ((True, found.one_sided(20)[0]), (False, found.one_sided(20)[1])):
                for lag, side in enumerate(sides, start=1):
                    limit = spectral_side(chain, lag, knows_others=knows, is_past=is_past)
                    assert side <= limit * (1 + 1e-9)


@pytest.mark.parametrize("flip", [0.05, 0.3])
def test_spectral_forms_are_those_of_the_docstring(flip):
    """Of a symmetric chain of two states, whose gap and least probability are known."""
    chain = MarkovChain([[1 - flip, flip], [flip, 1 - flip]], 1000)
    for lag in (20, 100):
        far = math.exp(-2 * flip * lag) / 0.5
        ratio = (0.5 + far / 2) / (0.5 - far / 2)
        for is_past in (True, False):
            side = {
                knows: spectral_side(chain, lag, knows_others=knows, is_past=is_past)
                for knows in (True, False)
            }
            assert math.exp(side[True]) == pytest.approx((1 - far) ** -2, rel=1e-9)
            assert math.exp(side[False]) == pytest.approx(ratio, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_the_noise_of_quilts_is_no_more_and_no_less_than_epsilon_asks(epsilon):
    """It leaks just epsilon to whoever knows no other row; of independent rows, it is 1/epsilon."""
    for chain in (MarkovChain([[0.7, 0.3], [0.4, 0.6]], 9), MarkovChain([[0.9, 0.1]] * 2, 9)):
        scale = MarkovQuiltMechanism(chain, epsilon).scale
        profile = quilt_profile(chain, knows_others=False)
        assert profile.bdp_epsilon(1 / scale) == pytest.approx(epsilon, rel=1e-9)
    assert scale == pytest.approx(1 / epsilon, rel=1e-9)


@pytest.mark.parametrize("form", ["exact", "spectral"])
def test_the_quilt_mechanism_keeps_its_epsilon_exactly(form):
    """Laplace mixtures given one row's value: their log ratio is extreme at a datum or far out."""
    chain = MarkovChain([[0.7, 0.3], [0.4, 0.6]], 9)
    joint = chain.joint()
    sums = np.indices(joint.shape).sum(axis=0)
    epsilon = 2.0
    mechanism = MarkovQuiltMechanism(chain, epsilon, form=form)
    assert mechanism.scale <= 9 / epsilon
    y = np.linspace(-30, 40, 1401)
    worst = 0.0
    for i in range(9):
        laws = []
        for value in (0, 1):
            part, total = joint.take(value, axis=i), sums.take(value, axis=i)
            counts = np.bincount(total.ravel(), weights=part.ravel(), minlength=10)
            kernel = np.exp(-np.abs(y[:, None] - np.arange(10)) / mechanism.scale)
            laws.append(kernel @ counts / counts.sum())
        worst = max(worst, float(np.abs(np.log(laws[0] / laws[1])).max()))
    assert worst <= epsilon
    if form == "exact":
        assert worst > 0.3 * epsilon
        smaller = np.exp(
            -np.abs(y[:, None] - np.arange(10)) * epsilon
        )  # as if rows were independent
        first = [
            np.bincount(
                sums.take(v, axis=4).ravel(), weights=joint.take(v, axis=4).ravel(), minlength=10
            )
            for v in (0, 1)
        ]
        ratio = np.log(
            (smaller @ first[0] / first[0].sum()) / (smaller @ first[1] / first[1].sum())
        )
        assert np.abs(ratio).max() > epsilon


def test_the_quilt_mechanism_on_a_network_is_no_worse_than_all_rows():
    network = random_network(np.random.default_rng(2), COLLIDERS[2], [2] * 5)
    assert MarkovQuiltMechanism(network, 3.0).scale <= 5 / 3.0


def test_printed_concentration_fails_and_the_chain_form_holds():
    assert bayesian_dp.printed_fixed_tail(200, 0.1) == pytest.approx(0.0366, abs=1e-4)
    assert bayesian_dp.copied_rows_tail(0.1) == 1.0  # with a constant algorithm: Bayesian DP is 0
    exact = bayesian_dp.two_state_tail(0.05, 200, 0.1)
    assert exact == pytest.approx(0.530, abs=5e-4)
    assert exact > bayesian_dp.printed_fixed_tail(200, 0.1)
    for flip, n, tau in ((0.05, 2000, 0.1), (0.3, 500, 0.08), (0.6, 300, 0.05)):
        chain = MarkovChain([[1 - flip, flip], [flip, 1 - flip]], n)
        assert bayesian_dp.two_state_tail(flip, n, tau) <= chain_tail(chain, tau) < 1
    # Flip 1/2 is independent rows.
    assert bayesian_dp.two_state_tail(0.5, 60, 0.1) == pytest.approx(independent_tail(60, 0.1))


@pytest.mark.parametrize("flip", [0.05, 0.3, 0.5])
def test_rows_count_for_as_many_as_their_mean_is_worth(flip):
    """Against the variance of the mean, whose limit is the sum of all autocovariances."""
    n = 20_000
    step = np.array([[1 - flip, flip], [flip, 1 - flip]])
    chain = MarkovChain(step, n)
    rows = ReversibleChainRows(chain.absolute_gap, lambda n, epsilon: n * epsilon)
    state, ahead, covariance = np.array([-0.5, 0.5]), np.array([-0.5, 0.5]), 0.25
    for _ in range(500):  # beyond, 0.9^500
        ahead = step @ ahead
        covariance += 2 * (0.5 * state @ ahead)
    assert rows.variance_inflation == pytest.approx(4 * covariance, rel=1e-9)
    worth = n / (4 * covariance)
    assert rows.tail(n, 0.02) == pytest.approx(2 * math.exp(-2 * worth * 0.02**2), rel=1e-8)
    assert rows.tail(n, rows.deviation(n, math.log(0.01))) == pytest.approx(0.01)
    if flip == 0.5:  # independent rows: Hoeffding's inequality
        assert rows.variance_inflation == pytest.approx(1.0, rel=1e-12)
        assert rows.tail(n, 0.01) == pytest.approx(printed_fixed_tail(n, 0.01))


NO_WAY = [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MarkovChain(NO_WAY, 3), "not irreducible"),
        (lambda: MarkovChain([[0.0, 1.0], [1.0, 0.0]], 3), "periodic"),
        (lambda: MarkovChain([[0.0, 1, 0], [0, 0.0, 1], [1, 0, 0.0]], 3), "periodic"),
        (lambda: MarkovChain([[0.5, 0.4], [0.5, 0.5]], 3), "must sum to 1"),
        (lambda: MarkovChain([[0.5, 0.5]], 3), "must have shape"),
        (lambda: MarkovChain([[0.5, 0.5], [0.5, 0.5]], 3, [1.0]), "start must have 2"),
        (
            lambda: bayesian_dp.bdp_epsilon(
                1.0,
                MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]], 5),
                form="spectral",
            ),
            "not reversible",
        ),
        (
            lambda: bayesian_dp.bdp_epsilon(-1.0, MarkovChain([[0.5, 0.5]] * 2, 3)),
            "dp_epsilon must",
        ),
        (
            lambda: bayesian_dp.bdp_epsilon(1.0, MarkovChain([[0.5, 0.5]] * 2, 30), lemma=2),
            "datasets",
        ),
        (lambda: BayesianNetwork(nx.DiGraph([(0, 1), (1, 0)]), {}), "cycle"),
        (lambda: BayesianNetwork(nx.DiGraph([(0, 1)]), {0: [1.0]}), "one entry for each node"),
        (
            lambda: BayesianNetwork(nx.DiGraph([(0, 1)]), {0: [0.5, 0.5], 1: [0.5, 0.5]}),
            "parents first",
        ),
        (
            lambda: BayesianNetwork(nx.DiGraph([(0, 1)]), {0: [0.5, 0.5], 1: [[0.5, 0.4]] * 2}),
            "must sum to 1",
        ),
        (lambda: max_influence([[0.5, 0.0], [0.0, 0.5]], 0, [0], []), "disjoint"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_value_that_excludes_another_is_infinite_influence():
    assert max_influence([[0.5, 0.0], [0.0, 0.5]], 0, [1], []) == math.inf
