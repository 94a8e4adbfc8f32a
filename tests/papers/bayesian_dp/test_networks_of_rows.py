"""Markov and Bayesian networks of any size: against enumeration, and chains' own formulas."""

import math

import networkx as nx
import numpy as np
import pytest

from gibbs_dp.papers import bayesian_dp
from gibbs_dp.papers.bayesian_dp import BayesianNetwork, MarkovChain, MarkovNetwork
from gibbs_dp.papers.bayesian_dp.bdp import contract, sphere_counts, sphere_influences
from gibbs_dp.papers.bayesian_dp.row_law import adversaries, exact_bdp_leakage, max_influence


def undirected(rng, graph, cliques=(), strength=0.8):
    graph = nx.convert_node_labels_to_integers(graph)
    sizes = rng.integers(2, 4, len(graph))
    scopes = [*graph.edges, *cliques, (0,)]
    potentials = {
        clique: np.exp(strength * rng.normal(size=[sizes[v] for v in clique])) for clique in scopes
    }
    return MarkovNetwork(graph, potentials)


def directed(rng, arrows):
    graph = nx.DiGraph(arrows)
    sizes = {v: int(rng.integers(2, 4)) for v in graph}
    tables = {
        v: rng.dirichlet(np.full(sizes[v], 2.0), [sizes[p] for p in graph.predecessors(v)])
        for v in graph
    }
    return BayesianNetwork(graph, tables)


TRIANGLE = nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])
NETWORKS = {
    "tree": lambda rng: undirected(rng, nx.random_labeled_tree(6, seed=4)),
    "cycle": lambda rng: undirected(rng, nx.cycle_graph(5)),
    "2x3 grid": lambda rng: undirected(rng, nx.grid_2d_graph(2, 3), strength=0.4),
    "triangle": lambda rng: undirected(rng, TRIANGLE, [(0, 1, 2)]),
    "two parts": lambda rng: undirected(rng, nx.Graph([(0, 1), (1, 2), (3, 4)])),
    "directed tree": lambda rng: directed(rng, [(0, 1), (0, 2), (2, 3), (2, 4)]),
    "collider": lambda rng: directed(rng, [(0, 2), (1, 2), (2, 3), (1, 4)]),
    "two colliders": lambda rng: directed(rng, [(0, 1), (2, 1), (2, 3), (4, 3)]),
}


@pytest.fixture(params=NETWORKS)
def network(request):
    return NETWORKS[request.param](np.random.default_rng(list(NETWORKS).index(request.param)))


def joint_by_definition(network):
    """The product of the tables, one dataset after the other."""
    numbers = {node: i for i, node in enumerate(network.nodes)}
    if isinstance(network, MarkovNetwork):
        tables = [([numbers[v] for v in c], t) for c, t in network.potentials.items()]
    else:
        tables = [
            ([numbers[v] for v in (*network.graph.predecessors(node), node)], table)
            for node, table in network.tables.items()
        ]
    found = np.ones(network.sizes)
    for x in np.ndindex(found.shape):
        for scope, table in tables:
            found[x] *= np.asarray(table)[tuple(x[v] for v in scope)]
    return found / found.sum()


def test_elimination_is_enumeration(network):
    joint = joint_by_definition(network)
    np.testing.assert_allclose(network.joint(), joint, rtol=1e-12)
    pair = joint.sum(axis=tuple(range(2, joint.ndim)))
    np.testing.assert_allclose(network.law([1, 0]), pair.T, rtol=1e-12)
    part = joint[..., 1].sum(axis=tuple(range(2, joint.ndim - 1)))
    told = network.law([0, 1], {network.length - 1: 1})
    np.testing.assert_allclose(told, part / part.sum(), rtol=1e-12)
    assert network.law([]) == 1.0


def test_given_a_quilt_what_is_remote_is_independent(network):
    joint = network.joint()
    for row in range(network.length):
        spheres = [network.sphere_quilt(row, radius) for radius in (1, 2)]
        for quilt in (*network.quilts(row, 2), *spheres):
            near = network.nearby(row, quilt)
            for v in {row, *near}:
                remote = set(range(network.length)) - quilt - near - {row}
                if remote:
                    told = max_influence(joint, v, remote, quilt)
                    assert told == pytest.approx(0, abs=1e-12)


def test_contraction_is_above_every_influence(network):
    """All rows, distances, and all that may be known; and close to some."""
    joint, n = network.joint(), network.length
    whole, without_leaves = sphere_influences(network.factors, n, 3)
    ratios = []
    for row in range(n):
        away = nx.single_source_shortest_path_length(network._separating, row)
        for radius in (1, 2, 3):
            sphere = {v for v, far in away.items() if far == radius}
            inner = {v for v in sphere if sum(v in f.scope for f in network.factors) > 1}
            for quilt, bounds in ((sphere, whole), (inner, without_leaves)):
                bound = bounds[radius - 1, row]
                if not quilt:
                    continue
                worst = max(
                    max_influence(joint, row, quilt - known, known)
                    for i, known in adversaries(n)
                    if i == row
                )
                assert worst <= bound + 1e-10
                ratios.append(worst / bound)
    assert max(ratios) > 0.5


def test_counts_are_those_of_the_sets(network):
    check_counts(network)


def test_counts_of_a_tree_of_many_rows():
    """More rows than distances are held of at once."""
    check_counts(MarkovNetwork.ising(nx.random_labeled_tree(300, seed=2), 0.1), range(0, 300, 29))


def check_counts(network, rows=None):
    """A row and what is near it, for the spheres with and without the ends that lead nowhere."""
    inner, with_leaves, connected = sphere_counts(network.factors, network.length, 4)
    for row in range(network.length) if rows is None else rows:
        away = nx.single_source_shortest_path_length(network._separating, row)
        assert connected[0, row] == len(away)
        for radius in (1, 2, 3, 4):
            sphere = {v for v, far in away.items() if far == radius}
            ends = {v for v in sphere if sum(v in f.scope for f in network.factors) == 1}
            assert inner[radius - 1, row] == 1 + len(network.nearby(row, sphere))
            assert with_leaves[radius - 1, row] == 1 + len(network.nearby(row, sphere - ends))


def test_bounds_of_both_forms_are_above_real_leaks(network):
    """Noisy majorities, whose leaks add up over rows that depend on each other."""
    joint, n = network.joint(), network.length
    forms = {
        (lemma, form): bayesian_dp.quilt_profile(network, lemma=lemma, form=form)
        for lemma in (2, 3)
        for form in ("exact", "contraction")
    }
    assert all(profile.form == form for (_, form), profile in forms.items())
    puffer = {
        form: bayesian_dp.MarkovQuiltMechanism(network, 2.0, form=form).scale
        for form in ("exact", "contraction")
    }
    assert 0.5 <= puffer["exact"] <= puffer["contraction"] * (1 + 1e-9) <= n / 2 * (1 + 1e-8)
    score = sum((axis == 0) * 1.0 for axis in np.indices(joint.shape)) - n / 2
    for epsilon in (0.05, 0.5, 3.0):
        tail = 0.5 * np.exp(-epsilon * np.abs(score))
        p = np.where(score > 0, 1 - tail, tail)
        table = np.stack([p, 1 - p], axis=-1)
        logs = np.log(table)
        dp = max(float(np.ptp(logs, axis=i).max()) for i in range(n))
        leak = exact_bdp_leakage(table, joint)
        bounds = {key: profile.bdp_epsilon(dp) for key, profile in forms.items()}
        assert leak <= min(bounds.values()) * (1 + 1e-9)
        for lemma in (2, 3):
            assert bounds[lemma, "exact"] <= bounds[lemma, "contraction"] * (1 + 1e-9)
        assert bounds[2, "contraction"] <= n * dp * (1 + 1e-9)


def test_contract_is_the_most_that_a_positive_matrix_lets_through():
    rng = np.random.default_rng(2)

    def distance(u, v):
        return np.ptp(np.log(u / v))

    reached = []
    for _ in range(300):
        matrix = np.exp(rng.normal(size=(2, 3)) * 2)
        diameter = np.ptp(np.log(matrix[0] / matrix[1]))
        u, v = np.exp(rng.normal(size=(2, 3)))
        limit = contract(np.array([diameter]), np.array([distance(u, v)]))[0]
        through = distance(matrix @ u, matrix @ v)
        assert through <= limit * (1 + 1e-9)
        reached.append(through / limit)
    assert max(reached) > 0.8
    # Attained: two values, weights that balance.
    matrix, u = np.array([[np.e**2, 1.0], [1.0, 1.0]]), np.array([np.e**3, 1.0])
    v = np.array([np.exp(-2.5), 1.0])
    best = distance(matrix @ (u * v), matrix @ v)
    assert best == pytest.approx(contract(np.array([2.0]), np.array([3.0]))[0], rel=1e-12)


@pytest.mark.parametrize("flip", [0.1, 0.3])
def test_long_chains_are_between_lemma_4_and_its_spectral_form(flip):
    table = np.array([[1 - flip, flip], [flip, 1 - flip]])
    n, reach = 1000, 24
    chain = MarkovChain(table, n)
    both = (
        MarkovNetwork(nx.path_graph(n), {(i, i + 1): table for i in range(n - 1)}),
        BayesianNetwork(
            nx.path_graph(n, create_using=nx.DiGraph),
            {i: table if i else [0.5, 0.5] for i in range(n)},
        ),
    )
    powers = np.linalg.matrix_power(table, 6)
    exact = bayesian_dp.quilt_profile(chain, reach=reach)
    spectral = bayesian_dp.quilt_profile(chain, form="spectral", reach=reach)
    for network in both:
        np.testing.assert_allclose(network.law([3, 9]), powers / 2, rtol=1e-9)
        found = bayesian_dp.quilt_profile(network, reach=reach)
        for epsilon in (0.01, 0.1):
            least = exact.bdp_epsilon(epsilon)
            assert least * (1 - 1e-9) <= found.bdp_epsilon(epsilon) < 1.1 * least
            assert found.bdp_epsilon(epsilon) < spectral.bdp_epsilon(epsilon)


def test_trees_of_hundreds_and_grids_are_far_below_all_rows_as_one():
    tree = MarkovNetwork.ising(nx.balanced_tree(2, 8), 0.15)
    grid = MarkovNetwork.ising(nx.grid_2d_graph(12, 12), 0.1)
    for network, limit in ((tree, 0.1), (grid, 0.3)):
        profile = bayesian_dp.quilt_profile(network)
        assert profile.form == "contraction"
        found = profile.bdp_epsilon(0.01)
        assert 0.01 < found < limit * 0.01 * network.length
        assert bayesian_dp.MarkovQuiltMechanism(network, 1.0).scale < network.length
        assert profile.bdp_epsilon(0.0) == 0.0
    # Symmetric: the centre's law by elimination.
    assert grid.law([77]) == pytest.approx([0.5, 0.5], abs=1e-12)


def test_networks_at_the_edge():
    """One row, rows alone, more neighbours than any table has room for, weights near overflow."""
    alone = MarkovNetwork(nx.empty_graph(12), {(i,): [1.0, 2.0] for i in range(12)})
    assert bayesian_dp.bdp_epsilon(0.3, alone) == pytest.approx(0.3)
    single = MarkovNetwork(nx.empty_graph(1), {(0,): [1.0, 2.0]})
    assert bayesian_dp.bdp_epsilon(0.3, single, form="contraction") == pytest.approx(0.3)
    assert single.joint() == pytest.approx([1 / 3, 2 / 3])
    dense = MarkovNetwork.ising(nx.complete_graph(30), 0.001)
    assert 0.3 < bayesian_dp.bdp_epsilon(0.3, dense) <= 0.3 + 29 * 0.004 + 1e-12
    strong = MarkovNetwork.ising(nx.path_graph(12), 400.0, 400.0)
    assert bayesian_dp.bdp_epsilon(0.3, strong) == pytest.approx(12 * 0.3)
    assert strong.law([0]) == pytest.approx([0.0, 1.0])


def test_values_that_exclude_each_other():
    """A value of one row excludes one of its neighbour: nothing bounds what that tells."""
    graph = nx.path_graph(3)
    hard = MarkovNetwork(graph, {(0, 1): [[1.0, 0.0], [1.0, 1.0]], (1, 2): [[1.0, 2.0]] * 2})
    whole, _ = sphere_influences(hard.factors, 3, 1)
    assert whole[0, 0] == math.inf
    assert max_influence(hard.joint(), 0, [1], []) == math.inf
    assert whole[0, 2] == 0.0  # rows of the table are alike: independent
    # Row 1: the rows next to it are ends, so that its only sphere without them is empty.
    assert bayesian_dp.bdp_epsilon(0.5, hard, form="contraction") == pytest.approx(1.5)
    assert bayesian_dp.bdp_epsilon(0.5, hard) == pytest.approx(1.0)  # its quilt {2} tells nothing
    # A value that is never taken is not one that tells.
    never = MarkovNetwork(
        graph, {(0, 1): [[1.0, 0.0, 2.0], [2.0, 0.0, 1.0]], (1, 2): np.ones((3, 2))}
    )
    whole, _ = sphere_influences(never.factors, 3, 1)
    assert whole[0, 0] == pytest.approx(math.log(4))


EDGE = nx.Graph([("a", "b")])
PAIR = {("a", "b"): np.ones((2, 2))}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MarkovNetwork(nx.DiGraph([(0, 1)]), {}), "must be a networkx.Graph"),
        (lambda: MarkovNetwork(nx.Graph([(0, 0)]), {}), "joined to itself"),
        (lambda: MarkovNetwork(EDGE, {"a": [1.0, 1.0]}), "keys are tuples of nodes"),
        (lambda: MarkovNetwork(nx.path_graph(3), {(0, 2): np.ones((2, 2))}), "not joined pairwise"),
        (lambda: MarkovNetwork(EDGE, {("a", "b"): [1.0, 1.0]}), "an axis for each of its 2 nodes"),
        (lambda: MarkovNetwork(EDGE, {("a", "b"): -np.ones((2, 2))}), "finite and >= 0"),
        (lambda: MarkovNetwork(EDGE, PAIR | {("a",): np.ones(3)}), "2 values in one table and 3"),
        (lambda: MarkovNetwork(EDGE, {("a",): [1.0, 1.0]}), "some node of the graph is in none"),
        (lambda: MarkovNetwork(EDGE, {("a", "b"): np.zeros((2, 2))}), "no dataset has a positive"),
        (lambda: MarkovNetwork.ising(EDGE, 1.0, {"a": 0.0}), "node 'b' has none"),
        (lambda: MarkovNetwork(EDGE, PAIR).law([0, 0]), "different rows"),
        (lambda: MarkovNetwork(EDGE, PAIR).law([2]), "row must lie in 0..1"),
        (lambda: MarkovNetwork(EDGE, PAIR).law([0], {1: 5}), "row 1 has values 0..1"),
        (
            lambda: bayesian_dp.bdp_epsilon(
                1.0, MarkovChain([[0.5, 0.5]] * 2, 3), form="contraction"
            ),
            "contraction is for Lemmas 2 and 3",
        ),
        (
            lambda: bayesian_dp.bdp_epsilon(
                1.0, MarkovNetwork.ising(nx.path_graph(30), 1.0), form="exact"
            ),
            "datasets",
        ),
    ],
)
def test_bad_networks(call, message):
    with pytest.raises(ValueError, match=message):
        call()
