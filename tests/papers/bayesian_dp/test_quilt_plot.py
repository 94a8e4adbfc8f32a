"""Pictures of quilts: every row once, in its set, and every edge."""

import networkx as nx
import numpy as np
import pytest

from gibbs_dp.papers.bayesian_dp import BayesianNetwork, MarkovChain, MarkovNetwork
from gibbs_dp.papers.bayesian_dp.plot import KINDS, plot_quilt, plot_quilts


def drawn(figure):
    """Set of places by kind."""
    axes = figure.axes[0]
    points = {c.get_label(): c.get_offsets() for c in axes.collections}
    return {kind: {tuple(map(float, xy)) for xy in points[kind]} for kind in KINDS}


def test_every_row_is_drawn_in_its_set():
    chain = MarkovChain([[0.7, 0.3], [0.3, 0.7]], 8)
    found = drawn(plot_quilt(chain, 3, {1, 5}))
    assert found == {
        "the row": {(3.0, 0.0)},
        "nearby": {(2.0, 0.0), (4.0, 0.0)},
        "quilt": {(1.0, 0.0), (5.0, 0.0)},
        "remote": {(0.0, 0.0), (6.0, 0.0), (7.0, 0.0)},
    }
    grid = MarkovNetwork.ising(nx.grid_2d_graph(3, 3), 0.2)
    figure = plot_quilt(grid, 4)
    found = drawn(figure)
    assert found["quilt"] == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert found["remote"] == {(0, 0), (0, 2), (2, 0), (2, 2)}
    assert len(figure.axes[0].lines) == grid.graph.number_of_edges()
    assert figure.axes[0].get_title(loc="left") == "|N| = 0, |Q| = 4"


def test_arrows_and_joined_parents():
    graph = nx.DiGraph([(0, 2), (1, 2), (2, 3)])
    tables = {v: np.full([2] * (graph.in_degree(v) + 1), 0.5) for v in graph}
    axes = plot_quilt(BayesianNetwork(graph, tables), 0).axes[0]
    assert (
        sum(text.arrow_patch is not None for text in axes.texts if hasattr(text, "arrow_patch"))
        == 3
    )
    (joined,) = axes.lines
    assert joined.get_linestyle() == "--"


def test_the_page_has_all_four_and_trees_have_levels():
    assert len(plot_quilts().axes) == 4
    tree = MarkovNetwork.ising(nx.balanced_tree(2, 3), 0.2)
    figure = plot_quilt(tree, 1, tree.sphere_quilt(1, 2))
    heights = {y for places in drawn(figure).values() for _, y in places}
    assert len(heights) == 4


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"quilt": {3}}, "row and quilt must be different rows"),
        ({"quilt": {9}}, "row and quilt must be different rows"),
        ({"places": {0: (0.0, 0.0)}}, "places must have one place for each of the 8 rows"),
    ],
)
def test_bad_quilts(more, message):
    chain = MarkovChain([[0.7, 0.3], [0.3, 0.7]], 8)
    with pytest.raises(ValueError, match=message):
        plot_quilt(chain, 3, **more)
