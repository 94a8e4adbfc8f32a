"""Pictures of reports: one unit an axis, nothing left out in silence, no legend on the data."""

import itertools
import math

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import gibbs_dp as gdp
from gibbs_dp.auditing.plot import PANELS, UNITS, styles_of
from gibbs_dp.papers.capacity.figures import PANELS as CAPACITY_PANELS
from gibbs_dp.papers.capacity.figures import Capacity, plot_posteriors
from gibbs_dp.papers.on_average_kl.closed_forms import private_mean_on_average_kl
from gibbs_dp.papers.on_average_kl.double_descent import DoubleDescent, plot_double_descent
from gibbs_dp.papers.on_average_kl.figure2 import Figure2, Panel, Reference
from gibbs_dp.quantities.registry import COLUMNS
from gibbs_dp.results.plotting import MEANINGS, SELECTED

SETTINGS = {"n": 10, "group_size": 1, "loss": "squared", "num_information": 64}


def report(gammas=(0.1, 1.0, 10.0), without=(), **columns):
    """A report with every column that is drawn, but those in ``without``; others replaced."""
    rows = []
    for i, gamma in enumerate(gammas):
        row = {"gamma": gamma, "n": 10, "num_datasets": 50, "failed_datasets": 0}
        for name, column in COLUMNS.items():
            if column.style is not None and name not in without:
                value = columns[name][i] if name in columns else gamma + 0.01
                row |= {name: value, f"{name}_se": 0.1 * gamma}
        rows.append({k: v for k, v in row.items() if k != "dp_epsilon_se"})
    return gdp.Report(tuple(rows), SETTINGS)


def texts(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def marked(axes, marker):
    """Where triangles at an edge are."""
    lines = [line for line in axes.lines if line.get_marker() == marker and line.get_gid()]
    return sorted(float(x) for line in lines for x in line.get_xdata())


@pytest.mark.trust
def test_all_columns_of_a_panel_have_one_unit():
    drawn = [column for column in COLUMNS.values() if column.style is not None]
    assert {column.style.panel for column in drawn} == set(PANELS)
    for panel in PANELS:
        (unit,) = {COLUMNS[name].unit for name in styles_of(panel)}
        assert unit in UNITS


def test_a_picture_is_two_panels_wide():
    figure = report().plot("title")
    assert figure.get_suptitle() == "title"
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["privacy (nats)", "excess risk (units of the loss)"]
    figure = report().plot(panels="all")
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels[2:] == [
        "attacker (probability)",
        "information (nats)",
        "gen. error (units of the loss)",
    ]
    assert {axes.get_subplotspec().colspan.start for axes in figure.axes} == {0, 1}
    (axes,) = report().plot(panels="information").axes
    assert "log M: no lower bound exceeds it" in texts(axes)
    (axes,) = report().plot(panels=["risk"]).axes


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ("risks", "no panel 'risks'; choose some of privacy, risk, attack, information"),
        ([], "it is empty"),
        ("information", "nothing for 'information'; audit with num_information of 2 or more"),
    ],
)
def test_panels_that_cannot_be_drawn_are_refused(panels, message):
    names = list(styles_of("information"))
    with pytest.raises(ValueError, match=message):
        report(without=names).plot(panels=panels)


def test_risks_stand_in_for_an_absent_excess_risk():
    for found in (report(without=["excess_risk"]), report(excess_risk=[math.nan] * 3)):
        risk = found.plot().axes[1]
        assert risk.get_ylabel() == "risk (units of the loss)"
        assert texts(risk) == ["risk on training examples", "risk on fresh examples"]
    assert texts(report().plot().axes[1]) == ["excess risk"]


def test_a_risk_is_logarithmic_where_its_values_are_far_apart():
    assert report().plot().axes[1].get_yscale() == "log"
    for values in ([0.5, 0.4, 0.3], [0.5, 0.01, -0.01]):
        assert report(excess_risk=values).plot().axes[1].get_yscale() == "linear"


def test_the_two_routes_to_one_number_look_different_where_they_coincide():
    axes = report().plot().axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    direct, second = lines["on-average KL (direct)"], lines["gamma × generalization error"]
    np.testing.assert_array_equal(direct.get_ydata(), second.get_ydata())
    assert (direct.get_linestyle(), second.get_linestyle()) == ("-", "None")
    assert second.get_markersize() > 1.5 * direct.get_markersize()
    assert second.get_zorder() < direct.get_zorder()
    assert len(axes.containers) == 1  # error bars
    assert sum(isinstance(c, PolyCollection) for c in axes.collections) == 1  # a band


def test_nothing_is_left_out_in_silence():
    found = report(
        gammas=(0.0, 0.1, 1.0, 10.0),
        dp_epsilon=[1.0, 2.0, math.inf, math.inf],
        on_average_kl=[0.1, 0.1, 0.0, 0.1],
        on_average_kl_ghost=[-0.1, -0.1, 0.2, 0.2],
    )
    axes = found.plot().axes[0]
    assert marked(axes, "^") == [1.0, 10.0]
    assert marked(axes, "v") == [0.1, 1.0]
    assert texts(axes)[-3:] == [
        "at the upper edge: infinite",
        "at the lower edge: estimate not above zero",
        "gamma = 0 has no place on this axis",
    ]
    axes = report(without=["dp_epsilon"]).plot().axes[0]
    assert texts(axes)[-1] == "DP epsilon (worst case): no bound is known"
    axes = report(without=["excess_risk", "population_risk", "empirical_risk"]).plot().axes[1]
    assert texts(axes) == ["nothing to show: its audit found no risk"]


@pytest.mark.parametrize("gamma", [0.1, 7.0])
def test_one_gamma_has_error_bars_and_its_own_tick(gamma):
    figure = report(gammas=(gamma,)).plot()
    figure.draw_without_rendering()
    for axes, bars in zip(figure.axes, (2, 1), strict=True):
        assert [label.get_text() for label in axes.get_xticklabels()] == [f"{gamma:g}"]
        assert len(axes.containers) == bars


def test_an_overlay_is_one_panel_of_one_unit():
    axes = Figure().add_subplot()
    assert report().plot(ax=axes, label="a") is axes.figure
    report().plot(ax=axes, label="b", panels="privacy")
    assert texts(axes) == [
        f"{name}: {what}"
        for name in "ab"
        for what in ("on-average KL (direct)", "DP epsilon (worst case)")
    ]
    with pytest.raises(ValueError, match="ax: it shows reports in another unit than risk"):
        report().plot(ax=axes, panels="risk")
    report().plot(ax=axes, panels="information")  # nats too
    axes = Figure().add_subplot()
    report().plot(ax=axes, label="a", panels=["risk"])
    assert axes.get_ylabel() == "excess risk (units of the loss)"
    for panels in ("all", ["privacy", "risk"]):
        with pytest.raises(ValueError, match="one ax has room for one panel"):
            report().plot(ax=axes, panels=panels)


LONG = tuple(float(g) for g in np.geomspace(1e-3, 1e3, 12))


@pytest.mark.trust(but=["plain", "one gamma", "twelve gammas", "edges"])
@pytest.mark.parametrize(
    "found",
    [
        report(),
        report(gammas=(1.0,)),
        report(gammas=LONG),
        report(dp_epsilon=[1.0, math.inf, math.inf], on_average_kl=[-1.0, 0.1, 1.0]),
        gdp.Report(tuple(r | {"failed_datasets": 3} for r in report(LONG).rows), SETTINGS),
    ],
    ids=["plain", "one gamma", "twelve gammas", "edges", "failures"],
)
def test_legends_are_inside_the_figure_and_on_nothing(found):
    figure = found.plot(panels="all")
    figure.draw_without_rendering()
    legends = [axes.get_legend().get_window_extent() for axes in figure.axes]
    panels = [axes.get_tightbbox(bbox_extra_artists=[]) for axes in figure.axes]
    for box in legends:
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert not any(box.overlaps(panel) for panel in panels)
    for one, other in itertools.combinations(legends, 2):
        assert not one.overlaps(other)
    for one, other in itertools.combinations(panels, 2):
        assert not one.overlaps(other)


LABEL = MEANINGS[SELECTED]

GAMMAS = (0.1, 1.0, 10.0)


def failing(failed, lost=()):
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
    found = failing([0, 3, 50 - 2])
    if is_loaded:
        found.save(tmp_path / "report.nc")
        found = gdp.load_report(tmp_path / "report.nc")
    privacy, risk = found.plot().axes
    assert hollow(privacy) == hollow(risk) == [1.0, 10.0]  # the guarantee is no mean
    assert explains(privacy)
    assert explains(risk)
    privacy, risk = failing([0, 0, 0]).plot().axes
    assert hollow(privacy) == hollow(risk) == []
    assert not explains(privacy)
    # Estimates fail one by one.
    privacy, risk = failing([0, 0, 0], lost=[7]).plot().axes
    assert (hollow(privacy), hollow(risk)) == ([], list(GAMMAS))


def test_comparisons():
    whole, part = failing([0, 0, 0]), failing([0, 1, 0])
    for pair in ({"whole": whole, "part": part}, {"part": part, "whole": whole}):
        axes = gdp.compare(pair).plot().axes
        assert [hollow(a) for a in axes] == [[1.0]] * 4
        assert explains(axes[0])


@pytest.mark.parametrize("is_left", [True, False])
def test_figure_2(is_left):
    exact = tuple(Reference(private_mean_on_average_kl(g, 10), 0.0) for g in GAMMAS)
    first = Panel("a", failing([0, 0, 2 * is_left]), exact)
    axes = Figure2((first, Panel("b", failing([0, 0, 0]), exact))).plot().axes
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
        for panel in CAPACITY_PANELS
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
