"""A Markov quilt, drawn: a row, what is near, the quilt, what is remote (Zhao 2019, Figure 1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp._extras import require
from gibbs_dp.papers.bayesian_dp import BayesianNetwork, MarkovChain, MarkovNetwork
from gibbs_dp.papers.bayesian_dp.networks import GraphLaw
from gibbs_dp.results.plotting import (
    ORANGE,
    SKY,
    VERMILION,
    Picture,
    legend_of_figure,
    panels,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Kind of row -> colour, edge, marker.
KINDS = {
    "the row": (VERMILION, "black", "o"),
    "nearby": (ORANGE, "black", "o"),
    "quilt": (SKY, "black", "s"),
    "remote": ("white", "0.5", "o"),
}
Place = tuple[float, float]


@styled()
def plot_quilt(
    model: MarkovChain | GraphLaw,
    row: int,
    quilt: Iterable[int] | None = None,
    *,
    places: Mapping[int, Place] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw a row, its nearby set, a quilt, and the rows that it makes independent of both."""
    figure, grid = panels((6.4, 4.0))
    _draw(grid[0, 0], model, row, quilt, places, title)
    legend_of_figure(figure, (grid[0, 0],), columns=len(KINDS))
    return figure


@styled()
def plot_quilts() -> Picture:
    """Draw quilts of a chain, a tree, a grid, and a network in which parents must be joined."""
    nx = require("networkx")
    chain = MarkovChain([[0.7, 0.3], [0.3, 0.7]], 11)
    tree = MarkovNetwork.ising(nx.balanced_tree(2, 4), 0.3)
    grid = MarkovNetwork.ising(nx.grid_2d_graph(7, 5), 0.3)
    arrows = nx.DiGraph([(0, 2), (1, 2), (2, 4), (3, 4), (4, 5), (1, 6)])
    sizes = {v: [2] * arrows.in_degree(v) for v in arrows}
    collider = BayesianNetwork(arrows, {v: np.full([*sizes[v], 2], 0.5) for v in arrows})
    number = {node: i for i, node in enumerate(collider.nodes)}
    across, up = (0.0, 2.0, 1.0, 3.0, 2.0, 2.0, 3.0), (2.0, 2.0, 1.0, 1.0, 0.0, -1.0, 2.0)
    middle = grid.nodes.index((3, 2))
    figure, axes = panels((9.6, 7.2), 2, 2)
    _draw(axes[0, 0], chain, 5, {3, 8}, None, "chain, quilt {i-2, i+3}")
    _draw(axes[0, 1], tree, 1, tree.sphere_quilt(1, 2), None, "tree, distance 2")
    _draw(axes[1, 0], grid, middle, grid.sphere_quilt(middle, 2), None, "grid, distance 2")
    _draw(
        axes[1, 1],
        collider,
        number[0],
        collider.blanket(number[0]),
        {number[v]: (across[v], up[v]) for v in arrows},
        "directed, blanket (parents joined)",
    )
    legend_of_figure(figure, axes.ravel(), columns=len(KINDS))
    return figure


def _draw(
    axes: Axes,
    model: MarkovChain | GraphLaw,
    row: int,
    quilt: Iterable[int] | None,
    places: Mapping[int, Place] | None,
    title: str | None,
) -> None:
    nx = require("networkx")
    graph = _graph(model)
    members = model.blanket(row) if quilt is None else frozenset(quilt)
    if row in members or not members | {row} <= set(graph):
        raise ValueError(
            f"row and quilt must be different rows in 0..{len(graph) - 1}, got {row} and "
            f"{sorted(members)}."
        )
    rest = graph.subgraph(set(graph) - members)
    near = nx.node_connected_component(rest, row) - {row}
    sets = {
        "the row": {row},
        "nearby": near,
        "quilt": set(members),
        "remote": set(rest) - near - {row},
    }
    spots = dict(places) if places is not None else _places(model, graph)
    if set(spots) != set(graph):
        raise ValueError(f"places must have one place for each of the {len(graph)} rows.")
    for u, v in graph.edges:
        _draw_edge(axes, model, u, v, spots)
    for kind, rows in sets.items():
        color, edge, marker = KINDS[kind]
        xy = np.array([spots[v] for v in sorted(rows)]).reshape(-1, 2)
        axes.scatter(
            xy[:, 0], xy[:, 1], s=170, c=color, edgecolors=edge, marker=marker, zorder=3, label=kind
        )
    axes.text(*spots[row], "$i$", ha="center", va="center", color="white", zorder=4)
    counts = f"|N| = {len(near)}, |Q| = {len(members)}"
    axes.set_title(counts if title is None else f"{title}: {counts}")
    axes.margins(0.08, 0.2)
    axes.set_aspect("equal", adjustable="datalim")
    axes.axis("off")


def _draw_edge(
    axes: Axes, model: MarkovChain | GraphLaw, u: int, v: int, spots: Mapping[int, Place]
) -> None:
    """Draw an arrow where there is a direction; a dashed line joins parents of a child."""
    ends = [spots[u], spots[v]]
    if isinstance(model, BayesianNetwork):
        names = model.nodes
        if model.graph.has_edge(names[v], names[u]):
            ends, is_arrow = ends[::-1], True
        else:
            is_arrow = model.graph.has_edge(names[u], names[v])
        if is_arrow:
            shape = {"arrowstyle": "-|>", "color": "0.3", "shrinkA": 7, "shrinkB": 7, "lw": 1.2}
            axes.annotate("", xy=ends[1], xytext=ends[0], arrowprops=shape, zorder=1)
            return
        axes.plot(*zip(*ends, strict=True), color="0.5", lw=1.2, ls="--", zorder=1)
        return
    axes.plot(*zip(*ends, strict=True), color="0.5", lw=1.2, zorder=1)


def _graph(model: MarkovChain | GraphLaw) -> Any:
    """Where sets separate, on row numbers."""
    nx = require("networkx")
    graph = nx.Graph()
    graph.add_nodes_from(range(model.length))
    graph.add_edges_from((v, u) for v in range(model.length) for u in model.blanket(v))
    return graph


def _places(model: MarkovChain | GraphLaw, graph: Any) -> dict[int, Place]:
    nx = require("networkx")
    nodes: tuple[Hashable, ...] = (
        tuple(range(model.length)) if isinstance(model, MarkovChain) else model.nodes
    )
    if all(
        isinstance(v, tuple) and len(v) == 2 and all(isinstance(x, int | float) for x in v)
        for v in nodes
    ):
        return {i: (float(v[0]), float(v[1])) for i, v in enumerate(nodes)}  # type: ignore[index]
    if isinstance(model, MarkovChain):
        return {i: (float(i), 0.0) for i in range(model.length)}
    if nx.is_tree(graph):
        return _levels(graph)
    spring = nx.kamada_kawai_layout(graph)
    return {v: (float(xy[0]), float(xy[1])) for v, xy in spring.items()}


def _levels(tree: Any) -> dict[int, Place]:
    """Leaves side by side, everything else above the middle of what hangs on it."""
    nx = require("networkx")
    below = nx.bfs_tree(tree, 0)
    depth = nx.single_source_shortest_path_length(tree, 0)
    found: dict[int, Place] = {}
    width = 0.0
    for v in nx.dfs_postorder_nodes(below, 0):
        own = [found[u][0] for u in below.successors(v)]
        if not own:
            own, width = [width], width + 1.0
        found[v] = (float(np.mean(own)), 0.0)
    height = max(width / (2.0 * max(depth.values(), default=1) or 1.0), 1.0)
    return {v: (x, -height * depth[v]) for v, (x, _) in found.items()}
