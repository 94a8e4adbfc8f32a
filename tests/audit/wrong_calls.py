"""Calls that go wrong, as users make them: run without the type checks of the tests."""

import json

import flat
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd

import gibbs_dp as gdp
from gibbs_dp.sklearn import GibbsClassifier

POSTERIOR = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
X = np.linspace(-1.0, 1.0, 12)[:, None]
DATA = (X, X[:, 0])


def population(key, n):
    x = jax.random.uniform(key, (n, 1))
    return x, x[:, 0]


def numpy_population(key, n):
    x = np.random.default_rng().uniform(size=(n, 1))
    return x, x[:, 0]


def audit(posterior=POSTERIOR, population=population, n=5, **settings):
    given = {"gammas": 1.0, "num_datasets": 4, "progress": False, "num_information": 0}
    return flat.audit(posterior, population, n, **(given | settings))


def table(**settings):
    rows = pd.DataFrame({"a": X[:, 0], "y": [0, 1] * 6, "when": ["2010-01-02"] * 12})
    return gdp.problems.build_problem("table", data=rows, target="y", **settings)


def model(x, y):
    b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)


from_numpyro = gdp.GibbsPosterior.from_numpyro

CALLS = {
    "model: give a NumPyro model, a function of the data; got float": lambda: from_numpyro(2.0),
    "args: give a tuple of the model's arguments": lambda: from_numpyro(model, args=X[:, 0]),
    "args: 'x' is a table": lambda: from_numpyro(
        model, args=(pd.DataFrame(X, columns=["a"]), X[:, 0])
    ),
    "design: give 'resampled' or 'fixed'": lambda: gdp.populations.from_numpyro(
        model, args=(X[:, 0], X[:, 0]), design="free"
    ),
    "log_likelihood: give a function (theta, z) -> scalar": lambda: (
        gdp.GibbsPosterior.from_log_density(3.0, gdp.Flat(gdp.supports.real()))
    ),
    "params: ['a'] is str": lambda: gdp.priors.normal_like({"a": "x"}),
    "store: must be a folder's path or a gibbs_dp.Store, got 3": lambda: audit(store=3),
    "learn: give a list of quantities": lambda: audit(learn=gdp.Exposure()),
    "learn: Exposure is a class": lambda: audit(learn=[gdp.Exposure]),
    "learn: 'mutual' is no quantity": lambda: audit(learn=["mutual"]),
    "kernel: SMC runs no chains": lambda: audit(sampler=gdp.Chains(gdp.SMC())),
    "sampler: 'hmc' is text": lambda: audit(kernel="hmc"),
    "sampler: HMC is a class": lambda: audit(kernel=gdp.HMC),
    "sampler: int is no Markov kernel": lambda: audit(kernel=5),
    "sampler: Grid is a class": lambda: audit(kernel=gdp.Grid),
    "sampler: 'nuts' is text": lambda: gdp.sample(POSTERIOR, DATA, sampler="nuts"),
    "sampler: MALA is a class": lambda: gdp.sample(POSTERIOR, DATA, sampler=gdp.MALA),
    "audit() has no keyword 'gamma'; did you mean 'gammas'?": lambda: audit(gamma=1),
    "audit() has no keyword 'num_sample'": lambda: audit(num_sample=10),
    "sample() has no keyword 'gammas'; did you mean 'gamma'?": lambda: gdp.sample(
        POSTERIOR, DATA, gammas=1.0
    ),
    "gamma: must be one number, got [1, 2]": lambda: gdp.sample(POSTERIOR, DATA, gamma=[1, 2]),
    "gamma: must be one number, got '1'": lambda: gdp.sample(POSTERIOR, DATA, gamma="1"),
    "gamma: must be one number, got NoneType": lambda: gdp.sample(POSTERIOR, DATA, gamma=None),
    "gammas: give a list of numbers, got 'all'": lambda: audit(gammas="all"),
    "gammas: give a list of numbers, got [[1": lambda: audit(gammas=[[1.0, 2.0]]),
    "Domain(y_range) must be two numbers": lambda: gdp.Domain(1.0, 2.0),
    "Domain(x_bound) must be one number": lambda: gdp.Domain((0.0, 1.0)),
    "Domain(theta_bound) must be one number": lambda: gdp.Domain(1.0, theta_bound="2"),
    "posterior: got ": lambda: audit(posterior=gdp.losses.squared),
    "posterior: got str": lambda: gdp.sample("logistic", DATA),
    "population: a DataFrame is a table of examples": lambda: audit(population=pd.DataFrame(X)),
    "population: a tuple is a table of examples": lambda: audit(population=DATA),
    "population: a ndarray is a table of examples": lambda: audit(population=X),
    "population: Table is a class": lambda: audit(population=gdp.populations.Table),
    "Table(replace): must be True or False": lambda: gdp.populations.Table(X, X[:, 0]),
    "population: its examples do not depend on the key": lambda: audit(population=numpy_population),
    "population: its examples do not depend on the key ": lambda: audit(
        population=jax.jit(numpy_population, static_argnums=1)
    ),
    "sep: give a text, got 5": lambda: table(sep=5),
    "encoding: give a text, got None": lambda: table(encoding=None),
    "date: give the day of 'when' as a text": lambda: table(date={"when": 20100101}),
    "features: declare 'age' by a column such as": lambda: gdp.privacy.Schema({"age": (0, 100)}),
    "label: declare 'ill' by a column such as": lambda: gdp.privacy.Schema(
        {"age": gdp.privacy.Range(0, 100)}, "ill", ["no", "yes"]
    ),
    "path: give the name of a CSV file, got DataFrame": lambda: gdp.privacy.read_table(
        pd.DataFrame(X), gdp.privacy.Schema({"age": gdp.privacy.Range(0, 100)})
    ),
    "eps must be positive, and one number": lambda: gdp.papers.capacity.laplace_linear_kl(X[:2]),
    "classes: declare two or more": lambda: GibbsClassifier(bounds=(0, 1), classes=5).fit(X, X > 0),
}

if __name__ == "__main__":
    said = {}
    for wanted, call in CALLS.items():
        try:
            call()
            said[wanted] = "nothing"
        except (ValueError, TypeError) as error:
            said[wanted] = str(error)
        except Exception as error:
            said[wanted] = repr(error)
    print(json.dumps(said))  # noqa: T201
