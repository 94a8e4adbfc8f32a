"""NumPyro models as people write them, with densities of their own written by hand."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import stats

RNG = np.random.default_rng(20261123)
N = 40
X = RNG.normal(size=(N, 3))
LABELS = RNG.integers(0, 2, N)
COUNTS = RNG.poisson(2.0, N)
EXPOSURE = RNG.uniform(1.0, 3.0, N)
REAL = RNG.normal(size=N)
COUNTY = np.arange(N) % 5
SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def logistic(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def eight_schools(num_schools, sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", num_schools):
        z = numpyro.sample("z", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def centred_schools(num_schools, sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", num_schools):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def poisson(x, exposure, y=None):
    b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
    numpyro.sample("y", dist.Poisson(exposure * jnp.exp(x @ b)), obs=y)


def mixture(y):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    m = numpyro.sample("m", dist.Normal(0, 3).expand([2]))
    law = dist.MixtureSameFamily(dist.Categorical(w), dist.Normal(m, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", law, obs=y)


def gaussian_process(x, y=None):
    length = numpyro.sample("length", dist.LogNormal(0, 1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    kernel = jnp.exp(-0.5 * (x[:, None] - x) ** 2 / length**2)
    cov = kernel + (noise**2 + 1e-2) * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), cov), obs=y)


def county(c, x, y, num_counties=5):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("counties", num_counties):
        a = numpyro.sample("a", dist.Normal(mu, tau))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(a[c] + x[:, 0], 1), obs=y)


def visits(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("people", y.shape[1], dim=-1):
        a = numpyro.sample("a", dist.Normal(mu, 1))
        with numpyro.plate("visits", y.shape[0], dim=-2):
            numpyro.sample("y", dist.Normal(a, 1), obs=y)


VISITS = RNG.normal(size=(4, 10))


# Log prior and log-likelihood at a point, by SciPy.


def logistic_by_hand(t):
    p = 1 / (1 + np.exp(-X @ t["w"]))
    return stats.norm.logpdf(t["w"]).sum(), stats.bernoulli.logpmf(LABELS, p).sum()


def schools_by_hand(t):
    prior = stats.norm.logpdf(t["mu"], 0, 5) + stats.halfcauchy.logpdf(t["tau"], 0, 5)
    prior += stats.norm.logpdf(t["z"]).sum()
    return prior, stats.norm.logpdf(SCHOOLS, t["mu"] + t["tau"] * t["z"], SIGMA).sum()


def centred_by_hand(t):
    prior = stats.norm.logpdf(t["mu"], 0, 5) + stats.halfcauchy.logpdf(t["tau"], 0, 5)
    prior += stats.norm.logpdf(t["theta"], t["mu"], t["tau"]).sum()
    return prior, stats.norm.logpdf(SCHOOLS, t["theta"], SIGMA).sum()


def poisson_by_hand(t):
    rate = EXPOSURE * np.exp(X @ t["b"])
    return stats.norm.logpdf(t["b"]).sum(), stats.poisson.logpmf(COUNTS, rate).sum()


def mixture_by_hand(t):
    density = t["w"] * stats.norm.pdf(REAL[:, None], t["m"], 1)
    prior = stats.dirichlet.logpdf(t["w"], np.ones(2)) + stats.norm.logpdf(t["m"], 0, 3).sum()
    return prior, np.log(density.sum(1)).sum()


def process_by_hand(t):
    x = X[:, 0]
    cov = np.exp(-0.5 * (x[:, None] - x) ** 2 / t["length"] ** 2)
    cov += (t["noise"] ** 2 + 1e-2) * np.eye(N)
    prior = stats.lognorm.logpdf(t["length"], 1) + stats.halfnorm.logpdf(t["noise"])
    return prior, stats.multivariate_normal.logpdf(REAL, np.zeros(N), cov)


def county_by_hand(t):
    prior = stats.norm.logpdf(t["mu"]) + stats.halfnorm.logpdf(t["tau"])
    prior += stats.norm.logpdf(t["a"], t["mu"], t["tau"]).sum()
    return prior, stats.norm.logpdf(REAL, t["a"][COUNTY] + X[:, 0], 1).sum()


def visits_by_hand(t):
    prior = stats.norm.logpdf(t["mu"]) + stats.norm.logpdf(t["a"], t["mu"], 1).sum()
    return prior, stats.norm.logpdf(VISITS, t["a"], 1).sum()


W = np.array([0.3, -0.7, 1.1])
Z = np.linspace(-1, 1, 8)
# name: model, its arguments, settings, a point, the density by hand
CASES = {
    "logistic": (logistic, (X, LABELS), {}, {"w": W}, logistic_by_hand),
    "eight schools": (
        eight_schools,
        (8, SIGMA, SCHOOLS),
        {"structured": True},
        {"mu": 2.0, "tau": 3.0, "z": Z},
        schools_by_hand,
    ),
    "centred schools": (
        centred_schools,
        (8, SIGMA, SCHOOLS),
        {"structured": True},
        {"mu": 2.0, "tau": 3.0, "theta": 4 * Z},
        centred_by_hand,
    ),
    "poisson": (poisson, (X, EXPOSURE, COUNTS), {}, {"b": W}, poisson_by_hand),
    "mixture": (
        mixture,
        (REAL,),
        {},
        {"w": np.array([0.3, 0.7]), "m": np.array([-1.0, 2.0])},
        mixture_by_hand,
    ),
    "process": (
        gaussian_process,
        (X[:, 0], REAL),
        {"structured": True},
        {"length": 0.7, "noise": 0.5},
        process_by_hand,
    ),
    "county": (
        county,
        (COUNTY, X, REAL),
        {},
        {"mu": 0.3, "tau": 0.5, "a": Z[:5]},
        county_by_hand,
    ),
    "county groups": (
        county,
        (COUNTY, X, REAL),
        {"group": "c", "structured": True},
        {"mu": 0.3, "tau": 0.5, "a": Z[:5]},
        county_by_hand,
    ),
    "visits": (
        visits,
        (VISITS,),
        {"group": "people", "structured": True},
        {"mu": 0.3, "a": np.linspace(-1, 1, 10)},
        visits_by_hand,
    ),
}
