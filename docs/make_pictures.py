"""Draw the pictures of README and of the documentation: ``make pictures``.

They are kept in the repository, since README is read before anything runs; SVG of the same numbers
has the same bytes. Attacks take minutes: theirs is of the saved numbers of a benchmark.
"""

import json
from pathlib import Path

import jax

import gibbs_dp as gdp
from gibbs_dp.papers.attack.result import plot_attack_panels
from gibbs_dp.papers.bayesian_dp.plot import plot_quilts
from gibbs_dp.papers.on_average_kl.figure2 import figure2

FOLDER = Path(__file__).parent / "pictures"
ATTACKS = Path(__file__).parent.parent / "benchmarks" / "results" / "attack_measured.json"


def population(key, n):
    """Uniform features and noise, as in the page that shows the picture."""
    x, noise = jax.random.uniform(key, (2, n), minval=-1.0, maxval=1.0)
    return x[:, None], x + noise


def start():
    """The first picture of a new user."""
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    domain = gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))
    gammas = [0.1, 0.3, 1.0, 3.0, 10.0]
    counts = {"n": 100, "num_datasets": 1024}
    return gdp.audit(posterior, population, gammas=gammas, domain=domain, **counts).plot()


def attacks():
    """Attacks on 20,000 posteriors a gamma, as `benchmarks/attack_measured.py` saved them."""
    rows = json.loads(ATTACKS.read_text())["rows"]
    titles = dict.fromkeys(row["panel"] for row in rows)
    return plot_attack_panels({t: [row for row in rows if row["panel"] == t] for t in titles})


def main():
    FOLDER.mkdir(exist_ok=True)
    pictures = {"start": start(), "figure2": figure2().plot(), "attack": attacks()}
    pictures |= {"quilts": plot_quilts()}
    for name, figure in pictures.items():
        figure.savefig(FOLDER / f"{name}.svg")
        print(f"{name}.svg: {(FOLDER / f'{name}.svg').stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
