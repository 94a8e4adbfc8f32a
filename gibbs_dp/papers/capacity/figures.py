"""Capacity-bounded privacy: curves, maps, analysts who select queries, two Gibbs posteriors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy import stats

from gibbs_dp import io
from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.exact import FiniteProblem
from gibbs_dp.information import bounds
from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity import CapacityBound
from gibbs_dp.papers.capacity.adversaries import QueryHull
from gibbs_dp.papers.capacity.analysts import analyst_rows
from gibbs_dp.papers.capacity.bound import ipm_from_kl_by_hoeffding, query_hull_kl
from gibbs_dp.papers.capacity.closed_forms import (
    gaussian_unrestricted_renyi,
    printed_gaussian,
    valid_gaussian,
)
from gibbs_dp.papers.capacity.matrix_mechanism import (
    gaussian_regime,
    hierarchical_strategy,
    identity_strategy,
    matrix_regime,
    optimized_strategy,
)
from gibbs_dp.papers.capacity.several import gaussian_renyi_of_polynomials
from gibbs_dp.papers.on_average_kl.closed_forms import private_mean_on_average_kl
from gibbs_dp.papers.tables import Row, column
from gibbs_dp.problems.base import Problem
from gibbs_dp.problems.location import private_mean
from gibbs_dp.problems.regression import logistic_regression
from gibbs_dp.results.plotting import (
    BLUE,
    GREEN,
    PURPLE,
    SKY,
    VERMILION,
    Picture,
    legend_below,
    mark_selected,
    one_panel,
    panels,
    styled,
)

# Figures 1a and 1b of Chaudhuri, Imola & Machanavajjhala (2019), and where printed bounds fail.

ALPHAS = tuple(float(a) for a in np.concatenate([np.linspace(1.1, 4.0, 30), np.arange(5.0, 41.0)]))
DEGREES = (1, 2, 3)
EPS = 1.0
SIGMA = 1.0
MAP_PRIVACY = tuple(float(e) for e in np.geomspace(0.02, 5.0, 25))
MAP_ALPHAS = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0, 40.0)


def curve_rows(alphas: Sequence[float] = ALPHAS, eps: float = EPS) -> list[dict[str, float]]:
    """Compute Rényi parameters of Laplace(1/eps) noise over the order, one dict per order, nats."""
    rows = []
    for alpha in alphas:
        row = {"alpha": alpha, "eps": eps}
        for degree in DEGREES:
            row[f"degree_{degree}"] = capacity.laplace_renyi_of_polynomials(eps, alpha, degree)
        row["printed_no_guarantee"] = capacity.printed_laplace(eps, alpha)
        row["valid"] = capacity.valid_laplace(eps, alpha)
        row["unrestricted"] = capacity.laplace_unrestricted_renyi(eps, alpha)
        rows.append(row)
    return rows


def gaussian_curve_rows(
    alphas: Sequence[float] = ALPHAS, sigma: float = SIGMA
) -> list[dict[str, float]]:
    """Compute Rényi parameters of normal noise over the order, sensitivity 1, nats."""
    rows = []
    for alpha in alphas:
        row = {"alpha": alpha, "sigma": sigma}
        for degree in DEGREES:
            row[f"degree_{degree}"] = gaussian_renyi_of_polynomials(sigma, alpha, degree)
        row["printed_no_guarantee"] = printed_gaussian(sigma, alpha)
        row["valid"] = valid_gaussian(sigma, alpha)
        row["unrestricted"] = gaussian_unrestricted_renyi(sigma, alpha)
        rows.append(row)
    return rows


def map_rows(
    privacy: Sequence[float] = MAP_PRIVACY, alphas: Sequence[float] = MAP_ALPHAS
) -> list[Row]:
    """Map where the printed Rényi bounds fail, hold or are vacuous: one dict per setting."""
    sigmas = [1 / value for value in privacy]
    later = [alpha for alpha in alphas if alpha >= 2]
    both = [0.5, 0.5]
    found = [
        *capacity.regime_map(capacity.laplace_regime, privacy, alphas),
        *capacity.regime_map(gaussian_regime, sigmas, alphas),
        *capacity.regime_map(partial(capacity.laplace_regime, shift=both), privacy, later),
        *capacity.regime_map(partial(gaussian_regime, shift=both), sigmas, later),
        *capacity.regime_map(matrix_regime, privacy, later),
    ]
    return [
        {("printed_no_guarantee" if k == "printed" else k): v for k, v in row._asdict().items()}
        for row in found
    ]


def matrix_rows(
    size: int = 8, eps: float = 0.5, alphas: Sequence[float] = (2.0, 3.0, 5.0)
) -> list[Row]:
    """Compare Theorem 5 with the exact value of linear adversaries, strategy by strategy."""
    workload = np.vstack([np.tril(np.ones((size, size))), 5 * np.ones((1, size))])
    strategies = {
        "identity": identity_strategy(size),
        "hierarchical": hierarchical_strategy(size),
        "optimized": optimized_strategy(workload),
    }
    rows: list[Row] = []
    for name, strategy in strategies.items():
        mechanism = capacity.MatrixMechanism(workload, strategy, eps)
        rows += [
            {
                "strategy": name,
                "rows": strategy.shape[0],
                "eps": eps,
                "alpha": alpha,
                "total_variance": mechanism.total_variance(),
                "simulation": mechanism.linear_renyi(alpha, "add-remove").value,
                "release": mechanism.linear_renyi(alpha, "add-remove", "release").value,
                "valid": mechanism.linear_renyi_valid(alpha, "add-remove").value,
                "printed_no_guarantee": mechanism.linear_renyi_printed(alpha).value,
            }
            for alpha in alphas
        ]
    return rows


# A mechanism that selects a query: how much it overfits, and what the bounds say (Theorem 6).

GAMMAS = (0.01, 0.03, 0.1, 0.3, 1.0)
N = 6
NUM_QUERIES, NUM_POINTS = 12, 3


def selection_problem(seed: int = 0) -> tuple[FiniteProblem, Float[np.ndarray, "queries points"]]:
    """Build twelve random queries into [-1, 1] on three equally likely points."""
    queries = np.random.default_rng(seed).uniform(-1, 1, (NUM_QUERIES, NUM_POINTS))
    uniform = np.full(NUM_POINTS, 1 / NUM_POINTS)
    prior = np.full(NUM_QUERIES, 1 / NUM_QUERIES)
    return FiniteProblem(-queries, uniform, prior), queries


def restricted_kl(queries: Float[np.ndarray, "queries points"], gamma: float, n: int) -> float:
    """Largest restricted KL of the selection over adjacent (replace-one) datasets, in nats."""
    num_points = queries.shape[1]
    counts = [c for c in itertools.product(range(n + 1), repeat=num_points) if sum(c) == n]
    scores = gamma * np.array(counts) @ queries.T
    laws = np.exp(scores - scores.max(axis=1, keepdims=True))
    laws /= laws.sum(axis=1, keepdims=True)
    index = {c: i for i, c in enumerate(counts)}
    largest = 0.0
    for c, i in index.items():
        for a, b in itertools.permutations(range(num_points), 2):
            moved = list(c)
            moved[a] -= 1
            moved[b] += 1
            j = index.get(tuple(moved))
            if j is not None:
                largest = max(largest, query_hull_kl(queries, laws[i], laws[j]))
    return largest


def selection_rows(
    gammas: Sequence[float] = GAMMAS, n: int = N, seed: int = 0
) -> list[dict[str, float]]:
    """Compute the exact gap of the selected query and four bounds on it, one dict per gamma."""
    problem, queries = selection_problem(seed)
    rows = []
    for gamma in gammas:
        if not (math.isfinite(gamma) and gamma > 0):
            raise ValueError(f"gammas: must be positive and finite, got {gamma}.")
        exact = problem.quantities(gamma=gamma, n=n, beta=0.05)
        bound = CapacityBound(restricted_kl(queries, gamma, n), "kl", QueryHull())
        information = exact["mutual_information"]
        rows.append(
            {
                "gamma": gamma,
                "n": n,
                "gap": exact["generalization_error"],
                "eps": bound.value,
                "theorem_6": capacity.generalization_from_kl(bound),
                "hoeffding": ipm_from_kl_by_hoeffding(bound).value,
                "mutual_information": bounds.generalization_from_mutual_information(
                    information, n, sigma=1.0
                ),
                "bounded_range": bounds.gibbs_generalization_subgaussian(gamma, sigma=1.0),
            }
        )
    return rows


NUM_NODES = 96
# Dataset sizes and gammas of the two panels.
PANELS = {
    "private mean": (100, (10.0, 20.0, 50.0, 100.0, 200.0)),
    "logistic regression": (20, (0.1, 0.3, 1.0, 3.0)),
}


@dataclass(frozen=True)
class Capacity:
    """Everything that the pictures and tables show; one list of rows each."""

    curves: list[Row]
    gaussian: list[Row]
    regimes: list[Row]
    matrix: list[Row]
    selection: list[Row]
    analyst: list[Row]
    posterior: list[Row]
    warnings: tuple[str, ...]

    def parts(self) -> dict[str, list[Row]]:
        """Rows by kind."""
        return {
            "curve": self.curves,
            "gaussian_curve": self.gaussian,
            "printed": self.regimes,
            "matrix": self.matrix,
            "selection": self.selection,
            "analyst": self.analyst,
            "posterior": self.posterior,
        }


def private_mean_linear_kl(gamma: float, n: int, example_bound: float = 2.0) -> float:
    """Return what a linear adversary sees of the private mean, on average and exactly, in nats."""
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    law = stats.truncnorm(-example_bound, example_bound)
    z, mass = example_bound * nodes, example_bound * weights * law.pdf(example_bound * nodes)
    # Even and smooth in z - z', unlike the KL itself.
    e = gamma * np.abs(z[:, None] - z) / n
    excess = e**2 / (1 + np.sqrt(1 + e**2))
    return float(mass @ (excess - np.log1p(excess / 2)) @ mass)


def run_capacity(
    num_datasets: int = 128,
    key: int = 0,
    gammas: Sequence[float] | None = None,
    say: io.Say = io.silent,
) -> Capacity:
    """Compute everything."""
    problems = {"private mean": private_mean(), "logistic regression": logistic_regression(dim=2)}
    # Bad arguments are refused here, before the long computations.
    posterior, warnings = _posteriors(problems, gammas, num_datasets, key, say)
    say("computing adversaries of Laplace and of normal noise over alpha")
    curves, gaussian = curve_rows(), gaussian_curve_rows()
    say("mapping where printed bounds fail")
    regimes = map_rows()
    say("computing the matrix mechanism and the selection of a query")
    say("letting analysts ask hundreds of queries")
    analysts = analyst_rows(key=key)
    return Capacity(
        curves=curves,
        gaussian=gaussian,
        regimes=regimes,
        matrix=matrix_rows(),
        selection=selection_rows(),
        analyst=analysts,
        posterior=posterior,
        warnings=warnings,
    )


def _posteriors(
    problems: dict[str, Problem],
    gammas: Sequence[float] | None,
    num_datasets: int,
    key: int,
    say: io.Say,
) -> tuple[list[Row], tuple[str, ...]]:
    rows: list[Row] = []
    warnings: list[str] = []
    for name, problem in problems.items():
        n, own = PANELS[name]
        found = capacity.on_average_capacity_kl(
            problem.posterior,
            problem.population,
            n,
            own if gammas is None else gammas,
            num_datasets=num_datasets,
            key=key,
            say=lambda text, name=name: say(f"{name}, {text}"),  # type: ignore[misc]
        )
        warnings += [f"{name}, {text}" for text in found.warnings]
        for row in found.rows():
            row = {"panel": name, **row}
            if name == "private mean" and row["adversary"] == "linear":
                row["capacity_kl_exact"] = private_mean_linear_kl(row["gamma"], n)
                row["on_average_kl_exact"] = private_mean_on_average_kl(row["gamma"], n)
            rows.append(row)
    return rows, tuple(warnings)


# Pictures of capacity-bounded privacy: Figures 1a and 1b, Theorem 6, posteriors over gamma.


if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = (BLUE, SKY, GREEN, VERMILION, PURPLE)
MARKERS = ("o", "s", "^", "D", "v")


@styled()
def plot_curves(found: Capacity) -> Picture:
    """Draw Figures 1a and 1b: Rényi parameters of the Laplace mechanism over the order."""
    eps = found.curves[0]["eps"]
    return _draw_curves(found.curves, f"Laplace mechanism, eps = {eps:g}", 1.6)


@styled()
def plot_gaussian_curves(found: Capacity) -> Picture:
    """Draw the appendix's Figures 1a and 1b: the same for the Gaussian mechanism."""
    sigma = found.gaussian[0]["sigma"]
    title = f"Gaussian mechanism, sensitivity 1, sigma = {sigma:g}"
    # Unrestricted Rényi grows without limit; the adversaries' values are what is to be seen.
    top = 1.6 * max(column(found.gaussian, "degree_3"))
    return _draw_curves(found.gaussian, title, top)


def _draw_curves(rows: list[Row], title: str, top: float) -> Picture:
    figure, grid = panels((8.4, 4.6), 1, 2, sharey=True)
    left, right = grid[0]
    alpha = column(rows, "alpha")
    unrestricted = column(rows, "unrestricted")
    names = {"degree_1": "linear", "degree_2": "degree 2", "degree_3": "degree 3"}
    for axes in (left, right):
        axes.plot(alpha, unrestricted, color="black", lw=1.8, label="unrestricted (any function)")
        axes.set(xlabel="order alpha")
    for (key, label), color in zip(reversed(names.items()), reversed(COLORS[:3]), strict=True):
        right.plot(alpha, column(rows, key), color=color, lw=1.8, label=f"{label}, exact")
    printed = column(rows, "printed_no_guarantee")
    label = "linear, bound as printed (no guarantee)"
    left.plot(alpha, printed, "--", color=COLORS[3], lw=1.8, label=label)
    left.plot(alpha, column(rows, "valid"), "-.", color=COLORS[4], label="linear, valid bound")
    left.plot(alpha, column(rows, "degree_1"), color=COLORS[0], lw=1.8, label="linear, exact")
    left.set(ylabel="Rényi divergence (nats)", ylim=(0, top))
    left.set_title("(1a) linear adversary and its bounds")
    right.set_title("(1b) polynomial adversaries")
    figure.suptitle(title)
    for axes in (left, right):
        legend_below(axes)
    return figure


@styled()
def plot_posteriors(found: Capacity) -> Picture:
    """Draw on-average capacity-bounded KL over gamma by class, under the full on-average KL."""
    figure, axes = panels((8.4, 7.4), 2, 2, sharex="col", height_ratios=(2, 1.2))
    for i, panel in enumerate(PANELS):
        rows = [row for row in found.posterior if row["panel"] == panel]
        _draw_panel(axes[0, i], axes[1, i], panel, rows)
    figure.suptitle("On-average KL that critics see: means and 95% intervals")
    axes[0, 0].set_ylabel("KL divergence (nats)")
    axes[1, 0].set_ylabel("share of on-average KL")
    return figure


def _draw_panel(top: Axes, bottom: Axes, panel: str, rows: list[Row]) -> None:
    classes = list(dict.fromkeys(row["adversary"] for row in rows))
    first = [row for row in rows if row["adversary"] == classes[0]]
    gamma = column(first, "gamma")
    full, error = column(first, "on_average_kl"), LIMIT_Z * column(first, "on_average_kl_se")
    label = "on-average KL (any function)"
    top.errorbar(gamma, full, error, color="black", marker="x", ms=7, lw=1.8, label=label)
    bottom.axhline(1.0, color="black", lw=1.8)
    # Shares are shifted sideways, lest error bars hide each other; on a slope that would mislead.
    shifts = 1.0 + 0.06 * (np.arange(len(classes)) - (len(classes) - 1) / 2)
    for name, color, marker, shift in zip(classes, COLORS, MARKERS, shifts, strict=False):
        own = [row for row in rows if row["adversary"] == name]
        value, se = column(own, "capacity_kl"), column(own, "capacity_kl_se")
        good = value > 0
        low = np.minimum(LIMIT_Z * se, 0.9 * np.abs(value))
        style: dict[str, Any] = {"color": color, "marker": marker, "ms": 4.5, "lw": 1.4}
        top.errorbar(
            gamma[good], value[good], np.stack([low, LIMIT_Z * se])[:, good], label=name, **style
        )
        is_selected = column(own, "failed_datasets") > 0
        mark_selected(top, gamma[good], value[good], is_selected[good], color, marker, 5.0)
        share, share_se = column(own, "share"), LIMIT_Z * column(own, "share_se")
        bottom.errorbar(gamma * shift, share, share_se, **style)
        mark_selected(bottom, gamma * shift, share, is_selected, color, marker, 5.0)
        if "capacity_kl_exact" in own[0]:
            exact = column(own, "capacity_kl_exact")
            top.plot(gamma, exact, ":", color=color, lw=2.2, label=f"{name}, exact")
            whole = column(own, "on_average_kl_exact")
            bottom.plot(gamma, exact / whole, ":", color=color, lw=2.2)
    count, n = first[0]["num_datasets"], first[0]["n"]
    top.set(xscale="log", yscale="log")
    top.set_title(f"{panel}, n = {n}, {count} pairs")
    bottom.set(xlabel="gamma (inverse temperature)", ylim=(-0.05, 1.15))
    legend_below(bottom, of=top)


@styled()
def plot_selection(found: Capacity) -> Picture:
    """Draw the gap of a selected query over gamma, under its bounds."""
    figure, axes = one_panel(
        (6.0, 5.2),
        f"Selecting a query with values in [-1, 1], n = {found.selection[0]['n']}",
        "gamma (inverse temperature)",
        "mean on the data − population mean",
    )
    names = {
        "theorem_6": ("8 √eps, Theorem 6", "--", COLORS[3]),
        "hoeffding": ("√(2 eps), its improvement", "--", COLORS[4]),
        "bounded_range": ("gamma Δ² / 2, any population", "-.", COLORS[2]),
        "mutual_information": ("√(2 I / n), exact information", "-", COLORS[1]),
        "gap": ("true gap", "-", "black"),
    }
    gamma = column(found.selection, "gamma")
    for name, (label, line, color) in names.items():
        axes.plot(
            gamma, column(found.selection, name), line, color=color, marker="o", ms=4, label=label
        )
    axes.set(xscale="log", yscale="log")
    legend_below(axes, columns=2)
    return figure


@styled()
def plot_analysts(found: Capacity) -> Picture:
    """Draw how much two analysts overfit over the noise of their answers, under Theorem 6."""
    first = found.analyst[0]
    figure, grid = panels((8.4, 5.2), 1, 2, sharey=True)
    names = {
        "theorem_6_unrestricted": ("8 √KL, any adversary", "--", COLORS[3]),
        "theorem_6": ("8 √eps, Theorem 6, restricted", "-", COLORS[3]),
        "hoeffding_unrestricted": ("Hoeffding, any adversary", "--", COLORS[4]),
        "hoeffding": ("Hoeffding, restricted", "-", COLORS[4]),
        "mutual_information": ("√(2 I / n), exact information", "-.", COLORS[1]),
        "gap_exact": ("gap, exact", "-", "black"),
    }
    titles = {
        "linear": "linear vote of all attributes",
        "adaptive": "adaptive queries, then a majority",
    }
    for axes, (analyst, title) in zip(grid[0], titles.items(), strict=True):
        rows = [row for row in found.analyst if row["analyst"] == analyst]
        noise, is_exact = column(rows, "noise"), rows[0]["status"] == "exact"
        for name, (label, line, color) in names.items():
            # Without an exact value the restricted curves are the unrestricted ones.
            if name in rows[0] and (is_exact or not name.endswith("_unrestricted")):
                text = label if is_exact else label.replace("restricted", "chain rule")
                axes.plot(noise, column(rows, name), line, color=color, lw=1.6, label=text)
        gap, se = column(rows, "gap"), column(rows, "gap_se")
        # On a logarithmic axis the lower ends of intervals stay positive.
        low = np.minimum(LIMIT_Z * se, 0.9 * np.abs(gap))
        axes.errorbar(
            noise,
            gap,
            np.stack([low, LIMIT_Z * se]),
            color="black",
            marker="o",
            ms=4.5,
            lw=0,
            elinewidth=1.4,
            label="gap, measured (95% intervals)",
        )
        axes.axhline(1.0, color="0.6", lw=1.0, ls=":", label="largest possible gap")
        axes.set(xscale="log", yscale="log", xlabel="noise (standard deviations of a mean, 1/√n)")
        axes.set_title(title)
        legend_below(axes)
    grid[0, 0].set_ylabel("mean on the data − population mean")
    figure.suptitle(
        f"The last of {first['num_queries'] + 1} queries of n = {first['n']} examples, "
        f"{first['num_datasets']} datasets"
    )
    return figure
