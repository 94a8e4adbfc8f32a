"""Draw the pictures of README and of the documentation: ``make pictures``.

They are kept in the repository, since README is read before anything runs; SVG of the same numbers
has the same bytes.
"""

from pathlib import Path

import jax

import gibbs_dp as gdp
from gibbs_dp.experiments.figure2 import figure2

FOLDER = Path(__file__).parent / "pictures"


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


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, figure in {"start": start(), "figure2": figure2().plot()}.items():
        figure.savefig(FOLDER / f"{name}.svg")
        print(f"{name}.svg: {(FOLDER / f'{name}.svg').stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
