"""Pictures that users ask for are known to pyplot where it is imported; those of pages are not."""

import subprocess
import sys

import explored
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import gibbs_dp as gdp
from gibbs_dp.results.plotting import Picture

RNG = np.random.default_rng(0)
# How many axes each of the results' plots asks for; None: it takes `ax`.
PLOTS = {
    "report": None,
    "attack": 2,
    "exposure": 2,
    "comparison": 4,
    "one dataset": 2,
    "certificate": None,
    "calibration": 3,
}


@pytest.fixture(scope="module")
def results():
    """Every result that has a plot, by its name."""
    z = RNG.uniform(-1.0, 1.0, (30, 1))
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1))
    )
    report = explored.make_report(exposes=True)
    certificate = gdp.certify(
        posterior,
        z,
        [1.0, 4.0],
        loss_range=(0.0, 2.0),
        sampler=gdp.Grid(candidates=np.linspace(-0.9, 0.9, 9)[:, None]),
    )
    ranks = RNG.integers(0, 64, size=(256, 3))
    return {
        "report": report,
        "comparison": gdp.compare({"one": report, "again": report}),
        "one dataset": gdp.audit_log_likelihood(-RNG.exponential(size=(2, 100, 30))),
        "certificate": certificate,
        "calibration": gdp.Calibration(ranks, ("a", "b", "total loss"), 63, {"n": 3}),
    }


@pytest.fixture
def plot(results, request):
    """The plot that a test is of."""
    name = request.param
    own = {"attack": "plot_attack", "exposure": "plot_exposure"}
    return getattr(results["report" if name in own else name], own.get(name, "plot"))


@pytest.mark.parametrize("plot", PLOTS, indirect=True)
def test_pyplot_knows_a_plot_and_its_settings_stay(plot):
    before = dict(mpl.rcParams)
    figure = plot()
    assert isinstance(figure, Picture)
    assert plt.get_fignums() == [figure.number]
    assert plt.gcf() is figure
    assert dict(mpl.rcParams) == before
    figure.canvas.draw()  # as plt.show() does
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("plot", "count"), PLOTS.items(), indirect=["plot"], ids=lambda value: str(value)
)
def test_a_plot_is_drawn_on_the_users_axes_in_the_users_style(plot, count):
    with mpl.rc_context({"axes.facecolor": "0.1", "axes.spines.right": True}):
        axes = Figure().subplots(count or 1, squeeze=False)[:, 0]
        figure = plot(ax=axes[0]) if count is None else plot(axes=axes)
    assert figure is axes[0].figure
    assert plt.get_fignums() == []
    assert all(place.has_data() for place in axes)
    assert {place.get_facecolor() for place in axes} == {(0.1, 0.1, 0.1, 1.0)}
    assert figure.legends == []  # where there may be no room
    figure.draw_without_rendering()


@pytest.mark.parametrize(
    ("plot", "count"),
    [(name, count) for name, count in PLOTS.items() if count],
    indirect=["plot"],
)
def test_other_axes_are_refused_before_anything_is_drawn(plot, count):
    axes = list(Figure().subplots(count + 1))
    with pytest.raises(ValueError, match=rf"^axes: give Matplotlib's axes, {count}, as those of"):
        plot(axes=axes)
    elsewhere = Figure().subplots()
    with pytest.raises(ValueError, match=r"^axes: they are of 2 figures; give axes of one\.$"):
        plot(axes=[*axes[: count - 1], elsewhere])
    assert not any(place.has_data() for place in [*axes, elsewhere])


@pytest.mark.parametrize("name", ["report", "one dataset", "calibration"])
def test_pages_leave_nothing_open(results, name, tmp_path):
    results[name].to_html(tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()
    assert plt.get_fignums() == []


def test_a_script_sees_them_by_plt_show():
    """With a backend of its own, which tells what it is asked to show."""
    program = """
import sys
import matplotlib
import matplotlib.pyplot as plt
import gibbs_dp as gdp
row = {"gamma": 1.0, "n": 5, "on_average_kl": 0.5, "on_average_kl_se": 0.1, "dp_epsilon": 2.0}
report = gdp.Report((row, row | {"gamma": 2.0}), {"n": 5, "loss": "squared"})
report.plot("shown")
print([plt.figure(i).get_suptitle() for i in plt.get_fignums()])
plt.show()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={"MPLBACKEND": "agg", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['shown']\n"
