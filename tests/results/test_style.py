"""Pictures have the library's style, whatever the user's is, and leave the user's alone."""

import io
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import style
from matplotlib.figure import Figure

from gibbs_dp.papers.notions.notions import Notions
from gibbs_dp.papers.notions.plot import STYLES, moved_apart, plot_curves
from gibbs_dp.results.plotting import BLACK, COLORS, one_panel, save, styled


@styled()
def picture():
    figure, axes = one_panel((3.0, 2.0), "title", "x", "y (nats)")
    axes.plot([1.0, 2.0], [0.5, 0.7], label="a")
    axes.set(xscale="log")
    axes.legend()
    return figure


def test_the_style_file_is_for_pictures_of_ones_own():
    with style.context("gibbs_dp.style"):
        colors = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
        assert colors == [*COLORS, BLACK]
        assert mpl.rcParams["svg.hashsalt"] == "gibbs_dp"
        Figure().add_axes((0.0, 0.0, 0.5, 0.5)).figure.draw_without_rendering()  # no warning


@pytest.mark.parametrize("users", ["dark_background", {"font.size": 20.0, "axes.grid": False}])
def test_a_picture_is_the_same_bytes_whatever_the_users_style(users, tmp_path):
    first = picture()
    expected = [path.read_bytes() for path in save(first, tmp_path / "a")]
    first.savefig(tmp_path / "direct.svg")
    with style.context(users):
        before = dict(mpl.rcParams)
        second = picture()
        found = [path.read_bytes() for path in save(second, tmp_path / "b")]
        second.savefig(tmp_path / "again.svg")
        shown = second._repr_png_()
        assert dict(mpl.rcParams) == before
    assert found == expected
    assert (tmp_path / "direct.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert b"<text" in expected[0]
    assert b"dc:date" not in expected[0]
    assert shown == first._repr_png_()
    assert shown.startswith(b"\x89PNG")


def test_what_is_shown_without_saving_has_the_style_too():
    """A notebook draws on the canvas, with the settings of the user."""
    file = io.BytesIO()
    with style.context({"svg.fonttype": "path"}):
        picture().canvas.print_figure(file, format="svg")
    assert b"<text" in file.getvalue()


def test_no_picture_needs_pyplot():
    program = """
import sys
import gibbs_dp as gdp
row = {"gamma": 1.0, "n": 5, "on_average_kl": 0.5, "on_average_kl_se": 0.1, "dp_epsilon": 2.0}
report = gdp.Report((row, row | {"gamma": 2.0}), {"n": 5, "loss": "squared"})
report.plot()._repr_png_()
gdp.compare([report, report]).plot()
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("gap", [0.02, 0.06])
def test_names_are_moved_no_further_than_they_must(gap):
    rng = np.random.default_rng(0)
    for count in (1, 2, 8, 15):
        heights = rng.random(count) ** 3
        placed = moved_apart(heights, gap)
        ordered = np.sort(placed)
        assert (np.diff(ordered) >= gap - 1e-9).all()
        assert ordered[0] >= 0
        assert ordered[-1] <= 1 + 1e-9
        assert (np.argsort(placed) == np.argsort(heights)).all()
    np.testing.assert_allclose(moved_apart(np.array([0.9, 0.1, 0.5]), gap), [0.9, 0.1, 0.5])


def test_notions_are_eight_curves_whose_names_do_not_overlap():
    gammas = tuple(np.geomspace(0.01, 30.0, 7))
    found = {name: np.array(gammas) * 0.9**i for i, name in enumerate(STYLES)}
    figure = plot_curves(Notions(gammas, 4, found, [], [], [], [], {}))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert len(axes.lines) == len(axes.texts) == 8
    boxes = sorted((t.get_window_extent() for t in axes.texts), key=lambda box: box.y0)
    # Without their arrows: a name's own height.
    heights = sorted(t.get_position()[1] for t in axes.texts)
    assert min(np.diff(heights)) * axes.bbox.height >= 0.9 * 9 * figure.dpi / 72
    assert all(figure.bbox.x1 >= box.x1 for box in boxes)
