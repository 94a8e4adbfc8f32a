"""Draw the pictures of README and of the documentation: ``make pictures``.

They are kept in the repository, since README is read before anything runs; SVG of the same numbers
has the same bytes. Attacks take minutes: theirs is of the saved numbers of a benchmark. The page to
explore is photographed by Chromium, where that is installed.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
from PIL import Image

import gibbs_dp as gdp
from gibbs_dp.papers.attack import result
from gibbs_dp.papers.bayesian_dp.plot import plot_quilts
from gibbs_dp.papers.on_average_kl.figure2 import figure2
from gibbs_dp.papers.tables import column
from gibbs_dp.results.plotting import BLACK, legend_of_figure, panels, styled

FOLDER = Path(__file__).parent / "pictures"
sys.path.insert(0, str(Path(__file__).parent / "extension"))

import explorer_page  # noqa: E402

ATTACKS = Path(__file__).parent.parent / "benchmarks" / "results" / "attack_measured.json"


def population(key, n):
    """Uniform features and noise, as in the page that shows the picture."""
    x, noise = jax.random.uniform(key, (2, n), minval=-1.0, maxval=1.0)
    return x[:, None], x + noise


def start():
    """The report of the first picture of a new user."""
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    domain = gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))
    gammas = [0.1, 0.3, 1.0, 3.0, 10.0]
    counts = {"n": 100, "num_datasets": 1024}
    return gdp.audit(posterior, population, gammas=gammas, domain=domain, **counts)


# On the panels of a report: where an arrow points, where its words stand, and these.
READING = {
    "privacy": (
        ((0.3, 9.6), (0.13, 200.0), "worst case: holds for\nany data of the domain"),
        ((3.0, 0.0203), (0.75, 0.3), "on average: what one\ndraw gives away"),
        ((10.0, 0.067), (1.3, 0.0006), "the same by another\nroute: should fit the line"),
    ),
    "risk": (
        ((0.3, 0.022), (0.5, 0.03), "a smaller gamma\ncosts risk"),
        ((5.5, 0.0041), (0.12, 0.0036), "band: 95% interval\nover datasets"),
    ),
}


def reading(report):
    """A report's picture with what one should see in it."""
    figure = report.plot(" ")
    figure.set_size_inches(10.0, 5.0)
    for axes, notes in zip(figure.axes, READING.values(), strict=True):
        for at, words_at, words in notes:
            axes.annotate(
                words, at, words_at, fontsize=9, color="0.2", arrowprops={"arrowstyle": "->"}
            )
    return figure


def photograph(path):
    """Save the upper part of the page to explore as it is seen on a desktop."""
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder) / "explorer.html", Path(folder) / "shot.png"
        explorer_page.report().explore(page, explorer_page.TITLE, explorer_page.ABOUT)
        browser = [shutil.which("chromium"), "--headless", "--no-sandbox", "--hide-scrollbars"]
        size = ["--window-size=1120,900", "--virtual-time-budget=3000"]
        subprocess.run([*browser, *size, f"--screenshot={shot}", page.as_uri()], check=True)
        with Image.open(shot) as image:
            few = image.convert("RGB").quantize(64, dither=Image.Dither.NONE)
            few.save(path, optimize=True)


@styled()
def attack_panels(found):
    """Several attacks beside each other: advantages, true positive rates at 1%, epsilon."""
    figure, grid = panels((4.2 * len(found), 10.0), 3, len(found), sharex="col", sharey="row")
    for (top, middle, bottom), (title, rows) in zip(grid.T, found.items(), strict=True):
        result.draw_advantage(top, rows)
        result.draw_rate(middle, rows)
        result.draw_epsilon(bottom, rows)
        exact = column(rows, "on_average_tv_exact")
        if np.isfinite(exact).any():
            top.plot(
                *(column(rows, "gamma"), exact),
                ls="none",
                marker="x",
                ms=6,
                mew=1.0,
                color=BLACK,
                label="best possible, by quadrature",
                zorder=4,
            )
        top.set(title=title, xlabel="")
        middle.set(xlabel="")
    for axes in grid[:, 1:].ravel():
        axes.set(ylabel="")
    legend_of_figure(figure, grid.ravel(), columns=3)
    return figure


def attacks():
    """Attacks on 20,000 posteriors a gamma, as `benchmarks/attack_measured.py` saved them."""
    rows = json.loads(ATTACKS.read_text())["rows"]
    titles = dict.fromkeys(row["panel"] for row in rows)
    return attack_panels({t: [row for row in rows if row["panel"] == t] for t in titles})


def main():
    FOLDER.mkdir(exist_ok=True)
    report = start()
    pictures = {"start": report.plot(), "reading": reading(report)}
    pictures |= {"figure2": figure2().plot(), "attack": attacks(), "quilts": plot_quilts()}
    for name, figure in pictures.items():
        figure.savefig(FOLDER / f"{name}.svg")
        print(f"{name}.svg: {(FOLDER / f'{name}.svg').stat().st_size / 1e3:.0f} kB")

    if shutil.which("chromium"):
        photograph(FOLDER / "explorer.png")
        print(f"explorer.png: {(FOLDER / 'explorer.png').stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
