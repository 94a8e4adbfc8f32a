"""On-average KL and risk across interpolation: ridge regression on random features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np

from gibbs_dp import io
from gibbs_dp.auditing.audit import audit
from gibbs_dp.estimators import average
from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.model.check import as_key, positive_count
from gibbs_dp.papers.on_average_kl.closed_forms import linear_regression_replaced
from gibbs_dp.papers.tables import Row, column
from gibbs_dp.problems.base import Problem
from gibbs_dp.problems.regression import Activation, random_features
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.registry import DEFAULT
from gibbs_dp.results.plotting import (
    COLORS,
    Picture,
    legend_of_figure,
    mark_selected,
    panels,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUM_EXAMPLES = 20
NUM_FEATURES = (4, 8, 12, 16, 20, 24, 30, 60)
GAMMAS = (0.1, 1.0, 10.0)
PRIOR_SCALE = 2.0
# Numbers per array that the exact answers hold at once.
MAX_NUMBERS = 2**23


@dataclass(frozen=True)
class DoubleDescent:
    """Sampled and exact answers, one row per number of features and gamma."""

    rows: tuple[Row, ...]
    warnings: tuple[str, ...]
    n: int
    activation: Activation


def double_descent(
    num_features: Sequence[int] = NUM_FEATURES,
    gammas: Sequence[float] = GAMMAS,
    n: int = NUM_EXAMPLES,
    activation: Activation = "tanh",
    num_datasets: int = 256,
    num_references: int = 4096,
    key: int = 0,
    progress: bool = True,
    say: io.Say = io.silent,
) -> DoubleDescent:
    """Audit `random_features` over the number of features, beside its closed form.

    Parameters
    ----------
    num_features
        Features ``p``, one audit each.
    gammas
        Inverse temperatures, positive.
    n
        Examples per dataset.
    activation
        "tanh" or "relu".
    num_datasets
        Datasets sampled per gamma.
    num_references
        Datasets behind the closed form, at least 2.
    key
        Integer seed.
    progress
        Tell of every audit on stderr.
    say
        Called with a line of text at every step.

    Returns
    -------
    DoubleDescent
        One row per number of features and gamma, and the warnings of the audits.

    Raises
    ------
    ValueError
        If an argument is out of range.
    AuditInterrupted
        On Ctrl-C.
    """
    if not num_features:
        raise ValueError("num_features: it is empty; give at least one number of features.")
    if not all(gamma > 0 for gamma in gammas):
        raise ValueError("gammas: the closed form needs every gamma to be positive.")
    num_references = positive_count("num_references", num_references, least=2)
    problems = {p: random_features(p, activation, PRIOR_SCALE) for p in sorted(set(num_features))}
    rows: list[Row] = []
    warnings: list[str] = []
    for p, problem in problems.items():
        say(f"{p} features")
        report = audit(
            problem.posterior,
            problem.population,
            n=n,
            gammas=gammas,
            num_datasets=num_datasets,
            key=key,
            learn=[*DEFAULT, MutualInformation(0)],
            progress=progress,
        )
        warnings += [f"{p} features, {text}" for text in report.warnings]
        for row in report.rows:
            exact = exact_answers(problem, n, row["gamma"], num_references, key + 1)
            rows.append({"num_features": p, **row, **exact})
    return DoubleDescent(tuple(rows), tuple(warnings), n, activation)


def exact_answers(
    problem: Problem, n: int, gamma: float, num_datasets: int, key: int, num_ghosts: int = 16
) -> dict[str, float]:
    """Average the closed form over fresh datasets: each ``_exact`` with its standard error."""
    total = n + num_ghosts
    size = max(1, MAX_NUMBERS // total // max(problem.posterior.dim, n))
    parts = []
    for begin in range(0, num_datasets, size):
        count = min(size, num_datasets - begin)
        fresh = jax.random.fold_in(as_key(key), begin)
        x, y = problem.population.sample(fresh, count * total, 1)[0]  # independent examples
        x, y = np.reshape(x, (count, total, -1)), np.reshape(y, (count, total))
        train, ghosts = (x[:, :n], y[:, :n]), (x[:, n:], y[:, n:])
        parts.append(linear_regression_replaced(*train, *ghosts, gamma, PRIOR_SCALE**-2.0))
    found: dict[str, float] = {}
    for name in parts[0]._fields:
        mean = average(np.concatenate([getattr(part, name) for part in parts]))
        found |= {f"{name}_exact": mean.value, f"{name}_exact_se": mean.se}
    return found


# Neighbouring tick labels below this ratio of their places would touch.
LEAST_RATIO = 1.25


@styled()
def plot_double_descent(found: DoubleDescent) -> Picture:
    """Draw risk on fresh and on training examples, and on-average KL, over the features."""
    figure, grid = panels((8.4, 4.1), 1, 2)
    left, right = grid[0]
    gammas = sorted({row["gamma"] for row in found.rows})
    for i, gamma in enumerate(gammas):
        rows = [row for row in found.rows if row["gamma"] == gamma]
        color, label = COLORS[i % len(COLORS)], f"gamma = {gamma:g}"
        _draw(left, rows, "population_risk", color, "-", "o", label)
        _draw(left, rows, "empirical_risk", color, "--", "v", None)
        _draw(right, rows, "on_average_kl", color, "-", "o", label)
    for axes in (left, right):
        axes.axvline(found.n, color="0.6", lw=1, ls=":")
        axes.text(found.n, 1.0, " p = n", transform=axes.get_xaxis_transform(), va="top", size=9)
        axes.set(xlabel="number of random features p", xscale="log")
        ticks = _apart(sorted({row["num_features"] for row in found.rows}))
        axes.set_xticks(ticks, [str(p) for p in ticks])
        axes.minorticks_off()
    left.set(ylabel="risk of a draw (squared error)", ylim=(0, None))
    left.set_title(f"fresh (solid) and training examples (dashed), n = {found.n}")
    right.set(yscale="log", ylabel="on-average KL (nats)")
    right.set_title("closed form (lines) and sampled (points)")
    legend_of_figure(figure, (left, right), columns=len(gammas))
    return figure


def _apart(numbers: list[int]) -> list[int]:
    """Those that are far enough from the one before."""
    kept = numbers[:1]
    for number in numbers[1:]:
        if number >= LEAST_RATIO * kept[-1]:
            kept.append(number)
    return kept


def _draw(
    axes: Axes, rows: list[Row], name: str, color: str, line: str, marker: str, label: str | None
) -> None:
    p, value = column(rows, "num_features"), column(rows, name)
    axes.plot(p, column(rows, f"{name}_exact"), line, color=color, lw=1.5, label=label)
    error = LIMIT_Z * column(rows, f"{name}_se")
    axes.errorbar(p, value, error, ls="none", color=color, marker=marker, ms=4)
    mark_selected(axes, p, value, column(rows, "failed_datasets") > 0, color, marker)
