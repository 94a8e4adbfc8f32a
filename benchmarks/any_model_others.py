"""Other models as people write them, with small data from fixed seeds, for `any_model.py`."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from any_model_hierarchies import STRUCTURED, Case

# -- regressions --------------------------------------------------------------------------


def columns(seed: int, n: int, d: int, used: int, noise: float = 1.0) -> tuple:
    """Regress on the first few columns."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    beta = np.zeros(d)
    beta[:used] = rng.choice([-1.0, 1.0], size=used) * rng.uniform(0.5, 2.0, size=used)
    return x, x @ beta + noise * rng.normal(size=n)


def half_student(df: float, scale: float) -> Any:
    """Take the positive half of Student's t."""
    return dist.FoldedDistribution(dist.StudentT(df, 0.0, scale))


def horseshoe(x, y):
    """Global and local half-Cauchy scales, centred as in a first draft."""
    tau = numpyro.sample("tau", dist.HalfCauchy(0.3))
    lam = numpyro.sample("lam", dist.HalfCauchy(jnp.ones(x.shape[1])))
    beta = numpyro.sample("beta", dist.Normal(0.0, tau * lam))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def horseshoe_free(x, y):
    """Write the horseshoe non-centred."""
    tau = numpyro.sample("tau", dist.HalfCauchy(0.3))
    lam = numpyro.sample("lam", dist.HalfCauchy(jnp.ones(x.shape[1])))
    z = numpyro.sample("z", dist.Normal(0.0, jnp.ones(x.shape[1])))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ (tau * lam * z), sigma), obs=y)


def regularized_horseshoe(x, y):
    """Keep the horseshoe's large coefficients from running off (Piironen & Vehtari 2017)."""
    tau = numpyro.sample("tau", half_student(2.0, 0.2))
    lam = numpyro.sample("lam", half_student(3.0, 1.0).expand([x.shape[1]]))
    c2 = numpyro.sample("c2", dist.InverseGamma(2.0, 8.0))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([x.shape[1]]))
    shrunk = lam * jnp.sqrt(c2 / (c2 + (tau * lam) ** 2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ (tau * shrunk * z), sigma), obs=y)


def laplace(x, y):
    """Lasso, with its scale unknown."""
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    beta = numpyro.sample("beta", dist.Laplace(0, scale).expand([x.shape[1]]))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def relevance(x, y):
    """Automatic relevance determination: a precision for each coefficient."""
    with numpyro.plate("columns", x.shape[1]):
        precision = numpyro.sample("precision", dist.Gamma(0.5, 0.5))
        beta = numpyro.sample("beta", dist.Normal(0, precision**-0.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def student(x, y):
    """Student-t errors with degrees of freedom unknown."""
    a = numpyro.sample("a", dist.Normal(0, 5))
    beta = numpyro.sample("beta", dist.Normal(0, 2).expand([x.shape[1]]))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2))
    nu = numpyro.sample("nu", dist.Gamma(2, 0.1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.StudentT(nu, a + x @ beta, sigma), obs=y)


def outlying() -> tuple:
    """Three rows of fifty far off."""
    x, y = columns(41, 50, 2, 2)
    y[:3] += np.array([12.0, -15.0, 20.0])
    return x, y


def logistic(x, y):
    """Classify under normal priors."""
    a = numpyro.sample("a", dist.Normal(0, 2.5))
    beta = numpyro.sample("beta", dist.Normal(0, 2.5).expand([x.shape[1]]))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=a + x @ beta), obs=y)


def labels(seed: int, n: int, d: int) -> tuple:
    """Two classes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / d**0.5)
    eta = x @ (rng.normal(size=d) / d**0.5)
    return x, (rng.uniform(size=n) < 1 / (1 + np.exp(-2 * eta))).astype(float)


def poisson(x, y):
    """Log-linear counts."""
    a = numpyro.sample("a", dist.Normal(0, 5))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Poisson(jnp.exp(a + x @ beta)), obs=y)


def log_linear(zeros: float) -> tuple:
    """Count on three columns; some are zero whatever the columns say."""
    rng = np.random.default_rng(43)
    x = rng.normal(size=(80, 3))
    y = rng.poisson(np.exp(1.0 + x @ np.array([0.4, -0.3, 0.0])))
    return x, (y * (rng.uniform(size=80) > zeros)).astype(float)


def zero_inflated(x, y):
    """Allow for more zeros than a Poisson law has."""
    a = numpyro.sample("a", dist.Normal(0, 5))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]))
    gate = numpyro.sample("gate", dist.Beta(1, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.ZeroInflatedPoisson(gate, jnp.exp(a + x @ beta)), obs=y)


def heteroscedastic(x, y):
    """Let a column decide the noise too."""
    a = numpyro.sample("a", dist.Normal(0, 3).expand([2]))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(a[0] + a[1] * x, jnp.exp(b[0] + b[1] * x)), obs=y)


def fanning() -> tuple:
    """Noise that grows."""
    rng = np.random.default_rng(47)
    x = rng.uniform(-2, 2, size=60)
    return x, 1.0 + 0.5 * x + np.exp(0.6 * x - 0.5) * rng.normal(size=60)


def measurement_error(w, y):
    """Regress on a column that is seen with noise; its true values are latent."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    line = numpyro.sample("line", dist.Normal(0, 2).expand([2]))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("rows", len(y)):
        x = numpyro.sample("x", dist.Normal(mu, spread))
        numpyro.sample("w", dist.Normal(x, 0.5), obs=w)
        numpyro.sample("y", dist.Normal(line[0] + line[1] * x, sigma), obs=y)


def seen_with_noise() -> tuple:
    """Thirty pairs."""
    rng = np.random.default_rng(53)
    x = 1.0 + rng.normal(size=30)
    return x + 0.5 * rng.normal(size=30), 0.5 + 1.2 * x + 0.4 * rng.normal(size=30)


def michaelis_menten(s, v):
    """Speed of a reaction."""
    top = numpyro.sample("top", dist.LogNormal(0, 2))
    half = numpyro.sample("half", dist.LogNormal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
    with numpyro.plate("rows", len(s)):
        numpyro.sample("v", dist.Normal(top * s / (half + s), sigma), obs=v)


def reaction() -> tuple:
    """Twelve speeds, most of them below saturation."""
    rng = np.random.default_rng(59)
    s = np.linspace(0.1, 2.0, 12)
    return s, 3.0 * s / (1.5 + s) + 0.1 * rng.normal(size=12)


def logistic_growth(t, y):
    """Grow to a capacity, with log-normal noise."""
    capacity = numpyro.sample("capacity", dist.LogNormal(3, 1))
    rate = numpyro.sample("rate", dist.LogNormal(-1, 1))
    start = numpyro.sample("start", dist.LogNormal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
    size = capacity / (1 + (capacity / start - 1) * jnp.exp(-rate * t))
    with numpyro.plate("rows", len(t)):
        numpyro.sample("y", dist.LogNormal(jnp.log(size), sigma), obs=y)


def growth() -> tuple:
    """Twenty sizes."""
    rng = np.random.default_rng(61)
    t = np.linspace(0, 12, 20)
    return t, 30 / (1 + 29 * np.exp(-0.6 * t)) * np.exp(0.15 * rng.normal(size=20))


def ordinal(x, y):
    """Ordered classes, with cut points of their own."""
    beta = numpyro.sample("beta", dist.Normal(0, 2).expand([x.shape[1]]))
    cuts = dist.TransformedDistribution(
        dist.Normal(0, 2).expand([4]).to_event(1), dist.transforms.OrderedTransform()
    )
    cut = numpyro.sample("cut", cuts)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.OrderedLogistic(x @ beta, cut), obs=y)


def stages() -> tuple:
    """Five classes."""
    rng = np.random.default_rng(67)
    x = rng.normal(size=(100, 2))
    z = x @ np.array([1.0, -0.5]) + rng.logistic(size=100)
    return x, np.digitize(z, [-2.0, -0.5, 0.8, 2.0])


class CensoredWeibull(dist.Distribution):
    """Weibull times, of which some are only known to be longer."""

    arg_constraints: ClassVar = {
        "scale": dist.constraints.positive,
        "shape_": dist.constraints.positive,
    }
    support = dist.constraints.positive
    reparametrized_params: tuple[str, ...] = ()

    def __init__(self, scale: Any, shape_: Any, is_seen: Any) -> None:
        self.scale, self.shape_, self.is_seen = scale, shape_, is_seen
        shape = jnp.broadcast_shapes(jnp.shape(scale), jnp.shape(shape_), jnp.shape(is_seen))
        super().__init__(batch_shape=shape)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw times without regard to censoring."""
        return (
            dist.Weibull(self.scale, self.shape_).expand(self.batch_shape).sample(key, sample_shape)
        )

    def log_prob(self, value: Any) -> Any:
        """Log density where a time was seen, and log survival where it was not."""
        survival = -((value / self.scale) ** self.shape_)
        hazard = jnp.log(self.shape_ / self.scale)
        hazard = hazard + (self.shape_ - 1) * jnp.log(value / self.scale)
        return survival + jnp.where(self.is_seen, hazard, 0.0)


def weibull(x, is_seen, t):
    """Censored survival on columns."""
    a = numpyro.sample("a", dist.Normal(0, 3))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]))
    shape = numpyro.sample("shape", dist.LogNormal(0, 1))
    with numpyro.plate("rows", len(t)):
        numpyro.sample("t", CensoredWeibull(jnp.exp(a + x @ beta), shape, is_seen), obs=t)


def gamma_censored(x, is_seen, t):
    """Take a Gamma law instead, through NumPyro's censored laws."""
    a = numpyro.sample("a", dist.Normal(0, 3))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]))
    shape = numpyro.sample("shape", dist.LogNormal(0, 1))
    base = dist.Gamma(shape, shape * jnp.exp(-a - x @ beta))
    with numpyro.plate("rows", len(t)):
        numpyro.sample("t", dist.RightCensoredDistribution(base, 1 - is_seen), obs=t)


def survival() -> tuple:
    """Sixty times, a third of them cut off."""
    rng = np.random.default_rng(71)
    x = rng.normal(size=(60, 2))
    t = np.exp(0.5 + x @ np.array([0.5, -0.3])) * rng.weibull(1.4, size=60)
    end = rng.uniform(0.5, 4.0, size=60)
    return x, (t < end).astype(int), np.minimum(t, end)


def gaussian(y):
    """Means of twenty numbers that depend on each other much."""
    d = y.shape[1]
    index = jnp.arange(d)
    covariance = 0.9 ** jnp.abs(index[:, None] - index)
    mean = numpyro.sample("mean", dist.Normal(0, 10).expand([d]).to_event(1))
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.MultivariateNormal(mean, covariance), obs=y)


def vectors() -> tuple:
    """Eight vectors."""
    return (np.cumsum(np.random.default_rng(73).normal(size=(8, 20)), axis=1),)


# -- people and items ---------------------------------------------------------------------


def rasch(people, items, i, j, y):
    """Abilities and difficulties."""
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    with numpyro.plate("people", people):
        ability = numpyro.sample("ability", dist.Normal(0, spread))
    with numpyro.plate("items", items):
        difficulty = numpyro.sample("difficulty", dist.Normal(0, 2))
    with numpyro.plate("answers", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=ability[i] - difficulty[j]), obs=y)


def two_parameters(people, items, i, j, y):
    """Items that discriminate differently."""
    with numpyro.plate("people", people):
        ability = numpyro.sample("ability", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("items", items):
        slope = numpyro.sample("slope", dist.LogNormal(0, spread))
        difficulty = numpyro.sample("difficulty", dist.Normal(0, 2))
    logits = slope[j] * (ability[i] - difficulty[j])
    with numpyro.plate("answers", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def two_parameters_free(people, items, i, j, y):
    """Write `two_parameters` with the slopes non-centred."""
    with numpyro.plate("people", people):
        ability = numpyro.sample("ability", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("items", items):
        z = numpyro.sample("z", dist.Normal(0, 1))
        slope = numpyro.deterministic("slope", jnp.exp(spread * z))
        difficulty = numpyro.sample("difficulty", dist.Normal(0, 2))
    logits = slope[j] * (ability[i] - difficulty[j])
    with numpyro.plate("answers", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def answers() -> tuple:
    """Thirty people, eight items."""
    rng = np.random.default_rng(79)
    i, j = np.repeat(np.arange(30), 8), np.tile(np.arange(8), 30)
    logits = np.exp(0.4 * rng.normal(size=8))[j] * (rng.normal(size=30)[i] - rng.normal(size=8)[j])
    return 30, 8, i, j, (rng.uniform(size=240) < 1 / (1 + np.exp(-logits))).astype(float)


def bradley_terry(players, i, j, y):
    """Strengths of players, from who beat whom."""
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("players", players):
        strength = numpyro.sample("strength", dist.Normal(0, spread))
    with numpyro.plate("games", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=strength[i] - strength[j]), obs=y)


def games() -> tuple:
    """Sixty games of ten players."""
    rng = np.random.default_rng(83)
    i = rng.integers(10, size=60)
    j = (i + rng.integers(1, 10, size=60)) % 10
    s = rng.normal(size=10)
    return 10, i, j, (rng.uniform(size=60) < 1 / (1 + np.exp(s[j] - s[i]))).astype(float)


# -- time ---------------------------------------------------------------------------------


def volatility_walk(y):
    """Stochastic volatility as NumPyro's example has it: a walk, and Student-t returns."""
    sigma = numpyro.sample("sigma", dist.Exponential(10.0))
    nu = numpyro.sample("nu", dist.Exponential(0.1))
    s = numpyro.sample("s", dist.GaussianRandomWalk(scale=sigma, num_steps=len(y)))
    numpyro.sample("y", dist.StudentT(nu, 0.0, jnp.exp(s)), obs=y)


def volatility_walk_free(y):
    """Write `volatility_walk` by its steps."""
    sigma = numpyro.sample("sigma", dist.Exponential(10.0))
    nu = numpyro.sample("nu", dist.Exponential(0.1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]))
    s = numpyro.deterministic("s", sigma * jnp.cumsum(z))
    numpyro.sample("y", dist.StudentT(nu, 0.0, jnp.exp(s)), obs=y)


def volatility(y):
    """Stochastic volatility that returns to its mean, by its shocks."""
    mu = numpyro.sample("mu", dist.Normal(-1, 2))
    phi = numpyro.sample("phi", dist.Uniform(-1, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]))
    first = sigma * z[0] / jnp.sqrt(1 - phi**2)

    def step(h: Any, z: Any) -> tuple[Any, Any]:
        h = phi * h + sigma * z
        return h, h

    _, rest = jax.lax.scan(step, first, z[1:])
    h = mu + jnp.concatenate([first[None], rest])
    numpyro.sample("y", dist.Normal(0, jnp.exp(h / 2)), obs=y)


def returns() -> tuple:
    """Sixty returns."""
    rng = np.random.default_rng(89)
    h = np.zeros(60)
    for t in range(1, 60):
        h[t] = 0.9 * h[t - 1] + 0.4 * rng.normal()
    return (np.exp(h / 2 - 0.5) * rng.normal(size=60),)


def local_level(y):
    """See a walk with noise."""
    start = numpyro.sample("start", dist.Normal(0, 5))
    step = numpyro.sample("step", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    level = numpyro.sample("level", dist.GaussianRandomWalk(scale=step, num_steps=len(y)))
    numpyro.sample("y", dist.Normal(start + level, sigma), obs=y)


def local_level_free(y):
    """Write `local_level` by its steps."""
    start = numpyro.sample("start", dist.Normal(0, 5))
    step = numpyro.sample("step", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]))
    level = numpyro.deterministic("level", step * jnp.cumsum(z))
    numpyro.sample("y", dist.Normal(start + level, sigma), obs=y)


def levels() -> tuple:
    """Forty years."""
    rng = np.random.default_rng(97)
    return (2.0 + np.cumsum(0.3 * rng.normal(size=40)) + 0.7 * rng.normal(size=40),)


def autoregression(before, y):
    """Regress on the value before."""
    a = numpyro.sample("a", dist.Normal(0, 2))
    phi = numpyro.sample("phi", dist.Uniform(-1, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("times", len(y)):
        numpyro.sample("y", dist.Normal(a + phi * before, sigma), obs=y)


def lagged() -> tuple:
    """Thirty-nine pairs."""
    (y,) = levels()
    return y[:-1], y[1:]


# -- functions ----------------------------------------------------------------------------


def smooth_covariance(x, rho, alpha):
    """Squared exponential, with a variance on the diagonal that single precision needs."""
    covariance = alpha**2 * jnp.exp(-0.5 * ((x[:, None] - x) / rho) ** 2)
    return covariance + 1e-3 * jnp.eye(len(x))


def process_marginal(x, y):
    """Gaussian process regression, the function integrated out."""
    rho = numpyro.sample("rho", dist.InverseGamma(4, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
    covariance = smooth_covariance(x, rho, alpha) + sigma**2 * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), covariance), obs=y)


def process_counts(x, k):
    """Let the log rate of counts be a smooth function, its values latent."""
    rho = numpyro.sample("rho", dist.InverseGamma(4, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(1))
    f = numpyro.sample(
        "f", dist.MultivariateNormal(jnp.zeros(len(x)), smooth_covariance(x, rho, alpha))
    )
    with numpyro.plate("points", len(x)):
        numpyro.sample("k", dist.Poisson(jnp.exp(f)), obs=k)


def process_counts_free(x, k):
    """Write `process_counts` by standard normals."""
    rho = numpyro.sample("rho", dist.InverseGamma(4, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(x)]))
    f = numpyro.deterministic("f", jnp.linalg.cholesky(smooth_covariance(x, rho, alpha)) @ z)
    with numpyro.plate("points", len(x)):
        numpyro.sample("k", dist.Poisson(jnp.exp(f)), obs=k)


def wave(is_count: bool) -> tuple:
    """Twenty-five points."""
    rng = np.random.default_rng(101)
    x = np.linspace(-3, 3, 25)
    f = np.sin(1.5 * x) + 0.3 * x
    return x, rng.poisson(np.exp(f)).astype(float) if is_count else f + 0.3 * rng.normal(size=25)


# -- shapes -------------------------------------------------------------------------------


def funnel(y):
    """Neal's funnel; what is observed says nothing."""
    v = numpyro.sample("v", dist.Normal(0, 3))
    numpyro.sample("x", dist.Normal(0, jnp.exp(v / 2)).expand([9]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(0, 1), obs=y)


def funnel_free(y):
    """Write `funnel` by standard normals."""
    v = numpyro.sample("v", dist.Normal(0, 3))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([9]).to_event(1))
    numpyro.deterministic("x", jnp.exp(v / 2) * z)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(0, 1), obs=y)


def mixture(y):
    """Two normal laws, their means in order."""
    ordered = dist.TransformedDistribution(
        dist.Normal(0, 3).expand([2]).to_event(1), dist.transforms.OrderedTransform()
    )
    mu = numpyro.sample("mu", ordered)
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]))
    weight = numpyro.sample("weight", dist.Dirichlet(2 * jnp.ones(2)))
    law = dist.MixtureSameFamily(dist.Categorical(weight), dist.Normal(mu, sigma))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", law, obs=y)


def two_heaps() -> tuple:
    """Sixty numbers in two heaps that overlap."""
    rng = np.random.default_rng(103)
    return (np.where(rng.uniform(size=60) < 0.4, -1.5, 1.5) + rng.normal(size=60),)


def nothing(count: int) -> tuple:
    """So many zeros."""
    return (np.zeros(count),)


ANSWERS = {"examples": ("i", "j", "y")}
CASES: dict[str, Case] = {
    "horseshoe_c": Case(horseshoe, partial(columns, 37, 60, 15, 3), sites=("beta",)),
    "horseshoe_nc": Case(horseshoe_free, partial(columns, 37, 60, 15, 3)),
    "horseshoe_regularized": Case(regularized_horseshoe, partial(columns, 37, 60, 15, 3)),
    "laplace": Case(laplace, partial(columns, 37, 60, 15, 3)),
    "relevance": Case(relevance, partial(columns, 37, 60, 15, 3), sites=("beta",)),
    "student": Case(student, outlying),
    "logistic_10": Case(logistic, partial(labels, 105, 100, 10)),
    "logistic_50": Case(logistic, partial(labels, 107, 200, 50)),
    "gaussian_20": Case(gaussian, vectors),
    "poisson": Case(poisson, partial(log_linear, 0.0)),
    "zero_inflated": Case(zero_inflated, partial(log_linear, 0.3)),
    "heteroscedastic": Case(heteroscedastic, fanning),
    "measurement_error": Case(
        measurement_error, seen_with_noise, {"structured": True, "observed": ("w", "y")}
    ),
    "michaelis_menten": Case(michaelis_menten, reaction, {"observed": "v"}),
    "logistic_growth": Case(logistic_growth, growth),
    "ordinal": Case(ordinal, stages),
    "weibull": Case(weibull, survival, {"observed": "t"}),
    "gamma_censored": Case(gamma_censored, survival, {"observed": "t"}),
    "rasch": Case(rasch, answers, ANSWERS),
    "two_parameters": Case(two_parameters, answers, ANSWERS, twin=two_parameters_free),
    "bradley_terry": Case(bradley_terry, games, ANSWERS),
    "volatility_walk": Case(volatility_walk, returns, STRUCTURED, twin=volatility_walk_free),
    "volatility_shocks": Case(volatility, returns, STRUCTURED),
    "local_level": Case(local_level, levels, STRUCTURED, twin=local_level_free),
    "local_level_nc": Case(local_level_free, levels, STRUCTURED),
    "autoregression": Case(autoregression, lagged),
    "process_marginal": Case(process_marginal, partial(wave, False), STRUCTURED),
    "process_counts": Case(
        process_counts,
        partial(wave, True),
        {"structured": True, "observed": "k", "examples": ("k",)},  # the prior needs x
        twin=process_counts_free,
    ),
    "process_counts_nc": Case(
        process_counts_free, partial(wave, True), {"structured": True, "observed": "k"}
    ),
    "funnel_c": Case(funnel, partial(nothing, 2), twin=funnel_free),
    "funnel_nc": Case(funnel_free, partial(nothing, 2)),
    "funnel_one": Case(funnel, partial(nothing, 1), twin=funnel_free),
    "mixture": Case(mixture, two_heaps),
}
