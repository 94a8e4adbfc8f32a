"""Hierarchies as other people write them, with small data from fixed seeds, for `any_model.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist


class Case(NamedTuple):
    """A posterior to draw from.

    Attributes
    ----------
    model
        In NumPyro.
    make
        Returns what the model is called with.
    settings
        Of ``GibbsPosterior.from_numpyro``.
    sites
        Sites that the run for the truth moves to their non-centred form.
    twin
        A model of the same law that the truth is run with instead, with sites, latent or
        deterministic, of the same names.
    """

    model: Callable[..., None]
    make: Callable[[], tuple[Any, ...]]
    settings: Mapping[str, Any] = MappingProxyType({})
    sites: tuple[str, ...] = ()
    twin: Callable[..., None] | None = None


STRUCTURED: Mapping[str, Any] = MappingProxyType({"structured": True})


def counts(kind: str, groups: int, each: int) -> np.ndarray:
    """Rows of every group: as many in each, or from one in the first to very many in the last."""
    if kind == "even":
        return np.full(groups, each)
    return np.geomspace(1, each, groups).astype(int)


def rows_of(sizes: np.ndarray) -> np.ndarray:
    """Group of every row."""
    return np.repeat(np.arange(len(sizes)), sizes)


# -- varying intercepts -------------------------------------------------------------------


def intercepts(centred: bool, outcome: str, groups: int, g, x, offset, y):
    """Let groups differ in their intercepts; one slope, and an offset."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(2) if outcome != "normal" else dist.HalfCauchy(3))
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    extra = None
    if outcome in ("normal", "negative binomial"):
        extra = numpyro.sample("extra", dist.Exponential(0.5))
    with numpyro.plate("groups", groups):
        if centred:
            a = numpyro.sample("a", dist.Normal(mu, tau))
        else:
            a = mu + tau * numpyro.sample("z", dist.Normal(0, 1))
    eta = a[g] + slope * x + offset
    laws = {
        "normal": lambda: dist.Normal(eta, extra),
        "poisson": lambda: dist.Poisson(jnp.exp(eta)),
        "bernoulli": lambda: dist.Bernoulli(logits=eta),
        "negative binomial": lambda: dist.NegativeBinomial2(jnp.exp(eta), extra),
    }
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", laws[outcome](), obs=y)


def grouped(seed: int, outcome: str, sizes: np.ndarray, tau: float) -> tuple:
    """Make groups, a column, offsets (of counts) and outcomes."""
    rng = np.random.default_rng(seed)
    g = rows_of(sizes)
    x = rng.normal(size=len(g))
    a = 0.5 + tau * rng.normal(size=len(sizes))
    offset = rng.uniform(-1, 1, size=len(g)) * (outcome == "poisson")
    eta = a[g] + 0.7 * x + offset
    y = {
        "normal": lambda: eta + rng.normal(size=len(g)),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "bernoulli": lambda: (rng.uniform(size=len(g)) < 1 / (1 + np.exp(-eta))).astype(float),
        "negative binomial": lambda: rng.poisson(
            np.exp(eta) * rng.gamma(2.0, 0.5, size=len(g))
        ).astype(float),
    }[outcome]()
    return g, x, offset, y


def _intercept_case(
    name: str, outcome: str, groups: int, each: int, centred: bool, tau: float, kind: str = "even"
) -> tuple[str, Case]:
    sizes = counts(kind, groups, each)
    model = partial(intercepts, centred, outcome, len(sizes))
    seed = 100 + groups + each
    sites = ("a",) if centred and each < 20 and kind == "even" else ()
    make = partial(grouped, seed, outcome, sizes, tau)
    shape = f"{groups}x{each}" if kind == "even" else "unequal"
    settings = {"examples": ("g", "x", "offset", "y")}
    return f"{name}_{'c' if centred else 'nc'}_{shape}", Case(model, make, settings, sites)


INTERCEPTS = dict(
    [
        _intercept_case("normal", "normal", 3, 10, True, 1.0),
        _intercept_case("normal", "normal", 8, 5, True, 0.3),
        _intercept_case("normal", "normal", 8, 50, False, 1.0),
        _intercept_case("normal", "normal", 20, 2, True, 0.5),
        _intercept_case("normal", "normal", 100, 3, True, 0.5),
        _intercept_case("normal", "normal", 12, 200, True, 0.7, "unequal"),
        _intercept_case("normal", "normal", 12, 200, False, 0.7, "unequal"),
        _intercept_case("poisson", "poisson", 8, 5, True, 0.5),
        _intercept_case("poisson", "poisson", 20, 10, False, 0.5),
        _intercept_case("poisson", "poisson", 100, 1, True, 0.5),
        _intercept_case("bernoulli", "bernoulli", 20, 5, True, 0.5),
        _intercept_case("bernoulli", "bernoulli", 20, 20, False, 1.0),
        _intercept_case("bernoulli", "bernoulli", 8, 50, True, 1.0),
        _intercept_case("bernoulli", "bernoulli", 100, 3, True, 1.0),
        _intercept_case("bernoulli", "bernoulli", 12, 100, False, 1.0, "unequal"),
        _intercept_case("negbin", "negative binomial", 20, 5, True, 0.5),
        _intercept_case("negbin", "negative binomial", 8, 10, False, 0.5),
        _intercept_case("negbin", "negative binomial", 3, 4, True, 0.5),
    ]
)


# -- eight schools ------------------------------------------------------------------------


def schools(sigma, y):
    """Effects of coaching in eight schools (Rubin 1981), centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def schools_noncentred(sigma, y):
    """Write eight schools non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(y)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * z, sigma), obs=y)


def coaching() -> tuple:
    """Return standard errors and estimates of the schools."""
    sigma = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    return sigma, np.array([28.0, 8, -3, 7, -1, 1, 18, 12])


def robust_meta(sigma, y):
    """Meta-analysis with Student-t effects, centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("studies", len(y)):
        theta = numpyro.sample("theta", dist.StudentT(4.0, mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def robust_meta_free(sigma, y):
    """Write `robust_meta` non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("studies", len(y)):
        z = numpyro.sample("z", dist.StudentT(4.0, 0, 1))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def studies() -> tuple:
    """Fifteen studies, one of which is far off."""
    rng = np.random.default_rng(7)
    sigma = rng.uniform(0.1, 0.6, size=15)
    effects = 0.3 + 0.2 * rng.normal(size=15)
    effects[4] += 2.0
    return sigma, effects + sigma * rng.normal(size=15)


# -- varying slopes -----------------------------------------------------------------------


def slopes_independent(groups, g, x, y):
    """Give groups intercepts and slopes, each with a scale of its own, centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 3).expand([2]).to_event(1))
    tau = numpyro.sample("tau", dist.HalfNormal(1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("groups", groups):
        a = numpyro.sample("a", dist.Normal(mu[0], tau[0]))
        b = numpyro.sample("b", dist.Normal(mu[1], tau[1]))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(a[g] + b[g] * x, sigma), obs=y)


def slopes_correlated(groups, g, x, y):
    """Correlate intercepts and slopes, with the priors that Stan's users write."""
    mu = numpyro.sample("mu", dist.Normal(0, 3).expand([2]).to_event(1))
    tau = numpyro.sample("tau", dist.HalfNormal(1).expand([2]).to_event(1))
    corr = numpyro.sample("corr", dist.LKJCholesky(2, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("groups", groups):
        both = numpyro.sample("both", dist.MultivariateNormal(mu, scale_tril=tau[..., None] * corr))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(both[g, 0] + both[g, 1] * x, sigma), obs=y)


def slopes_correlated_free(groups, g, x, y):
    """Write `slopes_correlated` non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 3).expand([2]).to_event(1))
    tau = numpyro.sample("tau", dist.HalfNormal(1).expand([2]).to_event(1))
    corr = numpyro.sample("corr", dist.LKJCholesky(2, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([groups, 2]).to_event(2))
    both = numpyro.deterministic("both", mu + z @ (tau[..., None] * corr).T)
    numpyro.sample("y", dist.Normal(both[g, 0] + both[g, 1] * x, sigma), obs=y)


def lines() -> tuple:
    """Twelve groups of six rows, with lines of their own."""
    rng = np.random.default_rng(11)
    g = rows_of(np.full(12, 6))
    x = rng.normal(size=len(g))
    both = np.array([1.0, -0.5]) + rng.normal(size=(12, 2)) @ np.array([[0.6, 0.3], [0.0, 0.4]])
    return 12, g, x, both[g, 0] + both[g, 1] * x + 0.7 * rng.normal(size=len(g))


# -- several factors ----------------------------------------------------------------------


def crossed(is_binary, sizes, g, h, y):
    """Effects of two factors that cross, centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 3))
    tau = numpyro.sample("tau", dist.HalfNormal(1).expand([2]).to_event(1))
    with numpyro.plate("first", sizes[0]):
        a = numpyro.sample("a", dist.Normal(0, tau[0]))
    with numpyro.plate("second", sizes[1]):
        b = numpyro.sample("b", dist.Normal(0, tau[1]))
    eta = mu + a[g] + b[h]
    if is_binary:
        law = dist.Bernoulli(logits=eta)
    else:
        law = dist.Normal(eta, numpyro.sample("sigma", dist.HalfNormal(2)))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", law, obs=y)


def table_of_two(is_binary: bool) -> tuple:
    """Rows of two factors of 15 and 8 members."""
    rng = np.random.default_rng(13)
    g, h = rng.integers(15, size=140), rng.integers(8, size=140)
    eta = 0.4 + 0.8 * rng.normal(size=15)[g] + 0.4 * rng.normal(size=8)[h]
    y = eta + rng.normal(size=140)
    return (15, 8), g, h, (y > 0).astype(float) if is_binary else y


def three_levels(schools, classes, school_of, g, y):
    """Rows in classes in schools, centred at both levels."""
    mu = numpyro.sample("mu", dist.Normal(0, 3))
    tau_school = numpyro.sample("tau_school", dist.HalfNormal(1))
    tau_class = numpyro.sample("tau_class", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("schools", schools):
        a = numpyro.sample("a", dist.Normal(mu, tau_school))
    with numpyro.plate("classes", classes):
        b = numpyro.sample("b", dist.Normal(a[school_of], tau_class))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(b[g], sigma), obs=y)


def classes_of_schools() -> tuple:
    """Six schools of four classes of five rows."""
    rng = np.random.default_rng(17)
    school_of, g = rows_of(np.full(6, 4)), rows_of(np.full(24, 5))
    b = (1.0 + 0.8 * rng.normal(size=6))[school_of] + 0.4 * rng.normal(size=24)
    return 6, 24, school_of, g, b[g] + rng.normal(size=len(g))


# -- other families -----------------------------------------------------------------------


def beta_binomial(n, y):
    """Shares of groups under one Beta law, by its mean and size."""
    mean = numpyro.sample("mean", dist.Beta(1, 1))
    size = numpyro.sample("size", dist.Pareto(1.0, 1.5))
    with numpyro.plate("groups", len(y)):
        p = numpyro.sample("p", dist.Beta(mean * size, (1 - mean) * size))
        numpyro.sample("y", dist.Binomial(n, p), obs=y)


def shares() -> tuple:
    """Successes of 20 groups."""
    rng = np.random.default_rng(19)
    n = rng.integers(8, 40, size=20)
    return n.astype(float), rng.binomial(n, rng.beta(3, 9, size=20)).astype(float)


def lognormal_rates(t, y):
    """Positive rates of places under a log-normal law, counted."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("places", len(y)):
        rate = numpyro.sample("rate", dist.LogNormal(mu, tau))
        numpyro.sample("y", dist.Poisson(rate * t), obs=y)


def lognormal_rates_free(t, y):
    """Write `lognormal_rates` non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("places", len(y)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        rate = numpyro.deterministic("rate", jnp.exp(mu + tau * z))
        numpyro.sample("y", dist.Poisson(rate * t), obs=y)


def counted() -> tuple:
    """Count in 25 places over times of observation."""
    rng = np.random.default_rng(23)
    t = rng.uniform(0.3, 4.0, size=25)
    return t, rng.poisson(t * np.exp(0.5 * rng.normal(size=25))).astype(float)


def pumps(t, y):
    """Failures of ten pumps (Gaver & O'Muircheartaigh 1987): Gamma rates of a latent rate."""
    alpha = numpyro.sample("alpha", dist.Exponential(1.0))
    beta = numpyro.sample("beta", dist.Gamma(0.1, 1.0))
    with numpyro.plate("pumps", len(y)):
        theta = numpyro.sample("theta", dist.Gamma(alpha, beta))
        numpyro.sample("y", dist.Poisson(theta * t), obs=y)


def failures() -> tuple:
    """Thousands of hours, and failures."""
    t = np.array([94.3, 15.7, 62.9, 126.0, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5])
    return t, np.array([5.0, 1, 5, 14, 3, 19, 1, 1, 4, 22])


def waiting_times(groups, g, y):
    """Exponential waiting times of groups, whose means are multiples of a latent scale."""
    scale = numpyro.sample("scale", dist.HalfNormal(5))
    with numpyro.plate("groups", groups):
        mean = numpyro.sample("mean", dist.HalfNormal(scale))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Exponential(1 / mean[g]), obs=y)


def waits() -> tuple:
    """Three waits of each of twelve groups."""
    rng = np.random.default_rng(29)
    g = rows_of(np.full(12, 3))
    return 12, g, rng.exponential(np.abs(2 * rng.normal(size=12))[g] + 0.01)


def dirichlet_groups(n, y):
    """Choices of groups among three, with shares around common ones."""
    common = numpyro.sample("common", dist.Dirichlet(jnp.ones(3)))
    size = numpyro.sample("size", dist.LogNormal(2.0, 1.0))
    with numpyro.plate("groups", y.shape[0]):
        p = numpyro.sample("p", dist.Dirichlet(size * common))
        numpyro.sample("y", dist.Multinomial(n, p), obs=y)


def dirichlet_multinomial(n, y):
    """Write `dirichlet_groups` with the groups' shares summed out."""
    common = numpyro.sample("common", dist.Dirichlet(jnp.ones(3)))
    size = numpyro.sample("size", dist.LogNormal(2.0, 1.0))
    with numpyro.plate("groups", y.shape[0]):
        numpyro.sample("y", dist.DirichletMultinomial(size * common, n), obs=y)


def choices() -> tuple:
    """Ten groups of 15 choices."""
    rng = np.random.default_rng(31)
    return 15, np.stack([rng.multinomial(15, p) for p in rng.dirichlet([4, 2, 1], size=10)])


CASES: dict[str, Case] = {
    "schools_c": Case(schools, coaching, STRUCTURED, ("theta",)),
    "schools_nc": Case(schools_noncentred, coaching, STRUCTURED),
    "meta_student": Case(robust_meta, studies, STRUCTURED, twin=robust_meta_free),
    **INTERCEPTS,
    "slopes_independent": Case(
        slopes_independent, lines, {"examples": ("g", "x", "y")}, ("a", "b")
    ),
    "slopes_correlated": Case(
        slopes_correlated, lines, {"examples": ("g", "x", "y")}, (), slopes_correlated_free
    ),
    "slopes_correlated_nc": Case(slopes_correlated_free, lines, {"examples": ("g", "x", "y")}),
    "crossed_normal": Case(
        partial(crossed, False), partial(table_of_two, False), {"examples": ("g", "h", "y")}
    ),
    "crossed_binary": Case(
        partial(crossed, True),
        partial(table_of_two, True),
        {"examples": ("g", "h", "y")},
        ("a", "b"),
    ),
    "three_levels": Case(three_levels, classes_of_schools, {"examples": ("g", "y")}, ("a", "b")),
    "beta_binomial": Case(beta_binomial, shares, STRUCTURED),
    "lognormal_rates": Case(lognormal_rates, counted, STRUCTURED, twin=lognormal_rates_free),
    "pumps": Case(pumps, failures, STRUCTURED),
    "waiting_times": Case(waiting_times, waits, {"examples": ("g", "y")}),
    "dirichlet_groups": Case(dirichlet_groups, choices, STRUCTURED),
    "dirichlet_multinomial": Case(dirichlet_multinomial, choices),
}
