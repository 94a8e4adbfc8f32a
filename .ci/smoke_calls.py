"""Audits, a sample and a release, each against what is known exactly.

Limits are 5 standard errors: a correct library fails in 2 of a million runs.
"""

import math
import tempfile
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import gibbs_dp as gdp
from gibbs_dp.papers.on_average_kl import closed_forms

N, GAMMA = 20, 0.5
LOSS = gdp.losses.half_squared_distance


def population(key, n):
    return jax.random.normal(key, (n, 1))


def audit(folder):
    """Gaussian mean with a flat prior: on-average KL is known."""
    posterior = gdp.GibbsPosterior(LOSS, gdp.Flat(gdp.supports.real(1)))
    report = gdp.audit(
        posterior,
        population,
        N,
        [GAMMA],
        num_datasets=256,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(64)],
        progress=False,
    )
    report.save(folder / "report.nc")
    row = gdp.load_report(folder / "report.nc").rows[0]
    truth = closed_forms.gaussian_mean(GAMMA, N, 1, 1.0).on_average_kl
    assert abs(row["on_average_kl"] - truth) < 5 * row["on_average_kl_se"], (row, truth)
    report.plot().savefig(folder / "report.png")


def store(folder):
    """Goes on from where it was: traced programs are walked, and compared with those before."""
    posterior = gdp.GibbsPosterior(LOSS, gdp.Flat(gdp.supports.real(1)))
    for count in (128, 256):
        report = gdp.audit(
            posterior,
            population,
            N,
            [GAMMA],
            num_datasets=count,
            learn=[gdp.OnAverageKL()],
            store=folder / "store",
            progress=False,
        )
    row, truth = report.rows[0], closed_forms.gaussian_mean(GAMMA, N, 1, 1.0).on_average_kl
    assert abs(row["on_average_kl"] - truth) < 5 * row["on_average_kl_se"], (row, truth)


def refuse(folder):
    """Refuse a density of 1 / theta at 0, whatever a compiler makes of ``log(exp(u))``."""
    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.log(theta) + theta + 0.0 * z, gdp.Flat(gdp.supports.positive())
    )
    try:
        gdp.sample(posterior, np.zeros(1))
    except gdp.ImproperPosteriorError:
        return
    raise AssertionError("an improper posterior was sampled")


def sample(folder):
    """Gaussian mean with a normal prior: N(n gamma mean / P, 1 / P), P = n gamma + 1."""
    posterior = gdp.GibbsPosterior(LOSS, dist.Normal(jnp.zeros(1), 1.0))
    data = np.linspace(-1.0, 2.0, N)[:, None]
    draws = gdp.sample(posterior, data, gamma=GAMMA)
    draws.save(folder / "draws.nc")
    loaded = gdp.load_draws(folder / "draws.nc")
    precision = N * GAMMA + 1
    ess = loaded.to_dataframe()["ess"].iloc[0]
    error = loaded.theta.mean() - N * GAMMA * data.mean() / precision
    assert abs(error) * math.sqrt(precision * ess) < 5, (error, ess)


def release(folder):
    """One private draw of a mean: inside the box, charged to the ledger."""
    posterior = gdp.GibbsPosterior(LOSS, gdp.Flat(gdp.supports.box(-1.0, 1.0, 1)))
    ledger = gdp.Ledger.create(folder / "ledger", adjacency="replace-one", epsilon=2.0, delta=1e-5)
    released = gdp.release(
        posterior,
        np.linspace(-0.5, 0.9, 40)[:, None],
        domain=gdp.Domain(x_bound=1.0),
        adjacency="replace-one",
        ledger=ledger,
        epsilon=1.0,
        delta=1e-6,
        accept=["exact-draw", "float-arithmetic"],
    )
    assert np.abs(released.theta).max() <= 1.0
    assert 0.0 < ledger.spent()["epsilon"] <= 1.0 + 1e-9, ledger.spent()


if __name__ == "__main__":
    # From here on: what packages say about each other while they are imported is not ours. Not
    # "python -W error", which makes the parser of older Matplotlibs say more.
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as name:
        for call in (audit, store, refuse, sample, release):
            call(Path(name))
    print("right")
