"""Points that stand for a selection of the datasets are hollow in every picture, and only they."""

import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.exact.closed_form import private_mean_on_average_kl
from gibbs_dp.papers.capacity.figures import PANELS, Capacity, plot_posteriors
from gibbs_dp.papers.on_average_kl.double_descent import DoubleDescent, plot_double_descent
from gibbs_dp.papers.on_average_kl.figure2 import Figure2, Panel, Reference
from gibbs_dp.results.plotting import MEANINGS, SELECTED

LABEL = MEANINGS[SELECTED]

GAMMAS = (0.1, 1.0, 10.0)


def report(failed, lost=()):
    """A report of 50 datasets of which some failed, others in the excess risk alone."""
    rows, per_dataset = [], []
    for gamma, count in zip(GAMMAS, failed, strict=True):
        row = {"gamma": gamma, "n": 10, "num_datasets": 50 - count, "failed_datasets": count}
        values = np.linspace(1.0, 2.0, 50)
        values[:count] = np.nan
        columns = {"on_average_kl": gamma * values, "excess_risk": values.copy()}
        columns["excess_risk"][list(lost)] = np.nan
        for name, column in columns.items():
            row |= {name: np.nanmean(column), f"{name}_se": 0.01 * gamma}
        rows.append(row | {"dp_epsilon": 8 * gamma})
        per_dataset.append(columns)
    settings = {"n": 10, "group_size": 1, "loss": "squared", "key": [0, 1]}
    return gdp.Report(tuple(rows), settings, per_dataset=tuple(per_dataset))


def hollow(axes):
    """Where the hollow points of a panel are, in order."""
    lines = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    return sorted(float(x) for line in lines for x in line.get_xdata())


def explains(axes):
    """Whether a legend of the axes, or of their figure, says what hollow points are."""
    legends = [axes.get_legend(), *axes.figure.legends]
    texts = [text.get_text() for legend in legends if legend for text in legend.get_texts()]
    return LABEL in texts


@pytest.mark.parametrize("is_loaded", [False, True])
def test_reports(is_loaded, tmp_path):
    found = report([0, 3, 50 - 2])
    if is_loaded:
        found.save(tmp_path / "report.nc")
        found = gdp.load_report(tmp_path / "report.nc")
    privacy, risk = found.plot().axes
    assert hollow(privacy) == hollow(risk) == [1.0, 10.0]  # the guarantee is no mean
    assert explains(privacy)
    assert explains(risk)
    privacy, risk = report([0, 0, 0]).plot().axes
    assert hollow(privacy) == hollow(risk) == []
    assert not explains(privacy)
    # Estimates fail one by one.
    privacy, risk = report([0, 0, 0], lost=[7]).plot().axes
    assert (hollow(privacy), hollow(risk)) == ([], list(GAMMAS))


def test_comparisons():
    whole, part = report([0, 0, 0]), report([0, 1, 0])
    for pair in ({"whole": whole, "part": part}, {"part": part, "whole": whole}):
        axes = gdp.compare(pair).plot().axes
        assert [hollow(a) for a in axes] == [[1.0]] * 4
        assert explains(axes[0])


@pytest.mark.parametrize("is_left", [True, False])
def test_figure_2(is_left):
    exact = tuple(Reference(private_mean_on_average_kl(g, 10), 0.0) for g in GAMMAS)
    first = Panel("a", report([0, 0, 2 * is_left]), exact)
    axes = Figure2((first, Panel("b", report([0, 0, 0]), exact))).plot().axes
    assert [hollow(a) for a in axes] == [[10.0] * is_left, [], [10.0] * is_left, []]
    assert explains(axes[0]) is is_left


def test_double_descent():
    names = ("on_average_kl", "population_risk", "empirical_risk")
    numbers = {name + end: 1.0 for name in names for end in ("", "_se", "_exact")}
    rows = tuple(
        {"num_features": p, "gamma": 1.0, **numbers, "failed_datasets": count}
        for p, count in ((4, 0), (20, 180), (60, 0))
    )
    left, right = plot_double_descent(DoubleDescent(rows, (), 20, "tanh")).axes
    assert (hollow(left), hollow(right)) == ([20.0, 20.0], [20.0])
    assert explains(left)
    assert explains(right)


def test_capacity():
    names = ("on_average_kl", "on_average_kl_se", "capacity_kl", "capacity_kl_se", "share")
    rows = [
        {
            "panel": panel, "adversary": "linear", "gamma": gamma, "n": 10, "num_datasets": 5,
            "failed_datasets": int(gamma > 1.0), "share_se": 0.1, **dict.fromkeys(names, 0.5),
        }
        for panel in PANELS
        for gamma in GAMMAS
    ]  # fmt: skip
    figure = plot_posteriors(
        Capacity(
            curves=[],
            gaussian=[],
            regimes=[],
            matrix=[],
            selection=[],
            analyst=[],
            posterior=rows,
            warnings=(),
        )
    )
    assert [hollow(axes) for axes in figure.axes] == [[10.0]] * 4
