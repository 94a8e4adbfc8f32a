"""The page to explore on the site's front page, of an audit made when the site is built."""

from pathlib import Path

import jax

import gibbs_dp as gdp

TITLE = "Thirty answers and their mean"
ABOUT = ("Answers uniform between -1 and 1; draws from the Gibbs posterior of their mean.",)
GAMMAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def population(key, n):
    return jax.random.uniform(key, (n, 1), minval=-1.0, maxval=1.0)


def report():
    """The audit of the page on attackers, at more gammas."""
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1))
    )
    return gdp.audit(
        posterior,
        population,
        n=30,
        gammas=GAMMAS,
        num_datasets=256,
        domain=gdp.Domain(x_bound=1.0),
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )


def write(app, exception):
    """Write it beside the site's pages, which show it in a frame."""
    if exception is None and app.builder.format == "html":
        report().explore(Path(app.outdir) / "explorer.html", TITLE, ABOUT)


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
