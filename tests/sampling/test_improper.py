"""Posteriors without a normalizer are refused, and others are not, whatever their scales."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.sampling.laplace import locate
from gibbs_dp.sampling.target import Target

NUM_STARTS = 4
RNG = np.random.default_rng(0)
YEARS = 2000 + RNG.uniform(-10, 10, 60)
NOISE = RNG.normal(size=60)


def real(d):
    return gdp.Flat(gdp.supports.real(d))


def line(f):
    """Posterior of one number, whose loss does not look at the data, with a flat prior."""
    return gdp.GibbsPosterior(lambda t, z: f(t) + 0.0 * z, gdp.Flat(gdp.supports.real()))


def on(support, f):
    return gdp.GibbsPosterior(lambda t, z: f(t) + 0.0 * z, gdp.Flat(support))


def design(*columns):
    return np.stack([np.ones(60), *columns], axis=1)


def with_scale(t, z):
    """Gaussian regression whose standard deviation is a parameter."""
    return 0.5 * ((z[1] - t["beta"] @ z[0]) / t["sigma"]) ** 2 + jnp.log(t["sigma"])


def funnel(t):
    return t[0] ** 2 / 18 + 4.5 * t[0] + 0.5 * jnp.sum(t[1:] ** 2) * jnp.exp(-t[0])


SIGMA = gdp.Flat(gdp.supports.positive())
WIDE = gdp.GibbsPosterior(with_scale, {"beta": real(2), "sigma": SIGMA})
HEIGHT = RNG.normal(66.9, 3.8, 60)
NOTHING = np.zeros(1)
SQUARED, LOGISTIC, ABSOLUTE = (
    cache(lambda d, loss=loss: gdp.GibbsPosterior(loss, real(d)))
    for loss in (gdp.losses.squared, gdp.losses.logistic, gdp.losses.absolute)
)
MEAN = gdp.GibbsPosterior(gdp.losses.half_squared_distance, real(3))

PROPER = {
    "calendar years": (SQUARED(2), (design(YEARS), 0.03 * (YEARS - 2000) + NOISE), 1.0),
    "calendar years, labels": (LOGISTIC(2), (design(YEARS), 1.0 * (YEARS + NOISE > 2000)), 0.1),
    "calendar years, absolute": (ABSOLUTE(2), (design(YEARS), NOISE), 1.0),
    "up to a million": (SQUARED(2), (design(1e5 * (YEARS - 1990)), NOISE), 1.0),
    "scales apart by 1e12": (
        SQUARED(4),
        (RNG.normal(size=(60, 4)) * [1e-6, 1.0, 1e3, 1e6], NOISE),
        1.0,
    ),
    "earnings on height": (WIDE, (design(HEIGHT), -61316 + 1262 * HEIGHT + 18865 * NOISE), 1.0),
    "temperature on years": (
        gdp.GibbsPosterior(
            with_scale,
            {
                "beta": dist.Normal(jnp.asarray([9.3, 0.0]), jnp.asarray([100.0, 0.0333])),
                "sigma": SIGMA,
            },
        ),
        (design(YEARS), 9.3 + NOISE),
        1.0,
    ),
    "funnel": (on(gdp.supports.real(10), funnel), NOTHING, 1.0),
    "sharp": (MEAN, RNG.normal(size=(20, 3)), 1e7),
    "sharper": (MEAN, RNG.normal(size=(20, 3)), 1e10),
    "wide": (MEAN, RNG.normal(size=(20, 3)), 1e-10),
    "two modes": (
        line(lambda t: -jnp.logaddexp(-0.5 * (t - 3) ** 2, -0.5 * (t + 3) ** 2)),
        NOTHING,
        1.0,
    ),
    "Cauchy": (line(lambda t: jnp.log1p(t**2)), NOTHING, 1.0),
    "Beta(1/2, 1)": (on(gdp.supports.box(0.0, 1.0), lambda t: 0.5 * jnp.log(t)), NOTHING, 1.0),
    "Beta(1, 1/3)": (
        on(gdp.supports.box(0.0, 1.0), lambda t: 2 / 3 * jnp.log1p(-t)),
        NOTHING,
        1.0,
    ),
    "Gamma(1/2, 1)": (
        on(gdp.supports.positive(), lambda t: 0.5 * jnp.log(t) + t),
        NOTHING,
        1.0,
    ),
}

IMPROPER = {
    "ceiling of 10 nats": (line(lambda t: 10 * jnp.tanh(t**2)), NOTHING, 1.0),
    "ceiling of 10,000 nats": (line(lambda t: 1e4 * (1 - jnp.exp(-(t**2)))), NOTHING, 1.0),
    "robust regression": (
        gdp.GibbsPosterior(lambda t, z: 1 - jnp.exp(-((t @ z[0] - z[1]) ** 2)), real(3)),
        (RNG.normal(size=(60, 3)), NOISE),
        1.0,
    ),
    "half a Cauchy's decay": (line(lambda t: 0.5 * jnp.log1p(t**2)), NOTHING, 1.0),
    "separable years": (LOGISTIC(2), (design(YEARS), 1.0 * (YEARS > 2000)), 1.0),
    "collinear": (SQUARED(2), (np.stack([YEARS, 2 * YEARS], axis=1), NOISE), 1.0),
    "more coefficients than rows, scaled": (
        SQUARED(12),
        (RNG.normal(size=(8, 12)) * np.logspace(-3, 3, 12), NOISE[:8]),
        1.0,
    ),
    "Beta(0, 1)": (on(gdp.supports.box(0.0, 1.0), jnp.log), NOTHING, 1.0),
    "Beta(1, 0)": (on(gdp.supports.box(-1.0, 1.0), lambda t: jnp.log1p(-t)), NOTHING, 1.0),
    "Dirichlet(1, 0, 1)": (on(gdp.supports.simplex(3), lambda t: jnp.log(t[1])), NOTHING, 1.0),
    "Gamma(0, 1)": (on(gdp.supports.positive(), lambda t: jnp.log(t) + t), NOTHING, 1.0),
}


@partial(jax.jit, static_argnums=0)
def look(posterior, data, gamma, keys):
    """Search from several starts, one at a time; compiled once for data of the same shape."""

    def one(key):
        return locate(Target(posterior, data, gamma), posterior.initial(key)[None]).is_improper

    return jax.vmap(one)(keys)


def verdicts(posterior, data, gamma):
    """Of searches from several overdispersed starts."""
    data, gamma = jax.tree.map(lambda a: jnp.asarray(a, jnp.zeros(()).dtype), (data, gamma))
    return np.asarray(look(posterior, data, gamma, jax.random.split(jax.random.key(3), NUM_STARTS)))


# Like others of these: the mirror image of one, the other end, the same trend in other units; a
# corner of a simplex for an end of a box, a higher ceiling, a tail that test_heavy_tails.py draws.
ALIKE = {"Beta(1, 0)", "Beta(1, 1/3)", "temperature on years"}
ALIKE |= {"Dirichlet(1, 0, 1)", "ceiling of 10,000 nats", "Cauchy"}


@pytest.mark.trust(but=[name for name in PROPER if name not in ALIKE])
@pytest.mark.parametrize("name", PROPER)
def test_proper_posteriors_are_accepted(name):
    assert not verdicts(*PROPER[name]).any()


@pytest.mark.trust(but=[name for name in IMPROPER if name not in ALIKE])
@pytest.mark.parametrize("name", IMPROPER)
def test_improper_posteriors_are_refused(name):
    assert verdicts(*IMPROPER[name]).all()


@pytest.mark.trust(but="scales apart by 1e12")
@pytest.mark.parametrize("name", ["calendar years", "scales apart by 1e12"])
def test_proper_posteriors_are_accepted_in_double_precision(float64, name):
    assert not verdicts(*PROPER[name]).any()


@pytest.mark.trust
@pytest.mark.parametrize("name", ["collinear", "ceiling of 10 nats", "Beta(0, 1)"])
def test_improper_posteriors_are_refused_in_double_precision(float64, name):
    assert verdicts(*IMPROPER[name]).all()


@pytest.mark.trust
def test_two_modes_are_no_reason_to_refuse():
    """Sixty keys: between the modes a search ends where there is no curvature."""
    posterior, data, _ = PROPER["two modes"]
    for key in range(60):
        gdp.sample(posterior, data, key=key, num_warmup=0, num_samples=4)
